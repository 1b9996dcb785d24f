/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned memory in pages as large as there are; see memory.h. */
#include <config.h>

#include "util/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

void *
memory_create (size_t bytes)
{
    size_t alignment = bytes < HUGE_PAGE_BYTES ? MEMORY_ALIGNMENT : HUGE_PAGE_BYTES;
    void *memory = NULL;
    if (bytes > PTRDIFF_MAX || posix_memalign (&memory, alignment, bytes ? bytes : 1))
        return NULL;
    if (bytes >= HUGE_PAGE_BYTES) /* where there are none, small ones do */
        (void) madvise (memory, bytes - bytes % HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    return memory;
}

void *
memory_create_zeroed (size_t bytes)
{
    void *memory = memory_create (bytes);
    return memory ? memset (memory, 0, bytes) : NULL;
}
