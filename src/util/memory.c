/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned memory in pages as large as there are, and copies of it; see memory.h. */
#include <config.h>

#include "util/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14; older ones refuse it */
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE = 4096, NEAR = 32, VECTORS_BYTES = 256, ASIDE_BYTES = 16 << 10 };

void *
memory_create (size_t bytes)
{
    size_t alignment = bytes < MEMORY_HUGE_PAGE ? MEMORY_ALIGNMENT : MEMORY_HUGE_PAGE;
    void *memory = NULL;
    if (bytes > PTRDIFF_MAX || posix_memalign (&memory, alignment, bytes ? bytes : 1))
        return NULL;
    if (bytes >= MEMORY_HUGE_PAGE) /* if there are none, small ones do */
        (void) madvise (memory, bytes - bytes % MEMORY_HUGE_PAGE, MADV_HUGEPAGE);
    return memory;
}

void *
memory_create_zeroed (size_t bytes)
{
    void *memory = memory_create (bytes);
    return memory ? memset (memory, 0, bytes) : NULL;
}

/* The pages that are wholly in a range.
 * @return how many bytes they have */
static size_t
whole_pages (void *memory, size_t bytes, size_t page, void **pages)
{
    uintptr_t begin = ((uintptr_t) memory + page - 1) / page * page, end = ((uintptr_t) memory + bytes) / page * page;
    *pages = (void *) begin;
    return begin < end ? end - begin : 0;
}

static void
advise (void *memory, size_t bytes, size_t page, int advice)
{
    void *pages;
    size_t length = whole_pages (memory, bytes, page, &pages);
    if (length)
        (void) madvise (pages, length, advice);
}

/* They may be larger than those that copies are cut at. */
static size_t
page_bytes (void)
{
    return (size_t) sysconf (_SC_PAGESIZE);
}

void
memory_discard (void *memory, size_t bytes)
{
    advise (memory, bytes, MEMORY_HUGE_PAGE, MADV_DONTNEED);
}

void
memory_use_huge_pages (void *memory, size_t bytes)
{
    advise (memory, bytes, MEMORY_HUGE_PAGE, MADV_HUGEPAGE);
}

void
memory_discard_pages (void *memory, size_t bytes)
{
    advise (memory, bytes, page_bytes (), MADV_DONTNEED);
}

void
memory_use_small_pages (void *memory, size_t bytes)
{
    advise (memory, bytes, page_bytes (), MADV_NOHUGEPAGE);
}

void
memory_populate (void *memory, size_t bytes)
{
    advise (memory, bytes, page_bytes (), MADV_POPULATE_WRITE);
}

/* Ranges that touch no huge page are filled at once, others up to the first and from the last. */
void
memory_populate_small_pages (void *memory, size_t bytes)
{
    void *huge;
    size_t length = whole_pages (memory, bytes, MEMORY_HUGE_PAGE, &huge);
    char *end = (char *) memory + bytes, *first = length ? huge : end;
    memory_populate (memory, (size_t) (first - (char *) memory));
    memory_populate (first + length, (size_t) (end - first) - length);
}

void
memory_forget (void *memory, size_t bytes, bool is_ours)
{
    void *pages;
    size_t length = whole_pages (memory, bytes, page_bytes (), &pages);
    size_t before = (size_t) ((char *) pages - (char *) memory);
    bool is_gone = length && is_ours && !madvise (pages, length, MADV_DONTNEED);
    if (!length || !is_gone)
        memset (memory, 0, bytes);
    if (!length)
        return;
    if (!is_gone)
        (void) madvise (pages, length, MADV_DONTNEED);
    memset (memory, 0, before);
    memset ((char *) pages + length, 0, bytes - before - length);
}

/* Pages that are given back are zero when they are touched again, whatever was there before. */
void *
memory_create_sparse (size_t bytes)
{
    size_t page = page_bytes (), rounded = (bytes / page + 1) * page;
    void *memory = NULL;
    if (bytes > PTRDIFF_MAX - page
        || posix_memalign (&memory, bytes < MEMORY_HUGE_PAGE ? page : MEMORY_HUGE_PAGE, rounded))
        return NULL;
    memory_use_small_pages (memory, rounded);
    if (madvise (memory, rounded, MADV_DONTNEED))
        memset (memory, 0, rounded);
    return memory;
}

void
memory_change (void *to, const void *from, size_t bytes)
{
    for (size_t at = 0, some; at < bytes; at += some) {
        some = PAGE - ((uintptr_t) to + at) % PAGE;
        some = some < bytes - at ? some : bytes - at;
        if (memcmp ((char *) to + at, (const char *) from + at, some))
            memcpy ((char *) to + at, (const char *) from + at, some);
    }
}

void
memory_copy (void *to, const void *from, size_t bytes)
{
    size_t behind = ((uintptr_t) to - (uintptr_t) from) % PAGE, done = 0;
    if (behind && behind < NEAR) /* so few at a time are copied by vectors */
        for (; bytes - done > VECTORS_BYTES; done += VECTORS_BYTES)
            memcpy ((char *) to + done, (const char *) from + done, VECTORS_BYTES);
    memcpy ((char *) to + done, (const char *) from + done, bytes - done);
}

/* Half a page away from both, in bytes that the first cache keeps. */
ssize_t
memory_read (int fd, void *to, size_t bytes, off_t from)
{
    size_t behind = ((uintptr_t) to - (uintptr_t) from) % PAGE;
    if (!behind || behind >= NEAR || bytes < PAGE)
        return pread (fd, to, bytes, from);
    char room[ASIDE_BYTES + PAGE];
    char *aside = room + ((uintptr_t) from + PAGE / 2 - (uintptr_t) room) % PAGE;
    ssize_t got = pread (fd, aside, bytes < ASIDE_BYTES ? bytes : ASIDE_BYTES, from);
    if (got > 0)
        memcpy (to, aside, (size_t) got);
    return got;
}
