/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: DLPack's DLTensor, the element types that libaccel computes with, and a tensor that owns its shape. */
#ifndef ACCEL_TENSOR_H
#define ACCEL_TENSOR_H

#include <accel/base.h>
#include <dlpack/dlpack.h>

ACCEL_BEGIN_DECLS

/** DLPack's type codes for booleans and 8-bit floats, which are newer than version 0.6 in Debian 12. */
enum { ACCEL_DL_BOOL = 6, ACCEL_DL_FLOAT8_E4M3FN = 10, ACCEL_DL_FLOAT8_E5M2 = 12 };

/** Maximum number of dimensions of tensors described by libaccel. */
enum { ACCEL_MAX_DIMS = 8 };

/** Element types: enum name, DLPack code, bits, torch's name.  Reductions are not defined for 8-bit floats. */
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

/** @return the size of one element in bytes; 0 if @p dtype is not a valid enum value. */
ACCEL_API size_t accel_dtype_bytes (enum accel_dtype dtype);

/** @return torch's name of @p dtype ("float32"), or "?" if it is not a valid enum value; static. */
ACCEL_API const char *accel_dtype_name (enum accel_dtype dtype);

/** @return DLPack's description of @p dtype (one lane). */
ACCEL_API DLDataType accel_dtype_to_dl (enum accel_dtype dtype);

/** @return the enum value for DLPack's @p type, or ACCEL_DTYPE_COUNT if libaccel has none. */
ACCEL_API enum accel_dtype accel_dtype_from_dl (DLDataType type);

/**
 * A DLTensor with storage for its shape.  `dl.shape` points into the struct, so do not copy it by assignment.  All zero
 * is a valid empty tensor.  `dl.data` belongs to the program unless `owned_bytes` is not 0.
 */
struct accel_tensor {
    DLTensor dl;
    int64_t shape[ACCEL_MAX_DIMS];
    size_t owned_bytes; /**< bytes at dl.data that accel_tensor_release() frees; 0: not owned */
};

/**
 * Describe a contiguous tensor in host memory.  Nothing is allocated (dl.data becomes NULL).
 *
 * @param shape  [ndim], each >= 0; copied.  May be NULL if ndim is 0
 * @retval ACCEL_ERR_INVALID  @p tensor is NULL, ndim is not in 0..ACCEL_MAX_DIMS, a size is negative, or there are more
 *                            elements than size_t can count
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tensor_init (struct accel_tensor *tensor, enum accel_dtype dtype, int ndim, const int64_t *shape,
                   struct accel_error *err);

/** Free the memory that the library allocated for @p tensor, and make it empty.  On a GPU, after what has been queued
 *  on the stream of accel_set_stream(); other streams have to be ordered with that.  Accepts NULL and empty tensors. */
ACCEL_API void accel_tensor_release (struct accel_tensor *tensor);

/** @return the number of elements of @p tensor, on the host or a device: the product of its shape, or 1 if it has no
 *  dimensions; 0 for NULL. */
ACCEL_API size_t accel_tensor_count (const DLTensor *tensor);

/**
 * Say on which stream the program's own work on a GPU runs: from now on, everything that libaccel does there is queued
 * on it, after what it has queued before.  So neither has to wait for the other: calls see what the program has queued
 * before them, and what the program queues after a call sees its results.
 *
 * It applies to @p device in this process: to all jobs, models, loaders and tensors, on all threads, because most
 * functions on tensors know no job.  Set another stream (or NULL) before you destroy this one.
 *
 * @param device  accel_device(), for example
 * @param stream  on kDLCUDA a cudaStream_t, or one of DLPack's values: 1 is cudaStreamLegacy, 2 is cudaStreamPerThread;
 *                NULL: cudaStreamLegacy, the default.  With cudaStreamPerThread, each call is queued on the stream of
 *                the thread that makes it, after what calls on other threads have queued.  In host memory, NULL
 * @retval ACCEL_ERR_INVALID      host memory has no streams; or DLPack's -1
 * @retval ACCEL_ERR_UNSUPPORTED  libaccel has no code for @p device; `text` says why
 * @retval ACCEL_ERR_SYSTEM       CUDA refuses the stream, for example because it is another GPU's: the former one
 *                                stays; or an earlier operation on the GPU failed
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_set_stream (DLDevice device, void *stream, struct accel_error *err);

/** @return the stream in effect on @p device, (void *) 1 if none was set; NULL if it has none, as host memory. */
ACCEL_API void *accel_get_stream (DLDevice device);

ACCEL_END_DECLS

#endif
