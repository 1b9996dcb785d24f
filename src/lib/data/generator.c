/* SPDX-License-Identifier: Apache-2.0 */
/* torch's CPU generator, bit for bit: MT19937 (M. Matsumoto, T. Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998)
 * seeded with the low 32 bits of the seed, the permutation, integers and single floats that torch draws from it, and
 * its state as torch writes it down. */
#include <config.h>

#include "lib/data/generator.h"

#include "lib/base/error.h"

#include <stdlib.h>
#include <string.h>

enum { MT_WORDS = GENERATOR_WORDS, MT_MIDDLE = 397 };

/* GCC vectorises from -O3 on. */
#if defined __GNUC__ && !defined __clang__
#define VECTORISED __attribute__ ((optimize ("O3")))
#else
#define VECTORISED
#endif

/* torch.randperm() draws 32 bits per element below this size and 64 from it on. */
#define PERMUTATION_64_BIT (UINT32_MAX / 20)

/* And torch.randint() from this many integers on. */
#define RANDINT_64_BIT (UINT64_C (1) << 28)

void
generator_init (struct accel_generator *generator, uint64_t seed)
{
    generator->seed = seed;
    generator->kernels = ACCEL_RANDOM_AVX2;
    generator->has_normal = generator->has_float_normal = false;
    generator->normal = generator->float_normal = 0;
    generator->words[0] = (uint32_t) seed;
    for (uint32_t i = 1; i < MT_WORDS; i++) {
        uint32_t last = generator->words[i - 1];
        generator->words[i] = UINT32_C (1812433253) * (last ^ last >> 30) + i;
    }
    generator->left = 1;
    generator->next = 0;
}

enum accel_status
accel_generator_create (struct accel_generator **generator, uint64_t seed, struct accel_error *err)
{
    if (!generator)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: generator is NULL", __func__);
    *generator = malloc (sizeof **generator);
    if (!*generator)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a generator");
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
    if (!generator)
        return;
    enum accel_random_kernels kernels = generator->kernels;
    generator_init (generator, seed);
    generator->kernels = kernels;
}

static inline uint32_t
twist (uint32_t upper, uint32_t lower)
{
    uint32_t mixed = (upper & UINT32_C (0x80000000)) | (lower & UINT32_C (0x7fffffff));
    return mixed >> 1 ^ (UINT32_C (0x9908b0df) & -(lower & 1));
}

/* Two loops and the last word, so that the compiler sees that neither reads what its next few steps write. */
VECTORISED void
generator_refill (struct accel_generator *generator)
{
    enum { FIRST = MT_WORDS - MT_MIDDLE };
    uint32_t *words = generator->words;
    for (int i = 0; i < FIRST; i++)
        words[i] = words[i + MT_MIDDLE] ^ twist (words[i], words[i + 1]);
    for (int i = FIRST; i < MT_WORDS - 1; i++)
        words[i] = words[i - FIRST] ^ twist (words[i], words[i + 1]);
    words[MT_WORDS - 1] = words[MT_MIDDLE - 1] ^ twist (words[MT_WORDS - 1], words[0]);
    generator->left = MT_WORDS;
    generator->next = 0;
}

uint32_t
accel_generator_next (struct accel_generator *generator)
{
    return generator ? generator_next_32 (generator) : 0;
}

float
accel_generator_uniform (struct accel_generator *generator)
{
    return generator ? generator_uniform_float (generator) : 0;
}

uint64_t
accel_generator_initial_seed (const struct accel_generator *generator)
{
    return generator ? generator->seed : 0;
}

void
accel_generator_set_kernels (struct accel_generator *generator, enum accel_random_kernels kernels)
{
    if (generator)
        generator->kernels = kernels;
}

int64_t
accel_generator_randint (struct accel_generator *generator, int64_t low, int64_t high)
{
    if (high <= low || !generator)
        return low;
    uint64_t range = (uint64_t) high - (uint64_t) low;
    uint64_t drawn = range < RANDINT_64_BIT ? generator_next_32 (generator) % range
                                            : generator_next_64 (generator) % range;
    return (int64_t) ((uint64_t) low + drawn);
}

/* Random words made ready many at once, which takes half the time of one by one.  Never more than will be drawn, so
 * that the generator ends up right after the last one. */
struct word_source {
    struct accel_generator *generator;
    size_t wanted; /* words still to be made ready */
    uint32_t words[MT_WORDS];
    int next, end;
};

VECTORISED static void
make_words (struct word_source *source)
{
    struct accel_generator *generator = source->generator;
    if (generator->left == 1) {
        generator_refill (generator);
        generator->left++; /* which counts one as drawn by the caller */
    }
    const uint32_t *words = generator->words + generator->next;
    int count = generator->left - 1;
    if ((size_t) count > source->wanted)
        count = (int) source->wanted;
    for (int i = 0; i < count; i++) {
        uint32_t word = words[i];
        word ^= word >> 11;
        word ^= word << 7 & UINT32_C (0x9d2c5680);
        word ^= word << 15 & UINT32_C (0xefc60000);
        source->words[i] = word ^ word >> 18;
    }
    generator->next += count;
    generator->left -= count;
    source->wanted -= (size_t) count;
    source->next = 0;
    source->end = count;
}

static inline uint32_t
draw_32 (struct word_source *source)
{
    if (source->next == source->end)
        make_words (source);
    return source->words[source->next++];
}

static inline uint64_t
draw_64 (struct word_source *source)
{
    uint64_t high = draw_32 (source);
    return high << 32 | draw_32 (source);
}

/* Both forms draw this many positions ahead of the one that they use and have the cache fetch them: a permutation
 * larger than the caches would wait for memory at each element otherwise. */
enum { AHEAD = 64 };

static void
permute_32_bit (struct accel_generator *generator, int64_t *permutation, uint32_t count)
{
    size_t others[AHEAD], last = count ? count - 1 : 0;
    struct word_source source = { .generator = generator, .wanted = last };
    for (uint32_t i = 0; i < count; i++)
        permutation[i] = i;
    for (size_t drawn = 0; drawn < last + AHEAD; drawn++) {
        size_t *other = &others[drawn % AHEAD];
        if (drawn >= AHEAD) {
            int64_t kept = permutation[drawn - AHEAD];
            permutation[drawn - AHEAD] = permutation[*other];
            permutation[*other] = kept;
        }
        if (drawn < last) {
            *other = drawn + draw_32 (&source) % (uint32_t) (count - drawn);
            __builtin_prefetch (permutation + *other, 1);
        }
    }
}

static void
permute_64_bit (struct accel_generator *generator, int64_t *permutation, size_t count)
{
    size_t others[AHEAD];
    struct word_source source = { .generator = generator, .wanted = 2 * count };
    for (size_t drawn = 0; drawn < count + AHEAD; drawn++) {
        size_t *other = &others[drawn % AHEAD];
        if (drawn >= AHEAD) {
            permutation[drawn - AHEAD] = permutation[*other];
            permutation[*other] = (int64_t) (drawn - AHEAD);
        }
        if (drawn < count) {
            *other = draw_64 (&source) % (drawn + 1);
            __builtin_prefetch (permutation + *other, 1);
        }
    }
}

void
accel_generator_permutation (struct accel_generator *generator, int64_t *permutation, size_t count)
{
    if (!generator || !permutation)
        return;
    if (count < PERMUTATION_64_BIT)
        permute_32_bit (generator, permutation, (uint32_t) count);
    else
        permute_64_bit (generator, permutation, count);
}

/* Where things are in the state: at::CPUGeneratorImplState of ATen/CPUGeneratorImpl.cpp, little endian as the
 * processors that torch runs on.  normal_x and normal_rho are of older days; torch writes zeros. */
enum {
    AT_SEED = 0,
    AT_LEFT = 8,
    AT_SEEDED = 12,
    AT_NEXT = 16,
    AT_WORDS = 24, /* each in 8 bytes */
    AT_NORMAL_Y = AT_WORDS + 8 * MT_WORDS + 8,
    AT_HAS_NORMAL = AT_NORMAL_Y + 16,
    AT_FLOAT_NORMAL = AT_HAS_NORMAL + 8,
    AT_HAS_FLOAT_NORMAL = AT_FLOAT_NORMAL + 4,
    STATE_END = AT_HAS_FLOAT_NORMAL + 4,
};
_Static_assert (STATE_END == ACCEL_GENERATOR_STATE_BYTES, "the size of torch's state");

static void
put (uint8_t *state, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        state[i] = (uint8_t) (value >> 8 * i);
}

static uint64_t
take (const uint8_t *state, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | state[i];
    return value;
}

void
accel_generator_get_state (const struct accel_generator *generator, uint8_t state[ACCEL_GENERATOR_STATE_BYTES])
{
    if (!state)
        return;
    memset (state, 0, ACCEL_GENERATOR_STATE_BYTES);
    if (!generator)
        return;
    put (state + AT_SEED, generator->seed, 8);
    put (state + AT_LEFT, (uint32_t) generator->left, 4);
    put (state + AT_SEEDED, 1, 4);
    put (state + AT_NEXT, (uint32_t) generator->next, 8);
    for (int i = 0; i < MT_WORDS; i++)
        put (state + AT_WORDS + 8 * i, generator->words[i], 8);
    if (generator->has_normal) {
        uint64_t bits;
        memcpy (&bits, &generator->normal, sizeof bits);
        put (state + AT_NORMAL_Y, bits, 8);
        put (state + AT_HAS_NORMAL, 1, 4);
    }
    if (generator->has_float_normal) {
        uint32_t bits;
        memcpy (&bits, &generator->float_normal, sizeof bits);
        put (state + AT_FLOAT_NORMAL, bits, 4);
        put (state + AT_HAS_FLOAT_NORMAL, 1, 1);
    }
}

/* What torch checks, and what would let it read outside of the words or loop for ever. */
static enum accel_status
check_state (const uint8_t *state, size_t size_bytes, struct accel_error *err)
{
    if (!state || size_bytes != ACCEL_GENERATOR_STATE_BYTES)
        return accel_fail (err, ACCEL_ERR_FORMAT, "a generator state has %d bytes, not %zu",
                           ACCEL_GENERATOR_STATE_BYTES, state ? size_bytes : 0);
    uint64_t left = take (state + AT_LEFT, 4), next = take (state + AT_NEXT, 8), any = 0, high = 0;
    if (take (state + AT_SEEDED, 4) != 1)
        return accel_fail (err, ACCEL_ERR_FORMAT, "malformed generator state: it was never seeded");
    if (!(left == 1 && next == 0) && (left < 1 || left > MT_WORDS || next != MT_WORDS + 1 - left))
        return accel_fail (err, ACCEL_ERR_FORMAT, "malformed generator state: %llu words left, but word %llu is next",
                           (unsigned long long) left, (unsigned long long) next);
    for (int i = 0; i < MT_WORDS; i++) {
        uint64_t word = take (state + AT_WORDS + 8 * i, 8);
        any |= word;
        high |= word >> 32;
    }
    if (high || !any)
        return accel_fail (err, ACCEL_ERR_FORMAT, "malformed generator state: %s",
                           high ? "a word has more than 32 bits" : "all words are zero");
    if (take (state + AT_HAS_NORMAL, 4) > 1 || take (state + AT_HAS_FLOAT_NORMAL, 1) > 1)
        return accel_fail (err, ACCEL_ERR_FORMAT,
                           "malformed generator state: the flag of the cached normal number is not 0 or 1");
    return ACCEL_OK;
}

enum accel_status
accel_generator_set_state (struct accel_generator *generator, const uint8_t *state, size_t size_bytes,
                           struct accel_error *err)
{
    if (!generator)
        return accel_fail_null (err, __func__, "generator");
    enum accel_status status = check_state (state, size_bytes, err);
    if (status)
        return status;
    generator->seed = take (state + AT_SEED, 8);
    generator->left = (int) take (state + AT_LEFT, 4);
    generator->next = (int) take (state + AT_NEXT, 8);
    for (int i = 0; i < MT_WORDS; i++)
        generator->words[i] = (uint32_t) take (state + AT_WORDS + 8 * i, 8);
    uint64_t normal = take (state + AT_NORMAL_Y, 8);
    uint32_t float_normal = (uint32_t) take (state + AT_FLOAT_NORMAL, 4);
    generator->has_normal = take (state + AT_HAS_NORMAL, 4);
    generator->has_float_normal = take (state + AT_HAS_FLOAT_NORMAL, 1);
    memcpy (&generator->normal, &normal, sizeof normal);
    memcpy (&generator->float_normal, &float_normal, sizeof float_normal);
    return ACCEL_OK;
}
