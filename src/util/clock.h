/* SPDX-License-Identifier: Apache-2.0 */
/* The clock that deadlines are counted on: it neither jumps nor stops. */
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

#endif
