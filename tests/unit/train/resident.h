/* SPDX-License-Identifier: Apache-2.0 */
/* What memory takes room, in the ranks of a test. */
#ifndef TESTS_RESIDENT_H
#define TESTS_RESIDENT_H

#include "tests/ranks.h"

enum { PAGE = 4096 };

/** @return how many bytes of this process's memory at @p memory have pages */
static size_t
resident (const void *memory, size_t bytes)
{
    uintptr_t begin = (uintptr_t) memory / PAGE * PAGE, pages = ((uintptr_t) memory + bytes - begin + PAGE - 1) / PAGE;
    unsigned char *marks = calloc (pages + 1, 1);
    size_t count = 0;
    right (marks && !mincore ((void *) begin, pages * PAGE, marks), "mincore");
    for (size_t i = 0; marks && i < pages; i++)
        count += marks[i] & 1;
    free (marks);
    return count * PAGE;
}

#endif
