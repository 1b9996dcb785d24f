/* SPDX-License-Identifier: Apache-2.0 */
/* Joining trees of one structure; see accel/tree.h. */
#include <config.h>

#include "lib/tree/tree.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/memory/memory.h"
#include "util/cleanup.h"

#include <stdlib.h>

static const char call[] = "accel_tree_concatenate";

struct join {
    size_t count; /* trees */
    int dim;
};

/* PyTorch leaves tensors of shape [0] out, whatever the others' dimensions are. */
static bool
is_nothing (const DLTensor *tensor)
{
    return tensor->ndim == 1 && !tensor->shape[0];
}

static void
add_shape (struct strbuf *text, const DLTensor *tensor)
{
    for (int i = 0; i < tensor->ndim; i++)
        strbuf_printf (text, "%s%lld", i ? ", " : "[", (long long) tensor->shape[i]);
    strbuf_add (text, tensor->ndim ? "]" : "[]");
}

static enum accel_status
shapes_differ (const DLTensor *first, size_t a, const DLTensor *other, size_t b, int dim, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_printf (&text, "tree %zu has shape ", b);
    add_shape (&text, other);
    strbuf_printf (&text, ", but tree %zu has ", a);
    add_shape (&text, first);
    return accel_fail (err, ACCEL_ERR_INVALID, "%s: only dimension %d may differ",
                       text.failed ? "the shapes differ" : text.text, dim);
}

/* The shape of the result, and which tree gave it. */
static enum accel_status
joined_shape (const struct join *join, const struct accel_tree *const *leaves, int64_t *shape, size_t *model, int *dim,
              struct accel_error *err)
{
    const DLTensor *first = NULL;
    *model = 0;
    *dim = 0;
    for (size_t i = 0; i < join->count; i++) {
        const DLTensor *tensor = &leaves[i]->tensor.dl;
        enum accel_status status = tree_need_tensor (leaves[i], err);
        if (status)
            return status;
        if (!memory_is_same (tensor->device, leaves[0]->tensor.dl.device))
            return accel_fail (err, ACCEL_ERR_INVALID, "tree %zu is on %s:%d, but tree 0 is on %s:%d", i,
                               tensor_device_name (tensor->device), (int) tensor->device.device_id,
                               tensor_device_name (leaves[0]->tensor.dl.device),
                               (int) leaves[0]->tensor.dl.device.device_id);
        if (!tensor_same_dtype (tensor, &leaves[0]->tensor.dl))
            return accel_fail (err, ACCEL_ERR_INVALID, "tree %zu has type %s, but tree 0 has %s", i,
                               accel_dtype_name (accel_dtype_from_dl (tensor->dtype)),
                               accel_dtype_name (accel_dtype_from_dl (leaves[0]->tensor.dl.dtype)));
        if (is_nothing (tensor))
            continue;
        bool begins = !first;
        if (begins) {
            first = tensor;
            *model = i;
            *dim = tree_dim (tensor, join->dim);
            if (*dim < 0)
                return accel_fail (err, ACCEL_ERR_INVALID, "a tensor of %d dimensions has no dimension %d",
                                   (int) tensor->ndim, join->dim);
            for (int d = 0; d < tensor->ndim; d++)
                shape[d] = d == *dim ? 0 : tensor->shape[d];
        }
        bool same = tensor->ndim == first->ndim;
        for (int d = 0; same && d < tensor->ndim; d++)
            same = d == *dim || tensor->shape[d] == shape[d];
        if (!same)
            return shapes_differ (first, *model, tensor, i, *dim, err);
        if (__builtin_add_overflow (shape[*dim], tensor->shape[*dim], &shape[*dim]))
            return accel_fail (err, ACCEL_ERR_INVALID, "the result is too large: size overflows");
    }
    return ACCEL_OK;
}

static enum accel_status
join_tensors (const struct join *join, const struct accel_tree *const *leaves, struct accel_tree **made,
              struct accel_error *err)
{
    int64_t shape[ACCEL_MAX_DIMS] = { 0 }, at = 0;
    size_t model;
    int dim;
    struct accel_tensor result;
    enum accel_status status = joined_shape (join, leaves, shape, &model, &dim, err);
    if (status)
        return status;
    const DLTensor *first = &leaves[model]->tensor.dl;
    enum accel_dtype dtype = accel_dtype_from_dl (first->dtype);
    bool host = tensor_device_is_host (first->device);
    status = host ? tensor_allocate (&result, dtype, first->ndim, shape, false, err)
                  : memory_allocate (&result, dtype, first->ndim, shape, first->device, err);
    if (status)
        return status;
    for (size_t i = 0; i < join->count; i++) {
        const DLTensor *tensor = &leaves[i]->tensor.dl;
        if (is_nothing (tensor))
            continue;
        struct tensor_view part;
        tensor_view_set (&part, &result.dl);
        tensor_view_narrow (&part, dim, at, tensor->shape[dim]);
        memory_of (first->device)->copy_tensor (&part.dl, tensor);
        at += tensor->shape[dim];
    }
    if (first->device.device_type == kDLCPU)
        result.dl.device = first->device;
    return tree_own (made, &result, err);
}

/* The key of @p other that @p first has not; both are dicts. */
static const char *
extra_key (const struct accel_tree *first, const struct accel_tree *other)
{
    for (size_t i = 0; i < other->count; i++)
        if (!accel_tree_get (first, other->items[i].key))
            return other->items[i].key;
    return NULL;
}

static enum accel_status
check_structure (const struct join *join, const struct accel_tree *const *trees, struct accel_error *err)
{
    const struct accel_tree *first = trees[0];
    for (size_t i = 1; i < join->count; i++) {
        const struct accel_tree *other = trees[i];
        if (other->kind != first->kind)
            return accel_fail (err, ACCEL_ERR_INVALID, "tree %zu has %s, but tree 0 has %s", i,
                               tree_kind_name (other->kind), tree_kind_name (first->kind));
        if (first->kind == ACCEL_TREE_LIST && other->count != first->count)
            return accel_fail (err, ACCEL_ERR_INVALID, "tree %zu has a list of %zu items, but tree 0 has %zu", i,
                               other->count, first->count);
        const char *key = first->kind == ACCEL_TREE_DICT ? extra_key (first, other) : NULL;
        size_t without = 0;
        if (!key && first->kind == ACCEL_TREE_DICT) {
            key = extra_key (other, first);
            without = i;
        }
        if (key)
            return accel_fail (err, ACCEL_ERR_INVALID, "tree %zu has no key '%.100s', which tree %zu has", without, key,
                               without ? (size_t) 0 : i);
    }
    if (first->kind == ACCEL_TREE_BYTES && join->count > 1)
        return accel_fail (err, ACCEL_ERR_INVALID, "only tensors can be concatenated, not bytes");
    return ACCEL_OK;
}

static enum accel_status
join_trees (const struct join *join, const struct tree_place *place, const struct accel_tree *const *trees,
            struct accel_tree **made, struct accel_error *err)
{
    const struct accel_tree *first = trees[0];
    struct accel_tree *item = NULL;
    AUTO_FREE const struct accel_tree **items = NULL;
    enum accel_status status = check_structure (join, trees, err);
    if (!status && first->kind == ACCEL_TREE_BYTES)
        status = tree_share (made, first, err);
    else if (!status && first->kind == ACCEL_TREE_TENSOR)
        status = join_tensors (join, trees, made, err);
    else if (!status)
        status = tree_new (made, first->kind, err);
    if (status)
        return tree_fail_at (call, place, status, err);
    if (first->count && !(items = calloc (join->count, sizeof *items))) {
        status = tree_fail_at (call, place, accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for its items"),
                               err);
        goto error;
    }
    for (size_t i = 0; i < first->count; i++) {
        struct tree_place below = { .up = place, .in = first, .index = i };
        const char *key = first->items[i].key;
        for (size_t t = 0; t < join->count; t++)
            items[t] = key ? accel_tree_get (trees[t], key) : trees[t]->items[i].tree;
        status = join_trees (join, &below, items, &item, err);
        if (status)
            goto error;
        status = tree_add (*made, key, item, err);
        if (status) {
            accel_tree_destroy (item);
            tree_fail_at (call, &below, status, err);
            goto error;
        }
    }
    return ACCEL_OK;
error:
    accel_tree_destroy (*made);
    *made = NULL;
    return status;
}

enum accel_status
accel_tree_concatenate (struct accel_tree **joined, const struct accel_tree *const *trees, size_t count, int dim,
                        struct accel_error *err)
{
    struct join join = { .count = count, .dim = dim };
    if (!joined)
        return accel_fail_null (err, call, "joined");
    *joined = NULL;
    if (!trees || !count)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: no trees", call);
    for (size_t i = 0; i < count; i++)
        if (!trees[i])
            return accel_fail (err, ACCEL_ERR_INVALID, "%s: tree %zu is NULL", call, i);
    return join_trees (&join, NULL, trees, joined, err);
}
