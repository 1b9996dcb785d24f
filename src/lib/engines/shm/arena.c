/* SPDX-License-Identifier: Apache-2.0 */
/* accel_alloc(): blocks in this rank's arena.  The books are private; peers only learn offsets, with each collective.
 *
 * Memory is reserved with fallocate() before it is handed out, so that a full host is an error here and not a SIGBUS
 * later.  Whatever is free is zero: blocks of whole pages give their pages back, small ones are cleared. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"

#include "util/array.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>

enum { PAGE = 4096, WHOLE_PAGES = 64 << 10, RESERVE_STEP = 64 << 20 };

/* First fit.  @return the index at which the new extent goes, its place in *offset; count + 1 where nothing fits */
static size_t
find_gap (const struct shm *shm, size_t bytes, size_t *offset)
{
    const struct shm_arena *arena = &shm->arena;
    size_t alignment = bytes >= SHM_HUGE ? SHM_HUGE : bytes >= WHOLE_PAGES ? PAGE : 64, start = 0;
    for (size_t i = 0; i <= arena->count; i++) {
        size_t end = i < arena->count ? arena->extents[i].offset : shm->layout.arena_bytes;
        size_t from = shm_round_up (start, alignment);
        if (from <= end && end - from >= bytes) {
            *offset = from;
            return i;
        }
        if (i < arena->count)
            start = end + arena->extents[i].bytes;
    }
    return arena->count + 1;
}

static off_t
file_offset (const struct shm *shm, size_t offset)
{
    return (off_t) (shm->layout.arenas + (size_t) shm->local_rank * shm->layout.arena_bytes + offset);
}

static int
give_back (const struct shm *shm, size_t offset, size_t bytes)
{
    return fallocate (shm->segment.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, file_offset (shm, offset),
                      (off_t) bytes);
}

/* In steps, because a signal makes fallocate() undo and fail; what is reserved costs little to ask for again. */
static int
reserve (const struct shm *shm, size_t offset, size_t bytes)
{
    size_t end = shm_round_up (offset + bytes, PAGE);
    offset = offset / PAGE * PAGE;
    while (offset < end) {
        size_t part = end - offset < RESERVE_STEP ? end - offset : RESERVE_STEP;
        if (fallocate (shm->segment.fd, 0, file_offset (shm, offset), (off_t) part)) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        offset += part;
    }
    return 0;
}

static unsigned char *
address_of (const struct shm *shm, size_t offset)
{
    return shm->arenas + (size_t) shm->local_rank * shm->layout.arena_bytes + offset;
}

static void
clear (const struct shm *shm, size_t offset, size_t bytes)
{
    if (bytes < WHOLE_PAGES || give_back (shm, offset, bytes))
        memset (address_of (shm, offset), 0, bytes);
}

enum accel_status
shm_alloc (void *transport, void **memory, size_t bytes, struct accel_error *err)
{
    struct shm *shm = transport;
    struct shm_arena *arena = &shm->arena;
    size_t offset, limit = shm->layout.arena_bytes;
    if (getpid () != shm->pid)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_alloc: this process is a fork of the one that opened the job");
    if (bytes > limit)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_alloc: %zu bytes exceed the %zu bytes that each process has",
                           bytes, limit);
    size_t wanted = shm_round_up (bytes ? bytes : 1, bytes >= WHOLE_PAGES ? PAGE : 64);
    if (!array_room (&arena->extents, arena->count, sizeof *arena->extents))
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_alloc: out of memory");
    size_t at = find_gap (shm, wanted, &offset);
    if (at > arena->count)
        return accel_fail (err, ACCEL_ERR_NOMEM,
                           "accel_alloc: no room left for %zu bytes in the %zu bytes that each process has", bytes,
                           limit);
    if (reserve (shm, offset, wanted)) {
        int number = errno;
        /* Nothing has been written; to clear missing memory would be fatal. */
        if (wanted >= WHOLE_PAGES)
            give_back (shm, offset, wanted);
        accel_fail (err, ACCEL_ERR_NOMEM, "accel_alloc: the host cannot provide %zu bytes: %s", bytes,
                    strerror (number));
        if (err)
            err->sys_errno = number;
        return ACCEL_ERR_NOMEM;
    }
    memmove (arena->extents + at + 1, arena->extents + at, (arena->count - at) * sizeof *arena->extents);
    arena->extents[at] = (struct shm_extent){ .offset = offset, .bytes = wanted };
    arena->count++;
    *memory = address_of (shm, offset);
    return ACCEL_OK;
}

/* What a fork of this process frees stays as it is: the parent and its peers have the same memory. */
void
shm_free (void *transport, void *memory)
{
    struct shm *shm = transport;
    struct shm_arena *arena = &shm->arena;
    size_t offset = (size_t) ((unsigned char *) memory - address_of (shm, 0)), low = 0, high = arena->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (arena->extents[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == arena->count || arena->extents[low].offset != offset)
        return;
    if (getpid () == shm->pid)
        clear (shm, offset, arena->extents[low].bytes);
    arena->count--;
    memmove (arena->extents + low, arena->extents + low + 1, (arena->count - low) * sizeof *arena->extents);
}

uint64_t
shm_offset (const struct shm *shm, const void *memory, size_t bytes)
{
    uintptr_t first = (uintptr_t) address_of (shm, 0), at = (uintptr_t) memory;
    if (at < first || at - first > shm->layout.arena_bytes || shm->layout.arena_bytes - (at - first) < bytes)
        return SHM_FOREIGN;
    return (uint64_t) (at - (uintptr_t) shm->arenas);
}
