/* SPDX-License-Identifier: Apache-2.0 */
/* Elements as numbers; see elements.h. */
#include <config.h>

#include "cli/inspect/elements.h"

#include <math.h>
#include <string.h>

/* How small floating-point types spell infinity and NaN. */
enum special { IEEE, ONLY_NAN, UNSIGNED_ZERO, ONLY_EXPONENT };

struct format {
    int exponent, mantissa; /* bits */
    int bias;
    enum special special;
};

/* F8_E8M0 is a power of two without sign (OCP Microscaling Formats, 1.0); the FNUZ types have one NaN, in the place of
 * -0 (Noune et al., 8-bit Numerical Formats for Deep Neural Networks, 2022); E4M3 has no infinity (Micikevicius et al.,
 * FP8 Formats for Deep Learning, 2022). */
static const struct format formats[SAFETENSORS_DTYPE_COUNT] = {
    [SAFETENSORS_F16] = { 5, 10, 15, IEEE },
    [SAFETENSORS_F8_E5M2] = { 5, 2, 15, IEEE },
    [SAFETENSORS_F8_E4M3] = { 4, 3, 7, ONLY_NAN },
    [SAFETENSORS_F8_E4M3FNUZ] = { 4, 3, 8, UNSIGNED_ZERO },
    [SAFETENSORS_F8_E5M2FNUZ] = { 5, 2, 16, UNSIGNED_ZERO },
    [SAFETENSORS_F8_E8M0] = { 8, 0, 127, ONLY_EXPONENT },
};

static float
decode (const struct format *format, unsigned code)
{
    unsigned ones = (1u << format->exponent) - 1, fractions = (1u << format->mantissa) - 1;
    unsigned exponent = code >> format->mantissa & ones, mantissa = code & fractions;
    bool is_negative = format->special != ONLY_EXPONENT && code >> (format->exponent + format->mantissa) & 1;
    if (format->special == ONLY_EXPONENT)
        return exponent == ones ? NAN : ldexpf (1, (int) exponent - format->bias);
    if (format->special == UNSIGNED_ZERO && is_negative && !exponent && !mantissa)
        return NAN;
    if (exponent == ones && format->special == IEEE)
        return mantissa ? NAN : is_negative ? -INFINITY : INFINITY;
    if (exponent == ones && format->special == ONLY_NAN && mantissa == fractions)
        return NAN;
    int shift = format->bias + format->mantissa;
    float value = exponent ? ldexpf ((float) (mantissa + fractions + 1), (int) exponent - shift)
                           : ldexpf ((float) mantissa, 1 - shift);
    return is_negative ? -value : value;
}

/* All values of a small type, made when one is needed first. */
static const float *
table_of (enum safetensors_dtype dtype)
{
    static float values[1 << 16], bytes[SAFETENSORS_DTYPE_COUNT][1 << 8];
    static bool is_made[SAFETENSORS_DTYPE_COUNT];
    float *table = dtype == SAFETENSORS_F16 ? values : bytes[dtype];
    unsigned count = dtype == SAFETENSORS_F16 ? 1u << 16 : 1u << 8;
    for (unsigned code = 0; !is_made[dtype] && code < count; code++)
        table[code] = decode (&formats[dtype], code);
    is_made[dtype] = true;
    return table;
}

bool
elements_are_numbers (enum safetensors_dtype dtype)
{
    return safetensors_dtype_bits (dtype) >= 8;
}

size_t
elements_width (enum safetensors_dtype dtype)
{
    return dtype == SAFETENSORS_C64 ? 2 : 1;
}

/* Little-endian elements in any place. */
#define CONVERT(type)                                              \
    for (size_t i = 0; i < count; i++) {                           \
        type element;                                              \
        memcpy (&element, at + i * sizeof element, sizeof element); \
        numbers[i] = (double) element;                             \
    }                                                              \
    break

static void
read_small (enum safetensors_dtype dtype, const unsigned char *at, size_t count, double *numbers)
{
    const float *table = table_of (dtype);
    if (dtype == SAFETENSORS_F16)
        for (size_t i = 0; i < count; i++)
            numbers[i] = (double) table[at[2 * i] | at[2 * i + 1] << 8];
    else
        for (size_t i = 0; i < count; i++)
            numbers[i] = (double) table[at[i]];
}

static void
read_bfloat16 (const unsigned char *at, size_t count, double *numbers)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t) at[2 * i] << 16 | (uint32_t) at[2 * i + 1] << 24;
        float value;
        memcpy (&value, &bits, sizeof value);
        numbers[i] = (double) value;
    }
}

void
elements_read (enum safetensors_dtype dtype, const void *bytes, size_t count, double *numbers)
{
    const unsigned char *at = bytes;
    count *= elements_width (dtype);
    switch (dtype) {
    case SAFETENSORS_BOOL:
    case SAFETENSORS_U8: CONVERT (uint8_t);
    case SAFETENSORS_I8: CONVERT (int8_t);
    case SAFETENSORS_I16: CONVERT (int16_t);
    case SAFETENSORS_U16: CONVERT (uint16_t);
    case SAFETENSORS_I32: CONVERT (int32_t);
    case SAFETENSORS_U32: CONVERT (uint32_t);
    case SAFETENSORS_I64: CONVERT (int64_t);
    case SAFETENSORS_U64: CONVERT (uint64_t);
    case SAFETENSORS_C64:
    case SAFETENSORS_F32: CONVERT (float);
    case SAFETENSORS_F64: CONVERT (double);
    case SAFETENSORS_BF16: read_bfloat16 (at, count, numbers); break;
    default: read_small (dtype, at, count, numbers); break;
    }
}
