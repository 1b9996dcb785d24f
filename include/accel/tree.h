/* SPDX-License-Identifier: Apache-2.0 */
/* Trees: tensors in lists and dicts, nested as the program likes; what batches and outputs of models are made of.
 *
 * Leaves are tensors, or bytes (such as a string) that operations pass through.  A tensor leaf holds a description of
 * its own, so only the memory of what was given must stay.  That memory is either the program's (borrowed) or shared by
 * all trees that use it and freed with the last of them: a slice may outlive what it was cut from.  Distinct trees may
 * be used by distinct threads, also where they share memory.
 *
 * Tensors may be strided; copies are contiguous and aligned to 64 bytes.  The operations leave the trees that they are
 * given as they are and make new ones.  Messages name the place, such as `tree['input_ids'][2]`.  All functions can
 * fail with ACCEL_ERR_NOMEM, and with ACCEL_ERR_INVALID for a tree, tensor or key that is NULL; getters (but for
 * accel_tree_kind()) find nothing in NULL, so that look-ups can be chained. */
#ifndef ACCEL_TREE_H
#define ACCEL_TREE_H

#include <accel/base.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** Most levels of a tree: a leaf has one, a list of leaves two. */
enum { ACCEL_TREE_MAX_DEPTH = 64 };

enum accel_tree_kind {
    ACCEL_TREE_TENSOR, /**< a leaf: one tensor */
    ACCEL_TREE_BYTES,  /**< a leaf: what is no tensor, such as a string */
    ACCEL_TREE_LIST,   /**< the original's list and tuple */
    ACCEL_TREE_DICT,   /**< items by unique keys, in the order in which the keys came */
};

/** A node with all that is below it. */
struct accel_tree;

/**
 * Make a leaf for a tensor of the program, which is not copied: its memory must live as long as any tree that uses it,
 * while the DLTensor itself, its shape and its strides need not.
 *
 * @retval ACCEL_ERR_INVALID      sizes that are negative or more than memory holds, no data, or too many dimensions
 * @retval ACCEL_ERR_UNSUPPORTED  an element type that is none of enum accel_dtype
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_borrow_tensor (struct accel_tree **tree, const DLTensor *tensor, struct accel_error *err);

/** Make a leaf with a contiguous copy of @p tensor.  ACCEL_ERR_UNSUPPORTED also where its memory is not the host's. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_copy_tensor (struct accel_tree **tree, const DLTensor *tensor, struct accel_error *err);

/** Make a leaf that takes over the memory of @p tensor, which must be its own; @p tensor is empty then. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_take_tensor (struct accel_tree **tree, struct accel_tensor *tensor, struct accel_error *err);

/** Make a leaf with a copy of @p size_bytes bytes, which may be 0. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_create_bytes (struct accel_tree **tree, const void *bytes, size_t size_bytes, struct accel_error *err);

/** Make an empty list. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_create_list (struct accel_tree **tree, struct accel_error *err);

/** Make an empty dict. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_create_dict (struct accel_tree **tree, struct accel_error *err);

/** Free @p tree and all below it; does nothing to a tree that is an item of another.  Accepts NULL, preserves errno. */
ACCEL_API void accel_tree_destroy (struct accel_tree *tree);

/**
 * Add @p item at the end of @p list, which owns it from now on; after a failure it is still the caller's.
 *
 * @retval ACCEL_ERR_INVALID  no list, an item that is in a tree already or holds this one, or too many levels
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_append (struct accel_tree *list, struct accel_tree *item, struct accel_error *err);

/** Put @p item under @p key (copied), as accel_tree_append() does; what was there before is freed, its place kept. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_set (struct accel_tree *dict, const char *key, struct accel_tree *item, struct accel_error *err);

/** @return what @p tree is. */
ACCEL_API enum accel_tree_kind accel_tree_kind (const struct accel_tree *tree);

/** @return the number of items of a list or dict; 0 for leaves. */
ACCEL_API size_t accel_tree_length (const struct accel_tree *tree);

/** @return item @p index of a list or dict, owned by @p tree; NULL where there is none. */
ACCEL_API struct accel_tree *accel_tree_item (const struct accel_tree *tree, size_t index);

/** @return the item under @p key, owned by @p tree; NULL where there is none. */
ACCEL_API struct accel_tree *accel_tree_get (const struct accel_tree *tree, const char *key);

/** @return the key of item @p index of a dict, owned by @p tree; NULL where there is none. */
ACCEL_API const char *accel_tree_key (const struct accel_tree *tree, size_t index);

/** @return the tensor of a leaf, owned by @p tree, strides NULL where it is contiguous; NULL for other kinds. */
ACCEL_API const DLTensor *accel_tree_tensor (const struct accel_tree *tree);

/**
 * The bytes of a leaf.
 *
 * @param[out] size_bytes  their number; may be NULL
 * @return the bytes, owned by @p tree and followed by a 0 that is not counted; NULL for other kinds
 */
ACCEL_API const void *accel_tree_bytes (const struct accel_tree *tree, size_t *size_bytes);

/** Copy @p tree with its tensors, which become contiguous.  ACCEL_ERR_UNSUPPORTED: one is not in host memory. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_copy (struct accel_tree **copy, const struct accel_tree *tree, struct accel_error *err);

/**
 * What accel_tree_map() calls for each leaf, depth first.  On failure return a status and fill `err`.
 *
 * @param place   where the leaf is, such as "tree['input_ids'][2]"; valid during the call
 * @param leaf    a tensor, or bytes
 * @param result  put a new tree here that takes the leaf's place; left alone (NULL), the leaf stays as it is
 */
typedef enum accel_status (*accel_tree_function) (void *user, const char *place, const struct accel_tree *leaf,
                                                  struct accel_tree **result, struct accel_error *err);

/**
 * Apply @p function to every leaf of @p tree: the original's recursively_apply.
 *
 * @param[out] mapped  as @p tree, with what @p function made; leaves that it let alone share their memory
 * @retval ACCEL_ERR_CALLBACK  @p function failed; `text` has its own after the place
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_map (struct accel_tree **mapped, const struct accel_tree *tree, accel_tree_function function, void *user,
                struct accel_error *err);

/**
 * The size of dimension 0 of the first leaf, depth first: the original's find_batch_size.
 *
 * @param[out] batch_size  samples
 * @retval ACCEL_ERR_INVALID  the first leaf is bytes or has no dimension, or an empty list or dict comes before it
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_find_batch_size (const struct accel_tree *tree, size_t *batch_size, struct accel_error *err);

/**
 * Cut rows [begin, end) of dimension 0 out of every tensor, without copying: the original's slice_tensors.  As in
 * Python, rows that a tensor does not have are left out, so a slice may be empty.  Bytes stay as they are.
 *
 * @retval ACCEL_ERR_INVALID  a tensor of no dimension
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_slice (struct accel_tree **slice, const struct accel_tree *tree, size_t begin, size_t end,
                  struct accel_error *err);

/**
 * Join tensors of the same place, one after the other along @p dim: the original's concatenate.  The trees must have
 * the same items (dicts in any order), tensors the same type and, but for @p dim, the same sizes; tensors of shape [0]
 * are left out, as PyTorch does.  The result has the order of the first tree.  Bytes are kept where there is one tree.
 *
 * @param trees  [count]
 * @param count  > 0
 * @param dim    counted from the end where negative
 * @retval ACCEL_ERR_INVALID      the trees differ: `text` names the first place where they do
 * @retval ACCEL_ERR_UNSUPPORTED  memory that is not the host's
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_concatenate (struct accel_tree **joined, const struct accel_tree *const *trees, size_t count, int dim,
                        struct accel_error *err);

/**
 * Make every tensor at least @p size long in @p dim, filling with @p pad_index: what the original's
 * pad_across_processes does on one process.  Tensors without that dimension, and those that are long enough, stay as
 * they are (shared).
 *
 * @param dim        counted from the end where negative
 * @param pad_index  must be a value of the tensor's type; rounded where that is a float
 * @param pad_first  fill before the data, not after it
 * @retval ACCEL_ERR_INVALID      bytes, or a @p pad_index that the type does not have
 * @retval ACCEL_ERR_UNSUPPORTED  memory that is not the host's
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_pad (struct accel_tree **padded, const struct accel_tree *tree, int dim, size_t size, double pad_index,
                bool pad_first, struct accel_error *err);

/**
 * Add rows of zeros so that a batch of @p batch_size can be split over the stages of a pipeline: the original's
 * pad_input_tensors, with its number of rows.  All tensors are copied and end with the same number of rows.
 *
 * @param batch_size     rows of the batch
 * @param num_processes  > 0
 * @retval ACCEL_ERR_INVALID      bytes, a tensor of no dimension, or with more rows than the result
 * @retval ACCEL_ERR_UNSUPPORTED  memory that is not the host's
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_pad_input_tensors (struct accel_tree **padded, const struct accel_tree *tree, size_t batch_size,
                         size_t num_processes, struct accel_error *err);

/** How to send; 0 is each field's default. */
struct accel_send_options {
    const char *const *skip_keys; /**< [skip_key_count]: what is under these keys, at any level, stays where it is */
    size_t skip_key_count;
    bool non_blocking; /**< do not wait for copies that a device can make by itself; the host's are made at once */
};

/**
 * Bring all tensors of @p tree to @p device.  Those that are there already share their memory with @p tree; the host is
 * one device, whatever its number.  Bytes stay as they are.
 *
 * @param options  may be NULL
 * @retval ACCEL_ERR_UNSUPPORTED  a copy from or to memory that is not the host's
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_send_to_device (struct accel_tree **sent, const struct accel_tree *tree, DLDevice device,
                      const struct accel_send_options *options, struct accel_error *err);

ACCEL_END_DECLS

#endif
