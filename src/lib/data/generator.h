/* SPDX-License-Identifier: Apache-2.0 */
/* The generator's state, for owners that hold one by value, and draws for the library's own use. */
#ifndef LIB_DATA_GENERATOR_H
#define LIB_DATA_GENERATOR_H

#include "lib/state/part.h"

#include <accel/random.h>

enum { GENERATOR_WORDS = 624 };

/* `left` and `next` mean what they mean in torch's state: words[next] is the next word, unless --left is 0 and a new
 * set is due.  Always left + next == GENERATOR_WORDS + 1, but (1, 0) after seeding. */
struct accel_generator {
    uint64_t seed;
    int left;
    int next;
    uint32_t words[GENERATOR_WORDS];
    enum accel_random_kernels kernels;
    bool has_normal;       /* the second half of a pair of normals waits in `normal` */
    bool has_float_normal; /* torch's state has it; no distribution of ours or of torch's uses it */
    double normal;
    float float_normal;
};

/** The default generator as a part of each job: checkpoints save it. */
extern const struct part_kind part_random;

void generator_init (struct accel_generator *generator, uint64_t seed);

/** Make the next set of words. */
void generator_refill (struct accel_generator *generator);

/** accel_generator_next(), which a shared library would call through its table each time. */
static inline uint32_t
generator_next_32 (struct accel_generator *generator)
{
    if (--generator->left == 0)
        generator_refill (generator);
    uint32_t word = generator->words[generator->next++];
    word ^= word >> 11;
    word ^= word << 7 & UINT32_C (0x9d2c5680);
    word ^= word << 15 & UINT32_C (0xefc60000);
    return word ^ word >> 18;
}

/** @return 64 random bits: two draws, the first is the high half. */
static inline uint64_t
generator_next_64 (struct accel_generator *generator)
{
    uint64_t high = generator_next_32 (generator);
    return high << 32 | generator_next_32 (generator);
}

/** @return the next number in [0, 2^63): Tensor.random_() of an int64, with which torch draws seeds. */
static inline int64_t
generator_random (struct accel_generator *generator)
{
    return (int64_t) (generator_next_64 (generator) & INT64_MAX);
}

/** accel_generator_uniform(): 24 random bits. */
static inline float
generator_uniform_float (struct accel_generator *generator)
{
    return (float) (int32_t) (generator_next_32 (generator) & 0xffffff) * 0x1p-24F;
}

/** @return the next number in [0, 1) with 53 random bits, as torch draws a float64. */
static inline double
generator_uniform_double (struct accel_generator *generator)
{
    return (double) (int64_t) (generator_next_64 (generator) & UINT64_C (0x1fffffffffffff)) * 0x1p-53;
}

/**
 * Check what generator_multinomial() needs.
 *
 * @param weights  [count], finite, >= 0, at least one > 0; they need not add up to 1
 * @param count    1 to 2^24
 * @param samples  >= 1; without replacement at most as many as there are weights > 0
 */
enum accel_status generator_check_weights (const double *weights, size_t count, size_t samples, bool replacement,
                                           struct accel_error *err);

/**
 * torch.multinomial() of float64 weights, which were checked: draw indices in proportion to their weights.
 *
 * @param out  [samples]
 */
enum accel_status generator_multinomial (struct accel_generator *generator, const double *weights, size_t count,
                                         size_t samples, bool replacement, int64_t *out, struct accel_error *err);

#endif
