/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow by one element at a time. */
#ifndef UTIL_ARRAY_H
#define UTIL_ARRAY_H

#include <stddef.h>

/**
 * Room for one more element of an array that has @p count.  Its memory is doubled if @p count is a power of two, so
 * nothing has to remember how many there is room for, but nothing else may allocate the array, either.
 *
 * @param array  the address of the pointer to its elements, which may move
 * @param size  of an element, bytes
 * @return the element after the last one, with any content; NULL: no memory, and nothing has changed
 */
void *array_room (void *array, size_t count, size_t size);

#endif
