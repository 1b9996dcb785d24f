/* SPDX-License-Identifier: Apache-2.0 */
/* Single 16-bit and 8-bit floats to float32 and back, in plain integer arithmetic; floats.h describes the formats.  The
 * 8-bit ones are without branches, so compilers make vectors of loops over them. */
#ifndef LIB_KERNELS_HALF_ELEMENT_H
#define LIB_KERNELS_HALF_ELEMENT_H

#include "lib/kernels/bits.h"

ELEMENT float
float_of_bf16 (uint16_t value)
{
    return float_of ((uint32_t) value << 16);
}

/* Adding just under half a unit, and the last kept bit, carries exactly where nearest-even rounds up.  A NaN must not
 * carry into infinity: it keeps its upper bits and becomes quiet. */
ELEMENT uint16_t
bf16_of_float (float value)
{
    uint32_t bits = bits_of (value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    uint32_t nan = bits >> 16 | 0x40u;
    return (uint16_t) ((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

ELEMENT_CALLED float
float_of_half (uint16_t half)
{
    uint32_t sign = (uint32_t) (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) /* infinity, or NaN made quiet */
        return float_of (sign | 0x7f800000u | (rest & 0x3ffu) << 13 | (rest > 0x7c00u ? 0x400000u : 0));
    /* Scaling by 2^112 moves the exponent's bias, for subnormal numbers too. */
    return float_of (sign | bits_of (float_of (rest << 13) * 0x1p112f));
}

ELEMENT_CALLED uint16_t
half_of_float (float value)
{
    uint32_t bits = bits_of (value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t) (sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    if (rest >= 0x477ff000u) /* 65520 and above */
        return (uint16_t) (sign | 0x7c00u);
    if (rest < 0x38800000u) /* below 2^-14: the addition of 0.5 leaves the rounded subnormal in the low bits */
        return (uint16_t) (sign | (bits_of (float_of (rest) + 0.5f) - 0x3f000000u));
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t) (sign | ((rest - 0x38000000u) >> 13));
}

/* An 8-bit float with @p mantissa bits of it, whose exponents begin at @p least.  Below 2^least the addition of a power
 * of two rounds to whole units of the smallest number, and leaves them in the low bits; above, just under half a unit
 * and the last kept bit are added, which carries exactly if nearest-even rounds up.  @p overflow replaces what
 * comes out larger than @p largest. */
ELEMENT uint8_t
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

ELEMENT uint8_t
e4m3_of_float (float value)
{
    return narrow (value, 3, -6, 0x7eu, 0x7eu);
}

ELEMENT uint8_t
e5m2_of_float (float value)
{
    return narrow (value, 2, -14, 0x7bu, 0x7cu);
}

/* Multiplying moves the exponent's bias, for subnormal numbers too. */
ELEMENT float
float_of_e4m3 (uint8_t value)
{
    uint32_t sign = (uint32_t) (value & 0x80u) << 24, rest = value & 0x7fu;
    uint32_t scaled = bits_of (float_of (rest << 20) * 0x1p120F);
    return float_of (sign | (rest == 0x7fu ? 0x7ff00000u : scaled));
}

ELEMENT float
float_of_e5m2 (uint8_t value)
{
    uint32_t sign = (uint32_t) (value & 0x80u) << 24, rest = value & 0x7fu;
    uint32_t scaled = bits_of (float_of (rest << 21) * 0x1p112F);
    return float_of (sign | (rest < 0x7cu ? scaled : 0x7f800000u | (rest & 3u) << 21));
}

#endif
