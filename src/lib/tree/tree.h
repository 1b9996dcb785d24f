/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of trees, the walk through one that most operations are, and the form in which a tree's structure travels;
 * see accel/tree.h. */
#ifndef LIB_TREE_TREE_H
#define LIB_TREE_TREE_H

#include <accel/tree.h>

#include "lib/base/tensor.h"
#include "util/strbuf.h"

#include <stdatomic.h>

/* Memory that leaves of any number of trees use, in any threads. */
struct tree_memory {
    DLDevice device;
    atomic_size_t users;
    void *data; /* freed with the last of them */
};

struct tree_item {
    struct accel_tree *tree;
    char *key; /* NULL in lists */
    uint32_t hash;
};

struct accel_tree {
    enum accel_tree_kind kind;
    int height;                 /* levels from here down: 1 for a leaf */
    struct accel_tree *parent;  /* NULL for what is not an item */
    struct tree_memory *memory; /* of a leaf; NULL if the memory is the program's */
    struct tensor_view tensor;
    size_t size_bytes;       /* of a leaf of bytes, which are followed by a 0 */
    struct tree_item *items; /* [count] */
    size_t count;
    size_t *buckets; /* of a large dict: item + 1 by hash, 0 for none; a power of two of them, at most half used */
    size_t bucket_count;
};

/* Make a node without anything in it. */
enum accel_status tree_new (struct accel_tree **tree, enum accel_tree_kind kind, struct accel_error *err);

/* Make a leaf that uses the same memory. */
enum accel_status tree_share (struct accel_tree **shared, const struct accel_tree *leaf, struct accel_error *err);

/* Make a leaf of a tensor with memory of its own, which the tree then owns, even after a failure. */
enum accel_status tree_own (struct accel_tree **leaf, struct accel_tensor *tensor, struct accel_error *err);

/* Add an item, under a key in dicts; on failure it is still the caller's. */
enum accel_status tree_add (struct accel_tree *tree, const char *key, struct accel_tree *item, struct accel_error *err);

/* "a list", for messages. */
const char *tree_kind_name (enum accel_tree_kind kind);

/* Where a walk is: item `index` of `in`, which itself is at `up`.  NULL is the root. */
struct tree_place {
    const struct tree_place *up;
    const struct accel_tree *in;
    size_t index;
};

/* Put "CALL: PLACE: " before the text of @p err.  @return @p status. */
enum accel_status tree_fail_at (const char *call, const struct tree_place *place, enum accel_status status,
                                struct accel_error *err);

/* A walk through a tree that makes another one of the same structure; `leaf` makes what takes a leaf's place. */
struct tree_walk {
    const char *call; /* the public function, for messages */
    enum accel_status (*leaf) (const struct tree_walk *walk, const struct tree_place *place,
                               const struct accel_tree *leaf, struct accel_tree **made, struct accel_error *err);
    void *user;
};

enum accel_status tree_walk (const struct tree_walk *walk, struct accel_tree **made, const struct accel_tree *tree,
                             struct accel_error *err);

/* For what must read a tensor: fails for bytes and for memory that is not the host's. */
enum accel_status tree_need_host_tensor (const struct accel_tree *leaf, struct accel_error *err);

/** The same for memory that libaccel has code for. */
enum accel_status tree_need_tensor (const struct accel_tree *leaf, struct accel_error *err);

/* The dimension that @p dim, counted from the end if negative, means; -1 if @p tensor has none such. */
int tree_dim (const DLTensor *tensor, int dim);

/* How to make tensors longer. */
struct tree_pad {
    int dim; /* counted from the end if negative */
    size_t size;
    double value;
    bool first;
};

/* Write one element of type @p dtype; fails if it has no such value. */
enum accel_status tree_pad_element (enum accel_dtype dtype, double value, void *bytes, struct accel_error *err);

/* A copy of @p tensor, on its device, that is pad->size long in dimension @p dim, if it was not longer. */
enum accel_status tree_pad_tensor (struct accel_tensor *padded, const DLTensor *tensor, int dim,
                                   const struct tree_pad *pad, struct accel_error *err);

/* Append the structure of @p tree: kinds, keys, types, sizes, and bytes, but not the elements of tensors. */
enum accel_status tree_encode (const struct accel_tree *tree, struct strbuf *text, struct accel_error *err);

/**
 * Make the tree that tree_encode() described, with zeroed tensors.  Whatever the text is, this is safe.
 *
 * @param limit  most bytes that all tensors together may have
 * @retval ACCEL_ERR_FORMAT  not such a text, or tensors beyond the limit
 */
enum accel_status tree_decode (struct accel_tree **tree, const void *text, size_t length, size_t limit,
                               struct accel_error *err);

#endif
