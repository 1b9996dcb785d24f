/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of many cases, from one number; picks.py has the same numbers for the programs that make goldens.  So
 * a line of golden data is the checksum of a block of cases. */
#ifndef TESTS_PICKS_H
#define TESTS_PICKS_H

#include <stddef.h>
#include <stdint.h>

struct picks {
    uint64_t state;
};

static inline struct picks
picks_from (uint64_t key)
{
    return (struct picks){ (key + 1) * UINT64_C (0x9e3779b97f4a7c15) };
}

/* 31 bits of a linear congruential generator, whose multiplier and increment are Knuth's (MMIX). */
static inline uint64_t
pick_31 (struct picks *picks)
{
    picks->state = picks->state * UINT64_C (6364136223846793005) + UINT64_C (1442695040888963407);
    return picks->state >> 33;
}

static inline size_t
pick (struct picks *picks, size_t below)
{
    return (size_t) pick_31 (picks) % below;
}

static inline uint64_t
pick_64 (struct picks *picks)
{
    uint64_t high = pick_31 (picks), middle = pick_31 (picks);
    return high << 33 ^ middle << 16 ^ pick_31 (picks);
}

/* In [0, 1) */
static inline double
pick_real (struct picks *picks)
{
    return (double) pick_31 (picks) * 0x1p-31;
}

#endif
