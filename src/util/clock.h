/* SPDX-License-Identifier: Apache-2.0 */
/* The clock that deadlines are counted on: it neither jumps nor stops.  And what to do between two looks at it. */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

/** @return milliseconds of CLOCK_MONOTONIC. */
static inline int64_t
clock_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/** @return nanoseconds of CLOCK_MONOTONIC. */
static inline int64_t
clock_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

/** In a loop that polls memory: let the processor's other thread run, and save power. */
static inline void
relax (void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause ();
#elif defined __aarch64__
    __asm__ volatile ("yield");
#endif
}

#endif
