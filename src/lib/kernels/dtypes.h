/* SPDX-License-Identifier: Apache-2.0 */
/* Element types from the inside: what the library has to know of each, besides what ACCEL_DTYPE_MAP says.  C and CUDA
 * both include it.  HACKING.md tells how to add one. */
#ifndef LIB_KERNELS_DTYPES_H
#define LIB_KERNELS_DTYPES_H

#include "lib/kernels/bits.h"

#include <accel/tensor.h>

#include <stdbool.h>

struct dtype_range {
    int64_t min, max;
};

/**
 * The table, in the order of enum accel_dtype.
 *
 * WIDE (name)                                    a float that loops have in C's own type
 * NARROW (name, bits, widened, narrowed, limit)  a float that is computed with in float32: the type of its bits, its
 *                                                functions in half_element.h, and, if each tensor of it has a scale,
 *                                                its largest number, or 0; those with a scale are not reduced
 * INTEGER (name, type, min, max)                 C's type, and its range
 */
#define DTYPES(WIDE, NARROW, INTEGER)                                        \
    WIDE (FLOAT32)                                                           \
    WIDE (FLOAT64)                                                           \
    NARROW (FLOAT16, uint16_t, float_of_half, half_of_float, 0)              \
    NARROW (BFLOAT16, uint16_t, float_of_bf16, bf16_of_float, 0)             \
    INTEGER (INT8, int8_t, INT8_MIN, INT8_MAX)                               \
    INTEGER (UINT8, uint8_t, 0, UINT8_MAX)                                   \
    INTEGER (INT32, int32_t, INT32_MIN, INT32_MAX)                           \
    INTEGER (INT64, int64_t, INT64_MIN, INT64_MAX)                           \
    INTEGER (BOOL, uint8_t, 0, 1)                                            \
    NARROW (FLOAT8_E4M3FN, uint8_t, float_of_e4m3, e4m3_of_float, 448)       \
    NARROW (FLOAT8_E5M2, uint8_t, float_of_e5m2, e5m2_of_float, 57344)

/** One kind of rows of it. @{ */
#define DTYPES_NO_ROW(...)
#define WIDE_FLOATS(X) DTYPES (X, DTYPES_NO_ROW, DTYPES_NO_ROW)
#define NARROW_FLOATS(X) DTYPES (DTYPES_NO_ROW, X, DTYPES_NO_ROW)
#define INTEGERS(X) DTYPES (DTYPES_NO_ROW, DTYPES_NO_ROW, X)
/** @} */

#ifndef __cplusplus
#define ROW(name, ...) DTYPE_ROW_##name,
enum { DTYPES (ROW, ROW, ROW) DTYPE_ROWS };
#undef ROW
#define X(name, code, bits, text) \
    _Static_assert (DTYPE_ROW_##name == (int) ACCEL_##name, "DTYPES has a row for each type of ACCEL_DTYPE_MAP");
ACCEL_DTYPE_MAP (X)
#undef X
#define X(name, type, widened, narrowed, limit) \
    _Static_assert (sizeof (type) <= sizeof (uint16_t), "blocks of narrow floats are for 16 bits at most");
NARROW_FLOATS (X)
#undef X

#endif

ELEMENT bool
dtype_is_float (enum accel_dtype dtype)
{
#define ROW(name, ...) || dtype == ACCEL_##name
    return false WIDE_FLOATS (ROW) NARROW_FLOATS (ROW);
#undef ROW
}

/** Whether it is a float that kernels compute with in float32. */
ELEMENT bool
dtype_is_small_float (enum accel_dtype dtype)
{
    return dtype_is_float (dtype) && dtype != ACCEL_FLOAT64;
}

/** @return the largest number of a type whose tensors have a scale each, 0 for another type. */
ELEMENT float
dtype_limit (enum accel_dtype dtype)
{
#define X(name, type, widened, narrowed, limit) dtype == ACCEL_##name ? (float) (limit) :
    return NARROW_FLOATS (X) 0;
#undef X
}

ELEMENT bool
dtype_is_scaled (enum accel_dtype dtype)
{
    return dtype_limit (dtype) > 0;
}

#ifndef __cplusplus

/** @return the range of a type of integers; 0 to 0 for floats. */
static inline struct dtype_range
dtype_range (enum accel_dtype dtype)
{
    static const struct dtype_range ranges[ACCEL_DTYPE_COUNT] = {
#define X(name, type, min, max) [ACCEL_##name] = { min, max },
        INTEGERS (X)
#undef X
    };
    return ranges[dtype];
}

/** Write @p value, which is in the range of @p dtype, at any address. */
static inline void
dtype_store_integer (void *to, enum accel_dtype dtype, int64_t value)
{
    switch ((int) dtype) {
#define X(name, type, min, max)                              \
    case ACCEL_##name:                                       \
        memcpy (to, &(type){ (type) value }, sizeof (type)); \
        break;
        INTEGERS (X)
#undef X
    }
}

#endif

#endif
