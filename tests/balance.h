/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators that count what has not been freed, and that fail when a test wants it; its program is linked with
 * $(balanced_allocators). */
#ifndef TESTS_BALANCE_H
#define TESTS_BALANCE_H

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static _Atomic long blocks;          /* allocated and not freed; by the C library itself: freed only */
static _Atomic long calls_left = -1; /* the call after this many fails */
static _Atomic bool free_spoils_errno;
static const char *secret;           /* a text that has to be overwritten before its memory is freed */
static _Atomic long secrets_freed;   /* blocks that had it */

static bool
fails_now (void)
{
    return calls_left >= 0 && calls_left-- == 0;
}

static void *
counted (void *made, const void *old)
{
    blocks += made && !old;
    return made;
}

#define BALANCED(X)                                                                                          \
    X (void *, malloc, (size_t size), (size), NULL)                                                          \
    X (void *, calloc, (size_t count, size_t size), (count, size), NULL)                                     \
    X (void *, realloc, (void *old, size_t size), (old, size), old)                                          \
    X (void *, reallocarray, (void *old, size_t count, size_t size), (old, count, size), old)                \
    X (char *, strdup, (const char *text), (text), NULL)                                                     \
    X (char *, strndup, (const char *text, size_t size), (text, size), NULL)
#define X(type, name, parameters, arguments, old) \
    type __real_##name parameters;                \
    type __wrap_##name parameters;                \
    type __wrap_##name parameters                 \
    {                                             \
        return fails_now () ? NULL : counted (__real_##name arguments, old); \
    }
BALANCED (X)
#undef X
#undef BALANCED

int __real_posix_memalign (void **made, size_t alignment, size_t size);
int __wrap_posix_memalign (void **made, size_t alignment, size_t size);
int
__wrap_posix_memalign (void **made, size_t alignment, size_t size)
{
    int number = fails_now () ? ENOMEM : __real_posix_memalign (made, alignment, size);
    blocks += !number;
    return number;
}

void __real_free (void *memory);
void __wrap_free (void *memory);
void
__wrap_free (void *memory)
{
    blocks -= !!memory;
    if (secret && memory && memmem (memory, malloc_usable_size (memory), secret, strlen (secret)))
        secrets_freed++;
    __real_free (memory);
    if (free_spoils_errno)
        errno = ENXIO;
}

#endif
