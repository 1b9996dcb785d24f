/* SPDX-License-Identifier: Apache-2.0 */
/* The names in PyTorch's pickles that are known, for pickle_read(). */
#ifndef FILES_TORCH_NAMES_H
#define FILES_TORCH_NAMES_H

#include "files/pickle.h"
#include "files/safetensors.h"

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

#endif
