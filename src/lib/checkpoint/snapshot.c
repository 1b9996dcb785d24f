/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of tensors; see snapshot.h. */
#include <config.h>

#include "lib/checkpoint/snapshot.h"

#include "lib/base/error.h"

#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

static size_t
bytes_of (const struct state_tensor *tensor)
{
    return accel_tensor_count (&tensor->view.dl) * tensor_element_bytes (&tensor->view.dl);
}

/* How much room a tensor takes; 0: it needs no copy. */
static size_t
room_of (const struct state_tensor *tensor)
{
    return tensor->owned ? 0 : (bytes_of (tensor) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t
snapshot_room (const struct accel_state_dict *state)
{
    size_t room = 0;
    for (size_t i = 0; i < state->tensor_count; i++)
        room += room_of (&state->tensors[i]);
    return room;
}

/* Huge pages, where the kernel has them, are got many times as fast. */
enum accel_status
snapshot_begin (struct snapshot *snapshot, size_t bytes, struct accel_error *err)
{
    snapshot->used = 0;
    if (bytes <= snapshot->bytes)
        return ACCEL_OK;
    snapshot_release (snapshot);
    bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *pages = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate %zu bytes for a copy of the state", bytes);
    (void) madvise (pages, bytes, MADV_HUGEPAGE);
    snapshot->pages = pages;
    snapshot->bytes = bytes;
    return ACCEL_OK;
}

void
snapshot_add (struct snapshot *snapshot, struct accel_state_dict *state)
{
    for (size_t i = 0; i < state->tensor_count; i++) {
        struct state_tensor *tensor = &state->tensors[i];
        size_t room = room_of (tensor);
        if (!room)
            continue;
        char *copy = (char *) snapshot->pages + snapshot->used;
        memcpy (copy, tensor_data (&tensor->view.dl), bytes_of (tensor));
        tensor->view.dl.data = copy;
        tensor->view.dl.byte_offset = 0;
        snapshot->used += room;
    }
}

void
snapshot_release (struct snapshot *snapshot)
{
    if (snapshot->pages)
        munmap (snapshot->pages, snapshot->bytes);
    *snapshot = (struct snapshot){ 0 };
}
