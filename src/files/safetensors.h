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

/** Element types in the order of the format: name, bits, DLPack's type code (a
 * number if DLPack 0.6 has no name for it), and the library's own type or ACCEL_DTYPE_COUNT. */
#define SAFETENSORS_DTYPE_MAP(X)                                      \
    X (BOOL, 8, ACCEL_DL_BOOL, ACCEL_BOOL)                            \
    X (F4, 4, 17, ACCEL_DTYPE_COUNT)                                  \
    X (F6_E2M3, 6, 15, ACCEL_DTYPE_COUNT)                             \
    X (F6_E3M2, 6, 16, ACCEL_DTYPE_COUNT)                             \
    X (U8, 8, kDLUInt, ACCEL_UINT8)                                   \
    X (I8, 8, kDLInt, ACCEL_INT8)                                     \
    X (F8_E5M2, 8, ACCEL_DL_FLOAT8_E5M2, ACCEL_FLOAT8_E5M2)           \
    X (F8_E4M3, 8, ACCEL_DL_FLOAT8_E4M3FN, ACCEL_FLOAT8_E4M3FN)       \
    X (F8_E8M0, 8, 14, ACCEL_DTYPE_COUNT)                             \
    X (F8_E4M3FNUZ, 8, 11, ACCEL_DTYPE_COUNT)                         \
    X (F8_E5M2FNUZ, 8, 13, ACCEL_DTYPE_COUNT)                         \
    X (I16, 16, kDLInt, ACCEL_DTYPE_COUNT)                            \
    X (U16, 16, kDLUInt, ACCEL_DTYPE_COUNT)                           \
    X (F16, 16, kDLFloat, ACCEL_FLOAT16)                              \
    X (BF16, 16, kDLBfloat, ACCEL_BFLOAT16)                           \
    X (I32, 32, kDLInt, ACCEL_INT32)                                  \
    X (U32, 32, kDLUInt, ACCEL_DTYPE_COUNT)                           \
    X (F32, 32, kDLFloat, ACCEL_FLOAT32)                              \
    X (C64, 64, kDLComplex, ACCEL_DTYPE_COUNT)                        \
    X (F64, 64, kDLFloat, ACCEL_FLOAT64)                              \
    X (I64, 64, kDLInt, ACCEL_INT64)                                  \
    X (U64, 64, kDLUInt, ACCEL_DTYPE_COUNT)

enum safetensors_dtype {
#define X(name, bits, code, dtype) SAFETENSORS_##name,
    SAFETENSORS_DTYPE_MAP (X)
#undef X
    SAFETENSORS_DTYPE_COUNT
};

struct safetensors_tensor {
    char *name;
    enum safetensors_dtype dtype;
    size_t ndim;
    int64_t *shape;      /* [ndim], NULL for 0; the product with the element's size fits size_t */
    uint64_t begin, end; /* bytes from the beginning of the data on */
};

/** An entry of __metadata__. */
struct safetensors_pair {
    char *key;
    char *value;
};

/** What a header says.  All zero is the header of an empty file. */
struct safetensors {
    struct safetensors_tensor *tensors; /* [count] in the order of the data */
    size_t count;
    uint64_t data_bytes; /* end of the last tensor */
    size_t *by_name;     /* [count] indices of tensors, sorted */
    struct safetensors_pair *metadata; /* [pairs] in the order of the file */
    size_t pairs;
};

/**
 * Read the text of a header, which says how many bytes of data there must be.  No file is touched.
 *
 * Accepts what the format's own reader (version 0.8) accepts, except: duplicate names and keys, strings with a NUL
 * character, sizes above INT64_MAX, and tensors described by an array, which is an accident of that reader.
 *
 * @param text  [length]; need not be terminated.  Messages say "byte N" of it
 */
enum accel_status safetensors_parse (struct safetensors *file, const char *text, size_t length,
                                     struct accel_error *err);

/** Read the header of an open file and compare its sizes. @param[out] data  where the data begin; bytes */
enum accel_status safetensors_read (struct safetensors *file, const struct source *source, uint64_t *data,
                                    struct accel_error *err);

/** @return the tensor of this name, NULL if there is none. */
const struct safetensors_tensor *safetensors_find (const struct safetensors *file, const char *name);

/** @return the library's type, ACCEL_DTYPE_COUNT if it has none. */
enum accel_dtype safetensors_to_accel (enum safetensors_dtype dtype);

/** @return the format's name of @p dtype. */
const char *safetensors_dtype_name (enum safetensors_dtype dtype);

/** @return bits of an element. */
unsigned safetensors_dtype_bits (enum safetensors_dtype dtype);

/** The same type in DLPack's terms (version 1.1), and back: SAFETENSORS_DTYPE_COUNT if the format has none.  @{ */
DLDataType safetensors_to_dl (enum safetensors_dtype dtype);
enum safetensors_dtype safetensors_from_dl (DLDataType type);
/** @} */

/** Free what safetensors_parse() made; also after it failed. */
void safetensors_release (struct safetensors *file);

#endif
