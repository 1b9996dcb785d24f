/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 16 bits by the kernels of reductions, which use F16C where the processor has it; those of 8 bits by
 * loops of which the compiler makes vectors. */
#include <config.h>

#include "lib/kernels/half.h"

#include "lib/kernels/arithmetic.h"
#include "lib/kernels/half_element.h"
#include "lib/kernels/kernels.h"

#include <string.h>

VECTORISED static void
e4m3_from_floats (uint8_t *target, const float *source, size_t count)
{
    for (size_t i = 0; i < count; i++)
        target[i] = e4m3_of_float (source[i]);
}

VECTORISED static void
e5m2_from_floats (uint8_t *target, const float *source, size_t count, bool saturate)
{
    uint32_t overflow = saturate ? E5M2_LARGEST : E5M2_INFINITY;
    for (size_t i = 0; i < count; i++)
        target[i] = e5m2_of_float (source[i], overflow);
}

VECTORISED static void
e4m3_to_floats (float *target, const uint8_t *source, size_t count)
{
    for (size_t i = 0; i < count; i++)
        target[i] = float_of_e4m3 (source[i]);
}

VECTORISED static void
e5m2_to_floats (float *target, const uint8_t *source, size_t count)
{
    for (size_t i = 0; i < count; i++)
        target[i] = float_of_e5m2 (source[i]);
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
