/* SPDX-License-Identifier: Apache-2.0 */
/* One tensor as torch.save writes it: a zip archive with the pickle of its shape and a file with its elements. */
#ifndef FILES_TORCH_TENSOR_H
#define FILES_TORCH_TENSOR_H

#include "files/pickle.h"
#include "files/safetensors.h"
#include "files/zip.h"

#include <stdbool.h>

/** pickle_name.id: an element type (a dtype or a typed storage) is its enum safetensors_dtype. */
enum torch_name {
    TORCH_NO_DTYPE = SAFETENSORS_DTYPE_COUNT, /* an element type that safetensors lacks */
    TORCH_UNTYPED_STORAGE,
    TORCH_REBUILD_TENSOR,    /* (storage, offset, size, stride, requires_grad, hooks[, extra]) */
    TORCH_REBUILD_TENSOR_V3, /* (storage, offset, size, stride, requires_grad, hooks, dtype[, extra]) */
    TORCH_REBUILD_PARAMETER, /* (tensor, requires_grad, hooks[, state]) */
    TORCH_SIZE,
    TORCH_LAYOUT,
    TORCH_ORDERED_DICT,
    TORCH_METADATA,
    TORCH_TENSOR_METADATA,
    TORCH_BYTES_METADATA,
    TORCH_CHUNK_METADATA,
    TORCH_PROPERTIES,
    TORCH_INDEX,
    TORCH_STORAGE_INFO,
    TORCH_OTHER, /* allowed, but without a meaning here */
};

/** Names in the pickle of one tensor, and in the metadata of a distributed checkpoint. @{ */
extern const struct pickle_name torch_tensor_names[];
extern const struct pickle_name torch_metadata_names[];
extern const struct pickle_name torch_state_names[]; /* in the states of Accelerate's save_state */
/** @} */

/** @return the element type that @p value (nullable) names, SAFETENSORS_DTYPE_COUNT if it is something else. */
enum safetensors_dtype torch_dtype (const struct pickle_value *value);

/** @return whether @p value (nullable) is a call of the name @p id with @p least to @p most arguments. */
bool torch_is_call (const struct pickle_value *value, enum torch_name id, size_t least, size_t most);

/** A tuple of at most @p most integers >= 0.  @return how many, or -1 if @p value (nullable) is something else */
int torch_sizes (const struct pickle_value *value, uint64_t *sizes, int most);

enum { TORCH_MAX_DIMS = 64 }; /* PyTorch's own limit */

struct torch_tensor {
    enum safetensors_dtype dtype;
    int ndim;
    uint64_t sizes[TORCH_MAX_DIMS];
    uint64_t strides[TORCH_MAX_DIMS]; /* elements */
    uint64_t offset;                  /* of the first element in its storage, elements */
    uint64_t reach;                   /* bytes of the storage up to the last element */
    char key[64];                     /* of the storage: its entry is PREFIX/data/KEY */
};

/** Read the pickle of one tensor.  No file is touched. */
enum accel_status torch_tensor_parse (struct torch_tensor *tensor, const char *text, size_t length,
                                      struct accel_error *err);

/** @return whether @p value (nullable) is a tensor, as far as that shows without looking into it. */
bool torch_is_tensor (const struct pickle_value *value);

/** Find out what a tensor within a pickle is. */
enum accel_status torch_tensor_describe (struct torch_tensor *tensor, const struct pickle_value *value,
                                         struct accel_error *err);

/** @return whether it is row-major without gaps. */
bool torch_tensor_is_contiguous (const struct torch_tensor *tensor);

/** @return the pickle of an archive of torch.save, PREFIX/data.pkl; NULL if it is another one. */
const struct zip_entry *torch_find_pickle (const struct zip *zip);

/** @return the entry FOLDER NAME beside @p pickle; NULL if there is none. */
const struct zip_entry *torch_find_entry (const struct zip *zip, const struct zip_entry *pickle, const char *folder,
                                          const char *name);

/** Refuse an archive of a big-endian machine. */
enum accel_status torch_check_byte_order (const struct zip *zip, const struct zip_entry *pickle,
                                          const struct source *source, struct accel_error *err);

/** A box in a larger array, both row-major: where the elements of a tensor go. */
struct torch_place {
    int ndim;
    const uint64_t *shape;   /* [ndim] of the array */
    const uint64_t *offsets; /* [ndim] of the box */
    const uint64_t *sizes;   /* [ndim] of the box; within the shape */
};

/**
 * Read the tensor that torch.save wrote to bytes @p begin to @p end of @p source, and put its elements into @p array.
 * Takes memory for the tensor's storage, unless its elements go to one place in their order.
 *
 * @param array  row-major, of place->shape and @p dtype, which the tensor must have, as it must have place->sizes
 */
enum accel_status torch_tensor_read (const struct source *source, uint64_t begin, uint64_t end,
                                     enum safetensors_dtype dtype, const struct torch_place *place, void *array,
                                     struct accel_error *err);

/**
 * Find where the elements of such a tensor are in the file, row-major and without gaps; others are
 * ACCEL_ERR_UNSUPPORTED.  The CRC is not compared.
 *
 * @param sizes          [ndim], which the tensor must have, as it must have @p dtype
 * @param[out] elements  byte of @p source
 */
enum accel_status torch_tensor_find (const struct source *source, uint64_t begin, uint64_t end,
                                     enum safetensors_dtype dtype, int ndim, const uint64_t *sizes, uint64_t *elements,
                                     struct accel_error *err);

/** @return what torch calls an element type, without "torch."; NULL: torch does not have it; static */
const char *torch_dtype_name (enum safetensors_dtype dtype);

/** @return bytes of an element; 0 for types of less than a byte. */
size_t torch_dtype_bytes (enum safetensors_dtype dtype);

#endif
