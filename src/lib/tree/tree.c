/* SPDX-License-Identifier: Apache-2.0 */
/* Making, filling, reading and freeing trees; see accel/tree.h. */
#include <config.h>

#include "lib/tree/tree.h"

#include "lib/base/error.h"
#include "lib/memory/memory.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const DLDevice host = { .device_type = kDLCPU };

/* Dicts beyond this many items are searched through buckets. */
enum { FEW = 8 };

const char *
tree_kind_name (enum accel_tree_kind kind)
{
    static const char *const names[] = {
        [ACCEL_TREE_TENSOR] = "a tensor",
        [ACCEL_TREE_BYTES] = "bytes",
        [ACCEL_TREE_LIST] = "a list",
        [ACCEL_TREE_DICT] = "a dict",
    };
    return names[kind];
}

enum accel_status
tree_new (struct accel_tree **tree, enum accel_tree_kind kind, struct accel_error *err)
{
    if (!tree)
        return accel_fail (err, ACCEL_ERR_INVALID, "the output tree is NULL");
    *tree = calloc (1, sizeof **tree);
    if (!*tree)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a node");
    (*tree)->kind = kind;
    (*tree)->height = 1;
    return ACCEL_OK;
}

static void
memory_drop (struct tree_memory *memory)
{
    if (memory && atomic_fetch_sub (&memory->users, 1) == 1) {
        memory_of (memory->device)->destroy (memory->device, memory->data);
        free (memory);
    }
}

/* Take over @data, also on failure. */
static enum accel_status
memory_new (struct tree_memory **memory, DLDevice device, void *data, struct accel_error *err)
{
    *memory = malloc (sizeof **memory);
    if (!*memory) {
        memory_of (device)->destroy (device, data);
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a leaf");
    }
    atomic_init (&(*memory)->users, 1);
    (*memory)->device = device;
    (*memory)->data = data;
    return ACCEL_OK;
}

static void
free_node (struct accel_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        free_node (tree->items[i].tree);
        free (tree->items[i].key);
    }
    free (tree->items);
    free (tree->buckets);
    memory_drop (tree->memory);
    free (tree);
}

void
accel_tree_destroy (struct accel_tree *tree)
{
    int saved = errno;
    if (tree && !tree->parent)
        free_node (tree);
    errno = saved;
}

enum accel_status
tree_share (struct accel_tree **shared, const struct accel_tree *leaf, struct accel_error *err)
{
    enum accel_status status = tree_new (shared, leaf->kind, err);
    if (status)
        return status;
    if (leaf->kind == ACCEL_TREE_TENSOR)
        tensor_view_set (&(*shared)->tensor, &leaf->tensor.dl);
    (*shared)->size_bytes = leaf->size_bytes;
    (*shared)->memory = leaf->memory;
    if (leaf->memory)
        atomic_fetch_add (&leaf->memory->users, 1);
    return ACCEL_OK;
}

enum accel_status
tree_own (struct accel_tree **leaf, struct accel_tensor *tensor, struct accel_error *err)
{
    struct tree_memory *memory = NULL;
    enum accel_status status = tree_new (leaf, ACCEL_TREE_TENSOR, err);
    if (status) {
        accel_tensor_release (tensor);
        return status;
    }
    status = memory_new (&memory, tensor->dl.device, tensor->dl.data, err);
    if (status) {
        accel_tree_destroy (*leaf);
        *leaf = NULL;
    } else {
        (*leaf)->memory = memory;
        tensor_view_set (&(*leaf)->tensor, &tensor->dl);
    }
    *tensor = (struct accel_tensor){ 0 };
    return status;
}

enum accel_status
accel_tree_borrow_tensor (struct accel_tree **tree, const DLTensor *tensor, struct accel_error *err)
{
    if (!tree)
        return accel_fail_null (err, __func__, "tree");
    *tree = NULL;
    if (!tensor)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tree_borrow_tensor: the tensor is NULL");
    enum accel_status status = tensor_check (tensor, err);
    if (!status)
        status = tree_new (tree, ACCEL_TREE_TENSOR, err);
    if (status)
        return accel_fail_in (err, status, "accel_tree_borrow_tensor");
    tensor_view_set (&(*tree)->tensor, tensor);
    return ACCEL_OK;
}

enum accel_status
accel_tree_copy_tensor (struct accel_tree **tree, const DLTensor *tensor, struct accel_error *err)
{
    if (!tree)
        return accel_fail_null (err, __func__, "tree");
    *tree = NULL;
    if (!tensor)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tree_copy_tensor: the tensor is NULL");
    struct accel_tensor copy;
    enum accel_status status = tensor_check (tensor, err);
    bool is_host = !status && tensor_device_is_host (tensor->device);
    if (!status && !is_host && !memory_of (tensor->device))
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED, "this libaccel has no code for the device of the tensor");
    if (!status)
        status = is_host ? tensor_clone (&copy, tensor, err) : memory_clone (&copy, tensor, err);
    if (!status)
        status = tree_own (tree, &copy, err);
    return status ? accel_fail_in (err, status, "accel_tree_copy_tensor") : ACCEL_OK;
}

enum accel_status
accel_tree_take_tensor (struct accel_tree **tree, struct accel_tensor *tensor, struct accel_error *err)
{
    if (!tree)
        return accel_fail_null (err, __func__, "tree");
    *tree = NULL;
    if (!tensor || !tensor->owned_bytes)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_tree_take_tensor: the tensor is NULL, or does not own its memory");
    enum accel_status status = tensor_check (&tensor->dl, err);
    if (!status && !memory_of (tensor->dl.device))
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED, "this libaccel has no code for the device of the tensor");
    if (!status) {
        struct accel_tensor taken = *tensor;
        taken.dl.shape = taken.shape;
        if (tensor->dl.shape != tensor->shape)
            memcpy (taken.shape, tensor->dl.shape, (size_t) tensor->dl.ndim * sizeof *taken.shape);
        *tensor = (struct accel_tensor){ 0 };
        status = tree_own (tree, &taken, err);
    }
    return status ? accel_fail_in (err, status, "accel_tree_take_tensor") : ACCEL_OK;
}

enum accel_status
accel_tree_create_bytes (struct accel_tree **tree, const void *bytes, size_t size_bytes, struct accel_error *err)
{
    if (!tree)
        return accel_fail_null (err, __func__, "tree");
    *tree = NULL;
    if ((!bytes && size_bytes) || size_bytes == SIZE_MAX)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tree_create_bytes: bytes is NULL, or the size is too large");
    char *data = malloc (size_bytes + 1);
    if (!data)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_tree_create_bytes: cannot allocate memory for %zu bytes",
                           size_bytes);
    if (size_bytes)
        memcpy (data, bytes, size_bytes);
    data[size_bytes] = '\0';
    struct tree_memory *memory;
    enum accel_status status = memory_new (&memory, host, data, err);
    if (status)
        return status;
    status = tree_new (tree, ACCEL_TREE_BYTES, err);
    if (status) {
        memory_drop (memory);
        return status;
    }
    (*tree)->memory = memory;
    (*tree)->size_bytes = size_bytes;
    return ACCEL_OK;
}

enum accel_status
accel_tree_create (struct accel_tree **tree, enum accel_tree_kind kind, struct accel_error *err)
{
    if (tree)
        *tree = NULL;
    if (kind != ACCEL_TREE_LIST && kind != ACCEL_TREE_DICT)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tree_create: kind %d is neither a list nor a dict",
                           (int) kind);
    return tree_new (tree, kind, err);
}

/* FNV-1a. */
static uint32_t
hash_of (const char *key)
{
    uint32_t hash = 2166136261u;
    for (; *key; key++)
        hash = (hash ^ (unsigned char) *key) * 16777619u;
    return hash;
}

/* @return the item's index, or the number of items. */
static size_t
find_key (const struct accel_tree *dict, const char *key, uint32_t hash)
{
    if (dict->bucket_count) {
        for (size_t at = hash & (dict->bucket_count - 1); dict->buckets[at]; at = (at + 1) & (dict->bucket_count - 1)) {
            size_t i = dict->buckets[at] - 1;
            if (dict->items[i].hash == hash && !strcmp (dict->items[i].key, key))
                return i;
        }
        return dict->count;
    }
    for (size_t i = 0; i < dict->count; i++)
        if (dict->items[i].hash == hash && !strcmp (dict->items[i].key, key))
            return i;
    return dict->count;
}

static void
put_in_bucket (struct accel_tree *dict, size_t index)
{
    size_t at = dict->items[index].hash & (dict->bucket_count - 1);
    while (dict->buckets[at])
        at = (at + 1) & (dict->bucket_count - 1);
    dict->buckets[at] = index + 1;
}

/* Make room for one item more. */
static bool
reserve (struct accel_tree *tree)
{
    if (!array_room (&tree->items, tree->count, sizeof *tree->items))
        return false;
    if (tree->kind == ACCEL_TREE_DICT && tree->count >= FEW && tree->bucket_count < 2 * (tree->count + 1)) {
        size_t wanted = tree->bucket_count ? tree->bucket_count * 2 : 4 * FEW;
        size_t *buckets = calloc (wanted, sizeof *buckets);
        if (!buckets)
            return false;
        free (tree->buckets);
        tree->buckets = buckets;
        tree->bucket_count = wanted;
        for (size_t i = 0; i < tree->count; i++)
            put_in_bucket (tree, i);
    }
    return true;
}

/* An item has one parent and no tree is in itself, so there are no cycles; levels are limited, so recursion is. */
static enum accel_status
check_item (const struct accel_tree *tree, const struct accel_tree *item, struct accel_error *err)
{
    if (!item)
        return accel_fail (err, ACCEL_ERR_INVALID, "the item is NULL");
    if (item->parent)
        return accel_fail (err, ACCEL_ERR_INVALID, "the item is already in a tree");
    int levels = item->height;
    for (const struct accel_tree *up = tree; up; up = up->parent, levels++)
        if (up == item)
            return accel_fail (err, ACCEL_ERR_INVALID, "the item contains the tree that it would be added to");
    if (levels > ACCEL_TREE_MAX_DEPTH)
        return accel_fail (err, ACCEL_ERR_INVALID, "the tree would have %d levels; the maximum is %d", levels,
                           ACCEL_TREE_MAX_DEPTH);
    return ACCEL_OK;
}

static void
raise_height (struct accel_tree *tree, int height)
{
    for (; tree && tree->height < ++height; tree = tree->parent)
        tree->height = height;
}

/* After an item was replaced the tree may have become lower. */
static void
count_height (struct accel_tree *tree)
{
    for (; tree; tree = tree->parent) {
        tree->height = 1;
        for (size_t i = 0; i < tree->count; i++)
            if (tree->height <= tree->items[i].tree->height)
                tree->height = tree->items[i].tree->height + 1;
    }
}

enum accel_status
tree_add (struct accel_tree *tree, const char *key, struct accel_tree *item, struct accel_error *err)
{
    enum accel_status status = check_item (tree, item, err);
    if (status)
        return status;
    struct tree_item made = { .tree = item };
    if (key) {
        made.hash = hash_of (key);
        size_t old = find_key (tree, key, made.hash);
        if (old < tree->count) {
            free_node (tree->items[old].tree);
            tree->items[old].tree = item;
            item->parent = tree;
            count_height (tree);
            return ACCEL_OK;
        }
        made.key = strdup (key);
    }
    if ((key && !made.key) || !reserve (tree)) {
        free (made.key);
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for another item");
    }
    tree->items[tree->count++] = made;
    if (tree->bucket_count)
        put_in_bucket (tree, tree->count - 1);
    item->parent = tree;
    raise_height (tree, item->height);
    return ACCEL_OK;
}

enum accel_status
accel_tree_append (struct accel_tree *list, struct accel_tree *item, struct accel_error *err)
{
    if (!list || list->kind != ACCEL_TREE_LIST)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tree_append: the tree is %s, not a list",
                           list ? tree_kind_name (list->kind) : "NULL");
    enum accel_status status = tree_add (list, NULL, item, err);
    return status ? accel_fail_in (err, status, "accel_tree_append: item %zu", list->count) : ACCEL_OK;
}

enum accel_status
accel_tree_set (struct accel_tree *dict, const char *key, struct accel_tree *item, struct accel_error *err)
{
    if (!dict || dict->kind != ACCEL_TREE_DICT)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tree_set: the tree is %s, not a dict",
                           dict ? tree_kind_name (dict->kind) : "NULL");
    if (!key)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tree_set: the key is NULL");
    enum accel_status status = tree_add (dict, key, item, err);
    return status ? accel_fail_in (err, status, "accel_tree_set: key '%.200s'", key) : ACCEL_OK;
}

enum accel_tree_kind
accel_tree_kind (const struct accel_tree *tree)
{
    return tree ? tree->kind : ACCEL_TREE_LIST;
}

size_t
accel_tree_length (const struct accel_tree *tree)
{
    return tree ? tree->count : 0;
}

struct accel_tree *
accel_tree_item (const struct accel_tree *tree, size_t index)
{
    return tree && index < tree->count ? tree->items[index].tree : NULL;
}

struct accel_tree *
accel_tree_get (const struct accel_tree *tree, const char *key)
{
    return tree && key && tree->kind == ACCEL_TREE_DICT ? accel_tree_item (tree, find_key (tree, key, hash_of (key)))
                                                        : NULL;
}

const char *
accel_tree_key (const struct accel_tree *tree, size_t index)
{
    return tree && index < tree->count ? tree->items[index].key : NULL;
}

const DLTensor *
accel_tree_tensor (const struct accel_tree *tree)
{
    return tree && tree->kind == ACCEL_TREE_TENSOR ? &tree->tensor.dl : NULL;
}

const void *
accel_tree_bytes (const struct accel_tree *tree, size_t *size_bytes)
{
    if (!tree || tree->kind != ACCEL_TREE_BYTES)
        return NULL;
    if (size_bytes)
        *size_bytes = tree->size_bytes;
    return tree->memory->data;
}
