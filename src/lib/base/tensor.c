/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and tensors that own their shape; see accel/tensor.h. */
#include <config.h>

#include <accel/tensor.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "util/memory.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    DLDataType dl;
    const char *name;
} types[ACCEL_DTYPE_COUNT] = {
#define X(dtype, type_code, type_bits, text) \
    [ACCEL_##dtype] = { .dl = { .code = (type_code), .bits = (type_bits), .lanes = 1 }, .name = text },
    ACCEL_DTYPE_MAP (X)
#undef X
};

static bool
is_dtype (enum accel_dtype dtype)
{
    return (unsigned) dtype < ACCEL_DTYPE_COUNT;
}

size_t
accel_dtype_bytes (enum accel_dtype dtype)
{
    return is_dtype (dtype) ? types[dtype].dl.bits / 8u : 0;
}

const char *
accel_dtype_name (enum accel_dtype dtype)
{
    return is_dtype (dtype) ? types[dtype].name : "?";
}

DLDataType
accel_dtype_to_dl (enum accel_dtype dtype)
{
    return is_dtype (dtype) ? types[dtype].dl : (DLDataType){ 0 };
}

enum accel_dtype
accel_dtype_from_dl (DLDataType type)
{
    for (int i = 0; i < ACCEL_DTYPE_COUNT; i++)
        if (types[i].dl.code == type.code && types[i].dl.bits == type.bits && types[i].dl.lanes == type.lanes)
            return (enum accel_dtype) i;
    return ACCEL_DTYPE_COUNT;
}

enum accel_status
accel_tensor_init (struct accel_tensor *tensor, enum accel_dtype dtype, int ndim, const int64_t *shape,
                   struct accel_error *err)
{
    if (!tensor)
        return accel_fail_null (err, __func__, "tensor");
    if (!is_dtype (dtype))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: invalid element type %d", (int) dtype);
    if (ndim < 0 || ndim > ACCEL_MAX_DIMS)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: ndim is %d, expected 0 to %d", ndim,
                           ACCEL_MAX_DIMS);
    if (ndim && !shape)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: shape is NULL, but ndim is %d", ndim);
    size_t bytes = accel_dtype_bytes (dtype);
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: size %lld of dimension %d is negative",
                               (long long) shape[i], i);
        /* Zero is counted as one here, so that [2^40, 0, 2^40] is refused wherever its parts would be. */
        if (shape[i] && __builtin_mul_overflow (bytes, (size_t) shape[i], &bytes))
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: too large: size overflows");
    }
    *tensor = (struct accel_tensor){ 0 };
    for (int i = 0; i < ndim; i++)
        tensor->shape[i] = shape[i];
    tensor->dl.device = (DLDevice){ .device_type = kDLCPU };
    tensor->dl.ndim = ndim;
    tensor->dl.dtype = types[dtype].dl;
    tensor->dl.shape = tensor->shape;
    return ACCEL_OK;
}

size_t
accel_tensor_count (const DLTensor *tensor)
{
    size_t count = tensor != NULL;
    for (int i = 0; tensor && i < tensor->ndim; i++)
        count *= (size_t) tensor->shape[i];
    return count;
}

/* Without elements, any strides are; producers of DLPack differ in what they say then. */
bool
tensor_is_contiguous (const DLTensor *tensor)
{
    int64_t stride = 1;
    for (int i = 0; i < tensor->ndim; i++)
        if (!tensor->shape[i])
            return true;
    for (int i = tensor->ndim - 1; tensor->strides && i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
            return false;
        stride *= tensor->shape[i];
    }
    return true;
}

/* Whether every element's distance from the first, in bytes, is a number; sizes are >= 0. */
static bool
strides_fit (const DLTensor *tensor, int64_t element)
{
    int64_t low = 0, high = 0;
    for (int i = 0; tensor->strides && i < tensor->ndim; i++) {
        int64_t reach;
        if (tensor->shape[i] < 2)
            continue;
        if (__builtin_mul_overflow (tensor->strides[i], tensor->shape[i] - 1, &reach)
            || __builtin_mul_overflow (reach, element, &reach))
            return false;
        int64_t *side = reach < 0 ? &low : &high;
        if (__builtin_add_overflow (*side, reach, side))
            return false;
    }
    return true;
}

enum accel_status
tensor_check (const DLTensor *tensor, struct accel_error *err)
{
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    if (dtype == ACCEL_DTYPE_COUNT)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "unsupported element type (DLPack code %d, %d bits, %d lanes)",
                           tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes);
    if (tensor->ndim < 0 || tensor->ndim > ACCEL_MAX_DIMS)
        return accel_fail (err, ACCEL_ERR_INVALID, "ndim is %d, expected 0 to %d", (int) tensor->ndim, ACCEL_MAX_DIMS);
    if (tensor->ndim && !tensor->shape)
        return accel_fail (err, ACCEL_ERR_INVALID, "the shape is NULL");
    int64_t element = (int64_t) accel_dtype_bytes (dtype), bytes = element;
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0)
            return accel_fail (err, ACCEL_ERR_INVALID, "size %lld of dimension %d is negative",
                               (long long) tensor->shape[i], i);
        if (tensor->shape[i] && __builtin_mul_overflow (bytes, tensor->shape[i], &bytes))
            return accel_fail (err, ACCEL_ERR_INVALID, "too large: size overflows");
    }
    if (!strides_fit (tensor, element))
        return accel_fail (err, ACCEL_ERR_INVALID, "strides too large: offset overflows");
    if (!tensor->data && accel_tensor_count (tensor))
        return accel_fail (err, ACCEL_ERR_INVALID, "the data is NULL");
    return ACCEL_OK;
}

bool
tensor_device_is_host (DLDevice device)
{
    return device.device_type == kDLCPU || device.device_type == kDLCUDAHost || device.device_type == kDLROCMHost;
}

const char *
tensor_device_name (DLDevice device)
{
    switch ((int) device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
    case kDLROCMHost: return "cpu";
    case kDLCUDA:
    case kDLCUDAManaged: return "cuda";
    case kDLOpenCL: return "opencl";
    case kDLVulkan: return "vulkan";
    case kDLMetal: return "mps";
    case kDLVPI: return "vpi";
    case kDLROCM: return "rocm";
    case kDLExtDev: return "ext";
    default: return "unknown";
    }
}

void *
tensor_data (const DLTensor *tensor)
{
    return tensor->data ? (char *) tensor->data + tensor->byte_offset : NULL;
}

size_t
tensor_element_bytes (const DLTensor *tensor)
{
    return accel_dtype_bytes (accel_dtype_from_dl (tensor->dtype));
}

bool
tensor_same_dtype (const DLTensor *a, const DLTensor *b)
{
    return a->dtype.code == b->dtype.code && a->dtype.bits == b->dtype.bits && a->dtype.lanes == b->dtype.lanes;
}

/* Strides are written always, so that narrowing need not make them; `dl` shows them where they matter. */
void
tensor_view_set (struct tensor_view *view, const DLTensor *tensor)
{
    struct tensor_view made = { .dl = *tensor };
    int64_t stride = 1;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        made.shape[i] = tensor->shape[i];
        made.strides[i] = tensor->strides ? tensor->strides[i] : stride;
        stride *= tensor->shape[i];
    }
    if (tensor_device_is_host (tensor->device)) {
        made.dl.data = tensor_data (tensor);
        made.dl.byte_offset = 0;
    }
    bool packed = !accel_tensor_count (tensor) || tensor_is_contiguous (tensor);
    *view = made;
    view->dl.shape = view->shape;
    view->dl.strides = packed ? NULL : view->strides;
}

void
tensor_view_narrow (struct tensor_view *view, int dim, int64_t begin, int64_t count)
{
    DLTensor narrow = view->dl;
    narrow.strides = view->strides;
    view->shape[dim] = count;
    /* An empty view begins nowhere, and the first element of one with data is at an address that exists. */
    if (begin && accel_tensor_count (&narrow)) {
        int64_t bytes = begin * view->strides[dim] * (int64_t) tensor_element_bytes (&narrow);
        if (tensor_device_is_host (narrow.device))
            narrow.data = (char *) narrow.data + bytes;
        else
            narrow.byte_offset += (uint64_t) bytes;
    }
    tensor_view_set (view, &narrow);
}

/* One row of `count` elements; the size is a constant in each branch, so that memcpy is a move. */
static void
copy_row (char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, size_t element)
{
    switch (element) {
#define CASE(size)                                                          \
    case size:                                                              \
        for (int64_t i = 0; i < count; i++)                                 \
            memcpy (to + i * to_step * size, from + i * from_step * size, size); \
        break
        CASE (1);
        CASE (2);
        CASE (4);
        CASE (8);
#undef CASE
    default:
        break;
    }
}

struct copy_dim {
    int64_t size, to, from; /* strides in elements */
};

static void
copy_dims (char *to, const char *from, const struct copy_dim *dims, int ndim, size_t element)
{
    if (!ndim) {
        memcpy (to, from, element);
        return;
    }
    if (ndim == 1 && dims->to == 1 && dims->from == 1)
        memory_copy (to, from, (size_t) dims->size * element);
    else if (ndim == 1)
        copy_row (to, dims->to, from, dims->from, dims->size, element);
    else
        for (int64_t i = 0; i < dims->size; i++)
            copy_dims (to + i * dims->to * (int64_t) element, from + i * dims->from * (int64_t) element, dims + 1,
                       ndim - 1, element);
}

void
tensor_copy (const DLTensor *to, const DLTensor *from)
{
    if (!accel_tensor_count (from))
        return;
    struct tensor_view into, out;
    tensor_view_set (&into, to);
    tensor_view_set (&out, from);
    /* Dimensions that both sides walk through in one stride become one, so that most copies are one memcpy. */
    struct copy_dim dims[ACCEL_MAX_DIMS];
    int ndim = 0;
    for (int i = 0; i < from->ndim; i++) {
        struct copy_dim dim = { .size = from->shape[i], .to = into.strides[i], .from = out.strides[i] };
        struct copy_dim *last = ndim ? &dims[ndim - 1] : NULL;
        if (dim.size == 1)
            continue;
        if (last && last->to == dim.to * dim.size && last->from == dim.from * dim.size) {
            dim.size *= last->size;
            *last = dim;
        } else {
            dims[ndim++] = dim;
        }
    }
    copy_dims (tensor_data (to), tensor_data (from), dims, ndim, tensor_element_bytes (from));
}

enum accel_status
tensor_allocate (struct accel_tensor *tensor, enum accel_dtype dtype, int ndim, const int64_t *shape, bool zeroed,
                 struct accel_error *err)
{
    enum accel_status status = accel_tensor_init (tensor, dtype, ndim, shape, err);
    if (status)
        return status;
    size_t bytes = accel_tensor_count (&tensor->dl) * accel_dtype_bytes (dtype);
    bytes += !bytes; /* so that there is an address, and owned_bytes is not 0 */
    tensor->dl.data = zeroed ? memory_create_zeroed (bytes) : memory_create (bytes);
    if (!tensor->dl.data)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate %zu bytes", bytes);
    tensor->owned_bytes = bytes;
    return ACCEL_OK;
}

enum accel_status
tensor_clone (struct accel_tensor *copy, const DLTensor *tensor, struct accel_error *err)
{
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    enum accel_status status = tensor_allocate (copy, dtype, tensor->ndim, tensor->shape, false, err);
    if (!status)
        tensor_copy (&copy->dl, tensor);
    return status;
}
