/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions with every set of kernels that this processor runs, element by element against the plainest code. */
#include <config.h>

#include "lib/kernels/kernels.h"
#include "lib/kernels/reduce.h"
#include "tests/tap.h"
#include "util/envnames.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 6000, SOURCES = 5, TARGETS = 3, SLACK = 64 };

/* 16-bit floats: bits of the significand after the point, and the exponent of the least normal number. */
struct format {
    int fraction;
    int least;
    int most;
};

static const struct format half_format = { .fraction = 10, .least = -14, .most = 15 };
static const struct format bfloat_format = { .fraction = 7, .least = -126, .most = 127 };

static double
value_of (const struct format *format, uint16_t bits)
{
    int exponent = (bits & 0x7fff) >> format->fraction, all_ones = format->most + 1 - format->least + 1;
    double fraction = bits & ((1 << format->fraction) - 1), sign = bits & 0x8000 ? -1 : 1;
    if (exponent == all_ones)
        return fraction != 0 ? (double) NAN : sign * (double) INFINITY;
    if (exponent)
        fraction += 1 << format->fraction;
    else
        exponent = 1;
    return sign * ldexp (fraction, exponent - 1 + format->least - format->fraction);
}

/* The nearest, ties to even; nearbyint() does that. */
static uint16_t
bits_of_value (const struct format *format, double value)
{
    int sign = signbit (value) ? 0x8000 : 0, all_ones = format->most + 1 - format->least + 1;
    double size = fabs (value);
    if (isnan (value))
        return (uint16_t) (all_ones << format->fraction | 1 << (format->fraction - 1));
    if (isinf (value))
        return (uint16_t) (sign | all_ones << format->fraction);
    if (size == 0)
        return (uint16_t) sign;
    int exponent = ilogb (size) < format->least ? format->least : ilogb (size);
    long units = lrint (nearbyint (ldexp (size, format->fraction - exponent)));
    /* Units of the exponent, its hidden bit adding one to it: a carry, also out of the subnormals, comes out right. */
    long bits = ((long) (exponent - format->least) << format->fraction) + units;
    long infinity = (long) all_ones << format->fraction;
    return (uint16_t) (sign | (bits > infinity ? infinity : bits));
}

static const struct format *
format_of (enum accel_dtype dtype)
{
    return dtype == ACCEL_FLOAT16 ? &half_format : dtype == ACCEL_BFLOAT16 ? &bfloat_format : NULL;
}

/* ---- the plainest code ---- */

#define REFERENCE_FLOAT(type)                                                                                        \
    static type combine_##type (enum accel_op op, type x, type y)                                                    \
    {                                                                                                                \
        switch (op) {                                                                                                \
        case ACCEL_PROD: return x * y;                                                                               \
        case ACCEL_MIN: return isnan (x) ? x : isnan (y) ? y : y < x ? y : x;                                        \
        case ACCEL_MAX: return isnan (x) ? x : isnan (y) ? y : y > x ? y : x;                                        \
        default: return x + y;                                                                                       \
        }                                                                                                            \
    }

REFERENCE_FLOAT (float)
REFERENCE_FLOAT (double)

/* Whole numbers, sign-extended; the caller keeps the low bits. */
static int64_t
combine_whole (enum accel_dtype dtype, enum accel_op op, int64_t x, int64_t y)
{
    if (dtype == ACCEL_BOOL)
        return op == ACCEL_SUM || op == ACCEL_MAX ? x || y : x && y;
    switch (op) {
    case ACCEL_PROD: return (int64_t) ((uint64_t) x * (uint64_t) y);
    case ACCEL_MIN: return x < y ? x : y;
    case ACCEL_MAX: return x > y ? x : y;
    default: return (int64_t) ((uint64_t) x + (uint64_t) y);
    }
}

static int64_t
load_whole (enum accel_dtype dtype, const void *at)
{
    switch (dtype) {
    case ACCEL_INT8: return *(const int8_t *) at;
    case ACCEL_INT32: return *(const int32_t *) at;
    case ACCEL_INT64: return *(const int64_t *) at;
    default: return *(const uint8_t *) at;
    }
}

/* One element: @values has that of each source. */
static void
reduce_reference (const struct reduction *r, const void *const *values, void *result)
{
    const struct format *format = format_of (r->dtype);
    if (r->dtype == ACCEL_FLOAT64) {
        double sum = *(const double *) values[0];
        for (int s = 1; s < r->sources; s++)
            sum = combine_double (r->op, sum, *(const double *) values[s]);
        *(double *) result = r->op == ACCEL_AVG ? sum / r->sources : sum;
    } else if (r->dtype == ACCEL_FLOAT32 || format) {
        float sum = 0;
        for (int s = 0; s < r->sources; s++) {
            float next = format ? (float) value_of (format, *(const uint16_t *) values[s]) : *(const float *) values[s];
            sum = s ? combine_float (r->op, sum, next) : next;
        }
        if (r->op == ACCEL_AVG)
            sum /= (float) r->sources;
        if (format)
            *(uint16_t *) result = bits_of_value (format, (double) sum);
        else
            *(float *) result = sum;
    } else {
        int64_t sum = load_whole (r->dtype, values[0]);
        for (int s = 1; s < r->sources; s++)
            sum = combine_whole (r->dtype, r->op, sum, load_whole (r->dtype, values[s]));
        memcpy (result, &sum, accel_dtype_bytes (r->dtype)); /* little endian, or a failing test */
    }
}

/* ---- the comparison ---- */

static bool
is_nan (enum accel_dtype dtype, const void *at)
{
    const struct format *format = format_of (dtype);
    return dtype == ACCEL_FLOAT64   ? isnan (*(const double *) at)
           : dtype == ACCEL_FLOAT32 ? isnan (*(const float *) at)
                                    : format && isnan (value_of (format, *(const uint16_t *) at));
}

/* Which of two NaNs a sum hands on is the compiler's choice; all else is compared by bits. */
static bool
is_same (enum accel_dtype dtype, const void *a, const void *b)
{
    return !memcmp (a, b, accel_dtype_bytes (dtype)) || (is_nan (dtype, a) && is_nan (dtype, b));
}

static uint32_t seed = 1;

static uint32_t
random_bits (void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

/* Any bits are a number, and floats of any bits are seldom of like size, or NaN: half of them are tame. */
static void
fill (enum accel_dtype dtype, unsigned char *memory, size_t count)
{
    size_t bytes = accel_dtype_bytes (dtype);
    for (size_t i = 0; i < count * bytes; i++)
        memory[i] = dtype == ACCEL_BOOL ? random_bits () % 3 == 0 : (unsigned char) random_bits ();
    for (size_t i = 0; i < count; i += 2) {
        double tame = (double) (int32_t) random_bits () / (1 << 28);
        float tame_float = (float) tame;
        if (dtype == ACCEL_FLOAT64)
            memcpy (memory + i * bytes, &tame, bytes);
        else if (dtype == ACCEL_FLOAT32)
            memcpy (memory + i * bytes, &tame_float, bytes);
        else if (format_of (dtype))
            memcpy (memory + i * bytes, &(uint16_t){ bits_of_value (format_of (dtype), tame) }, bytes);
    }
}

/* One way to call: how many, how aligned, in place or not. */
struct shape {
    int sources;
    int targets;
    int in_place; /* this source is the first target; -1: none */
    size_t count;
    size_t shift; /* elements by which each next buffer is off */
    bool beyond_caches, private_targets;
    int taken;    /* number of the source that is `taken`, from 1 on; 0: none */
    size_t ahead; /* bytes to copy meanwhile */
};

static const struct shape shapes[] = {
    { .sources = 1, .targets = 1, .in_place = -1, .count = 67 },
    { .sources = 2, .targets = 1, .in_place = -1, .count = 1 },
    { .sources = 2, .targets = 1, .in_place = 0, .count = 7, .shift = 1 },
    { .sources = 2, .targets = 2, .in_place = 1, .count = 63, .shift = 3 },
    { .sources = 2, .targets = 2, .in_place = -1, .count = 5003, .beyond_caches = true },
    { .sources = 2, .targets = 2, .in_place = -1, .count = 259, .shift = 1, .beyond_caches = true },
    { .sources = 3, .targets = 3, .in_place = 2, .count = 2049, .shift = 1 },
    { .sources = 4, .targets = 1, .in_place = -1, .count = 4097, .shift = 5 },
    { .sources = 2, .targets = 2, .in_place = 0, .count = 5500, .beyond_caches = true },
    { .sources = 2, .targets = 1, .in_place = 1, .count = 5003, .private_targets = true },
    { .sources = 4, .targets = 1, .in_place = -1, .count = 259, .shift = 1, .private_targets = true },
    { .sources = 5, .targets = 3, .in_place = 4, .count = 1000, .beyond_caches = true },
    { .sources = 2, .targets = 1, .in_place = 0, .count = 5000, .private_targets = true, .taken = 2, .ahead = 4999 },
    { .sources = 2, .targets = 1, .in_place = -1, .count = 4999, .shift = 3, .taken = 1, .ahead = 255 },
    { .sources = 3, .targets = 1, .in_place = 1, .count = 6000, .private_targets = true, .ahead = 6000 },
    { .sources = 1, .targets = 1, .in_place = -1, .count = 600, .ahead = 513 },
};

static unsigned char memory[SOURCES + TARGETS][MOST * 8 + SLACK * 8] __attribute__ ((aligned (64)));
static unsigned char before[SOURCES][MOST * 8], ahead_from[MOST + SLACK], ahead_to[MOST + SLACK];

/* @return whether all elements are right and nothing past the targets was touched. */
static bool
try_shape (enum accel_dtype dtype, enum accel_op op, const struct shape *shape)
{
    size_t bytes = accel_dtype_bytes (dtype), length = shape->count * bytes;
    struct reduction r = {
        .dtype = dtype, .op = op, .sources = shape->sources, .targets = shape->targets,
        .beyond_caches = shape->beyond_caches, .private_targets = shape->private_targets,
        .ahead_to = ahead_to + 16, .ahead_from = ahead_from + 1, .ahead_bytes = shape->ahead,
    };
    const void *sources[SOURCES], *values[SOURCES];
    void *targets[TARGETS];
    for (int s = 0; s < r.sources; s++) {
        unsigned char *source = memory[s] + (size_t) s * shape->shift * bytes;
        fill (dtype, source, shape->count);
        memcpy (before[s], source, length);
        sources[s] = source;
    }
    for (int t = 0; t < r.targets; t++)
        targets[t] = memory[SOURCES + t] + (size_t) (t + 1) * shape->shift * bytes;
    if (shape->in_place >= 0)
        targets[0] = (void *) sources[shape->in_place];
    for (int t = 0; t < r.targets; t++)
        ((unsigned char *) targets[t])[length] = 0xa5;
    r.taken = shape->taken ? sources[shape->taken - 1] : NULL;
    fill (ACCEL_UINT8, ahead_from, sizeof ahead_from);
    memset (ahead_to, 0xa5, sizeof ahead_to);
    reduce_run (&r, sources, targets, shape->count);
    for (size_t i = 0; i < shape->count; i++) {
        double expected = 0;
        for (int s = 0; s < r.sources; s++)
            values[s] = before[s] + i * bytes;
        if (r.sources == 1)
            memcpy (&expected, values[0], bytes);
        else
            reduce_reference (&r, values, &expected);
        for (int t = 0; t < r.targets; t++)
            if (!is_same (dtype, (char *) targets[t] + i * bytes, &expected)) {
                diag ("element %zu of %zu, target %d of %d, %d sources", i, shape->count, t, r.targets, r.sources);
                return false;
            }
    }
    for (int t = 0; t < r.targets; t++)
        if (((unsigned char *) targets[t])[length] != 0xa5)
            return false;
    return !memcmp (ahead_to + 16, ahead_from + 1, shape->ahead) && ahead_to[15] == 0xa5
           && ahead_to[16 + shape->ahead] == 0xa5;
}

static void
test_reductions (const struct kernels *kernels)
{
    static const char *const ops[] = {
#define X(name, text) text,
        ACCEL_OP_MAP (X)
#undef X
    };
    for (int dtype = 0; dtype < ACCEL_DTYPE_COUNT; dtype++)
        for (int op = 0; op < ACCEL_OP_COUNT; op++) {
            bool good = true;
            if (!reduce_is_defined ((enum accel_dtype) dtype, (enum accel_op) op))
                continue;
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes && good; i++)
                good = try_shape ((enum accel_dtype) dtype, (enum accel_op) op, &shapes[i]);
            ok (good, "%s: %s of %s", kernels->name, ops[op], accel_dtype_name ((enum accel_dtype) dtype));
        }
}

static void
test_all_values (const struct kernels *kernels, enum accel_dtype dtype)
{
    static uint16_t all[65536], back[65536];
    static float wide[65536];
    const struct format *format = format_of (dtype);
    bool widened = true, narrowed = true;
    for (size_t i = 0; i < 65536; i++)
        all[i] = (uint16_t) i;
    /* In pieces of an odd length, so that vectors and their rests meet all values. */
    for (size_t i = 0; i < 65536; i += 13) {
        size_t part = 65536 - i < 13 ? 65536 - i : 13;
        kernels->widen[dtype] (wide + i, all + i, part);
        kernels->narrow[dtype] (back + i, wide + i, part);
    }
    for (size_t i = 0; i < 65536; i++) {
        double value = value_of (format, all[i]);
        uint16_t quiet = (uint16_t) (isnan (value) ? 1 << (format->fraction - 1) : 0);
        widened = widened && (isnan (value) ? isnan (wide[i]) : (double) wide[i] == value)
                  && !signbit (wide[i]) == !(i & 0x8000);
        narrowed = narrowed && back[i] == (all[i] | quiet);
    }
    ok (widened, "%s: all values of %s widened", kernels->name, accel_dtype_name (dtype));
    ok (narrowed, "%s: and narrowed back", kernels->name);
}

/* Around every value of the narrow type: it, the middle to the next, and a float's least step to either side. */
static void
test_rounding (const struct kernels *kernels, enum accel_dtype dtype)
{
    const struct format *format = format_of (dtype);
    bool good = true;
    for (unsigned bits = 0; bits < 0x7fff; bits++) {
        double here = value_of (format, (uint16_t) bits), next = value_of (format, (uint16_t) (bits + 1));
        if (isnan (here) || isnan (next) || isinf (here))
            continue;
        if (isinf (next))
            next = ldexp (1, format->most + 1);
        float middle = (float) ((here + next) / 2);
        float in[] = { middle, nextafterf (middle, 0), nextafterf (middle, INFINITY), -middle, (float) here,
                       nextafterf ((float) here, INFINITY), -nextafterf (-middle, 0), nextafterf (-middle, -INFINITY),
                       middle };
        enum { COUNT = sizeof in / sizeof *in };
        uint16_t out[COUNT];
        kernels->narrow[dtype] (out, in, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            if (out[i] != bits_of_value (format, (double) in[i])) {
                if (good)
                    diag ("%a is 0x%x, not 0x%x", (double) in[i], out[i], bits_of_value (format, (double) in[i]));
                good = false;
            }
    }
    ok (good, "%s: %s rounds to nearest, ties to even", kernels->name, accel_dtype_name (dtype));
}

/* 8-bit floats, whose values test_half.c checks: all variants give the same bits. */
static void
test_eight_bits (const struct kernels *kernels, enum accel_dtype dtype)
{
    enum { COUNT = 1 << 16, STEP = 0x10001 };
    static float wide[2][256], floats[COUNT];
    static uint8_t all[256], narrow[2][COUNT];
    const struct kernels *both[] = { &kernels_base, kernels };
    for (size_t i = 0; i < 256; i++)
        all[i] = (uint8_t) i;
    for (uint32_t i = 0, bits = 0; i < COUNT; i++, bits += STEP)
        memcpy (&floats[i], &bits, sizeof bits);
    for (int i = 0; i < 2; i++) {
        both[i]->widen[dtype] (wide[i], all, 256);
        for (size_t at = 0; at < COUNT; at += 13)
            both[i]->narrow[dtype] (narrow[i] + at, floats + at, COUNT - at < 13 ? COUNT - at : 13);
    }
    ok (!memcmp (wide[0], wide[1], sizeof wide[0]) && !memcmp (narrow[0], narrow[1], COUNT), "%s: %s as in base",
        kernels->name, accel_dtype_name (dtype));
}

static void
test_kernels (const struct kernels *kernels)
{
    test_reductions (kernels);
    for (int dtype = 0; dtype < ACCEL_DTYPE_COUNT; dtype++)
        if (kernels->widen[dtype] && accel_dtype_bytes ((enum accel_dtype) dtype) == sizeof (uint16_t)) {
            test_all_values (kernels, (enum accel_dtype) dtype);
            test_rounding (kernels, (enum accel_dtype) dtype);
        } else if (kernels->widen[dtype])
            test_eight_bits (kernels, (enum accel_dtype) dtype);
}

/* The library chooses once in a process: each set but the first is tested by this program once more, which gets the
 * level, the counts so far, and the set's name in the environment.  An empty name is ignored. */
int
main (int argc, char **argv)
{
    int level = argc > 3 ? atoi (argv[1]) : 0;
    char numbers[3][12];
    if (argc > 3) {
        tap_count = atoi (argv[2]);
        tap_failed = atoi (argv[3]);
    }
    setenv (ENV_INSTRUCTIONS, "", 1);
    const struct kernels *kernels = kernels_at (level), *next = kernels_at (level + 1);
    setenv (ENV_INSTRUCTIONS, kernels->name, 1);
    test_kernels (kernels);
    if (!next)
        return done_testing ();
    snprintf (numbers[0], sizeof *numbers, "%d", level + 1);
    snprintf (numbers[1], sizeof *numbers, "%d", tap_count);
    snprintf (numbers[2], sizeof *numbers, "%d", tap_failed);
    execv ("/proc/self/exe", (char *[]){ argv[0], numbers[0], numbers[1], numbers[2], NULL });
    return 99;
}
