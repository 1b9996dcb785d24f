/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives under the original's names: on tensors, and on who runs when. */
#include <config.h>

#include "lib/comm/comm_private.h"
#include "lib/error.h"
#include "lib/state/state_object.h"
#include "lib/tensor.h"

#include <stdlib.h>

#define SITE(public_call) (&(struct comm_site){ .file = file, .line = line, .call = JOBSEG_CALL_##public_call })

static enum accel_status
refuse (const struct comm_site *site, const char *what, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_INVALID, "%s at %s:%d: %s", jobseg_call_name (site->call), site->file,
                       site->line, what);
}

/* What a collective can work on: contiguous, in host memory, of a type that we know. */
static enum accel_status
check_tensor (const struct comm_site *site, const DLTensor *tensor, enum accel_dtype *dtype, struct accel_error *err)
{
    if (!tensor)
        return refuse (site, "the tensor is NULL", err);
    *dtype = accel_dtype_from_dl (tensor->dtype);
    if (*dtype == ACCEL_DTYPE_COUNT)
        return refuse (site, "the tensor's element type is none of enum accel_dtype", err);
    if (tensor->device.device_type != kDLCPU)
        return refuse (site, "the tensor is not in host memory", err);
    if (tensor->ndim < 0 || tensor->ndim > ACCEL_MAX_DIMS)
        return refuse (site, "the tensor has more dimensions than ACCEL_MAX_DIMS", err);
    if (tensor->ndim && !tensor->shape)
        return refuse (site, "the tensor's shape is NULL", err);
    int64_t bytes = (int64_t) accel_dtype_bytes (*dtype);
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0)
            return refuse (site, "the tensor has a negative size", err);
        if (tensor->shape[i] && __builtin_mul_overflow (bytes, tensor->shape[i], &bytes))
            return refuse (site, "the tensor has more elements than any memory holds", err);
    }
    /* Where there are no elements, strides are of no matter. */
    if (accel_tensor_count (tensor) && !tensor_is_contiguous (tensor))
        return refuse (site, "the tensor is not contiguous: copy it first", err);
    return ACCEL_OK;
}

static void *
data_of (const DLTensor *tensor)
{
    return tensor->data ? (char *) tensor->data + tensor->byte_offset : NULL;
}

/* Give @out the shape of the result, keeping its memory where that is large enough. */
static enum accel_status
shape_output (const struct comm_site *site, struct accel_tensor *out, const DLTensor *tensor, enum accel_dtype dtype,
              int world_size, struct accel_error *err)
{
    int64_t shape[ACCEL_MAX_DIMS] = { 1 };
    for (int i = 0; i < tensor->ndim; i++)
        shape[i] = tensor->shape[i];
    if (__builtin_mul_overflow (shape[0], (int64_t) world_size, &shape[0]))
        return refuse (site, "the result has more elements than any memory holds", err);
    struct accel_tensor made;
    enum accel_status status = accel_tensor_init (&made, dtype, tensor->ndim ? tensor->ndim : 1, shape, err);
    if (status)
        return status;
    size_t bytes = accel_tensor_count (&made.dl) * accel_dtype_bytes (dtype);
    void *memory = out->owned_bytes ? out->dl.data : NULL;
    size_t owned = out->owned_bytes;
    if (owned < bytes || !owned) {
        owned = bytes ? bytes : 1;
        if (posix_memalign (&memory, 64, owned))
            return accel_fail (err, ACCEL_ERR_NOMEM, "%s at %s:%d: no memory for %zu bytes",
                               jobseg_call_name (site->call), site->file, site->line, owned);
        accel_tensor_release (out);
    }
    *out = made;
    out->dl.shape = out->shape;
    out->dl.data = memory;
    out->owned_bytes = owned;
    return ACCEL_OK;
}

enum accel_status
comm_gather_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, struct accel_tensor *out,
                    struct accel_error *err)
{
    enum accel_dtype dtype;
    enum accel_status status = check_tensor (site, tensor, &dtype, err);
    if (status)
        return status;
    if (!out || (out->dl.data && !out->owned_bytes))
        return refuse (site, "the output is NULL, or holds memory that is not its own", err);
    status = shape_output (site, out, tensor, dtype, accel_num_processes (acc), err);
    if (status)
        return status;
    return comm_all_gather (accel_world (acc), site, data_of (tensor), out->dl.data, accel_tensor_count (tensor), dtype,
                            err);
}

enum accel_status
accel_gather_at (const char *file, int line, struct accel *acc, const DLTensor *tensor, struct accel_tensor *out,
                 struct accel_error *err)
{
    return comm_gather_tensor (acc, SITE (GATHER), tensor, out, err);
}

enum accel_status
accel_reduce_at (const char *file, int line, struct accel *acc, DLTensor *tensor, enum accel_op op,
                 struct accel_error *err)
{
    enum accel_dtype dtype;
    const struct comm_site *site = SITE (REDUCE);
    enum accel_status status = check_tensor (site, tensor, &dtype, err);
    if (status)
        return status;
    void *data = data_of (tensor);
    return comm_all_reduce (accel_world (acc), site, data, data, accel_tensor_count (tensor), dtype, op, err);
}

enum accel_status
accel_broadcast_at (const char *file, int line, struct accel *acc, DLTensor *tensor, int from_process,
                    struct accel_error *err)
{
    enum accel_dtype dtype;
    const struct comm_site *site = SITE (BROADCAST);
    enum accel_status status = check_tensor (site, tensor, &dtype, err);
    if (status)
        return status;
    return comm_broadcast (accel_world (acc), site, data_of (tensor), accel_tensor_count (tensor), dtype, from_process,
                           err);
}

enum accel_status
accel_wait_for_everyone_at (const char *file, int line, struct accel *acc, struct accel_error *err)
{
    return comm_barrier (accel_world (acc), SITE (WAIT_FOR_EVERYONE), err);
}

/* One barrier on each rank: after the task for those that go first, before it for the others. */
static enum accel_status
run_first (struct accel *acc, const struct comm_site *site, bool first, accel_task task, void *user,
           struct accel_error *err)
{
    if (!acc || !task)
        return refuse (site, acc ? "the task is NULL" : "the job is NULL", err);
    if (first)
        task (user);
    enum accel_status status = comm_barrier (accel_world (acc), site, err);
    if (!status && !first)
        task (user);
    return status;
}

enum accel_status
accel_main_process_first_at (const char *file, int line, struct accel *acc, accel_task task, void *user,
                             struct accel_error *err)
{
    return run_first (acc, SITE (MAIN_PROCESS_FIRST), accel_is_main_process (acc), task, user, err);
}

enum accel_status
accel_local_main_process_first_at (const char *file, int line, struct accel *acc, accel_task task, void *user,
                                   struct accel_error *err)
{
    return run_first (acc, SITE (LOCAL_MAIN_PROCESS_FIRST), accel_is_local_main_process (acc), task, user, err);
}

enum accel_status
accel_check_trigger_at (const char *file, int line, struct accel *acc, bool *fired, struct accel_error *err)
{
    uint8_t raised = acc && acc->trigger;
    enum accel_status status
        = comm_all_reduce (accel_world (acc), SITE (CHECK_TRIGGER), &raised, &raised, 1, ACCEL_UINT8, ACCEL_MAX, err);
    if (status)
        return status;
    if (raised)
        acc->trigger = false;
    *fired = raised;
    return ACCEL_OK;
}
