/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and tensors that own their shape; see accel/tensor.h. */
#include <config.h>

#include <accel/tensor.h>

#include "lib/error.h"
#include "lib/tensor.h"

#include <stdlib.h>

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
    if (!is_dtype (dtype))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: %d is no enum accel_dtype", (int) dtype);
    if (ndim < 0 || ndim > ACCEL_MAX_DIMS)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: %d dimensions are not 0 to %d", ndim,
                           ACCEL_MAX_DIMS);
    if (ndim && !shape)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: shape is NULL with %d dimensions", ndim);
    size_t bytes = accel_dtype_bytes (dtype);
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: size %lld of dimension %d is negative",
                               (long long) shape[i], i);
        /* Zero is counted as one here, so that [2^40, 0, 2^40] is refused wherever its parts would be. */
        if (shape[i] && __builtin_mul_overflow (bytes, (size_t) shape[i], &bytes))
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_tensor_init: more bytes than any memory has");
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

void
accel_tensor_release (struct accel_tensor *tensor)
{
    if (!tensor)
        return;
    if (tensor->owned_bytes)
        free (tensor->dl.data);
    *tensor = (struct accel_tensor){ 0 };
}

size_t
accel_tensor_count (const DLTensor *tensor)
{
    size_t count = 1;
    for (int i = 0; i < tensor->ndim; i++)
        count *= (size_t) tensor->shape[i];
    return count;
}

bool
tensor_is_contiguous (const DLTensor *tensor)
{
    int64_t stride = 1;
    for (int i = tensor->ndim - 1; tensor->strides && i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
            return false;
        stride *= tensor->shape[i];
    }
    return true;
}
