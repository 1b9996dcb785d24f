/* SPDX-License-Identifier: Apache-2.0 */
/* Serial collectives to compare with; see reference.h.  Plain and slow on purpose: one element at a time, by way of
 * frexp() and ldexp() for 16-bit floats. */
#include <config.h>

#include "tests/conformance/conformance.h"

#include <math.h>
#include <string.h>

union element {
    float f32;
    double f64;
    uint16_t u16;
    int8_t i8;
    uint8_t u8;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
};

/* splitmix64 */
uint64_t
next_random (uint64_t *state)
{
    uint64_t z = *state += UINT64_C (0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C (0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C (0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* @digits: binary digits of the significand after the point; @low, @high: exponents of the normal numbers. */
struct narrow_format {
    int digits, low, high;
};
static const struct narrow_format half = { 10, -14, 15 }, brain = { 7, -126, 127 };

static float
widen (uint16_t bits, const struct narrow_format *format)
{
    int exponent_mask = (1 << (15 - format->digits)) - 1;
    int exponent = bits >> format->digits & exponent_mask, fraction = bits & ((1 << format->digits) - 1);
    float value;
    if (exponent == exponent_mask)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexpf ((float) fraction, format->low - format->digits);
    else
        value = ldexpf ((float) (fraction + (1 << format->digits)), exponent - 1 + format->low - format->digits);
    return bits & 0x8000 ? -value : value;
}

static uint16_t
narrow (float value, const struct narrow_format *format)
{
    uint16_t sign = signbit (value) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t) (((1 << (15 - format->digits)) - 1) << format->digits);
    if (isnan (value))
        return sign | infinity | (uint16_t) (1 << (format->digits - 1));
    if (isinf (value))
        return sign | infinity;
    int exponent;
    frexp (fabs ((double) value), &exponent);
    if (--exponent < format->low || value == 0)
        exponent = format->low;
    /* In units of the last digit, which the exponent field then counts up from by itself, carries included. */
    double units = rint (ldexp (fabs ((double) value), format->digits - exponent));
    uint32_t bits = (uint32_t) ((exponent - format->low) << format->digits) + (uint32_t) units;
    return sign | (uint16_t) (bits < infinity ? bits : infinity);
}

static float
special_f32 (uint64_t random)
{
    static const float values[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-42f, 3e38f, -3e38f, 6.1e-5f, 65504.0f };
    return values[random % (sizeof values / sizeof *values)];
}

static double
ordinary (uint64_t random)
{
    return ldexp ((double) (int64_t) random, -62 + (int) (random % 17) - 8);
}

static union element
make_element (enum accel_dtype dtype, uint64_t random, bool special)
{
    union element e = { .u64 = random };
    if (dtype == ACCEL_FLOAT64)
        e.f64 = special ? (double) special_f32 (random) : ordinary (random);
    else if (dtype == ACCEL_FLOAT32)
        e.f32 = special ? special_f32 (random) : (float) ordinary (random);
    else if ((dtype == ACCEL_FLOAT16 || dtype == ACCEL_BFLOAT16) && !special)
        e.u16 = narrow ((float) ordinary (random), dtype == ACCEL_FLOAT16 ? &half : &brain);
    else if (dtype == ACCEL_BOOL)
        e.u8 = special ? (uint8_t) random : random & 1;
    return e; /* integers take any bits, and so do 16-bit floats where they are to be special */
}

void
reference_input (void *target, enum accel_dtype dtype, int rank, size_t count)
{
    uint64_t state = (uint64_t) rank * 1000003 + (uint64_t) dtype;
    size_t unit = accel_dtype_bytes (dtype);
    for (size_t i = 0; i < count; i++) {
        uint64_t random = next_random (&state);
        union element e = make_element (dtype, random, random >> 40 & 1 ? false : (random >> 41) % 16 == 0);
        memcpy ((char *) target + i * unit, &e, unit);
    }
}

/* Without a cast back to float in between, so that only the types' own arithmetic is used. */
static float
combine_f32 (enum accel_op op, float x, float y)
{
    switch (op) {
    case ACCEL_MIN: return isnan (x) || isnan (y) ? NAN : y < x ? y : x;
    case ACCEL_MAX: return isnan (x) || isnan (y) ? NAN : y > x ? y : x;
    case ACCEL_PROD: return x * y;
    default: return x + y;
    }
}

static double
combine_f64 (enum accel_op op, double x, double y)
{
    switch (op) {
    case ACCEL_MIN: return isnan (x) || isnan (y) ? (double) NAN : y < x ? y : x;
    case ACCEL_MAX: return isnan (x) || isnan (y) ? (double) NAN : y > x ? y : x;
    case ACCEL_PROD: return x * y;
    default: return x + y;
    }
}

#define COMBINE_INT(field, unsigned_field)                                                                           \
    switch (op) {                                                                                                    \
    case ACCEL_MIN: return y.field < x.field ? y : x;                                                                \
    case ACCEL_MAX: return y.field > x.field ? y : x;                                                                \
    case ACCEL_PROD: x.unsigned_field *= y.unsigned_field; return x;                                                 \
    default: x.unsigned_field += y.unsigned_field; return x;                                                         \
    }

static union element
combine_i8 (enum accel_op op, union element x, union element y)
{
    COMBINE_INT (i8, u8)
}

static union element
combine_u8 (enum accel_op op, union element x, union element y)
{
    COMBINE_INT (u8, u8)
}

static union element
combine_i32 (enum accel_op op, union element x, union element y)
{
    COMBINE_INT (i32, u32)
}

static union element
combine_i64 (enum accel_op op, union element x, union element y)
{
    COMBINE_INT (i64, u64)
}

static union element
combine (enum accel_dtype dtype, enum accel_op op, union element x, union element y)
{
    switch (dtype) {
    case ACCEL_FLOAT64: x.f64 = combine_f64 (op, x.f64, y.f64); return x;
    case ACCEL_INT8: return combine_i8 (op, x, y);
    case ACCEL_UINT8: return combine_u8 (op, x, y);
    case ACCEL_INT32: return combine_i32 (op, x, y);
    case ACCEL_INT64: return combine_i64 (op, x, y);
    case ACCEL_BOOL:
        x.u8 = op == ACCEL_SUM || op == ACCEL_MAX ? x.u8 || y.u8 : x.u8 && y.u8;
        return x;
    default: x.f32 = combine_f32 (op, x.f32, y.f32); return x;
    }
}

static union element
load (enum accel_dtype dtype, const void *source, size_t i)
{
    union element e = { .u64 = 0 };
    size_t unit = accel_dtype_bytes (dtype);
    memcpy (&e, (const char *) source + i * unit, unit);
    if (dtype == ACCEL_FLOAT16 || dtype == ACCEL_BFLOAT16)
        e.f32 = widen (e.u16, dtype == ACCEL_FLOAT16 ? &half : &brain);
    return e;
}

void
reference_reduce (void *target, enum accel_dtype dtype, enum accel_op op, const void *const *sources, int ranks,
                  size_t count)
{
    size_t unit = accel_dtype_bytes (dtype);
    for (size_t i = 0; i < count; i++) {
        union element sum = load (dtype, sources[0], i);
        for (int r = 1; r < ranks; r++)
            sum = combine (dtype, op, sum, load (dtype, sources[r], i));
        if (dtype == ACCEL_BOOL)
            sum.u8 = sum.u8 != 0;
        if (op == ACCEL_AVG && dtype == ACCEL_FLOAT64)
            sum.f64 /= ranks;
        else if (op == ACCEL_AVG)
            sum.f32 /= (float) ranks;
        if (dtype == ACCEL_FLOAT16 || dtype == ACCEL_BFLOAT16)
            sum.u16 = narrow (sum.f32, dtype == ACCEL_FLOAT16 ? &half : &brain);
        memcpy ((char *) target + i * unit, &sum, unit);
    }
}

static bool
is_nan (enum accel_dtype dtype, const void *array, size_t i)
{
    if (dtype == ACCEL_FLOAT64)
        return isnan (load (dtype, array, i).f64);
    return (dtype == ACCEL_FLOAT32 || dtype == ACCEL_FLOAT16 || dtype == ACCEL_BFLOAT16)
           && isnan (load (dtype, array, i).f32);
}

size_t
reference_compare (enum accel_dtype dtype, const void *got, const void *wanted, size_t count)
{
    size_t unit = accel_dtype_bytes (dtype);
    if (!memcmp (got, wanted, count * unit))
        return count;
    for (size_t i = 0; i < count; i++)
        if (memcmp ((const char *) got + i * unit, (const char *) wanted + i * unit, unit)
            && !(is_nan (dtype, got, i) && is_nan (dtype, wanted, i)))
            return i;
    return count;
}
