/* SPDX-License-Identifier: Apache-2.0 */
/* Trees: tensors in nested lists and dicts, as used for batches and the outputs of models.
 *
 * Leaves are tensors, on the host or a device, or bytes (such as a string) in host memory, which operations pass
 * through.  A tensor leaf has its own copy of the description, so only the memory of the original tensor must stay
 * valid.  That memory either belongs to the program (borrowed), or is shared by all trees that use it and freed with
 * the last of them: a slice may outlive the tree it was cut from.  Different threads may use different trees, even if
 * they share memory.
 *
 * Tensors may be strided; copies are contiguous and aligned to 64 bytes.  Operations do not change their input and make
 * new trees.  Messages name the place, such as `tree['input_ids'][2]`.  All functions can fail with ACCEL_ERR_NOMEM,
 * and with ACCEL_ERR_INVALID if a tree, tensor or key is NULL.  Getters (except accel_tree_kind()) return NULL or 0 for
 * NULL, so look-ups can be chained. */
#ifndef ACCEL_TREE_H
#define ACCEL_TREE_H

#include <accel/base.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** Maximum number of levels: a leaf has one, a list of leaves two. */
enum { ACCEL_TREE_MAX_DEPTH = 64 };

enum accel_tree_kind {
    ACCEL_TREE_TENSOR, /**< a leaf: one tensor */
    ACCEL_TREE_BYTES,  /**< a leaf: anything that is not a tensor, such as a string */
    ACCEL_TREE_LIST,   /**< a Python list or tuple */
    ACCEL_TREE_DICT,   /**< items with unique keys, in the order in which they were added */
};

/** A node and everything below it. */
struct accel_tree;

/**
 * Make a leaf for a tensor of the program.  The tensor is not copied: its memory must live as long as any tree that
 * uses it.  The DLTensor itself, its shape and its strides may be freed.
 *
 * @retval ACCEL_ERR_INVALID      sizes that are negative or overflow, no data, or too many dimensions
 * @retval ACCEL_ERR_UNSUPPORTED  an element type that enum accel_dtype lacks
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_borrow_tensor (struct accel_tree **tree, const DLTensor *tensor, struct accel_error *err);

/** Make a leaf with a contiguous copy of @p tensor.  Also ACCEL_ERR_UNSUPPORTED: no code for its memory. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_copy_tensor (struct accel_tree **tree, const DLTensor *tensor, struct accel_error *err);

/** Make a leaf that takes over the memory of @p tensor, which must own it; @p tensor is empty afterwards. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_take_tensor (struct accel_tree **tree, struct accel_tensor *tensor, struct accel_error *err);

/** Make a leaf with a copy of @p size_bytes bytes, which may be 0. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_create_bytes (struct accel_tree **tree, const void *bytes, size_t size_bytes, struct accel_error *err);

/** Make an empty list or dict.  @param kind  ACCEL_TREE_LIST or ACCEL_TREE_DICT */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_create (struct accel_tree **tree, enum accel_tree_kind kind, struct accel_error *err);

/** Free @p tree and everything below it; does nothing to an item of another tree.  Accepts NULL, preserves errno. */
ACCEL_API void accel_tree_destroy (struct accel_tree *tree);

/**
 * Append @p item to @p list, which then owns it; on failure it still belongs to the caller.
 *
 * @retval ACCEL_ERR_INVALID  not a list, an item that is already in a tree or contains this one, or too many levels
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_append (struct accel_tree *list, struct accel_tree *item, struct accel_error *err);

/**
 * Store @p item under @p key (copied), with the ownership rules of accel_tree_append(); a previous item is freed, and
 * its position kept.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_set (struct accel_tree *dict, const char *key, struct accel_tree *item, struct accel_error *err);

/** @return the kind of @p tree; NULL is an empty list. */
ACCEL_API enum accel_tree_kind accel_tree_kind (const struct accel_tree *tree);

/** @return the number of items of a list or dict; 0 for leaves. */
ACCEL_API size_t accel_tree_length (const struct accel_tree *tree);

/** @return item @p index of a list or dict, owned by @p tree; NULL if there is none. */
ACCEL_API struct accel_tree *accel_tree_item (const struct accel_tree *tree, size_t index);

/** @return the item under @p key, owned by @p tree; NULL if there is none. */
ACCEL_API struct accel_tree *accel_tree_get (const struct accel_tree *tree, const char *key);

/** @return the key of item @p index of a dict, owned by @p tree; NULL if there is none. */
ACCEL_API const char *accel_tree_key (const struct accel_tree *tree, size_t index);

/** @return the tensor of a leaf, owned by @p tree, with NULL strides if it is contiguous; NULL for other kinds. */
ACCEL_API const DLTensor *accel_tree_tensor (const struct accel_tree *tree);

/**
 * Get the bytes of a leaf.
 *
 * @param[out] size_bytes  their number; may be NULL
 * @return the bytes, owned by @p tree and followed by a 0 that is not counted; NULL for other kinds
 */
ACCEL_API const void *accel_tree_bytes (const struct accel_tree *tree, size_t *size_bytes);

/** Copy @p tree and its tensors, which become contiguous.  ACCEL_ERR_UNSUPPORTED: no code for a tensor's memory. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_copy (struct accel_tree **copy, const struct accel_tree *tree, struct accel_error *err);

/**
 * The function that accel_tree_map() calls for each leaf, depth first.  On failure, return a status and fill in `err`.
 *
 * @param place   the place of the leaf, such as "tree['input_ids'][2]"; valid during the call
 * @param leaf    a tensor, or bytes
 * @param result  set this to a new tree to replace the leaf; if it stays NULL, the leaf is kept
 */
typedef enum accel_status (*accel_tree_function) (void *user, const char *place, const struct accel_tree *leaf,
                                                  struct accel_tree **result, struct accel_error *err);

/**
 * Apply @p function to every leaf of @p tree: recursively_apply of Hugging Face Accelerate.
 *
 * @param[out] mapped  like @p tree, with the results of @p function; leaves that were kept share their memory
 * @retval ACCEL_ERR_CALLBACK  @p function failed; `text` contains the place, then the function's own text
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_map (struct accel_tree **mapped, const struct accel_tree *tree, accel_tree_function function, void *user,
                struct accel_error *err);

/**
 * Get the size of dimension 0 of the first leaf, depth first: Accelerate's find_batch_size.
 *
 * @param[out] batch_size  samples
 * @retval ACCEL_ERR_INVALID  the first leaf is bytes or has no dimensions, or an empty list or dict precedes it
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_find_batch_size (const struct accel_tree *tree, size_t *batch_size, struct accel_error *err);

/**
 * Cut rows [begin, end) of dimension 0 out of every tensor, without copying: Accelerate's slice_tensors.  As in Python,
 * rows that a tensor does not have are omitted, so a slice may be empty.  Bytes are kept.
 *
 * @retval ACCEL_ERR_INVALID  a tensor without dimensions
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_slice (struct accel_tree **slice, const struct accel_tree *tree, size_t begin, size_t end,
                  struct accel_error *err);

/**
 * Join tensors at the same place along @p dim: Accelerate's concatenate.  The trees must have the same items (dicts in
 * any order), and tensors the same type and, except in @p dim, the same sizes; tensors of shape [0] are skipped, as in
 * PyTorch.  The result has the order of the first tree.  Bytes are kept if there is only one tree.
 *
 * @param trees  [count]
 * @param count  > 0
 * @param dim    counted from the end if negative
 * @retval ACCEL_ERR_INVALID      the trees differ: `text` names the first place where they do
 * @retval ACCEL_ERR_UNSUPPORTED  memory that libaccel has no code for
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_concatenate (struct accel_tree **joined, const struct accel_tree *const *trees, size_t count, int dim,
                        struct accel_error *err);

/**
 * Pad every tensor to at least the length @p size in @p dim with @p pad_index, like Accelerate's pad_across_processes
 * on one process.  Tensors without that dimension, and those that are long enough, are kept (shared).
 *
 * @param dim        counted from the end if negative
 * @param pad_index  must be a value of the tensor's type; rounded if that is a float
 * @param pad_first  pad before the data, not after it
 * @retval ACCEL_ERR_INVALID      bytes, or a @p pad_index that the type cannot hold
 * @retval ACCEL_ERR_UNSUPPORTED  memory that libaccel has no code for
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_pad (struct accel_tree **padded, const struct accel_tree *tree, int dim, size_t size, double pad_index,
                bool pad_first, struct accel_error *err);

/**
 * Add rows of zeros so that a batch of @p batch_size can be split over the stages of a pipeline: Accelerate's
 * pad_input_tensors, with its number of rows.  All tensors are copied and get the same number of rows.
 *
 * @param batch_size     rows of the batch
 * @param num_processes  > 0
 * @retval ACCEL_ERR_INVALID      bytes, or a tensor without dimensions or with more rows than the result
 * @retval ACCEL_ERR_UNSUPPORTED  memory that libaccel has no code for
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_pad_input_tensors (struct accel_tree **padded, const struct accel_tree *tree, size_t batch_size,
                         size_t num_processes, struct accel_error *err);

/** How to send; 0 is each field's default. */
struct accel_send_options {
    const char *const *skip_keys; /**< [skip_key_count]: everything under these keys, at any level, stays where it is */
    size_t skip_key_count;
    bool non_blocking; /**< do not wait for copies that a device can make by itself; the host's are immediate */
};

/**
 * Copy all tensors of @p tree to @p device.  Those that are already there share their memory with @p tree; the host is
 * one device, whatever its number.  Bytes are kept.  The tensors are contiguous; those of kDLCUDA are used on the GPU's
 * default stream.
 *
 * @param options  may be NULL
 * @retval ACCEL_ERR_UNSUPPORTED  a copy from or to memory that libaccel has no code for; a GPU, if there is none
 * @retval ACCEL_ERR_NOMEM        there is not enough host or device memory
 * @retval ACCEL_ERR_SYSTEM       an earlier operation on the GPU failed
 */
#define accel_send_to_device(...) accel_send_to_device_sized (sizeof (struct accel_send_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_send_to_device_sized (size_t options_size, struct accel_tree **sent, const struct accel_tree *tree,
                            DLDevice device, const struct accel_send_options *options, struct accel_error *err);

ACCEL_END_DECLS

#endif
