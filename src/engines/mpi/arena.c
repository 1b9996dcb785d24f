/* SPDX-License-Identifier: Apache-2.0 */
/* accel_alloc(): memory in this rank's arena, which the other ranks of the host can read.  The books are private.
 *
 * Memory is reserved before it is handed out, so that a full host is an error here and not a SIGBUS later.  Whatever is
 * free is zero. */
#include <config.h>

#include "engines/mpi/communicators.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, WHOLE_PAGES = 64 << 10, RESERVE_STEP = 64 << 20,
       RESERVE_LEAST = 1 << 20 };

static unsigned char *
own_arena (void)
{
    return mpi.host.arenas + (size_t) mpi.host.rank * mpi.host.arena_bytes;
}

uint64_t
arena_offset (const void *memory, size_t bytes)
{
    uintptr_t at = (uintptr_t) memory, first = (uintptr_t) mpi.host.arenas;
    if (!mpi.host.arenas || at < (uintptr_t) own_arena () || bytes > mpi.host.arena_bytes
        || at - (uintptr_t) own_arena () > mpi.host.arena_bytes - bytes)
        return FOREIGN;
    return at - first;
}

bool
arena_is_own (void)
{
    return mpi.host.pid == (int) getpid ();
}

/* First fit.  @return the index at which the new extent goes; count + 1 if nothing fits */
static size_t
find_gap (size_t bytes, size_t *offset)
{
    const struct host *host = &mpi.host;
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : bytes >= WHOLE_PAGES ? PAGE : LINE, start = 0;
    for (size_t i = 0; i <= host->extent_count; i++) {
        size_t end = i < host->extent_count ? host->extents[i].offset : host->arena_bytes;
        *offset = round_up (start, unit);
        if (*offset <= end && end - *offset >= bytes)
            return i;
        if (i < host->extent_count)
            start = end + host->extents[i].bytes;
    }
    return host->extent_count + 1;
}

static off_t
file_offset (size_t offset)
{
    return own_arena () - mpi.host.memory + (off_t) offset;
}

/* Not by fallocate(), of which an MPI that remembers the pages it has registered with a network adapter never hears. */
static int
give_back (size_t offset, size_t bytes)
{
    return madvise (own_arena () + offset, bytes, MADV_REMOVE);
}

/* In steps, because a signal makes fallocate() undo and fail; smaller ones, if signals come faster than that. */
static bool
reserve (size_t offset, size_t bytes)
{
    size_t end = round_up (offset + bytes, PAGE), step = RESERVE_STEP, part;
    for (size_t at = offset / PAGE * PAGE; at < end;) {
        part = end - at < step ? end - at : step;
        if (!fallocate (mpi.host.fd, 0, file_offset (at), (off_t) part))
            at += part;
        else if (errno != EINTR)
            return false;
        else if (step > RESERVE_LEAST)
            step /= 2;
    }
    return true;
}

static bool
grow_extents (void)
{
    struct host *host = &mpi.host;
    if (host->extent_count < host->extent_room)
        return true;
    size_t room = host->extent_room ? 2 * host->extent_room : 64;
    struct extent *grown = realloc (host->extents, room * sizeof *grown);
    host->extents = grown ? grown : host->extents;
    host->extent_room = grown ? room : host->extent_room;
    return grown;
}

/* @return whether *memory was found in the arena */
static bool
take (void **memory, size_t bytes)
{
    struct host *host = &mpi.host;
    size_t offset, wanted = round_up (bytes ? bytes : 1, bytes >= WHOLE_PAGES ? PAGE : LINE);
    if (bytes > host->arena_bytes || !grow_extents ())
        return false;
    size_t at = find_gap (wanted, &offset);
    if (at > host->extent_count)
        return false;
    if (!reserve (offset, wanted)) {
        if (wanted >= WHOLE_PAGES)
            give_back (offset, wanted);
        return false;
    }
    memmove (host->extents + at + 1, host->extents + at, (host->extent_count - at) * sizeof *host->extents);
    host->extents[at] = (struct extent){ offset, wanted };
    host->extent_count++;
    *memory = own_arena () + offset;
    return true;
}

/* Huge pages, if there are any, come much faster than small ones.  @return NULL: out of memory */
static void *
create (size_t bytes)
{
    void *memory;
    if (bytes > PTRDIFF_MAX || posix_memalign (&memory, bytes < HUGE_PAGE ? LINE : HUGE_PAGE, bytes ? bytes : 1))
        return NULL;
    if (bytes >= HUGE_PAGE)
        madvise (memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return memset (memory, 0, bytes);
}

/* What does not fit into the arena is as good as memory of the program's own; so is all if this is the host's only
 * rank. */
enum accel_status
arena_alloc (void *transport, void **memory, size_t bytes, struct accel_error *err)
{
    (void) transport;
    pthread_mutex_lock (&mpi.world.lock);
    bool found = mpi.host.arenas && arena_is_own () && take (memory, bytes);
    pthread_mutex_unlock (&mpi.world.lock);
    if (found)
        return ACCEL_OK;
    *memory = create (bytes);
    return *memory ? ACCEL_OK
                   : mpi.world.helpers->fail (err, ACCEL_ERR_NOMEM, "accel_alloc: cannot allocate %zu bytes", bytes);
}

uint64_t
arena_take (size_t bytes)
{
    void *memory;
    return mpi.host.arenas && take (&memory, bytes) ? arena_offset (memory, bytes) : FOREIGN;
}

/* @return its size, which is in no book any more */
static size_t
remove_extent (size_t offset)
{
    struct host *host = &mpi.host;
    for (size_t i = 0; i < host->extent_count; i++) {
        struct extent extent = host->extents[i];
        if (extent.offset != offset)
            continue;
        host->extent_count--;
        memmove (host->extents + i, host->extents + i + 1, (host->extent_count - i) * sizeof extent);
        return extent.bytes;
    }
    return 0;
}

static void
release (size_t offset)
{
    size_t bytes = remove_extent (offset);
    if (bytes && arena_is_own () && (bytes < WHOLE_PAGES || give_back (offset, bytes)))
        memset (own_arena () + offset, 0, bytes);
}

void
arena_return (uint64_t at)
{
    release ((size_t) (mpi.host.arenas + at - own_arena ()));
}

void
arena_forget (uint64_t at)
{
    remove_extent ((size_t) (mpi.host.arenas + at - own_arena ()));
}

void
arena_free (void *transport, void *memory)
{
    (void) transport;
    pthread_mutex_lock (&mpi.world.lock);
    bool is_shared = arena_offset (memory, 1) != FOREIGN;
    if (is_shared)
        release ((size_t) ((unsigned char *) memory - own_arena ()));
    pthread_mutex_unlock (&mpi.world.lock);
    if (!is_shared)
        free (memory);
}
