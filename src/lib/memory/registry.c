/* SPDX-License-Identifier: Apache-2.0 */
/* Which kinds of memory there are, and tensors that own memory of any kind. */
#include <config.h>

#include "lib/memory/memory.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/memory/device.h"

#include <stdarg.h>
#include <stdio.h>

const struct memory *memory_tables[MEMORY_KINDS] = {
    [kDLCPU] = &memory_host,
    [kDLCUDAHost] = &memory_host,
    [kDLROCMHost] = &memory_host,
};

const struct memory *
memory_of (DLDevice device)
{
    const struct memory *table
        = (unsigned) device.device_type < MEMORY_KINDS ? memory_table ((int) device.device_type) : NULL;
    return table || device.device_type != kDLCUDA ? table : device_memory ();
}

void
memory_register (DLDeviceType type, const struct memory *memory)
{
    if ((unsigned) type < MEMORY_KINDS)
        __atomic_store_n (&memory_tables[type], memory, __ATOMIC_RELEASE);
}

enum accel_status
memory_check (DLDevice device, struct accel_error *err)
{
    const struct memory *memory = memory_of (device);
    return memory->host ? ACCEL_OK : memory->read (device, NULL, NULL, 0, err);
}

enum accel_status
memory_fail (DLDevice device, struct accel_error *err, const char *format, ...)
{
    char text[ACCEL_ERROR_TEXT_SIZE];
    va_list args;
    enum accel_status status = memory_check (device, err);
    if (status)
        return status;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    return accel_fail (err, ACCEL_ERR_NOMEM, "%s", text);
}

enum accel_status
memory_clone (struct accel_tensor *copy, const DLTensor *tensor, struct accel_error *err)
{
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    const struct memory *memory = memory_of (tensor->device);
    enum accel_status status = accel_tensor_init (copy, dtype, tensor->ndim, tensor->shape, err);
    if (status)
        return status;
    size_t bytes = accel_tensor_count (tensor) * accel_dtype_bytes (dtype);
    bytes += !bytes; /* so that there is an address, and owned_bytes is not 0 */
    copy->dl.device = tensor->device;
    copy->dl.data = memory->create (tensor->device, bytes, false);
    if (!copy->dl.data)
        return memory_fail (tensor->device, err, "cannot allocate %zu bytes", bytes);
    copy->owned_bytes = bytes;
    memory->copy_tensor (&copy->dl, tensor);
    return ACCEL_OK;
}

void
accel_tensor_release (struct accel_tensor *tensor)
{
    if (!tensor)
        return;
    const struct memory *memory = memory_of (tensor->dl.device);
    if (tensor->owned_bytes && memory)
        memory->destroy (tensor->dl.device, tensor->dl.data);
    *tensor = (struct accel_tensor){ 0 };
}
