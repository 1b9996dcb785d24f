/* SPDX-License-Identifier: Apache-2.0 */
/* torch's CPU generator, bit for bit: MT19937 (M. Matsumoto, T. Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998)
 * seeded with the low 32 bits of the seed, and the permutation and the float32 that torch draws from it. */
#include <config.h>

#include "lib/data/generator.h"

#include "lib/error.h"

#include <stdlib.h>

enum { MT_WORDS = GENERATOR_WORDS, MT_MIDDLE = 397 };

/* torch.randperm() draws 32 bits per element below this size and 64 from it on. */
#define PERMUTATION_64_BIT (UINT32_MAX / 20)

void
generator_init (struct accel_generator *generator, uint64_t seed)
{
    generator->seed = seed;
    generator->words[0] = (uint32_t) seed;
    for (uint32_t i = 1; i < MT_WORDS; i++) {
        uint32_t last = generator->words[i - 1];
        generator->words[i] = UINT32_C (1812433253) * (last ^ last >> 30) + i;
    }
    generator->next = MT_WORDS;
}

enum accel_status
accel_generator_create (struct accel_generator **generator, uint64_t seed, struct accel_error *err)
{
    if (!generator)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: generator is NULL", __func__);
    *generator = malloc (sizeof **generator);
    if (!*generator)
        return accel_fail (err, ACCEL_ERR_NOMEM, "no memory for a generator");
    generator_init (*generator, seed);
    return ACCEL_OK;
}

void
accel_generator_destroy (struct accel_generator *generator)
{
    free (generator);
}

void
accel_generator_seed (struct accel_generator *generator, uint64_t seed)
{
    generator_init (generator, seed);
}

static uint32_t
twist (uint32_t upper, uint32_t lower)
{
    uint32_t mixed = (upper & UINT32_C (0x80000000)) | (lower & UINT32_C (0x7fffffff));
    return mixed >> 1 ^ (lower & 1 ? UINT32_C (0x9908b0df) : 0);
}

static void
refill (struct accel_generator *generator)
{
    uint32_t *words = generator->words;
    for (int i = 0; i < MT_WORDS; i++) {
        int after = i + 1 < MT_WORDS ? i + 1 : 0;
        int far = i + MT_MIDDLE < MT_WORDS ? i + MT_MIDDLE : i + MT_MIDDLE - MT_WORDS;
        words[i] = words[far] ^ twist (words[i], words[after]);
    }
    generator->next = 0;
}

uint32_t
accel_generator_next (struct accel_generator *generator)
{
    if (generator->next == MT_WORDS)
        refill (generator);
    uint32_t word = generator->words[generator->next++];
    word ^= word >> 11;
    word ^= word << 7 & UINT32_C (0x9d2c5680);
    word ^= word << 15 & UINT32_C (0xefc60000);
    return word ^ word >> 18;
}

static uint64_t
next_64 (struct accel_generator *generator)
{
    uint64_t high = accel_generator_next (generator);
    return high << 32 | accel_generator_next (generator);
}

float
accel_generator_uniform (struct accel_generator *generator)
{
    return (float) (accel_generator_next (generator) & 0xffffff) * 0x1p-24f;
}

void
accel_generator_permutation (struct accel_generator *generator, int64_t *permutation, size_t count)
{
    if (count < PERMUTATION_64_BIT) {
        for (size_t i = 0; i < count; i++)
            permutation[i] = (int64_t) i;
        for (size_t i = 0; i + 1 < count; i++) {
            size_t other = i + accel_generator_next (generator) % (count - i);
            int64_t kept = permutation[i];
            permutation[i] = permutation[other];
            permutation[other] = kept;
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t other = next_64 (generator) % (i + 1);
        permutation[i] = permutation[other];
        permutation[other] = (int64_t) i;
    }
}
