/* SPDX-License-Identifier: Apache-2.0 */
/* What the library asks of tensors that others describe, and what it does with their memory. */
#ifndef LIB_BASE_TENSOR_H
#define LIB_BASE_TENSOR_H

#include <accel/tensor.h>

/** A DLTensor with room for shape and strides; all zero is empty.  `dl` points into the struct. */
struct tensor_view {
    DLTensor dl;
    int64_t shape[ACCEL_MAX_DIMS];
    int64_t strides[ACCEL_MAX_DIMS];
};

/** Whether the strides, if there are any, are those of a contiguous tensor; sizes are >= 0. */
bool tensor_is_contiguous (const DLTensor *tensor);

/**
 * Whether others can rely on @p tensor: a type and number of dimensions that we know, sizes and strides that do not
 * overflow, data if there are elements.  Messages begin with what is wrong, for callers to prefix.
 */
enum accel_status tensor_check (const DLTensor *tensor, struct accel_error *err);

/** Whether the processor can read and write memory of @p device. */
bool tensor_device_is_host (DLDevice device);

/** The name of the kind of memory of @p device, like torch: "cuda"; static. */
const char *tensor_device_name (DLDevice device);

/** The address of the first element of a tensor in host memory; NULL for one without data. */
void *tensor_data (const DLTensor *tensor);

/** The element's size in bytes. */
size_t tensor_element_bytes (const DLTensor *tensor);

/** accel_dtype_bytes() of a valid type, in line. */
static inline size_t
tensor_dtype_bytes (enum accel_dtype dtype)
{
    static const uint8_t bytes[] = {
#define X(name, code, bits, text) (bits) / 8,
        ACCEL_DTYPE_MAP (X)
#undef X
    };
    return bytes[dtype];
}

bool tensor_same_dtype (const DLTensor *a, const DLTensor *b);

/**
 * Describe what @p tensor, which tensor_check() has passed, describes.  For memory of the host byte_offset becomes 0;
 * strides stay only if the tensor is not contiguous.
 */
void tensor_view_set (struct tensor_view *view, const DLTensor *tensor);

/** Keep indices [begin, begin + count) of dimension @p dim, which has them. */
void tensor_view_narrow (struct tensor_view *view, int dim, int64_t begin, int64_t count);

/** Copy elements between tensors of one shape and type in host memory; strides may differ, memory must not overlap. */
void tensor_copy (const DLTensor *to, const DLTensor *from);

/** accel_tensor_init() with memory, aligned to 64 bytes; zeroed if @p zeroed. */
enum accel_status tensor_allocate (struct accel_tensor *tensor, enum accel_dtype dtype, int ndim, const int64_t *shape,
                                   bool zeroed, struct accel_error *err);

/** A contiguous copy of @p tensor, which tensor_check() has passed and is in host memory. */
enum accel_status tensor_clone (struct accel_tensor *copy, const DLTensor *tensor, struct accel_error *err);

#endif
