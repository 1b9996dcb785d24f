/* SPDX-License-Identifier: Apache-2.0 */
/* The streams on which devices work. */
#include <config.h>

#include "lib/memory/memory.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/memory/device.h"

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
