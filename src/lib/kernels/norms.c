/* SPDX-License-Identifier: Apache-2.0 */
/* Norms.  Sums of powers are made in lanes, so that their order is the same on every processor; floats_element.h says
 * what is added up. */
#include <config.h>

#include "lib/kernels/floats.h"

#include "lib/kernels/arithmetic.h"
#include "lib/kernels/floats_element.h"

#include <math.h>

enum { LANES = 8 };

VECTORISED static double
sum_squares (const float *values, size_t count)
{
    double lanes[LANES] = { 0 }, sum = 0;
    size_t i = 0;
    for (; count - i >= LANES; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += norm_term (values[i + (size_t) j], 2);
    for (; i < count; i++)
        sum += norm_term (values[i], 2);
    for (int j = 0; j < LANES; j++)
        sum += lanes[j];
    return sum;
}

VECTORISED static double
sum_magnitudes (const float *values, size_t count)
{
    double lanes[LANES] = { 0 }, sum = 0;
    size_t i = 0;
    for (; count - i >= LANES; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += norm_term (values[i + (size_t) j], 1);
    for (; i < count; i++)
        sum += norm_term (values[i], 1);
    for (int j = 0; j < LANES; j++)
        sum += lanes[j];
    return sum;
}

/* The largest magnitude, or NaN. */
static float
largest (const float *values, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++) {
        float size = fabsf (values[i]);
        if (!(size <= most))
            most = size;
        if (isnan (most))
            break;
    }
    return most;
}

/* What values[count] add to the p-norm of a tensor of which @sum is known; as many as there are, in one go. */
UNFUSED static double
add_to_norm (double sum, const float *values, size_t count, double p)
{
    if (isinf (p)) {
        double most = (double) largest (values, count);
        return isnan (sum) || most <= sum ? sum : most;
    }
    if (p == 2)
        return sum + sum_squares (values, count);
    if (p == 1)
        return sum + sum_magnitudes (values, count);
    for (size_t i = 0; i < count; i++)
        sum += norm_term (values[i], p);
    return sum;
}

/* @return elements of an array, in @block if they have to be converted. */
static const float *
in_float32 (const void *values, enum accel_dtype dtype, size_t from, size_t count, float factor, float *block)
{
    if (dtype == ACCEL_FLOAT32)
        return (const float *) values + from;
    floats_widen (block, (const uint16_t *) values + from, dtype, count);
    if (factor != 1)
        floats_multiply (block, count, factor);
    return block;
}

UNFUSED float
floats_norm (const void *values, enum accel_dtype dtype, size_t count, float factor, double p)
{
    size_t most = dtype == ACCEL_FLOAT32 ? count : FLOATS_BLOCK;
    float block[FLOATS_BLOCK];
    double sum = 0;
    if (count == 1)
        return norm_of_one (*in_float32 (values, dtype, 0, 1, factor, block), p);
    for (size_t at = 0; at < count; at += most) {
        size_t some = count - at < most ? count - at : most;
        sum = add_to_norm (sum, in_float32 (values, dtype, at, some, factor, block), some, p);
    }
    return norm_of_sum (sum, p);
}
