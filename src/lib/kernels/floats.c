/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of floats: multiplied, clamped, looked at and converted; see floats.h. */
#include <config.h>

#include "lib/kernels/floats.h"

#include "lib/kernels/arithmetic.h"
#include "lib/kernels/dtypes.h"
#include "lib/kernels/floats_element.h"
#include "lib/kernels/kernels.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* By the kernels of reductions, which use F16C if the processor has it. */
void
floats_widen (float *target, const void *source, enum accel_dtype dtype, size_t count)
{
    if (dtype == ACCEL_FLOAT32)
        memcpy (target, source, count * sizeof *target);
    else
        kernels_best ()->widen[dtype] (target, source, count);
}

void
floats_narrow (void *target, enum accel_dtype dtype, const float *source, size_t count)
{
    if (dtype == ACCEL_FLOAT32)
        memcpy (target, source, count * sizeof *source);
    else
        kernels_best ()->narrow[dtype] (target, source, count);
}

VECTORISED void
floats_multiply (float *values, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        values[i] *= factor;
}

VECTORISED void
floats_add (float *target, const float *source, size_t count)
{
    for (size_t i = 0; i < count; i++)
        target[i] += source[i];
}

VECTORISED static void
clamp (float *values, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++)
        values[i] = float_clamp (values[i], limit);
}

void
floats_clamp (void *values, enum accel_dtype dtype, size_t count, float limit)
{
    if (dtype == ACCEL_FLOAT32) {
        clamp (values, count, limit);
        return;
    }
    for (size_t at = 0; at < count; at += FLOATS_BLOCK) {
        float block[FLOATS_BLOCK];
        uint16_t *narrow = (uint16_t *) values + at;
        size_t some = count - at < FLOATS_BLOCK ? count - at : FLOATS_BLOCK;
        floats_widen (block, narrow, dtype, some);
        clamp (block, some, limit);
        floats_narrow (narrow, dtype, block, some);
    }
}

VECTORISED static bool
found_inf (const uint16_t *values, size_t count, uint16_t mask)
{
    uint16_t found = 0;
    for (size_t i = 0; i < count; i++)
        found |= half_is_nonfinite (values[i], mask);
    return found != 0;
}

VECTORISED static bool
unscale (float *values, size_t count, float factor)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        found |= float_is_nonfinite (values[i]);
        values[i] *= factor;
    }
    return found != 0;
}

bool
floats_unscale (void *values, enum accel_dtype dtype, size_t count, float factor)
{
    if (dtype == ACCEL_FLOAT32)
        return unscale (values, count, factor);
    uint16_t mask;
    floats_narrow (&mask, dtype, &(float){ INFINITY }, 1);
    return found_inf (values, count, mask);
}

VECTORISED static bool
has_nonfinite (const float *values, size_t count)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++)
        found |= float_is_nonfinite (values[i]);
    return found != 0;
}

size_t
floats_find_nonfinite (const void *values, enum accel_dtype dtype, size_t count, float *value)
{
    size_t bytes = accel_dtype_bytes (dtype);
    for (size_t at = 0; at < count; at += FLOATS_BLOCK) {
        float block[FLOATS_BLOCK];
        size_t some = count - at < FLOATS_BLOCK ? count - at : FLOATS_BLOCK;
        floats_widen (block, (const char *) values + at * bytes, dtype, some);
        if (!has_nonfinite (block, some))
            continue;
        size_t i = 0;
        while (isfinite (block[i]))
            i++;
        *value = block[i];
        return at + i;
    }
    return SIZE_MAX;
}

/* What is not finite stays so in the new type, if that has it, since the values go by float32. */
void
floats_convert (void *to, enum accel_dtype to_dtype, const void *from, enum accel_dtype from_dtype, size_t count,
                float divisor)
{
    size_t from_bytes = accel_dtype_bytes (from_dtype), to_bytes = accel_dtype_bytes (to_dtype);
    for (size_t i = 0; i < count; i += FLOATS_BLOCK) {
        float block[FLOATS_BLOCK];
        size_t some = count - i < FLOATS_BLOCK ? count - i : FLOATS_BLOCK;
        const void *source = (const char *) from + i * from_bytes;
        void *target = (char *) to + i * to_bytes;
        if (from_dtype == to_dtype)
            memmove (target, source, some * to_bytes);
        else if (to_dtype == ACCEL_FLOAT32)
            floats_widen (target, source, from_dtype, some);
        else {
            if (from_dtype != ACCEL_FLOAT32)
                floats_widen (block, source, from_dtype, some);
            floats_narrow (target, to_dtype, from_dtype == ACCEL_FLOAT32 ? source : block, some);
        }
        if (divisor == 1)
            continue;
        floats_widen (block, target, to_dtype, some);
        for (size_t j = 0; j < some; j++)
            block[j] /= divisor;
        floats_narrow (target, to_dtype, block, some);
    }
}

/* The largest magnitude's bits, which are in the order of the numbers, NaN above infinity. */
VECTORISED static uint32_t
largest_bits (const float *values, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_of (values[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

VECTORISED static void
multiply_and_clamp (float *target, const float *source, size_t count, float factor, float limit)
{
    for (size_t i = 0; i < count; i++)
        target[i] = float_clamp (source[i] * factor, limit);
}

float
floats_narrow_scaled (void *target, enum accel_dtype dtype, const float *source, size_t count)
{
    float most = float_of (largest_bits (source, count));
    float limit = dtype_limit (dtype), scale = scale_of_largest (most, limit);
    for (size_t i = 0; i < count; i += FLOATS_BLOCK) {
        float block[FLOATS_BLOCK];
        size_t some = count - i < FLOATS_BLOCK ? count - i : FLOATS_BLOCK;
        multiply_and_clamp (block, source + i, some, 1 / scale, limit);
        floats_narrow ((uint8_t *) target + i, dtype, block, some);
    }
    return scale;
}
