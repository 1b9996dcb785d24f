/* SPDX-License-Identifier: Apache-2.0 */
/* What a step of training does to single floats; floats.h has the loops.  Norms are as torch.linalg.vector_norm has
 * them: powers are summed in double, and the sum is rounded to float32 before the root is taken, which overflows and
 * underflows where torch's does. */
#ifndef LIB_KERNELS_FLOATS_ELEMENT_H
#define LIB_KERNELS_FLOATS_ELEMENT_H

#include "lib/kernels/bits.h"

#include <math.h>

/* Infinite or NaN. */
ELEMENT uint32_t
float_is_nonfinite (float value)
{
    return (uint32_t) ((bits_of (value) & 0x7f800000u) == 0x7f800000u);
}

/* A 16-bit float with all bits of the exponent, @p mask, which are those of infinity. */
ELEMENT uint16_t
half_is_nonfinite (uint16_t value, uint16_t mask)
{
    return (uint16_t) ((value & mask) == mask);
}

ELEMENT float
float_clamp (float value, float limit)
{
    value = value > limit ? limit : value;
    return value < -limit ? -limit : value;
}

/* Each is rounded to float32 as torch's are, which matters if it is subnormal. */
ELEMENT double
float_power (float value, double p)
{
    return (double) (float) pow ((double) fabsf (value), (double) (float) p);
}

/* The exponents are rounded to float32 as torch's are, which shows: 1/3 of a large sum. */
ELEMENT float
float_root (double sum, double p)
{
    return (float) pow ((double) (float) sum, (double) (1.0F / (float) p));
}

/* What one value adds to the sum of a p-norm; not for the largest. */
ELEMENT double
norm_term (float value, double p)
{
    if (p == 2)
        return (double) value * (double) value;
    if (p == 1)
        return (double) fabsf (value);
    return p ? float_power (value, p) : (double) (value != 0);
}

/* The norm of many, from their sum or the largest magnitude. */
ELEMENT float
norm_of_sum (double sum, double p)
{
    if (p == 2)
        return sqrtf ((float) sum);
    return isinf (p) || p == 1 || !p ? (float) sum : float_root (sum, p);
}

/* The norm of one value is its magnitude, whatever its size, as in torch (linalg_vector_norm_out in ATen's
 * LinearAlgebra.cpp). */
ELEMENT float
norm_of_one (float value, double p)
{
    return p ? fabsf (value) : (float) (value != 0);
}

/* For 8-bit floats up to @p limit of values up to @p most: powers of two, so that nothing is rounded but by the
 * conversion; neither they nor their reciprocals are subnormal. */
ELEMENT float
scale_of_largest (float most, float limit)
{
    uint64_t bits;
    if (most == 0 || float_is_nonfinite (most))
        return 1;
    double ratio = (double) limit / (double) most; /* neither subnormal nor negative */
    memcpy (&bits, &ratio, sizeof bits);
    int exponent = (int) (bits >> 52) - 1023;
    return float_of ((uint32_t) ((exponent > 126 ? -126 : -exponent) + 127) << 23);
}

#endif
