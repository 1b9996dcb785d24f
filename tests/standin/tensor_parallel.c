/* SPDX-License-Identifier: Apache-2.0 */
/* examples/tensor_parallel with GPUs: what the columns of the grid add up is there. */
#include <config.h>

#define ON_GPU
#include "tests/conformance/mirror.h"

static struct accel *job;

static enum accel_status
open_job (struct accel **acc, const struct accel_options *options, struct accel_error *err)
{
    enum accel_status status = accel_open (acc, options, err);
    job = *acc;
    return status;
}

#undef accel_open
#define accel_open open_job
#undef accel_comm_all_reduce
#define accel_comm_all_reduce(comm, send, recv, count, dtype, op, err) \
    mirror_sum (comm, accel_device (job), recv, count, err)
#include "examples/tensor_parallel.c"
