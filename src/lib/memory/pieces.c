/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of tensors on any device, piece by piece; see memory.h. */
#include <config.h>

#include "lib/memory/memory.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "util/cleanup.h"
#include "util/memory.h"

/* Pieces of a device: several of those that its code copies at once, so that one is copied while the next is on its
 * way. */
enum { DEVICE_PIECE = 8 << 20 };

static size_t
bytes_of (const DLTensor *tensor)
{
    return accel_tensor_count (tensor) * tensor_element_bytes (tensor);
}

static enum accel_status
pass_on (const char *bytes, size_t length, size_t most, memory_take *take, void *user, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t some; !status && length; bytes += some, length -= some) {
        some = length < most ? length : most;
        status = take (user, bytes, some, err);
    }
    return status;
}

enum accel_status
memory_read_pieces (const DLTensor *tensor, size_t most, memory_take *take, void *user, struct accel_error *err)
{
    const struct memory *memory = memory_of (tensor->device);
    size_t bytes = bytes_of (tensor), room = bytes < DEVICE_PIECE ? bytes : DEVICE_PIECE;
    if (memory->host)
        return pass_on (memory_data (tensor), bytes, most, take, user, err);
    room -= most < room ? room % most : 0; /* so that pieces are as those of the host */
    AUTO_FREE void *copy = memory_create (room + 1);
    enum accel_status status
        = copy ? ACCEL_OK : accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate %zu bytes for a copy", room);
    for (size_t at = 0, some; !status && at < bytes; at += some) {
        some = bytes - at < room ? bytes - at : room;
        status = memory->read (tensor->device, copy, memory_at (memory_data (tensor), at, 1), some, err);
        if (!status)
            status = pass_on (copy, some, most, take, user, err);
    }
    return status;
}

enum accel_status
memory_write_pieces (const DLTensor *tensor, memory_give *give, void *user, struct accel_error *err)
{
    const struct memory *memory = memory_of (tensor->device);
    size_t bytes = bytes_of (tensor), room = bytes < DEVICE_PIECE ? bytes : DEVICE_PIECE;
    enum accel_status status = ACCEL_OK;
    if (memory->host)
        return give (user, 0, memory_data (tensor), bytes, err);
    AUTO_FREE void *copy = memory_create (room + 1);
    if (!copy)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate %zu bytes for a copy", room);
    for (size_t at = 0, some; !status && at < bytes; at += some) {
        some = bytes - at < room ? bytes - at : room;
        status = give (user, at, copy, some, err);
        if (!status)
            memory->write (tensor->device, memory_at (memory_data (tensor), at, 1), copy, some);
    }
    return status ? status : memory_check (tensor->device, err);
}
