/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the header of safetensors files (https://github.com/huggingface/safetensors): 8 bytes with the length of the
 * header, little-endian; the header, JSON; the tensors, little-endian and row-major, without holes. */
#ifndef FILES_SAFETENSORS_H
#define FILES_SAFETENSORS_H

#include "files/source.h"

#include <accel/tensor.h>

enum {
    SAFETENSORS_MAX_HEADER = 100000000, /* bytes, the limit of the format */
    SAFETENSORS_LENGTH_BYTES = 8,
};

/** Element types in the order of the format: name, bits, the library's own type or ACCEL_DTYPE_COUNT. */
#define SAFETENSORS_DTYPE_MAP(X)              \
    X (BOOL, 8, ACCEL_BOOL)                   \
    X (F4, 4, ACCEL_DTYPE_COUNT)              \
    X (F6_E2M3, 6, ACCEL_DTYPE_COUNT)         \
    X (F6_E3M2, 6, ACCEL_DTYPE_COUNT)         \
    X (U8, 8, ACCEL_UINT8)                    \
    X (I8, 8, ACCEL_INT8)                     \
    X (F8_E5M2, 8, ACCEL_FLOAT8_E5M2)         \
    X (F8_E4M3, 8, ACCEL_FLOAT8_E4M3FN)       \
    X (F8_E8M0, 8, ACCEL_DTYPE_COUNT)         \
    X (F8_E4M3FNUZ, 8, ACCEL_DTYPE_COUNT)     \
    X (F8_E5M2FNUZ, 8, ACCEL_DTYPE_COUNT)     \
    X (I16, 16, ACCEL_DTYPE_COUNT)            \
    X (U16, 16, ACCEL_DTYPE_COUNT)            \
    X (F16, 16, ACCEL_FLOAT16)                \
    X (BF16, 16, ACCEL_BFLOAT16)              \
    X (I32, 32, ACCEL_INT32)                  \
    X (U32, 32, ACCEL_DTYPE_COUNT)            \
    X (F32, 32, ACCEL_FLOAT32)                \
    X (C64, 64, ACCEL_DTYPE_COUNT)            \
    X (F64, 64, ACCEL_FLOAT64)                \
    X (I64, 64, ACCEL_INT64)                  \
    X (U64, 64, ACCEL_DTYPE_COUNT)

enum safetensors_dtype {
#define X(name, bits, dtype) SAFETENSORS_##name,
    SAFETENSORS_DTYPE_MAP (X)
#undef X
    SAFETENSORS_DTYPE_COUNT
};

struct safetensors_tensor {
    char *name;
    enum safetensors_dtype dtype;
    size_t ndim;
    uint64_t *shape;     /* [ndim], NULL for 0; the product with the element's size fits size_t */
    uint64_t begin, end; /* bytes from the beginning of the data on */
};

/** What a header says.  All zero is the header of an empty file. */
struct safetensors {
    struct safetensors_tensor *tensors; /* [count] in the order of the data */
    size_t count;
    uint64_t data_bytes; /* end of the last tensor */
    size_t *by_name;     /* [count] indices of tensors, sorted */
    size_t tensor_room;
};

/**
 * Read the text of a header, which says how many bytes of data there must be.  No file is touched.
 *
 * Accepts what the format's own reader (version 0.8) accepts, but no name that is there twice, no string with a
 * character 0, and no tensor described by an array, which is an accident of that reader.
 *
 * @param text  [length]; need not be terminated.  Messages say "byte N" of it
 */
enum accel_status safetensors_parse (struct safetensors *file, const char *text, size_t length,
                                     struct accel_error *err);

/** Read the header of an open file and compare its sizes. @param[out] data  where the data begin; bytes */
enum accel_status safetensors_read (struct safetensors *file, const struct source *source, uint64_t *data,
                                    struct accel_error *err);

/** @return the tensor of this name, NULL where there is none. */
const struct safetensors_tensor *safetensors_find (const struct safetensors *file, const char *name);

/** @return the library's type, ACCEL_DTYPE_COUNT where it has none. */
enum accel_dtype safetensors_to_accel (enum safetensors_dtype dtype);

/** @return the format's name of @p dtype. */
const char *safetensors_dtype_name (enum safetensors_dtype dtype);

/** Free what safetensors_parse() made; also after it failed. */
void safetensors_release (struct safetensors *file);

#endif
