/* SPDX-License-Identifier: Apache-2.0 */
/* The grid of a job with tensor parallelism: which communicator data are divided by, and which tensors. */
#ifndef LIB_COLLECTIVES_PARALLEL_H
#define LIB_COLLECTIVES_PARALLEL_H

#include <accel/parallel.h>

#include "lib/state/part.h"

extern const struct part_kind part_parallel;

/** accel_open(), once the processes are connected: make the grid, if one was asked for.  Collective. */
enum accel_status parallel_connect (struct accel *acc, struct accel_error *err);

/** @return those that divide data: the world without tensor parallelism. */
struct accel_comm *parallel_data_comm (struct accel *acc);

/** Into how many parts data are divided, and which is this process's.  @{ */
int parallel_data_size (const struct accel *acc);
int parallel_data_rank (const struct accel *acc);
/** @} */

/** @return those that divide tensors; NULL: this process alone */
struct accel_comm *parallel_tensor_comm (const struct accel *acc);

#endif
