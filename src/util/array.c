/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow by one element at a time; see array.h. */
#include <config.h>

#include "util/array.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 8 }; /* a power of two */

void *
array_room (void *array, size_t count, size_t size)
{
    char *elements, *moved;
    memcpy (&elements, array, sizeof elements); /* a pointer of any type */
    if (!count || (count >= FIRST && !(count & (count - 1)))) {
        moved = reallocarray (elements, count ? 2 * count : FIRST, size);
        if (!moved)
            return NULL;
        memcpy (array, &moved, sizeof moved);
        elements = moved;
    }
    return elements + count * size;
}
