/* SPDX-License-Identifier: Apache-2.0 */
/* A table of embeddings that is divided among processes; see accel/parallel.h. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/collectives/tensors.h"
#include "lib/memory/memory.h"

#include <accel/parallel.h>

/* Once for all tokens: small code counts more than fast code. */
#define SMALL __attribute__ ((cold))

/* Check the arguments, and find out where the arrays are. */
SMALL static enum accel_status
describe (struct vocabulary_tokens *tokens, struct comm_site *site, struct accel_comm *comm, const float *weight,
          size_t rows, size_t width, const int32_t *given, size_t count, const float *values, struct accel_error *err)
{
    bool is_back = site->call == JOBSEG_CALL_PARALLEL_EMBEDDING_BACKWARD;
    const char *table = is_back ? "grad" : "weight", *rows_name = is_back ? "dy" : "y";
    if (count && (!weight || !given || !values))
        return accel_fail_null (err, jobseg_call_name (site->call), !given ? "tokens" : !values ? rows_name : table);
    const int64_t own = (int64_t) rows, rank = comm ? accel_comm_rank (comm) : 0;
    *tokens = (struct vocabulary_tokens){ { own * rank, own, own * (comm ? accel_comm_size (comm) : 1) }, count, width,
                                          given, (float *) (uintptr_t) weight, (float *) (uintptr_t) values };
    site->names = (const char *const[]){ "tokens", table };
    enum accel_status status = comm_place (site, comm, given, weight, err);
    site->names = (const char *const[]){ rows_name, table };
    if (!status)
        status = comm_place (site, comm, values, weight, err);
    *site = comm_site_on (site, site->device);
    for (size_t i = 0; i < count && !status && comm_is_for_host (site); i++)
        if (given[i] < 0 || given[i] >= tokens->vocabulary.all)
            status = comm_fail (site, ACCEL_ERR_INVALID, err, "token %zu is %d, but there are %lld rows", i, given[i],
                                (long long) tokens->vocabulary.all);
    return status;
}

static DLDevice
device_of (const struct comm_site *site)
{
    return comm_is_for_host (site) ? (DLDevice){ .device_type = kDLCPU } : site->device;
}

SMALL enum accel_status
accel_parallel_embedding_at (const char *file, int line, struct accel_comm *comm, const float *weight, size_t rows,
                             size_t width, const int32_t *tokens, size_t count, float *y, struct accel_error *err)
{
    struct vocabulary_tokens all;
    struct comm_site *site = SITE (PARALLEL_EMBEDDING);
    enum accel_status status = describe (&all, site, comm, weight, rows, width, tokens, count, y, err);
    if (status)
        return status;
    const DLDevice device = device_of (site);
    memory_of (device)->vocabulary->look_up (device, &all);
    if (comm)
        status = comm_all_reduce (comm, site, y, y, count * width, ACCEL_FLOAT32, ACCEL_SUM, err);
    return status ? status : memory_check (device, err);
}

SMALL enum accel_status
accel_parallel_embedding_backward_at (const char *file, int line, struct accel_comm *comm, size_t rows, size_t width,
                                      const int32_t *tokens, size_t count, const float *dy, float *grad,
                                      struct accel_error *err)
{
    struct vocabulary_tokens all;
    struct comm_site *site = SITE (PARALLEL_EMBEDDING_BACKWARD);
    enum accel_status status = describe (&all, site, comm, grad, rows, width, tokens, count, dy, err);
    if (status)
        return status;
    const DLDevice device = device_of (site);
    memory_of (device)->vocabulary->add_back (device, &all);
    return memory_check (device, err);
}
