/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of tensors; see snapshot.h.
 *
 * Several threads copy, because one of them does not use all the bandwidth of a memory, and gets new pages from the
 * kernel only one after the other.  The ranks' processors are free for them: the other ranks wait for this one. */
#include <config.h>

#include "lib/checkpoint/snapshot.h"

#include "lib/base/error.h"
#include "lib/memory/memory.h"
#include "util/threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20, CHUNK = 4 << 20, MOST_THREADS = 4, THREAD_BYTES = 32 << 20 };

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

void
snapshot_measure (const struct accel_state_dict *state, size_t *bytes, size_t *tensors)
{
    for (size_t i = 0; i < state->tensor_count; i++)
        *bytes += room_of (&state->tensors[i]);
    *tensors += state->tensor_count;
}

/* Without them: the kernel gives pages when they are touched.  Huge ones, if it has them, come much faster. */
static enum accel_status
get_pages (struct snapshot *snapshot, size_t bytes, struct accel_error *err)
{
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

enum accel_status
snapshot_begin (struct snapshot *snapshot, size_t bytes, size_t tensors, struct accel_error *err)
{
    enum accel_status status = get_pages (snapshot, bytes, err);
    if (status)
        return status;
    snapshot->used = snapshot->count = 0;
    snapshot->copies = calloc (tensors + 1, sizeof *snapshot->copies);
    return snapshot->copies ? ACCEL_OK : accel_fail_nomem (err);
}

void
snapshot_add (struct snapshot *snapshot, struct accel_state_dict *state)
{
    for (size_t i = 0; i < state->tensor_count; i++) {
        struct state_tensor *tensor = &state->tensors[i];
        size_t room = room_of (tensor);
        if (!room)
            continue;
        snapshot->copies[snapshot->count++] = (struct snapshot_copy){
            memory_data (&tensor->view.dl), tensor->view.dl.device, snapshot->used, bytes_of (tensor)
        };
        tensor->view.dl.device = (DLDevice){ .device_type = kDLCPU };
        tensor->view.dl.data = (char *) snapshot->pages + snapshot->used;
        tensor->view.dl.byte_offset = 0;
        snapshot->used += room;
    }
}

/* ---- copying ---- */

/* What several threads work on, chunk by chunk. */
struct chunked {
    const struct snapshot *snapshot;
    size_t bytes;       /* of the snapshot, from its beginning */
    atomic_size_t next; /* of these, the first that no thread has */
};

/* Copies that begin before @end, from the one at @first on, as far as they are between @begin and @end. */
static void
copy_chunk (const struct snapshot *snapshot, size_t first, size_t begin, size_t end)
{
    for (size_t i = first; i < snapshot->count && snapshot->copies[i].at < end; i++) {
        const struct snapshot_copy *copy = &snapshot->copies[i];
        size_t from = copy->at > begin ? copy->at : begin;
        size_t to = copy->at + copy->bytes < end ? copy->at + copy->bytes : end;
        if (tensor_device_is_host (copy->device))
            memcpy ((char *) snapshot->pages + from, (const char *) copy->from + (from - copy->at), to - from);
    }
}

/* The chunks that a thread takes are ever later ones. */
static void *
copy_chunks (void *user)
{
    struct chunked *all = user;
    const struct snapshot *snapshot = all->snapshot;
    size_t first = 0, begin;
    while ((begin = atomic_fetch_add (&all->next, CHUNK)) < all->bytes) {
        while (snapshot->copies[first].at + snapshot->copies[first].bytes <= begin)
            first++;
        copy_chunk (snapshot, first, begin, begin + CHUNK);
    }
    return NULL;
}

static void *
touch_chunks (void *user)
{
    struct chunked *all = user;
    size_t begin;
    while ((begin = atomic_fetch_add (&all->next, CHUNK)) < all->bytes)
        memset ((char *) all->snapshot->pages + begin, 0, all->bytes - begin < CHUNK ? all->bytes - begin : CHUNK);
    return NULL;
}

static size_t
count_threads (size_t bytes)
{
    size_t cpus = (size_t) usable_processors (), most = cpus < MOST_THREADS ? cpus : MOST_THREADS;
    return bytes / THREAD_BYTES < most ? bytes / THREAD_BYTES : most;
}

static size_t
start_helpers (pthread_t *threads, size_t most, void *(*work) (void *user), struct chunked *all)
{
    size_t count = 0;
    while (count < most && !thread_start (&threads[count], work, all))
        count++;
    return count;
}

/* By this thread, and others if there is enough to do. */
static void
work_together (const struct snapshot *snapshot, size_t bytes, void *(*work) (void *user))
{
    struct chunked all = { .snapshot = snapshot, .bytes = bytes };
    pthread_t threads[MOST_THREADS];
    size_t wanted = count_threads (bytes);
    size_t helpers = wanted > 1 ? start_helpers (threads, wanted - 1, work, &all) : 0;
    work (&all);
    while (helpers > 0)
        pthread_join (threads[--helpers], NULL);
}

/* From devices, by the program's thread.  What it has queued there comes first, as does the copy for what it queues
 * next. */
static enum accel_status
copy_devices (const struct snapshot *snapshot, bool *is_rest, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    *is_rest = false;
    for (size_t i = 0; !status && i < snapshot->count; i++) {
        const struct snapshot_copy *copy = &snapshot->copies[i];
        if (tensor_device_is_host (copy->device))
            *is_rest = true;
        else
            status = memory_of (copy->device)->read (copy->device, (char *) snapshot->pages + copy->at, copy->from,
                                                     copy->bytes, err);
    }
    return status;
}

enum accel_status
snapshot_copy (struct snapshot *snapshot, struct accel_error *err)
{
    bool is_rest;
    enum accel_status status = copy_devices (snapshot, &is_rest, err);
    if (!status && is_rest)
        work_together (snapshot, snapshot->used, copy_chunks);
    free (snapshot->copies);
    snapshot->copies = NULL;
    return status;
}

enum accel_status
snapshot_reserve (struct snapshot *snapshot, size_t bytes, struct accel_error *err)
{
    size_t before = snapshot->bytes;
    enum accel_status status = get_pages (snapshot, bytes, err);
    if (status || snapshot->bytes == before)
        return status;
    work_together (snapshot, bytes, touch_chunks);
    return ACCEL_OK;
}

void
snapshot_release (struct snapshot *snapshot)
{
    if (snapshot->pages)
        munmap (snapshot->pages, snapshot->bytes);
    free (snapshot->copies);
    *snapshot = (struct snapshot){ 0 };
}
