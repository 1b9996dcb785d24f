/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a word in memory that processes share: not the _PRIVATE kind of futex. */
#ifndef UTIL_FUTEX_H
#define UTIL_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/** Sleep while @p word is @p value, for @p limit_ms at most; may return early. */
static inline void
futex_wait (_Atomic uint32_t *word, uint32_t value, int64_t limit_ms)
{
    struct timespec limit = { .tv_sec = (time_t) (limit_ms / 1000), .tv_nsec = (long) (limit_ms % 1000) * 1000000 };
    syscall (SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

/** Wake all that sleep on @p word. */
static inline void
futex_wake (_Atomic uint32_t *word)
{
    syscall (SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
