/* SPDX-License-Identifier: Apache-2.0 */
/* Divided parameters of a model on a GPU that are offloaded (offload_param_device): this process's stretches are in
 * host memory, page-locked if it can be, or in a file.  They go to the GPU where something uses whole parameters, and
 * while optimizers whose states are there take a step; and then back. */
#ifndef LIB_TRAIN_PACKED_HOME_H
#define LIB_TRAIN_PACKED_HOME_H

#include "lib/train/packed.h"

/** Make the memory of all, zeroed, and a stream to the GPU.  @return false: there is none
 *  packed_home_end() accepts parameters without.  @{ */
bool packed_home_create (struct packed_parameters *packed, const struct memory *memory, DLDevice device, bool in_file);
void packed_home_end (struct packed_parameters *packed, DLDevice device);
/** @} */

/** Start to copy this process's stretches of parameters that are open to them, after what has been queued.
 *  @return the stream whose work comes after that */
void *packed_home_send (const struct accel_model *model, const size_t *indices, size_t count);

/** What the program queues from now on comes after these copies. */
void packed_home_follow (const struct accel_model *model);

/** The host may change, or read, what is there. */
void packed_home_wait (const struct accel_model *model);

/** Around a step on the GPU: stretches of all parameters are there.  For a model whose stretches are there anyway, or
 *  whose steps the host takes, they do nothing.  @{ */
enum accel_status packed_home_lend (struct accel_model *model, struct accel_error *err);
void packed_home_take_back (struct accel_model *model);
/** @} */

/** Fill @p master on the GPU from @p count elements at @p from on the host. */
void packed_home_widen (const struct accel_model *model, float *master, const void *from, enum accel_dtype dtype,
                        size_t count, float factor);

#endif
