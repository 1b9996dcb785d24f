/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in which a process gets a part of a tensor, or a whole one from one other: reduce-scatter, all-to-all,
 * send and receive.  Accelerate leaves these to torch.distributed. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/collectives/tensors.h"
#include "lib/collectives/verify.h"
#include "lib/memory/memory.h"

#include <accel/collectives.h>

/* A tensor that communication can work on: itself, or a contiguous copy. */
struct plain {
    void *data;
    enum accel_dtype dtype;
    struct accel_tensor copy;
};

static enum accel_status
make_plain (struct plain *plain, struct accel *acc, const struct comm_site *site, const DLTensor *tensor,
            struct accel_error *err)
{
    *plain = (struct plain){ 0 };
    enum accel_status status = comm_check_tensor (acc, site, tensor, &plain->dtype, err);
    if (status)
        return status;
    if (!comm_is_plain (tensor)) {
        status = memory_clone (&plain->copy, tensor, err);
        plain->data = plain->copy.dl.data;
    } else
        plain->data = memory_data (tensor);
    return status ? comm_fail_in (site, status, err) : ACCEL_OK;
}

static enum accel_status
check_rows (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, const enum accel_op *op,
            struct accel_error *err)
{
    int processes = accel_num_processes (acc);
    if (!tensor->ndim)
        return comm_refuse (site, "a tensor without dimensions has no rows", err);
    if (tensor->shape[0] % processes)
        return comm_fail (site, ACCEL_ERR_INVALID, err, "cannot divide %lld rows evenly among %d processes",
                          (long long) tensor->shape[0], processes);
    return op ? comm_check_reduction (site, accel_dtype_from_dl (tensor->dtype), *op, 1, err) : ACCEL_OK;
}

static enum accel_status
exchange (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, const enum accel_op *op,
          struct accel_tensor *out, struct accel_error *err)
{
    struct accel_comm *world = accel_world (acc);
    struct plain plain;
    int64_t rows = tensor->shape[0], processes = accel_num_processes (acc);
    size_t count = accel_tensor_count (tensor) / (size_t) processes;
    enum accel_status status = make_plain (&plain, acc, site, tensor, err);
    if (status)
        return status;
    status = comm_shape_output (site, out, tensor, plain.dtype, op ? rows / processes : rows, err);
    struct comm_form form = { .tensor = tensor };
    struct comm_site formed = comm_site_of (site, &form);
    if (!status && op)
        status = comm_reduce_scatter (world, &formed, plain.data, out->dl.data, count, plain.dtype, *op, err);
    else if (!status)
        status = comm_all_to_all (world, &formed, plain.data, out->dl.data, count, plain.dtype, err);
    accel_tensor_release (&plain.copy);
    return status;
}

static enum accel_status
part (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, const enum accel_op *op,
      struct accel_tensor *out, struct accel_error *err)
{
    if (!acc)
        return comm_refuse (site, "the job is NULL", err);
    enum accel_status status = comm_verify_tensor (acc, site, tensor, err);
    if (!status)
        status = check_rows (acc, site, tensor, op, err);
    return status ? status : exchange (acc, site, tensor, op, out, err);
}

enum accel_status
accel_reduce_scatter_at (const char *file, int line, struct accel_tensor *out, struct accel *acc,
                         const DLTensor *tensor, enum accel_op op, struct accel_error *err)
{
    return part (acc, SITE (TENSOR_REDUCE_SCATTER), tensor, &op, out, err);
}

enum accel_status
accel_all_to_all_at (const char *file, int line, struct accel_tensor *out, struct accel *acc, const DLTensor *tensor,
                     struct accel_error *err)
{
    return part (acc, SITE (TENSOR_ALL_TO_ALL), tensor, NULL, out, err);
}

enum accel_status
comm_send_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, int to_process,
                  struct accel_error *err)
{
    struct plain plain;
    enum accel_status status = make_plain (&plain, acc, site, tensor, err);
    if (status)
        return status;
    struct comm_site there = comm_site_on (site, tensor->device);
    status = comm_send (accel_world (acc), &there, plain.data, accel_tensor_count (tensor), plain.dtype, to_process,
                        err);
    accel_tensor_release (&plain.copy);
    return status;
}

enum accel_status
accel_send_at (const char *file, int line, struct accel *acc, const DLTensor *tensor, int to_process,
               struct accel_error *err)
{
    return comm_send_tensor (acc, SITE (TENSOR_SEND), tensor, to_process, err);
}

enum accel_status
accel_recv_at (const char *file, int line, struct accel *acc, DLTensor *tensor, int from_process,
               struct accel_error *err)
{
    const struct comm_site *site = SITE (TENSOR_RECV);
    struct plain plain;
    if (tensor && comm_has_doubles (tensor))
        return comm_refuse (site, "elements of the tensor share memory (stride 0): copy it first", err);
    enum accel_status status = make_plain (&plain, acc, site, tensor, err);
    if (status)
        return status;
    struct comm_site there = comm_site_on (site, tensor->device);
    status = comm_recv (accel_world (acc), &there, plain.data, accel_tensor_count (tensor), plain.dtype, from_process,
                        err);
    if (!status && plain.copy.dl.data)
        memory_of (tensor->device)->copy_tensor (tensor, &plain.copy.dl);
    accel_tensor_release (&plain.copy);
    return status;
}
