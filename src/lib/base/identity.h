/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank of how many this process is, as the launcher's variables say. */
#ifndef LIB_BASE_IDENTITY_H
#define LIB_BASE_IDENTITY_H

#include <accel/base.h>

#include "util/jobseg.h"

struct identity {
    int rank;
    int world_size;
    int local_rank;
    int local_world_size;
};

/**
 * Read the variables of accelerate launch and torchrun, then of PMI, Open MPI, MVAPICH2 and Slurm, each value from the
 * first that has it; without any this process is alone.
 *
 * @param segment  the job segment of our launcher, which must agree; not attached under any other
 * @retval ACCEL_ERR_INVALID  a value is malformed, or two contradict each other
 */
enum accel_status identity_discover (struct identity *identity, const struct jobseg *segment, struct accel_error *err);

#endif
