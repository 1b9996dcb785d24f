/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in which a process gets a part of a tensor, or a whole one from one other: reduce-scatter, all-to-all,
 * send and receive.  The original leaves these to torch.distributed. */
#include <config.h>

#include "lib/comm/tensors.h"
#include "lib/comm/verify.h"
#include "lib/error.h"
#include "lib/tensor.h"

#include <accel/collectives.h>

#define SITE(public_call) (&(struct comm_site){ .file = file, .line = line, .call = JOBSEG_CALL_##public_call })

/* A tensor that communication can work on: itself, or a contiguous copy. */
struct plain {
    void *data;
    enum accel_dtype dtype;
    struct accel_tensor copy;
};

static enum accel_status
make_plain (struct plain *plain, const struct comm_site *site, const DLTensor *tensor, struct accel_error *err)
{
    *plain = (struct plain){ 0 };
    enum accel_status status = comm_check_tensor (site, tensor, &plain->dtype, err);
    if (status)
        return status;
    if (!comm_is_plain (tensor)) {
        status = tensor_clone (&plain->copy, tensor, err);
        plain->data = plain->copy.dl.data;
    } else
        plain->data = tensor_data (tensor);
    return status ? comm_fail_in (site, status, err) : ACCEL_OK;
}

/* What all ranks pass, with the rows of each process's part, where they can be shared out evenly. */
static enum accel_status
make_parts (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, struct plain *plain, int64_t *rows,
            struct accel_error *err)
{
    enum accel_status status = acc ? make_plain (plain, site, tensor, err) : comm_refuse (site, "the job is NULL", err);
    if (status)
        return status;
    int processes = accel_num_processes (acc);
    status = comm_verify_tensor (acc, site, tensor, err);
    *rows = tensor->ndim ? tensor->shape[0] : 1;
    if (!status && (!tensor->ndim || *rows % processes))
        status = accel_fail (err, ACCEL_ERR_INVALID, "%s at %s:%d: %lld rows cannot be shared out to %d processes",
                             jobseg_call_name (site->call), site->file, site->line, (long long) *rows, processes);
    if (status)
        accel_tensor_release (&plain->copy);
    *rows /= processes;
    return status;
}

enum accel_status
accel_reduce_scatter_at (const char *file, int line, struct accel *acc, const DLTensor *tensor, enum accel_op op,
                         struct accel_tensor *out, struct accel_error *err)
{
    const struct comm_site *site = SITE (TENSOR_REDUCE_SCATTER);
    struct plain plain;
    int64_t rows;
    enum accel_status status = make_parts (acc, site, tensor, &plain, &rows, err);
    if (status)
        return status;
    status = comm_check_reduction (site, plain.dtype, op, 1, err);
    if (!status)
        status = comm_shape_output (site, out, tensor, plain.dtype, rows, err);
    if (!status)
        status = comm_reduce_scatter (accel_world (acc), site, plain.data, out->dl.data,
                                      accel_tensor_count (&out->dl), plain.dtype, op, err);
    accel_tensor_release (&plain.copy);
    return status;
}

enum accel_status
accel_all_to_all_at (const char *file, int line, struct accel *acc, const DLTensor *tensor, struct accel_tensor *out,
                     struct accel_error *err)
{
    const struct comm_site *site = SITE (TENSOR_ALL_TO_ALL);
    struct plain plain;
    int64_t rows;
    enum accel_status status = make_parts (acc, site, tensor, &plain, &rows, err);
    if (status)
        return status;
    status = comm_shape_output (site, out, tensor, plain.dtype, tensor->shape[0], err);
    if (!status)
        status = comm_all_to_all (accel_world (acc), site, plain.data, out->dl.data,
                                  accel_tensor_count (tensor) / (size_t) accel_num_processes (acc), plain.dtype, err);
    accel_tensor_release (&plain.copy);
    return status;
}

enum accel_status
accel_send_at (const char *file, int line, struct accel *acc, const DLTensor *tensor, int to_process,
               struct accel_error *err)
{
    const struct comm_site *site = SITE (TENSOR_SEND);
    struct plain plain;
    enum accel_status status = make_plain (&plain, site, tensor, err);
    if (status)
        return status;
    status = comm_send (accel_world (acc), site, plain.data, accel_tensor_count (tensor), plain.dtype, to_process, err);
    accel_tensor_release (&plain.copy);
    return status;
}

enum accel_status
accel_recv_at (const char *file, int line, struct accel *acc, DLTensor *tensor, int from_process,
               struct accel_error *err)
{
    const struct comm_site *site = SITE (TENSOR_RECV);
    struct plain plain;
    if (tensor && comm_has_doubles (tensor))
        return comm_refuse (site, "elements of the tensor share their place (a stride of 0): copy it first", err);
    enum accel_status status = make_plain (&plain, site, tensor, err);
    if (status)
        return status;
    status = comm_recv (accel_world (acc), site, plain.data, accel_tensor_count (tensor), plain.dtype, from_process,
                        err);
    if (!status && plain.copy.dl.data)
        tensor_copy (tensor, &plain.copy.dl);
    accel_tensor_release (&plain.copy);
    return status;
}
