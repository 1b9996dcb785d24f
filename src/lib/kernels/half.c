/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit and 8-bit floats by the kernels of reductions, which use F16C if the processor has it. */
#include <config.h>

#include "lib/kernels/half.h"

#include "lib/kernels/kernels.h"

#include <string.h>

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
