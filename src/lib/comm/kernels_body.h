/* SPDX-License-Identifier: Apache-2.0 */
/* Included by each kernels_NAME.c, which defines
 *   KERNEL_TABLE   the table's name
 *   KERNEL_NAME    the same for people
 *   KERNEL         attributes of every loop (instruction set)
 *   KERNEL_F16C    defined where the processor converts float16 itself
 * Plain loops: the compiler makes vectors of them.  No multiplication is followed by an addition, so there is nothing
 * to contract, and all variants give the same bits. */
#include "lib/comm/kernels.h"

#ifdef KERNEL_F16C
#include <immintrin.h>
#endif
#include <string.h>

#define COMBINE(name, type, expression)                                                                              \
    KERNEL static void name (void *target, const void *a, const void *b, size_t count)                               \
    {                                                                                                                \
        type *out = target;                                                                                          \
        const type *in_a = a, *in_b = b;                                                                             \
        for (size_t i = 0; i < count; i++) {                                                                         \
            type x = in_a[i], y = in_b[i];                                                                           \
            out[i] = (type) (expression);                                                                            \
        }                                                                                                            \
    }

/* A NaN on either side stays: x is kept where it is NaN, y is taken where it is. */
COMBINE (sum_f32, float, x + y)
COMBINE (min_f32, float, (y < x) | (y != y) ? y : x)
COMBINE (max_f32, float, (y > x) | (y != y) ? y : x)
COMBINE (prod_f32, float, x *y)
COMBINE (sum_f64, double, x + y)
COMBINE (min_f64, double, (y < x) | (y != y) ? y : x)
COMBINE (max_f64, double, (y > x) | (y != y) ? y : x)
COMBINE (prod_f64, double, x *y)
/* Signed sums and products are made of unsigned ones, which wrap by definition. */
COMBINE (sum_8, uint8_t, x + y)
COMBINE (prod_8, uint8_t, (unsigned) x * y)
COMBINE (min_i8, int8_t, y < x ? y : x)
COMBINE (max_i8, int8_t, y > x ? y : x)
COMBINE (min_u8, uint8_t, y < x ? y : x)
COMBINE (max_u8, uint8_t, y > x ? y : x)
COMBINE (sum_32, uint32_t, x + y)
COMBINE (prod_32, uint32_t, x *y)
COMBINE (min_i32, int32_t, y < x ? y : x)
COMBINE (max_i32, int32_t, y > x ? y : x)
COMBINE (sum_64, uint64_t, x + y)
COMBINE (prod_64, uint64_t, x *y)
COMBINE (min_i64, int64_t, y < x ? y : x)
COMBINE (max_i64, int64_t, y > x ? y : x)
COMBINE (or_bool, uint8_t, (x | y) != 0)
COMBINE (and_bool, uint8_t, (x != 0) & (y != 0))

KERNEL static void
to_bool (uint8_t *target, const uint8_t *source, size_t count)
{
    for (size_t i = 0; i < count; i++)
        target[i] = source[i] != 0;
}

KERNEL static void
divide_f32 (float *values, size_t count, float divisor)
{
    for (size_t i = 0; i < count; i++)
        values[i] /= divisor;
}

KERNEL static void
divide_f64 (double *values, size_t count, double divisor)
{
    for (size_t i = 0; i < count; i++)
        values[i] /= divisor;
}

static inline uint32_t
bits_of (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    return bits;
}

static inline float
float_of (uint32_t bits)
{
    float value;
    memcpy (&value, &bits, sizeof value);
    return value;
}

KERNEL static void
widen_bf16 (float *target, const uint16_t *source, size_t count)
{
    for (size_t i = 0; i < count; i++)
        target[i] = float_of ((uint32_t) source[i] << 16);
}

/* Adding just under half a unit, and the last kept bit, carries exactly where nearest-even rounds up.  A NaN must not
 * carry into infinity: it keeps its upper bits and becomes quiet. */
KERNEL static void
narrow_bf16 (uint16_t *target, const float *source, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_of (source[i]);
        uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
        uint32_t nan = bits >> 16 | 0x40u;
        target[i] = (uint16_t) ((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
    }
}

static inline float
float_of_half (uint16_t half)
{
    uint32_t sign = (uint32_t) (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) /* infinity, or NaN made quiet */
        return float_of (sign | 0x7f800000u | (rest & 0x3ffu) << 13 | (rest > 0x7c00u ? 0x400000u : 0));
    /* Scaling by 2^112 moves the exponent's bias, for subnormal numbers too. */
    return float_of (sign | bits_of (float_of (rest << 13) * 0x1p112f));
}

static inline uint16_t
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

KERNEL static void
widen_f16 (float *target, const uint16_t *source, size_t count)
{
    size_t i = 0;
#ifdef KERNEL_F16C
    for (; count - i >= 8; i += 8) {
        __m128i half = _mm_loadu_si128 ((const __m128i *) (const void *) (source + i));
        _mm256_storeu_ps (target + i, _mm256_cvtph_ps (half));
    }
#endif
    for (; i < count; i++)
        target[i] = float_of_half (source[i]);
}

KERNEL static void
narrow_f16 (uint16_t *target, const float *source, size_t count)
{
    size_t i = 0;
#ifdef KERNEL_F16C
    for (; count - i >= 8; i += 8) {
        __m128i half = _mm256_cvtps_ph (_mm256_loadu_ps (source + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128 ((__m128i *) (void *) (target + i), half);
    }
#endif
    for (; i < count; i++)
        target[i] = half_of_float (source[i]);
}

#define ROW(sum_kernel, min_kernel, max_kernel, prod_kernel)                                                         \
    {                                                                                                                \
        [ACCEL_SUM] = sum_kernel, [ACCEL_MIN] = min_kernel, [ACCEL_MAX] = max_kernel, [ACCEL_PROD] = prod_kernel     \
    }

const struct kernels KERNEL_TABLE = {
    .name = KERNEL_NAME,
    .combine = {
        [ACCEL_FLOAT32] = ROW (sum_f32, min_f32, max_f32, prod_f32),
        [ACCEL_FLOAT64] = ROW (sum_f64, min_f64, max_f64, prod_f64),
        [ACCEL_INT8] = ROW (sum_8, min_i8, max_i8, prod_8),
        [ACCEL_UINT8] = ROW (sum_8, min_u8, max_u8, prod_8),
        [ACCEL_INT32] = ROW (sum_32, min_i32, max_i32, prod_32),
        [ACCEL_INT64] = ROW (sum_64, min_i64, max_i64, prod_64),
        [ACCEL_BOOL] = ROW (or_bool, and_bool, or_bool, and_bool),
    },
    .widen = { [ACCEL_FLOAT16] = widen_f16, [ACCEL_BFLOAT16] = widen_bf16 },
    .narrow = { [ACCEL_FLOAT16] = narrow_f16, [ACCEL_BFLOAT16] = narrow_bf16 },
    .divide_f32 = divide_f32,
    .divide_f64 = divide_f64,
    .to_bool = to_bool,
};
