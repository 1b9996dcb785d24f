/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of an array of any type of float, by the functions that the processor's loops use.  All threads of a kernel
 * take the same branch. */
#ifndef CUDA_ELEMENTS_H
#define CUDA_ELEMENTS_H

#include "cuda/kernels.h"
#include "lib/kernels/dtypes.h"
#include "lib/kernels/half_element.h"

ELEMENT float
element_load (const void *values, enum accel_dtype dtype, size_t i)
{
    if (dtype == ACCEL_FLOAT32)
        return ((const float *) values)[i];
#define X(name, type, widened, narrowed, limit) \
    if (dtype == ACCEL_##name)                  \
        return widened (((const type *) values)[i]);
    NARROW_FLOATS (X)
#undef X
    return 0;
}

ELEMENT void
element_store (void *values, enum accel_dtype dtype, size_t i, float value)
{
    if (dtype == ACCEL_FLOAT32) {
        ((float *) values)[i] = value;
        return;
    }
#define X(name, type, widened, narrowed, limit)  \
    if (dtype == ACCEL_##name) {                 \
        ((type *) values)[i] = narrowed (value); \
        return;                                  \
    }
    NARROW_FLOATS (X)
#undef X
}

/* @return the bits of infinity in a 16-bit type, which are all those of the exponent. */
ELEMENT uint16_t
element_infinity (enum accel_dtype dtype)
{
    uint16_t bits = 0;
    element_store (&bits, dtype, 0, float_of (0x7f800000U));
    return bits;
}

#endif
