/* SPDX-License-Identifier: Apache-2.0 */
/* Which kinds of memory there are, their streams, and tensors that own memory of any kind. */
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

int memory_device_kinds;

void
memory_register (DLDeviceType type, const struct memory *memory)
{
    if ((unsigned) type >= MEMORY_KINDS)
        return;
    const struct memory *before = __atomic_exchange_n (&memory_tables[type], memory, __ATOMIC_ACQ_REL);
    __atomic_add_fetch (&memory_device_kinds, (memory && !memory->host) - (before && !before->host), __ATOMIC_RELEASE);
}

DLDevice
memory_locate (const void *address)
{
    DLDevice device = { 0 };
    for (int type = 0; address && type < MEMORY_KINDS; type++) {
        const struct memory *memory = memory_table (type);
        if (memory && memory->owns && memory->owns (address, &device))
            return device;
    }
    return (DLDevice){ 0 };
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
memory_allocate (struct accel_tensor *tensor, enum accel_dtype dtype, int ndim, const int64_t *shape, DLDevice device,
                 struct accel_error *err)
{
    enum accel_status status = accel_tensor_init (tensor, dtype, ndim, shape, err);
    if (status)
        return status;
    size_t bytes = accel_tensor_count (&tensor->dl) * accel_dtype_bytes (dtype);
    bytes += !bytes; /* so that there is an address, and owned_bytes is not 0 */
    tensor->dl.device = device;
    tensor->dl.data = memory_of (device)->create (device, bytes, false);
    if (!tensor->dl.data)
        return memory_fail (device, err, "cannot allocate %zu bytes on %s:%d", bytes, tensor_device_name (device),
                            (int) device.device_id);
    tensor->owned_bytes = bytes;
    return ACCEL_OK;
}

enum accel_status
memory_clone (struct accel_tensor *copy, const DLTensor *tensor, struct accel_error *err)
{
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    enum accel_status status = memory_allocate (copy, dtype, tensor->ndim, tensor->shape, tensor->device, err);
    if (!status)
        memory_of (tensor->device)->copy_tensor (&copy->dl, tensor);
    return status;
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

/* ---- streams ---- */

enum accel_status
accel_set_stream (DLDevice device, void *stream, struct accel_error *err)
{
    const struct memory *memory = memory_of (device);
    if (!memory)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_set_stream: no code for %s:%d (DLPack device type %d)%s%s",
                           tensor_device_name (device), (int) device.device_id, (int) device.device_type,
                           device.device_type == kDLCUDA ? ": " : "",
                           device.device_type == kDLCUDA ? device_refusal () : "");
    if ((uintptr_t) stream == UINTPTR_MAX) /* DLPack's -1 */
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_set_stream: -1 (no order) is not a stream: name the one that "
                           "the program's work runs on");
    if (memory->set_stream)
        return memory->set_stream (device, stream, err);
    return stream ? accel_fail (err, ACCEL_ERR_INVALID, "accel_set_stream: %s has no streams: pass NULL",
                                tensor_device_name (device))
                  : ACCEL_OK;
}

void *
accel_get_stream (DLDevice device)
{
    const struct memory *memory = memory_of (device);
    return memory && memory->stream ? memory->stream (device) : NULL;
}
