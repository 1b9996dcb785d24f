/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: DLPack's DLTensor, the element types that libaccel computes with, and a tensor that owns its shape. */
#ifndef ACCEL_TENSOR_H
#define ACCEL_TENSOR_H

#include <accel/base.h>
#include <dlpack/dlpack.h>

ACCEL_BEGIN_DECLS

/** DLPack's type codes for booleans and 8-bit floats, which came after the version 0.6 that Debian 12 has. */
enum { ACCEL_DL_BOOL = 6, ACCEL_DL_FLOAT8_E4M3FN = 10, ACCEL_DL_FLOAT8_E5M2 = 12 };

/** Most dimensions of a tensor that libaccel describes itself. */
enum { ACCEL_MAX_DIMS = 8 };

/** Element types: enum name, DLPack code, bits, torch's name.  No reduction is defined for floats of 8 bits. */
#define ACCEL_DTYPE_MAP(X)                                        \
    X (FLOAT32, kDLFloat, 32, "float32")                          \
    X (FLOAT64, kDLFloat, 64, "float64")                          \
    X (FLOAT16, kDLFloat, 16, "float16")                          \
    X (BFLOAT16, kDLBfloat, 16, "bfloat16")                       \
    X (INT8, kDLInt, 8, "int8")                                   \
    X (UINT8, kDLUInt, 8, "uint8")                                \
    X (INT32, kDLInt, 32, "int32")                                \
    X (INT64, kDLInt, 64, "int64")                                \
    X (BOOL, ACCEL_DL_BOOL, 8, "bool")                            \
    X (FLOAT8_E4M3FN, ACCEL_DL_FLOAT8_E4M3FN, 8, "float8_e4m3fn") \
    X (FLOAT8_E5M2, ACCEL_DL_FLOAT8_E5M2, 8, "float8_e5m2")

enum accel_dtype {
#define X(name, code, bits, text) ACCEL_##name,
    ACCEL_DTYPE_MAP (X)
#undef X
    ACCEL_DTYPE_COUNT
};

/** @return bytes of one element, 0 for a value that is no enum accel_dtype. */
ACCEL_API size_t accel_dtype_bytes (enum accel_dtype dtype);

/** @return the original's name of @p dtype ("float32"), "?" for a value that is none; static. */
ACCEL_API const char *accel_dtype_name (enum accel_dtype dtype);

/** @return @p dtype as DLPack describes it (one lane). */
ACCEL_API DLDataType accel_dtype_to_dl (enum accel_dtype dtype);

/** @return the enum for DLPack's @p type, or ACCEL_DTYPE_COUNT where libaccel has none. */
ACCEL_API enum accel_dtype accel_dtype_from_dl (DLDataType type);

/**
 * A DLTensor with room for its shape.  `dl.shape` points into the struct, so do not copy it by assignment.
 * All zero is a valid empty tensor.  `dl.data` is the program's own unless `owned_bytes` is not 0.
 */
struct accel_tensor {
    DLTensor dl;
    int64_t shape[ACCEL_MAX_DIMS];
    size_t owned_bytes; /**< size of the memory at dl.data that accel_tensor_release() frees; 0: not ours */
};

/**
 * Describe a contiguous tensor in host memory; no memory is allocated (dl.data becomes NULL).
 *
 * @param shape  [ndim], each >= 0; copied.  NULL is allowed for ndim 0
 * @retval ACCEL_ERR_INVALID  @p tensor is NULL, ndim not in 0..ACCEL_MAX_DIMS, a negative size, or more elements than
 *                            size_t counts
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tensor_init (struct accel_tensor *tensor, enum accel_dtype dtype, int ndim, const int64_t *shape,
                   struct accel_error *err);

/** Free what the library allocated for @p tensor and empty it.  Accepts NULL and empty tensors. */
ACCEL_API void accel_tensor_release (struct accel_tensor *tensor);

/** @return the number of elements of @p tensor: the product of its shape, 1 for 0 dimensions; 0 for NULL. */
ACCEL_API size_t accel_tensor_count (const DLTensor *tensor);

ACCEL_END_DECLS

#endif
