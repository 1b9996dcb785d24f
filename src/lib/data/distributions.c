/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform, normal and weighted draws as torch makes them on CPU: ATen/core/DistributionsHelper.h,
 * ATen/native/cpu/DistributionTemplates.h and MultinomialKernel.cpp have the algorithms. */
#include <config.h>

#include "lib/data/normal.h"

#include "lib/base/error.h"
#include "lib/data/generator.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Rounding is torch's: once where its AVX2 kernels fuse (written as fma), else after each operation. */
#if defined __GNUC__ && !defined __clang__
#define EXACT __attribute__ ((optimize ("fp-contract=off")))
#else
#pragma STDC FP_CONTRACT OFF
#define EXACT
#endif

enum { BLOCK = 16, HALF = BLOCK / 2 };

static const double two_pi = 6.283185307179586;

static bool
fused (const struct accel_generator *generator)
{
    return generator->kernels != ACCEL_RANDOM_PORTABLE;
}

static enum accel_status
check_range (double from, double to, double range, enum accel_dtype dtype, struct accel_error *err)
{
    if (!(isfinite (range) && from <= to))
        return accel_fail (err, ACCEL_ERR_INVALID, "uniform numbers: [%g, %g) is not a valid %s range", from, to,
                           accel_dtype_name (dtype));
    return ACCEL_OK;
}

/* A value that was rounded up to the end of the range, which is not in it, becomes its beginning. */
EXACT static enum accel_status
fill_uniform_float (struct accel_generator *generator, float *values, size_t count, double from, double to,
                    struct accel_error *err)
{
    float low = (float) from, high = (float) to, range = high - low;
    enum accel_status status = check_range (from, to, range, ACCEL_FLOAT32, err);
    bool fuse = fused (generator);
    for (size_t i = 0; i < count && !status; i++) {
        float unit = generator_uniform_float (generator);
        float value = fuse ? fmaf (unit, range, low) : unit * range + low;
        values[i] = value == high ? low : value;
    }
    return status;
}

EXACT static enum accel_status
fill_uniform_double (struct accel_generator *generator, double *values, size_t count, double from, double to,
                     struct accel_error *err)
{
    double range = to - from;
    enum accel_status status = check_range (from, to, range, ACCEL_FLOAT64, err);
    bool fuse = fused (generator);
    for (size_t i = 0; i < count && !status; i++) {
        double unit = generator_uniform_double (generator);
        double value = fuse ? fma (unit, range, from) : unit * range + from;
        values[i] = value == to ? from : value;
    }
    return status;
}

static enum accel_status
check_fill (const char *function, const struct accel_generator *generator, const void *values, size_t count,
            enum accel_dtype dtype, struct accel_error *err)
{
    if (!generator || (count && !values))
        return accel_fail_null (err, function, generator ? "values" : "generator");
    if (dtype != ACCEL_FLOAT32 && dtype != ACCEL_FLOAT64)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: cannot draw %s: expected float32 or float64", function,
                           accel_dtype_name (dtype));
    return ACCEL_OK;
}

enum accel_status
accel_generator_fill_uniform (struct accel_generator *generator, void *values, size_t count, enum accel_dtype dtype,
                              double from, double to, struct accel_error *err)
{
    enum accel_status status = check_fill (__func__, generator, values, count, dtype, err);
    if (status)
        return status;
    return dtype == ACCEL_FLOAT32 ? fill_uniform_float (generator, values, count, from, to, err)
                                  : fill_uniform_double (generator, values, count, from, to, err);
}

/* at::normal_distribution<double>: of a pair the cosine at once, the sine the next time. */
EXACT static double
next_normal (struct accel_generator *generator, double mean, double std)
{
    double value = generator->normal;
    if (!generator->has_normal) {
        double u1 = generator_uniform_double (generator), u2 = generator_uniform_double (generator);
        double radius = sqrt (-2.0 * log1p (-u2)), theta = two_pi * u1;
        generator->normal = radius * sin (theta);
        value = radius * cos (theta);
    }
    generator->has_normal = !generator->has_normal;
    return fused (generator) ? fma (value, std, mean) : value * std + mean;
}

static void
fill_normal_float (struct accel_generator *generator, float *values, size_t count, double mean, double std)
{
    if (count < BLOCK) {
        for (size_t i = 0; i < count; i++)
            values[i] = (float) next_normal (generator, mean, std);
        return;
    }
    normal_16 *transform = fused (generator) ? normal_16_avx2 : normal_16_portable;
    for (size_t i = 0; i < count; i++)
        values[i] = generator_uniform_float (generator);
    for (size_t i = 0; i + BLOCK <= count; i += BLOCK)
        transform (values + i, (float) mean, (float) std);
    if (count % BLOCK) {
        float *last = values + count - BLOCK;
        for (int i = 0; i < BLOCK; i++)
            last[i] = generator_uniform_float (generator);
        transform (last, (float) mean, (float) std);
    }
}

EXACT static void
normal_16_double (double *values, double mean, double std)
{
    for (int i = 0; i < HALF; i++) {
        double radius = sqrt (-2.0 * log (1.0 - values[i])), theta = two_pi * values[HALF + i];
        values[i] = fma (radius * cos (theta), std, mean);
        values[HALF + i] = fma (radius * sin (theta), std, mean);
    }
}

static void
fill_normal_double (struct accel_generator *generator, double *values, size_t count, double mean, double std)
{
    if (count < BLOCK) {
        for (size_t i = 0; i < count; i++)
            values[i] = next_normal (generator, mean, std);
        return;
    }
    for (size_t i = 0; i < count; i++)
        values[i] = generator_uniform_double (generator);
    for (size_t i = 0; i + BLOCK <= count; i += BLOCK)
        normal_16_double (values + i, mean, std);
    if (count % BLOCK) {
        double *last = values + count - BLOCK;
        for (int i = 0; i < BLOCK; i++)
            last[i] = generator_uniform_double (generator);
        normal_16_double (last, mean, std);
    }
}

enum accel_status
accel_generator_fill_normal (struct accel_generator *generator, void *values, size_t count, enum accel_dtype dtype,
                             double mean, double std, struct accel_error *err)
{
    enum accel_status status = check_fill (__func__, generator, values, count, dtype, err);
    if (status)
        return status;
    if (!(std >= 0))
        return accel_fail (err, ACCEL_ERR_INVALID, "normal numbers: the standard deviation must be at least 0, not %g",
                           std);
    if (dtype == ACCEL_FLOAT32)
        fill_normal_float (generator, values, count, mean, std);
    else
        fill_normal_double (generator, values, count, mean, std);
    return ACCEL_OK;
}

/* torch's limit for the categories of a multinomial. */
#define MOST_WEIGHTS ((size_t) 1 << 24)

enum accel_status
generator_check_weights (const double *weights, size_t count, size_t samples, bool replacement,
                         struct accel_error *err)
{
    if (count < 1 || count > MOST_WEIGHTS)
        return accel_fail (err, ACCEL_ERR_INVALID, "weighted samples: %zu weights; expected 1 to %zu", count,
                           MOST_WEIGHTS);
    size_t positive = 0;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0 && isfinite (weights[i])))
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "weighted samples: weight %zu is %g; weights must be finite and not negative", i,
                               weights[i]);
        positive += weights[i] > 0;
        sum += weights[i];
    }
    if (!positive || !isfinite (sum))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "weighted samples: the weights add up to %g; expected a finite, positive sum", sum);
    if (samples < 1)
        return accel_fail (err, ACCEL_ERR_INVALID, "weighted samples: the number of samples is 0");
    if (!replacement && samples > positive)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "weighted samples: cannot draw %zu without replacement: only %zu weights are greater than 0",
                           samples, positive);
    return ACCEL_OK;
}

/* Where in the cumulative distribution each uniform number falls. */
EXACT static void
draw_with_replacement (struct accel_generator *generator, const double *weights, double *cumulative, size_t count,
                       size_t samples, int64_t *out)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        cumulative[i] = sum += weights[i];
    for (size_t i = 0; i < count; i++)
        cumulative[i] /= sum;
    cumulative[count - 1] = 1;
    for (size_t i = 0; i < samples; i++) {
        double uniform = generator_uniform_double (generator);
        size_t low = 0, high = count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (cumulative[middle] < uniform)
                low = middle + 1;
            else
                high = middle;
        }
        out[i] = (int64_t) low;
    }
}

struct arrival {
    double rate; /* weight over an exponential number: the largest arrives first */
    int64_t index;
};

static int
compare_arrivals (const void *left, const void *right)
{
    const struct arrival *a = left, *b = right;
    if (a->rate != b->rate)
        return a->rate > b->rate ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The exponential race: with times that are exponential with the weights as rates, who comes first was drawn in
 * proportion to the weights, who comes second in proportion to those that are left, and so on. */
EXACT static void
draw_without_replacement (struct accel_generator *generator, const double *weights, struct arrival *arrivals,
                          size_t count, size_t samples, int64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        double exponential = -1.0 * log1p (-generator_uniform_double (generator));
        /* An exponential of 0 is a rate without bound; weight 0 is never drawn, as there are enough others. */
        arrivals[i].rate = weights[i] > 0 ? weights[i] / exponential : -1.0;
        arrivals[i].index = (int64_t) i;
    }
    qsort (arrivals, count, sizeof *arrivals, compare_arrivals);
    for (size_t i = 0; i < samples; i++)
        out[i] = arrivals[i].index;
}

enum accel_status
generator_multinomial (struct accel_generator *generator, const double *weights, size_t count, size_t samples,
                       bool replacement, int64_t *out, struct accel_error *err)
{
    bool cumulative = replacement && samples > 1; /* as in torch: a single one is drawn by the race */
    void *space = malloc (count * (cumulative ? sizeof (double) : sizeof (struct arrival)));
    if (!space)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu weights", count);
    if (cumulative)
        draw_with_replacement (generator, weights, space, count, samples, out);
    else
        draw_without_replacement (generator, weights, space, count, samples, out);
    free (space);
    return ACCEL_OK;
}
