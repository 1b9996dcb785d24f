/* SPDX-License-Identifier: Apache-2.0 */
/* Permutations, distributions, weighted samples and states against torch's: tests/golden/random.txt, which
 * make_random_goldens.py describes.  With the argument "large" the permutations of random_large.txt, in 1.7 GB. */
#include <config.h>

#include "lib/data/normal.h"
#include "lib/data/generator.h"
#include "tests/golden/golden.h"
#include "tests/golden/picks.h"
#include "tests/tap.h"

#include <accel/sampler.h>

#include <float.h>
#include <math.h>

enum { EDGES = 8 };

static struct accel_generator *generator;
static bool libm_as_torch = true; /* otherwise what depends on it is drawn but not compared */

/* A line of the file: the cases picked from its key, and the sums of what they give.  @show prints each case, as
 * make_random_goldens.py does with "show". */
struct block {
    struct picks picks;
    uint64_t key, sum, libm_sum;
    bool show;
};

static void *
room (size_t count, size_t size)
{
    void *space = malloc ((count + 1) * size);
    if (!space)
        exit (99);
    return space;
}

static uint64_t
sum_of (uint64_t total, const void *values, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        memcpy (&value, (const char *) values + i * size, size);
        total = golden_checksum (total, value);
    }
    return total;
}

static void
add (struct block *block, bool needs_libm, uint64_t total, const char *what)
{
    uint64_t *sum = needs_libm ? &block->libm_sum : &block->sum;
    *sum = golden_checksum (*sum, total);
    if (block->show)
        printf ("# %s %llx\n", what, (unsigned long long) total);
}

/* The memory after what a program asked for has to be as it was. */
static uint64_t
drawn_sum (int64_t *values, size_t count, size_t stride)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i += stride)
        total = golden_checksum (total, (uint64_t) values[i]);
    total = golden_checksum (total, generator_next_64 (generator));
    return values[count] == -7 ? total : 0;
}

static uint64_t
seed_of (struct picks *picks)
{
    size_t kind = pick (picks, 4);
    return kind < 2 ? pick (picks, 100) : kind == 2 ? pick (picks, 65536) : pick_64 (picks);
}

static uint64_t
permutation (uint64_t seed, size_t count, size_t stride)
{
    int64_t *values = room (count, sizeof *values);
    values[count] = -7;
    accel_generator_seed (generator, seed);
    accel_generator_permutation (generator, values, count);
    uint64_t total = drawn_sum (values, count, stride);
    free (values);
    return total;
}

static void
add_permutation (struct block *block, size_t number)
{
    static const size_t most[] = { 50, 1000, 5001 };
    char what[64];
    uint64_t seed = seed_of (&block->picks);
    size_t count = most[pick (&block->picks, 3)];
    count = block->key < 3 ? block->key * 100 + number : pick (&block->picks, count);
    snprintf (what, sizeof what, "perm %llu %zu 1", (unsigned long long) seed, count);
    add (block, false, permutation (seed, count, 1), what);
}

static double *
weights_of (size_t recipe, uint64_t seed, size_t count)
{
    double *weights = room (count, sizeof *weights);
    accel_generator_seed (generator, seed ^ 1);
    if (accel_generator_fill_uniform (generator, weights, count, ACCEL_FLOAT64, 0, 1, NULL))
        exit (99);
    for (size_t i = 0; i < count; i++) {
        double square = weights[i] * weights[i], fourth = square * square;
        if (recipe == 1 && i && weights[i] < 0.3)
            weights[i] = 0;
        else if (recipe == 2)
            weights[i] = 1;
        else if (recipe == 3)
            weights[i] = fourth * fourth;
    }
    return weights;
}

static size_t
pick_samples (struct picks *picks, const double *weights, size_t count, bool replacement)
{
    size_t positive = 0;
    for (size_t i = 0; i < count; i++)
        positive += weights[i] > 0;
    switch (pick (picks, 4)) {
    case 1: return 1 + pick (picks, positive);
    case 2: return positive;
    case 3: return replacement ? 1 + pick (picks, 2999) : 1;
    default: return 1;
    }
}

static void
add_multinomial (struct block *block, size_t number)
{
    char what[80];
    struct picks *picks = &block->picks;
    size_t seed = pick (picks, 65536), recipe = pick (picks, 4);
    bool replacement = pick (picks, 2);
    size_t most = pick (picks, 2) ? 3000 : 10, count = 1 + pick (picks, most);
    double *weights = weights_of (recipe, seed, count);
    size_t samples = pick_samples (picks, weights, count, replacement);
    int64_t *values = room (samples, sizeof *values);
    (void) number;
    values[samples] = -7;
    accel_generator_seed (generator, seed);
    bool fails = generator_multinomial (generator, weights, count, samples, replacement, values, NULL);
    snprintf (what, sizeof what, "multi %zu %zu %zu %d %zu", seed, count, samples, replacement, recipe);
    add (block, false, fails ? 0 : drawn_sum (values, samples, 1), what);
    free (values);
    free (weights);
}

/* A draw, and the numbers that it is made with: bounds, or mean and deviation. */
struct step {
    const char *kind;
    size_t count;
    int64_t low, high;
    double a, b;
};

static void
pick_integer_bounds (struct picks *picks, struct step *step)
{
    static const int64_t edges[EDGES] = { (1 << 28) - 1, 1 << 28, (1 << 28) + 1, INT64_C (1) << 31, UINT32_MAX,
                                          INT64_C (1) << 32, (INT64_C (1) << 32) + 1, INT64_C (1) << 62 };
    size_t kind = pick (picks, 4), width;
    switch (kind) {
    case 0: step->high = 1 + (int64_t) pick (picks, 99); break;
    case 1: step->high = edges[pick (picks, EDGES)]; break;
    case 2:
        step->low = (int64_t) (pick_64 (picks) >> 1) - (INT64_C (1) << 62);
        width = pick (picks, EDGES + 2);
        step->high = step->low + (width == EDGES ? 1 : width > EDGES ? 10 : edges[width]);
        break;
    default:
        step->low = INT64_MIN;
        step->high = (int64_t[]){ INT64_MIN + 7, 0, INT64_MAX }[pick (picks, 3)];
    }
}

static void
pick_float_bounds (struct picks *picks, struct step *step)
{
    static const double pairs[][2] = { { 0, 0.02 }, { 1e-3, 1e3 }, { 5, 0 }, { -1e30, 1e29 } };
    size_t kind = pick (picks, 4);
    step->b = 1;
    if (kind < 2)
        return;
    step->a = (pick_real (picks) - 0.5) * 12;
    step->b = pick_real (picks) * 20;
    if (kind == 3) {
        const double *pair = pairs[pick (picks, 4)];
        step->a = pair[0];
        step->b = pair[1];
    }
    if (*step->kind == 'u')
        step->b += step->a;
}

static struct step
pick_step (struct picks *picks)
{
    static const char *const kinds[] = { "i64", "r64", "u32", "u64", "n32", "n32", "n64", "n64" };
    struct step step = { .kind = kinds[pick (picks, 8)] };
    size_t size = pick (picks, 4);
    step.count = size == 2 ? 16 + pick (picks, 54) : pick (picks, size == 3 ? 2000 : 16);
    if (*step.kind == 'i')
        pick_integer_bounds (picks, &step);
    else if (*step.kind != 'r')
        pick_float_bounds (picks, &step);
    return step;
}

static uint64_t
draw (const struct step *step)
{
    static union {
        int64_t integers[2000];
        float floats[2000];
        double doubles[2000];
    } values;
    enum accel_status status = ACCEL_OK;
    if (!strcmp (step->kind, "i64"))
        for (size_t i = 0; i < step->count; i++)
            values.integers[i] = accel_generator_randint (generator, step->low, step->high);
    else if (!strcmp (step->kind, "r64"))
        for (size_t i = 0; i < step->count; i++)
            values.integers[i] = generator_random (generator);
    else if (!strcmp (step->kind, "u32"))
        status = accel_generator_fill_uniform (generator, &values, step->count, ACCEL_FLOAT32, step->a, step->b, NULL);
    else if (!strcmp (step->kind, "u64"))
        status = accel_generator_fill_uniform (generator, &values, step->count, ACCEL_FLOAT64, step->a, step->b, NULL);
    else if (!strcmp (step->kind, "n32"))
        status = accel_generator_fill_normal (generator, &values, step->count, ACCEL_FLOAT32, step->a, step->b, NULL);
    else
        status = accel_generator_fill_normal (generator, &values, step->count, ACCEL_FLOAT64, step->a, step->b, NULL);
    return status ? 0 : sum_of (0, &values, step->count, step->kind[1] == '3' ? sizeof (float) : sizeof (double));
}

/* Whether log(), sin() and cos() of the C library go into what the step draws. */
static bool
needs_libm (const struct step *step)
{
    return !strcmp (step->kind, "n64")
           || (!strcmp (step->kind, "n32") && (step->count < 16 || generator->kernels == ACCEL_RANDOM_PORTABLE));
}

/* This many draws, then the state, which keeps a normal. */
static void
add_steps (struct block *block, size_t count)
{
    uint8_t state[ACCEL_GENERATOR_STATE_BYTES];
    for (size_t i = 0; i < count; i++) {
        char what[120];
        struct step step = pick_step (&block->picks);
        if (*step.kind == 'i')
            snprintf (what, sizeof what, "i64 %zu %lld %lld", step.count, (long long) step.low, (long long) step.high);
        else
            snprintf (what, sizeof what, "%s %zu %.17g %.17g", step.kind, step.count, step.a, step.b);
        add (block, needs_libm (&step), draw (&step), what);
    }
    accel_generator_get_state (generator, state);
    add (block, true, sum_of (0, state, sizeof state, 1), "s");
}

static void
add_draws (struct block *block, size_t number)
{
    (void) number;
    uint64_t seed = seed_of (&block->picks);
    if (block->show)
        printf ("# seed %llx\n", (unsigned long long) seed);
    accel_generator_seed (generator, seed);
    add_steps (block, 1 + pick (&block->picks, 5));
}

static bool
probe_libm (struct golden *golden)
{
    uint64_t total = 0;
    accel_generator_seed (generator, 0);
    for (int i = 0; i < 20000; i++) {
        double uniform = generator_uniform_double (generator), angle = 6.283185307179586 * uniform;
        double results[] = { log (1 - uniform), log1p (-uniform), sin (angle), cos (angle) };
        float singles[] = { logf ((float) (1 - uniform)), sinf ((float) angle), cosf ((float) angle) };
        total = sum_of (total, results, 4, sizeof *results);
        total = sum_of (total, singles, 3, sizeof *singles);
    }
    libm_as_torch = golden_bits_64 (golden) == total;
    if (!libm_as_torch)
        skip ("this C library's log, sin and cos round differently on this processor: what needs them is not compared");
    return true;
}

static bool
same_sums (struct golden *golden, const struct block *block)
{
    bool same = golden_bits_64 (golden) == block->sum;
    return (!libm_as_torch || golden_bits_64 (golden) == block->libm_sum) && same;
}

static bool
same_permutation (struct golden *golden)
{
    uint64_t seed = golden_number (golden);
    size_t count = golden_number (golden), stride = golden_number (golden);
    return permutation (seed, count, stride) == golden_bits_64 (golden);
}

/* The cases of a block; once more where they differ, to show each. */
static bool
same_cases (struct golden *golden, void (*add_case) (struct block *block, size_t number))
{
    uint64_t key = golden_number (golden);
    size_t cases = golden_number (golden);
    struct block block = { .key = key, .picks = picks_from (key) };
    for (size_t i = 0; i < cases; i++)
        add_case (&block, i);
    if (same_sums (golden, &block))
        return true;
    block = (struct block){ .key = key, .picks = picks_from (key), .show = true };
    for (size_t i = 0; i < cases; i++)
        add_case (&block, i);
    return false;
}

static bool
same_draws (struct golden *golden)
{
    bool portable = !strcmp (golden_word (golden), "default");
    accel_generator_set_kernels (generator, portable ? ACCEL_RANDOM_PORTABLE : ACCEL_RANDOM_AVX2);
    bool same = same_cases (golden, add_draws);
    accel_generator_set_kernels (generator, ACCEL_RANDOM_AVX2);
    return same;
}

static bool
same_from_state (struct golden *golden)
{
    uint8_t state[ACCEL_GENERATOR_STATE_BYTES], again[ACCEL_GENERATOR_STATE_BYTES];
    const char *hex = golden_word (golden);
    if (strlen (hex) != 2 * sizeof state)
        return false;
    for (size_t i = 0; i < sizeof state; i++) {
        char digits[3] = { hex[2 * i], hex[2 * i + 1], '\0' };
        state[i] = (uint8_t) strtoul (digits, NULL, 16);
    }
    accel_generator_seed (generator, 99);
    if (accel_generator_set_state (generator, state, sizeof state, NULL))
        return false;
    accel_generator_get_state (generator, again);
    bool same = !memcmp (state, again, sizeof state);
    uint64_t key = golden_number (golden);
    struct picks seed = picks_from (key);
    same = pick_64 (&seed) == accel_generator_initial_seed (generator) && same;
    struct block block = { .key = key, .picks = picks_from (key) };
    add_steps (&block, 3);
    return same_sums (golden, &block) && same;
}

static bool
same_line (struct golden *golden)
{
    const char *kind = golden_word (golden);
    return !strcmp (kind, "libm")     ? probe_libm (golden)
           : !strcmp (kind, "perm")   ? same_permutation (golden)
           : !strcmp (kind, "perms")  ? same_cases (golden, add_permutation)
           : !strcmp (kind, "multis") ? same_cases (golden, add_multinomial)
           : !strcmp (kind, "draws")  ? same_draws (golden)
           : !strcmp (kind, "state")  ? same_from_state (golden)
                                      : false;
}

static void
compare_file (const char *name)
{
    struct golden golden;
    golden_find (&golden, name);
    while (golden_next (&golden)) {
        char line[60];
        snprintf (line, sizeof line, "%s", golden.line);
        ok (same_line (&golden), "as torch's: %s", line);
    }
}

static void
test_states (void)
{
    static const struct {
        const char *name;
        size_t size, at;
        int value;
    } cases[] = {
        { "empty", 0, 0, 0 },
        { "a byte too short", ACCEL_GENERATOR_STATE_BYTES - 1, 0, 0 },
        { "a byte too long", ACCEL_GENERATOR_STATE_BYTES + 1, 0, 0 },
        { "never seeded", ACCEL_GENERATOR_STATE_BYTES, 12, 0 },
        { "0 words left", ACCEL_GENERATOR_STATE_BYTES, 8, 0 },
        { "more words left than there are", ACCEL_GENERATOR_STATE_BYTES, 9, 0x7f },
        { "negative words left", ACCEL_GENERATOR_STATE_BYTES, 11, 0x80 },
        { "next does not fit left", ACCEL_GENERATOR_STATE_BYTES, 16, 77 },
        { "next far outside", ACCEL_GENERATOR_STATE_BYTES, 23, 1 },
        { "a 33-bit word", ACCEL_GENERATOR_STATE_BYTES, 28, 1 },
        { "a strange mark", ACCEL_GENERATOR_STATE_BYTES, 5040, 2 },
        { "another", ACCEL_GENERATOR_STATE_BYTES, 5052, 2 },
    };
    uint8_t state[ACCEL_GENERATOR_STATE_BYTES + 1] = { 0 }, before[ACCEL_GENERATOR_STATE_BYTES];
    struct accel_error err;
    accel_generator_seed (generator, 3);
    accel_generator_next (generator);
    accel_generator_get_state (generator, before);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t after[ACCEL_GENERATOR_STATE_BYTES];
        memcpy (state, before, sizeof before);
        state[cases[i].at] = cases[i].size == sizeof before ? (uint8_t) cases[i].value : state[cases[i].at];
        enum accel_status status = accel_generator_set_state (generator, state, cases[i].size, &err);
        accel_generator_get_state (generator, after);
        ok (status == ACCEL_ERR_FORMAT && err.code == status && *err.text && !memcmp (before, after, sizeof after),
            "state refused, nothing changed: %s", cases[i].name);
    }
    memcpy (state, before, sizeof before);
    memset (state + 24, 0, 624 * 8);
    ok (accel_generator_set_state (generator, state, sizeof before, NULL) == ACCEL_ERR_FORMAT, "no word but zeros");
    ok (accel_generator_set_state (generator, NULL, sizeof before, NULL) == ACCEL_ERR_FORMAT, "no state");
    memcpy (state, before, sizeof before);
    float kept = 1.5F;
    memcpy (state + 5048, &kept, sizeof kept);
    state[5052] = 1;
    uint8_t after[ACCEL_GENERATOR_STATE_BYTES];
    ok (!accel_generator_set_state (generator, state, sizeof before, NULL), "a state with a kept float");
    accel_generator_get_state (generator, after);
    ok (!memcmp (state, after, sizeof after), "which is kept");
    accel_generator_seed (generator, 3);
    accel_generator_next (generator);
    accel_generator_get_state (generator, after);
    ok (!memcmp (before, after, sizeof after), "until the next seed");
}

static void
test_bad_bounds (void)
{
    static const struct {
        double a, b;
        bool uniform_f32, uniform_f64, normal; /* can be drawn */
    } cases[] = {
        { 0, 1, true, true, true },
        { 1, 1, true, true, true },
        { 2, 1, false, false, true },
        { 0, -1, false, false, false },
        { 0, NAN, false, false, false },
        { NAN, 1, false, false, true },
        { 0, INFINITY, false, false, true },
        { 0, 1e39, false, true, true },
        { -3e38, 3e38, false, true, true },
        { -DBL_MAX, DBL_MAX, false, false, true },
    };
    double drawn[3];
    struct accel_error err;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double a = cases[c].a, b = cases[c].b;
        bool f32 = !accel_generator_fill_uniform (generator, drawn, 3, ACCEL_FLOAT32, a, b, &err),
             f64 = !accel_generator_fill_uniform (generator, drawn, 3, ACCEL_FLOAT64, a, b, &err),
             n32 = !accel_generator_fill_normal (generator, drawn, 3, ACCEL_FLOAT32, a, b, &err),
             n64 = !accel_generator_fill_normal (generator, drawn, 3, ACCEL_FLOAT64, a, b, &err);
        ok (f32 == cases[c].uniform_f32 && f64 == cases[c].uniform_f64 && n32 == cases[c].normal
                && n64 == cases[c].normal,
            "bounds %g, %g", a, b);
    }
    ok (accel_generator_fill_uniform (generator, drawn, 3, ACCEL_BFLOAT16, 0, 1, &err) == ACCEL_ERR_UNSUPPORTED
            && accel_generator_fill_normal (generator, drawn, 3, ACCEL_INT64, 0, 1, &err) == ACCEL_ERR_UNSUPPORTED
            && strstr (err.text, "int64"),
        "other types are refused: %s", err.text);
    accel_generator_seed (generator, 1);
    float rounded[64];
    bool below = !accel_generator_fill_uniform (generator, rounded, 64, ACCEL_FLOAT32, 0x1p24, 0x1p24 + 2, &err);
    for (size_t at = 0; at < 64; at++)
        below = below && rounded[at] == 0x1p24F;
    ok (below, "the end of the range, to which some are rounded up, is not drawn");
    ok (accel_generator_randint (generator, 5, 4) == 5 && accel_generator_randint (generator, 5, 5) == 5
            && accel_generator_randint (generator, INT64_MIN, INT64_MIN + 1) == INT64_MIN,
        "a single one is the lower bound then");
}

/* Of samplers: what is found out when they are made, and not when they draw. */
static void
test_bad_samplers (void)
{
    static const double bad[][2] = { { 2, -1 }, { NAN, 1 }, { 1, INFINITY }, { 0, 0 }, { DBL_MAX, DBL_MAX } },
                        one_zero[] = { 1, 0, 1 };
    static const int64_t indices[] = { 0 };
    static const struct {
        enum accel_sampler_kind kind;
        size_t size;
        struct accel_sampler_options options;
        const char *text;
    } cases[] = {
        { ACCEL_SAMPLER_WEIGHTED, 2, { .weights = bad[0] }, "weight 1 is -1" },
        { ACCEL_SAMPLER_WEIGHTED, 2, { .weights = bad[1] }, "weight 0 is nan" },
        { ACCEL_SAMPLER_WEIGHTED, 2, { .weights = bad[2] }, "weight 1 is inf" },
        { ACCEL_SAMPLER_WEIGHTED, 2, { .weights = bad[3] }, "add up to 0" },
        { ACCEL_SAMPLER_WEIGHTED, 2, { .weights = bad[4] }, "inf" },
        { ACCEL_SAMPLER_WEIGHTED, 3, { .weights = one_zero }, "cannot draw 3 without replacement: only 2" },
        { ACCEL_SAMPLER_WEIGHTED, 3, { .replacement = true }, "a weighted sampler needs weights" },
        { ACCEL_SAMPLER_RANDOM, 0, { 0 }, "at least one sample" },
        { ACCEL_SAMPLER_SEEDABLE, 0, { .num_samples = 3 }, "at least one sample" },
        { ACCEL_SAMPLER_SUBSET, 1, { 0 }, "indices is NULL" },
        { ACCEL_SAMPLER_DISTRIBUTED, 8, { .replicas = 0 }, "a rank less than" },
        { ACCEL_SAMPLER_DISTRIBUTED, 8, { .replicas = 3, .rank = 3 }, "a rank less than" },
        { ACCEL_SAMPLER_SEQUENTIAL, 8, { .replacement = true }, "a sequential sampler has no replacement" },
        { ACCEL_SAMPLER_DISTRIBUTED, 8, { .replicas = 3, .num_samples = 2 }, "no num_samples" },
        { ACCEL_SAMPLER_RANDOM, 3, { .weights = one_zero }, "no weights" },
        { ACCEL_SAMPLER_RANDOM, 1, { .indices = indices }, "no indices" },
        { ACCEL_SAMPLER_RANDOM, 3, { .seed = 1 }, "no seed" },
        { ACCEL_SAMPLER_SEEDABLE, 3, { .shuffle = ACCEL_YES }, "no shuffle" },
        { ACCEL_SAMPLER_SEEDABLE, 3, { .replicas = 2 }, "no replicas" },
        { ACCEL_SAMPLER_SEEDABLE, 3, { .rank = 1 }, "no rank" },
        { ACCEL_SAMPLER_SEEDABLE, 3, { .drop_last = true }, "no drop_last" },
        { ACCEL_SAMPLER_KIND_COUNT, 3, { 0 }, "invalid accel_sampler_kind" },
    };
    struct accel_sampler *sampler;
    struct accel_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sampler = (void *) generator;
        ok (accel_sampler_create (&sampler, cases[i].kind, cases[i].size, &cases[i].options, &err) == ACCEL_ERR_INVALID
                && !sampler && strstr (err.text, cases[i].text),
            "a sampler is refused: %s", err.text);
    }
    struct accel_sampler_options options = { .generator = generator };
    ok (accel_sampler_create (&sampler, ACCEL_SAMPLER_SEQUENTIAL, 3, &options, &err) == ACCEL_ERR_INVALID,
        "a generator without a use: %s", err.text);
    options = (struct accel_sampler_options){ .weights = one_zero, .replacement = true };
    ok (!accel_sampler_create (&sampler, ACCEL_SAMPLER_WEIGHTED, 3, &options, &err), "with replacement");
    accel_sampler_destroy (sampler);
}

static void
test_bad_weights (void)
{
    static const struct {
        double weights[3];
        size_t count, samples;
        bool replacement;
        const char *text;
    } cases[] = {
        { { 1, 1, 1 }, 0, 1, true, "0 weights" },
        { { 1, 1, 1 }, ((size_t) 1 << 24) + 1, 1, true, "weights" },
        { { 1, 1, 1 }, 3, 0, true, "number of samples is 0" },
        { { 1, 1, 1 }, 3, 4, false, "4 without replacement" },
        { { 1, 0, 1 }, 3, 3, false, "only 2" },
        { { 1, -1, 1 }, 3, 1, true, "weight 1 is -1" },
        { { 1, 1, NAN }, 3, 1, true, "weight 2" },
        { { INFINITY, 1, 1 }, 3, 1, true, "weight 0" },
        { { DBL_MAX, DBL_MAX, 1 }, 3, 1, true, "add up to inf" },
        { { 0, 0, 0 }, 3, 1, true, "add up to 0" },
    };
    struct accel_error err;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        enum accel_status status = generator_check_weights (cases[c].weights, cases[c].count, cases[c].samples,
                                                            cases[c].replacement, &err);
        ok (status == ACCEL_ERR_INVALID && strstr (err.text, cases[c].text), "weights refused: %s", err.text);
    }
}

/* A processor without AVX2 gets the same normals. */
static void
test_plain_normals (void)
{
    float fast[16], plain[16];
    size_t differ = 0;
    accel_generator_seed (generator, 11);
    for (int i = 0; i < 200000; i++) {
        for (int j = 0; j < 16; j++)
            fast[j] = plain[j] = accel_generator_uniform (generator);
        normal_16_avx2 (fast, 0.25F, 3);
        normal_16_avx2_plain (plain, 0.25F, 3);
        differ += memcmp (fast, plain, sizeof fast) != 0;
    }
    ok (!differ, "normals without AVX2 are the same: %zu blocks differ", differ);
}

static void
test_default_generator (void)
{
    struct accel_generator *own = accel_default_generator ();
    uint64_t seed = accel_generator_initial_seed (own);
    struct accel_error err;
    ok (own == accel_default_generator () && seed == accel_generator_initial_seed (own), "one default generator");
    ok (!accel_set_seed (NULL, UINT64_C (1) << 40 | 5, false, NULL)
            && accel_generator_initial_seed (own) == (UINT64_C (1) << 40 | 5),
        "accel_set_seed() seeds it with 64 bits");
    accel_generator_seed (generator, 5);
    ok (accel_generator_next (own) == accel_generator_next (generator), "of which the low 32 count");
    ok (accel_set_seed (NULL, 1, true, &err) == ACCEL_ERR_INVALID && strstr (err.text, "acc"), "no rank: %s", err.text);
}

int
main (int argc, char **argv)
{
    if (accel_generator_create (&generator, ACCEL_GENERATOR_DEFAULT_SEED, NULL))
        return 99;
    if (argc > 1 && !strcmp (argv[1], "large"))
        compare_file ("random_large.txt");
    else {
        compare_file ("random.txt");
        test_states ();
        test_bad_bounds ();
        test_bad_weights ();
    test_bad_samplers ();
        test_plain_normals ();
        test_default_generator ();
    }
    accel_generator_destroy (generator);
    return done_testing ();
}
