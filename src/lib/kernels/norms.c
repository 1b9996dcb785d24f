/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, as torch.linalg.vector_norm has them.  Sums of powers are made in double, in lanes, so that their order is the
 * same on every processor.  torch adds them up in float32: the sum is rounded to float32 before the root is taken,
 * which overflows and underflows where torch's does.  The norm of one element is its magnitude, whatever its size, as
 * in torch (linalg_vector_norm_out in ATen's LinearAlgebra.cpp). */
#include <config.h>

#include "lib/kernels/floats.h"

#include "lib/kernels/arithmetic.h"
#include "lib/kernels/half.h"

#include <math.h>

enum { LANES = 8 };

VECTORISED static double
sum_squares (const float *values, size_t count)
{
    double lanes[LANES] = { 0 }, sum = 0;
    size_t i = 0;
    for (; count - i >= LANES; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += (double) values[i + (size_t) j] * (double) values[i + (size_t) j];
    for (; i < count; i++)
        sum += (double) values[i] * (double) values[i];
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
            lanes[j] += (double) fabsf (values[i + (size_t) j]);
    for (; i < count; i++)
        sum += (double) fabsf (values[i]);
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

/* The exponents are rounded to float32 as torch's are, which shows: 1/3 of a large sum. */
UNFUSED float
floats_root (double sum, double p)
{
    return (float) pow ((double) (float) sum, (double) (1.0F / (float) p));
}

/* Each is rounded to float32 as torch's are, which shows where it is subnormal. */
double
floats_power (float value, double p)
{
    return (double) (float) pow ((double) fabsf (value), (double) (float) p);
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
        sum += p ? floats_power (values[i], p) : (double) (values[i] != 0);
    return sum;
}

float
floats_norm_of_one (float value, double p)
{
    return p ? fabsf (value) : (float) (value != 0);
}

/* @return elements of an array, in @block where they have to be converted. */
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
        return floats_norm_of_one (*in_float32 (values, dtype, 0, 1, factor, block), p);
    for (size_t at = 0; at < count; at += most) {
        size_t some = count - at < most ? count - at : most;
        sum = add_to_norm (sum, in_float32 (values, dtype, at, some, factor, block), some, p);
    }
    if (p == 2)
        return sqrtf ((float) sum);
    return isinf (p) || p == 1 || !p ? (float) sum : floats_root (sum, p);
}
