/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators that fail when a test wants it; its program is linked with -Wl,--wrap= for each of them. */
#ifndef TESTS_ALLOCATORS_H
#define TESTS_ALLOCATORS_H

#include <stdbool.h>
#include <stddef.h>

/* The linker replaces the allocators by these: the call after that many calls fails. */
static _Atomic long calls_left = -1; /* threads of the library allocate too */

static bool
fails_now (void)
{
    return calls_left >= 0 && calls_left-- == 0;
}

#define ALLOCATORS(X)                                                                               \
    X (void *, NULL, malloc, (size_t size), (size))                                                 \
    X (void *, NULL, calloc, (size_t count, size_t size), (count, size))                            \
    X (void *, NULL, realloc, (void *old, size_t size), (old, size))                                \
    X (void *, NULL, reallocarray, (void *old, size_t count, size_t size), (old, count, size))      \
    X (char *, NULL, strdup, (const char *text), (text))                                            \
    X (char *, NULL, strndup, (const char *text, size_t size), (text, size))                        \
    X (int, 12, posix_memalign, (void **made, size_t alignment, size_t size), (made, alignment, size))
/* Visible, or sanitizers' libraries make the linker refuse programs with shared libraries of ours. */
#define X(type, failure, name, parameters, arguments) \
    type __real_##name parameters;                    \
    __attribute__ ((visibility ("default"))) type __wrap_##name parameters; \
    type __wrap_##name parameters                     \
    {                                                 \
        return fails_now () ? failure : __real_##name arguments; \
    }
ALLOCATORS (X)
#undef X

#endif
