/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of an array of any type of float, by the functions that the processor's loops use.  All threads of a kernel
 * take the same branch. */
#ifndef CUDA_ELEMENTS_H
#define CUDA_ELEMENTS_H

#include "cuda/kernels.h"
#include "lib/kernels/half_element.h"

static inline size_t
element_bytes (enum accel_dtype dtype)
{
    return dtype == ACCEL_FLOAT32 ? 4 : dtype == ACCEL_BFLOAT16 || dtype == ACCEL_FLOAT16 ? 2 : 1;
}

ELEMENT float
element_load (const void *values, enum accel_dtype dtype, size_t i)
{
    if (dtype == ACCEL_FLOAT32)
        return ((const float *) values)[i];
    if (dtype == ACCEL_BFLOAT16)
        return float_of_bf16 (((const uint16_t *) values)[i]);
    if (dtype == ACCEL_FLOAT16)
        return float_of_half (((const uint16_t *) values)[i]);
    uint8_t value = ((const uint8_t *) values)[i];
    return dtype == ACCEL_FLOAT8_E4M3FN ? float_of_e4m3 (value) : float_of_e5m2 (value);
}

/* @return the bits of a value in a type smaller than float32 */
ELEMENT uint16_t
element_narrow (enum accel_dtype dtype, float value, uint32_t overflow)
{
    if (dtype == ACCEL_BFLOAT16)
        return bf16_of_float (value);
    if (dtype == ACCEL_FLOAT16)
        return half_of_float (value);
    return dtype == ACCEL_FLOAT8_E4M3FN ? e4m3_of_float (value) : e5m2_of_float (value, overflow);
}

ELEMENT void
element_store (void *values, enum accel_dtype dtype, size_t i, float value, uint32_t overflow)
{
    if (dtype == ACCEL_FLOAT32) {
        ((float *) values)[i] = value;
        return;
    }
    uint16_t bits = element_narrow (dtype, value, overflow);
    if (dtype == ACCEL_BFLOAT16 || dtype == ACCEL_FLOAT16)
        ((uint16_t *) values)[i] = bits;
    else
        ((uint8_t *) values)[i] = (uint8_t) bits;
}

#endif
