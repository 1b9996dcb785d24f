/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 16 bits by the kernels of reductions, which use F16C where the processor has it; those of 8 bits by plain
 * integer arithmetic without branches, of which the compiler makes vectors. */
#include <config.h>

#include "lib/kernels/half.h"

#include "lib/kernels/arithmetic.h"
#include "lib/kernels/bits.h"
#include "lib/kernels/kernels.h"

#include <string.h>

/* An 8-bit float with @p mantissa bits of it, whose exponents begin at @p least.  Below 2^least the addition of a power
 * of two rounds to whole units of the smallest number, and leaves them in the low bits; above, just under half a unit
 * and the last kept bit are added, which carries exactly where nearest-even rounds up.  @p overflow stands for what
 * comes out larger than @p largest. */
__attribute__ ((always_inline)) static inline uint8_t
narrow (float value, unsigned mantissa, int least, uint32_t largest, uint32_t overflow)
{
    uint32_t bits = bits_of (value), sign = bits >> 24 & 0x80u, rest = bits & 0x7fffffffu;
    unsigned drop = 23 - mantissa;
    uint32_t rounder = (uint32_t) (least + 127 + (int) drop) << 23;
    uint32_t small = bits_of (float_of (rest < 0x3f800000u ? rest : 0) + float_of (rounder)) - rounder;
    uint32_t capped = rest < 0x7f800000u ? rest : 0x7f800000u; /* keeps the sums below from wrapping */
    uint32_t normal = capped + (1u << (drop - 1)) - 1 + (capped >> drop & 1u);
    normal = (normal >> drop) - ((uint32_t) (least - 1 + 127) << mantissa);
    uint32_t result = rest < (uint32_t) (least + 127) << 23 ? small : normal;
    result = result > largest ? overflow : result;
    result = rest > 0x7f800000u ? 0x7fu : result;
    return (uint8_t) (sign | result);
}

VECTORISED static void
e4m3_from_floats (uint8_t *target, const float *source, size_t count)
{
    for (size_t i = 0; i < count; i++)
        target[i] = narrow (source[i], 3, -6, 0x7eu, 0x7eu);
}

VECTORISED static void
e5m2_from_floats (uint8_t *target, const float *source, size_t count, bool saturate)
{
    uint32_t overflow = saturate ? 0x7bu : 0x7cu;
    for (size_t i = 0; i < count; i++)
        target[i] = narrow (source[i], 2, -14, 0x7bu, overflow);
}

/* Multiplying moves the exponent's bias, for subnormal numbers too. */
VECTORISED static void
e4m3_to_floats (float *target, const uint8_t *source, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t sign = (uint32_t) (source[i] & 0x80u) << 24, rest = source[i] & 0x7fu;
        uint32_t value = bits_of (float_of (rest << 20) * 0x1p120F);
        target[i] = float_of (sign | (rest == 0x7fu ? 0x7ff00000u : value));
    }
}

VECTORISED static void
e5m2_to_floats (float *target, const uint8_t *source, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t sign = (uint32_t) (source[i] & 0x80u) << 24, rest = source[i] & 0x7fu;
        uint32_t value = bits_of (float_of (rest << 21) * 0x1p112F);
        target[i] = float_of (sign | (rest < 0x7cu ? value : 0x7f800000u | (rest & 3u) << 21));
    }
}

void
floats_widen (float *target, const void *source, enum accel_dtype dtype, size_t count)
{
    if (dtype == ACCEL_FLOAT32)
        memcpy (target, source, count * sizeof *target);
    else if (dtype == ACCEL_FLOAT8_E4M3FN)
        e4m3_to_floats (target, source, count);
    else if (dtype == ACCEL_FLOAT8_E5M2)
        e5m2_to_floats (target, source, count);
    else
        kernels_best ()->widen[dtype] (target, source, count);
}

void
floats_narrow (void *target, enum accel_dtype dtype, const float *source, size_t count, bool saturate)
{
    if (dtype == ACCEL_FLOAT32)
        memcpy (target, source, count * sizeof *source);
    else if (dtype == ACCEL_FLOAT8_E4M3FN)
        e4m3_from_floats (target, source, count);
    else if (dtype == ACCEL_FLOAT8_E5M2)
        e5m2_from_floats (target, source, count, saturate);
    else
        kernels_best ()->narrow[dtype] (target, source, count);
}
