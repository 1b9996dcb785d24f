/* SPDX-License-Identifier: Apache-2.0 */
/* The generator against torch's: raw draws, uniforms, permutations, and what is drawn after them. */
#include <config.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"

#include <accel/random.h>

static struct accel_generator *generator;

static void
test_raw (struct golden *golden)
{
    uint64_t seed = golden_number (golden), total = 0;
    bool good = true;
    accel_generator_seed (generator, seed);
    for (int i = 0; i < 3000; i++) {
        uint32_t drawn = accel_generator_next (generator);
        good = good && (i >= 8 || drawn == golden_number (golden));
        total = golden_checksum (total, drawn);
    }
    ok (good && total == golden_number (golden), "3000 32-bit draws, seed %llu", (unsigned long long) seed);
}

static void
test_uniform (struct golden *golden)
{
    uint64_t seed = golden_number (golden), total = 0;
    bool good = true;
    accel_generator_seed (generator, seed);
    for (int i = 0; i < 2000; i++) {
        float drawn = accel_generator_uniform (generator);
        uint32_t bits;
        memcpy (&bits, &drawn, sizeof bits);
        good = good && drawn >= 0 && drawn < 1 && (i >= 8 || bits == golden_bits (golden));
        total = golden_checksum (total, bits);
    }
    ok (good && total == golden_number (golden), "2000 uniforms, seed %llu", (unsigned long long) seed);
}

static void
test_permutation (struct golden *golden)
{
    uint64_t seed = golden_number (golden), total = 0;
    size_t count = golden_number (golden);
    int64_t *permutation = malloc ((count + 1) * sizeof *permutation);
    if (!permutation)
        exit (99);
    permutation[count] = -7;
    accel_generator_seed (generator, seed);
    accel_generator_permutation (generator, permutation, count);
    for (size_t i = 0; i < count; i++)
        total = golden_checksum (total, (uint64_t) permutation[i]);
    bool same = total == golden_number (golden), next = accel_generator_next (generator) == golden_number (golden);
    ok (same && next && permutation[count] == -7, "permutation of %zu, seed %llu", count, (unsigned long long) seed);
    free (permutation);
}

/* Of a saved state, the words that are left (at byte 8) and the next one (at byte 16) belong together. */
static void
test_words_left (void)
{
    enum { WORDS = 624 };
    static const struct {
        int left, next;
        bool good;
    } rows[] = { { WORDS, 1, true }, { 1, WORDS, true }, { 1, 0, true }, { WORDS, 2, false }, { WORDS + 1, 0, false } };
    uint8_t state[ACCEL_GENERATOR_STATE_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct accel_error err = { 0 };
        accel_generator_get_state (generator, state);
        for (int byte = 0; byte < 4; byte++) {
            state[8 + byte] = (uint8_t) (rows[i].left >> 8 * byte);
            state[16 + byte] = (uint8_t) (rows[i].next >> 8 * byte);
        }
        enum accel_status status = accel_generator_set_state (generator, state, sizeof state, &err);
        ok (rows[i].good ? !status : status == ACCEL_ERR_FORMAT, "%d words left, word %d is next: %s", rows[i].left,
            rows[i].next, status ? err.text : "good");
    }
}

int
main (void)
{
    struct accel_error err;
    struct golden golden;
    if (!ok (!accel_generator_create (&generator, 0, &err), "create") || !generator)
        return 99;
    golden_find (&golden, "generator.txt");
    while (golden_next (&golden)) {
        const char *what = golden_word (&golden);
        if (!strcmp (what, "raw"))
            test_raw (&golden);
        else if (!strcmp (what, "uniform"))
            test_uniform (&golden);
        else
            test_permutation (&golden);
    }
    struct accel_generator *other = NULL;
    ok (!accel_generator_create (&other, UINT64_C (1) << 32, NULL), "create without an error");
    accel_generator_seed (generator, 0);
    ok (other && accel_generator_next (other) == accel_generator_next (generator), "the seed's low 32 bits count");
    test_words_left ();
    accel_generator_destroy (other);
    accel_generator_destroy (generator);
    accel_generator_destroy (NULL);
    return done_testing ();
}
