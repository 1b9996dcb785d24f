/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors from one device to another. */
#include <config.h>

#include "lib/memory/memory.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"

/* From the host to a device. */
static enum accel_status
upload (struct accel_tensor *sent, const DLTensor *tensor, DLDevice to, struct accel_error *err)
{
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    enum accel_status status = memory_allocate (sent, dtype, tensor->ndim, tensor->shape, to, err);
    size_t bytes = status ? 0 : accel_tensor_count (tensor) * accel_dtype_bytes (dtype);
    if (!status)
        memory_of (to)->write (to, sent->dl.data, tensor_data (tensor), bytes);
    return status;
}

/* From a device to the host, where what was sent before has to be, too.  After a failure, @sent is to be released. */
static enum accel_status
download (struct accel_tensor *sent, const DLTensor *tensor, struct accel_error *err)
{
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    enum accel_status status = tensor_allocate (sent, dtype, tensor->ndim, tensor->shape, false, err);
    if (status)
        return status;
    size_t bytes = accel_tensor_count (tensor) * accel_dtype_bytes (dtype);
    return memory_of (tensor->device)->read (tensor->device, sent->dl.data, memory_data (tensor), bytes, err);
}

/* Between two devices of one kind, without the host. */
static enum accel_status
pass (struct accel_tensor *sent, const DLTensor *tensor, DLDevice to, struct accel_error *err)
{
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    size_t bytes = accel_tensor_count (tensor) * accel_dtype_bytes (dtype);
    enum accel_status status = memory_allocate (sent, dtype, tensor->ndim, tensor->shape, to, err);
    if (!status && bytes)
        status = memory_of (to)->copy_from (to, sent->dl.data, tensor->device, memory_data (tensor), bytes, err);
    if (status)
        accel_tensor_release (sent);
    return status;
}

static bool
can_pass (DLDevice from, DLDevice to)
{
    const struct memory *memory = memory_of (to);
    return memory == memory_of (from) && memory->copy_from && from.device_id != to.device_id;
}

/* By way of the host between two devices of which neither knows the other. */
enum accel_status
memory_send (struct accel_tensor *sent, const DLTensor *tensor, DLDevice to, struct accel_error *err)
{
    struct accel_tensor packed = { .owned_bytes = 0 }, host = { .owned_bytes = 0 };
    enum accel_status status = ACCEL_OK;
    if (!tensor_is_contiguous (tensor)) {
        status = memory_clone (&packed, tensor, err);
        tensor = &packed.dl;
    }
    bool passes = !status && can_pass (tensor->device, to);
    if (!status && !passes && !tensor_device_is_host (tensor->device)) {
        status = download (&host, tensor, err);
        tensor = &host.dl;
    }
    if (passes) {
        status = pass (sent, tensor, to, err);
    } else if (!status && !tensor_device_is_host (to)) {
        status = upload (sent, tensor, to, err);
    } else if (!status && host.owned_bytes) {
        *sent = host;
        sent->dl.shape = sent->shape;
        host = (struct accel_tensor){ .owned_bytes = 0 };
    } else if (!status) {
        status = memory_clone (sent, tensor, err);
    }
    accel_tensor_release (&packed);
    accel_tensor_release (&host);
    if (!status && tensor_device_is_host (to))
        sent->dl.device = to;
    return status;
}
