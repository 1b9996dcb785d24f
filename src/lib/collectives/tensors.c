/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, reduce and broadcast of one tensor, for the public calls and for those on trees.  What is not contiguous goes
 * through contiguous memory. */
#include <config.h>

#include "lib/collectives/tensors.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/memory/memory.h"

/* Without an engine for the device, the call itself is refused. */
static enum accel_status
comm_check_device (const struct accel *acc, const struct comm_site *site, DLDevice device, struct accel_error *err)
{
    if (memory_of (device))
        return ACCEL_OK;
    return comm_fail (site, ACCEL_ERR_UNSUPPORTED, err,
                      "the tensor of rank %d is on %s:%d, but this build has no code for %s memory",
                      accel_process_index (acc), tensor_device_name (device), (int) device.device_id,
                      tensor_device_name (device));
}

enum accel_status
comm_check_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, enum accel_dtype *dtype,
                   struct accel_error *err)
{
    if (!tensor)
        return comm_refuse (site, "the tensor is NULL", err);
    *dtype = accel_dtype_from_dl (tensor->dtype);
    if (*dtype == ACCEL_DTYPE_COUNT)
        return comm_refuse (site, "the tensor has an unsupported element type", err);
    enum accel_status status = comm_check_device (acc, site, tensor->device, err);
    if (status)
        return status;
    status = tensor_check (tensor, err);
    return status ? comm_fail_in (site, status, err) : ACCEL_OK;
}

bool
comm_is_plain (const DLTensor *tensor)
{
    return !accel_tensor_count (tensor) || tensor_is_contiguous (tensor);
}

bool
comm_has_doubles (const DLTensor *tensor)
{
    for (int i = 0; tensor->strides && i < tensor->ndim; i++)
        if (tensor->shape[i] > 1 && !tensor->strides[i])
            return true;
    return false;
}

enum accel_status
comm_shape_output (const struct comm_site *site, struct accel_tensor *out, const DLTensor *tensor,
                   enum accel_dtype dtype, int64_t rows, struct accel_error *err)
{
    int64_t shape[ACCEL_MAX_DIMS] = { rows };
    for (int i = 1; i < tensor->ndim; i++)
        shape[i] = tensor->shape[i];
    if (!out || (out->dl.data && !out->owned_bytes))
        return comm_refuse (site, "the output is NULL, or holds memory that it does not own", err);
    struct accel_tensor made;
    enum accel_status status = accel_tensor_init (&made, dtype, tensor->ndim ? tensor->ndim : 1, shape, err);
    if (status)
        return status;
    size_t bytes = accel_tensor_count (&made.dl) * accel_dtype_bytes (dtype);
    void *data = out->owned_bytes ? out->dl.data : NULL;
    size_t owned = out->owned_bytes;
    if (owned < bytes || !owned || !memory_is_same (out->dl.device, tensor->device)) {
        owned = bytes ? bytes : 1;
        data = memory_of (tensor->device)->create (tensor->device, owned, false);
        if (!data)
            return comm_fail_in (site, memory_fail (tensor->device, err, "cannot allocate %zu bytes", owned), err);
        accel_tensor_release (out);
        made.dl.device = tensor->device;
    } else
        made.dl.device = out->dl.device;
    *out = made;
    out->dl.shape = out->shape;
    out->dl.data = data;
    out->owned_bytes = owned;
    return ACCEL_OK;
}

/* Its row of the output is where a tensor that is not contiguous becomes so. */
static const void *
row_of (const DLTensor *tensor, enum accel_dtype dtype, const struct accel_tensor *out, int rank)
{
    DLTensor row = *tensor;
    row.data = memory_at (out->dl.data, (size_t) rank * accel_tensor_count (tensor), accel_dtype_bytes (dtype));
    row.strides = NULL;
    row.byte_offset = 0;
    memory_of (tensor->device)->copy_tensor (&row, tensor);
    return row.data;
}

enum accel_status
comm_gather_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, struct accel_tensor *out,
                    struct accel_error *err)
{
    enum accel_dtype dtype;
    enum accel_status status = comm_check_tensor (acc, site, tensor, &dtype, err);
    if (status)
        return status;
    int64_t rows = tensor->ndim ? tensor->shape[0] : 1;
    if (__builtin_mul_overflow (rows, (int64_t) accel_num_processes (acc), &rows))
        return comm_refuse (site, "the result is too large: size overflows", err);
    status = comm_shape_output (site, out, tensor, dtype, rows, err);
    if (status)
        return status;
    int rank = accel_process_index (acc);
    const void *data = comm_is_plain (tensor) ? memory_data (tensor) : row_of (tensor, dtype, out, rank);
    struct comm_form form = { .tensor = tensor };
    struct comm_site formed = comm_site_of (site, &form);
    return comm_all_gather (accel_world (acc), &formed, data, out->dl.data, accel_tensor_count (tensor), dtype, err);
}

/* A collective in place on a tensor. */
struct in_place {
    enum accel_op op;
    int root; /* of a broadcast; -1: a reduction */
    double scale;
};

static enum accel_status
run_in_place (struct accel *acc, const struct comm_site *site, DLTensor *tensor, enum accel_dtype dtype,
              const struct in_place *what, struct accel_error *err)
{
    struct accel_comm *world = accel_world (acc);
    size_t count = accel_tensor_count (tensor);
    void *data = memory_data (tensor);
    struct comm_form form = { .tensor = tensor };
    struct comm_site formed = comm_site_of (site, &form);
    if (what->root >= 0)
        return comm_broadcast (world, &formed, data, count, dtype, what->root, err);
    form.argument = COMM_SCALE;
    form.value = what->scale;
    enum accel_status status = comm_all_reduce (world, &formed, data, data, count, dtype, what->op, err);
    if (!status && what->scale != 1)
        memory_of (tensor->device)->scale (tensor->device, data, dtype, count, what->scale);
    return status;
}

static enum accel_status
in_place (struct accel *acc, const struct comm_site *site, DLTensor *tensor, enum accel_dtype dtype,
          const struct in_place *what, struct accel_error *err)
{
    struct accel_tensor copy;
    if (comm_is_plain (tensor))
        return run_in_place (acc, site, tensor, dtype, what, err);
    if (comm_has_doubles (tensor))
        return comm_refuse (site, "elements of the tensor share memory (stride 0): copy it first", err);
    enum accel_status status = memory_clone (&copy, tensor, err);
    if (status)
        return comm_fail_in (site, status, err);
    status = run_in_place (acc, site, &copy.dl, dtype, what, err);
    if (!status)
        memory_of (tensor->device)->copy_tensor (tensor, &copy.dl);
    accel_tensor_release (&copy);
    return status;
}

enum accel_status
comm_reduce_tensor (struct accel *acc, const struct comm_site *site, DLTensor *tensor, enum accel_op op, double scale,
                    struct accel_error *err)
{
    enum accel_dtype dtype;
    enum accel_status status = comm_check_tensor (acc, site, tensor, &dtype, err);
    if (status)
        return status;
    status = comm_check_reduction (site, dtype, op, scale, err);
    if (status)
        return status;
    return in_place (acc, site, tensor, dtype, &(struct in_place){ .op = op, .root = -1, .scale = scale }, err);
}

enum accel_status
comm_broadcast_tensor (struct accel *acc, const struct comm_site *site, DLTensor *tensor, int root,
                       struct accel_error *err)
{
    enum accel_dtype dtype;
    enum accel_status status = comm_check_tensor (acc, site, tensor, &dtype, err);
    if (!status && root < 0)
        status = comm_refuse (site, "the root is negative", err);
    return status ? status : in_place (acc, site, tensor, dtype, &(struct in_place){ .root = root }, err);
}
