/* SPDX-License-Identifier: Apache-2.0 */
/* Walking through a tree, and the operations that are such a walk: copy, map, slice, send, batch size. */
#include <config.h>

#include "lib/tree/tree.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/tensor.h"
#include "lib/memory/device.h"
#include "lib/memory/memory.h"

#include <stdlib.h>
#include <string.h>

/* Append "tree['input_ids'][2]". */
static void
add_place (const struct tree_place *place, struct strbuf *text)
{
    if (!place) {
        strbuf_add (text, "tree");
        return;
    }
    add_place (place->up, text);
    const char *key = place->in->items[place->index].key;
    if (key)
        strbuf_printf (text, "['%s']", key);
    else
        strbuf_printf (text, "[%zu]", place->index);
}

enum accel_status
tree_fail_at (const char *call, const struct tree_place *place, enum accel_status status, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    add_place (place, &text);
    /* A place that would leave no room for the cause is cut. */
    bool whole = !text.failed && text.length < 240;
    accel_fail_in (err, status, "%s: %.240s%s", call, text.text ? text.text : "tree", whole ? "" : "...");
    return status;
}

static enum accel_status walk_item (const struct tree_walk *walk, const struct tree_place *place,
                                    const struct accel_tree *tree, struct accel_tree **made, struct accel_error *err);

static enum accel_status
walk_items (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *tree,
            struct accel_tree **made, struct accel_error *err)
{
    enum accel_status status = tree_new (made, tree->kind, err);
    if (status)
        return tree_fail_at (walk->call, place, status, err);
    for (size_t i = 0; i < tree->count; i++) {
        struct tree_place below = { .up = place, .in = tree, .index = i };
        struct accel_tree *item = NULL;
        status = walk_item (walk, &below, tree->items[i].tree, &item, err);
        if (status)
            goto error;
        status = tree_add (*made, tree->items[i].key, item, err);
        if (status) {
            accel_tree_destroy (item);
            tree_fail_at (walk->call, &below, status, err);
            goto error;
        }
    }
    return ACCEL_OK;
error:
    accel_tree_destroy (*made);
    *made = NULL;
    return status;
}

static enum accel_status
walk_item (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *tree,
           struct accel_tree **made, struct accel_error *err)
{
    if (tree->kind == ACCEL_TREE_LIST || tree->kind == ACCEL_TREE_DICT)
        return walk_items (walk, place, tree, made, err);
    enum accel_status status = walk->leaf (walk, place, tree, made, err);
    return status ? tree_fail_at (walk->call, place, status, err) : ACCEL_OK;
}

enum accel_status
tree_walk (const struct tree_walk *walk, struct accel_tree **made, const struct accel_tree *tree,
           struct accel_error *err)
{
    if (!made)
        return accel_fail_null (err, walk->call, "the output tree");
    *made = NULL;
    if (!tree)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the tree is NULL", walk->call);
    return walk_item (walk, NULL, tree, made, err);
}

enum accel_status
tree_need_tensor (const struct accel_tree *leaf, struct accel_error *err)
{
    bool usable = leaf->kind == ACCEL_TREE_TENSOR && memory_of (leaf->tensor.dl.device);
    return usable ? ACCEL_OK : tree_need_host_tensor (leaf, err);
}

enum accel_status
tree_need_host_tensor (const struct accel_tree *leaf, struct accel_error *err)
{
    if (leaf->kind != ACCEL_TREE_TENSOR)
        return accel_fail (err, ACCEL_ERR_INVALID, "expected a tensor, got %s", tree_kind_name (leaf->kind));
    DLDevice device = leaf->tensor.dl.device;
    if (!tensor_device_is_host (device))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "a tensor on DLPack device %d:%d, whose memory cannot be read from the host",
                           (int) device.device_type, device.device_id);
    return ACCEL_OK;
}

int
tree_dim (const DLTensor *tensor, int dim)
{
    if (dim < -tensor->ndim || dim >= tensor->ndim)
        return -1;
    return dim < 0 ? dim + tensor->ndim : dim;
}

static enum accel_status
copy_leaf (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *leaf,
           struct accel_tree **made, struct accel_error *err)
{
    (void) walk, (void) place;
    if (leaf->kind == ACCEL_TREE_BYTES)
        return tree_share (made, leaf, err);
    struct accel_tensor copy;
    enum accel_status status = tree_need_tensor (leaf, err);
    if (!status)
        status = tensor_device_is_host (leaf->tensor.dl.device) ? tensor_clone (&copy, &leaf->tensor.dl, err)
                                                                : memory_clone (&copy, &leaf->tensor.dl, err);
    if (status)
        return status;
    copy.dl.device = leaf->tensor.dl.device.device_type == kDLCPU ? leaf->tensor.dl.device : copy.dl.device;
    return tree_own (made, &copy, err);
}

enum accel_status
accel_tree_copy (struct accel_tree **copy, const struct accel_tree *tree, struct accel_error *err)
{
    return tree_walk (&(struct tree_walk){ .call = "accel_tree_copy", .leaf = copy_leaf }, copy, tree, err);
}

struct map {
    accel_tree_function function;
    void *user;
};

static enum accel_status
map_leaf (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *leaf,
          struct accel_tree **made, struct accel_error *err)
{
    const struct map *map = walk->user;
    AUTO_STRBUF struct strbuf text = { 0 };
    add_place (place, &text);
    if (text.failed)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the path of a leaf");
    struct accel_error cause = { 0 };
    enum accel_status status = map->function (map->user, text.text, leaf, made, &cause);
    /* What is in a tree, as the leaf itself may be, cannot be in another. */
    bool foreign = *made && ((*made)->parent || *made == leaf);
    if (!status && !foreign)
        return *made ? ACCEL_OK : tree_share (made, leaf, err);
    if (!foreign)
        accel_tree_destroy (*made);
    *made = NULL;
    if (!status)
        return accel_fail (err, ACCEL_ERR_CALLBACK,
                           "the function returned the leaf itself, or an item that is already in a tree");
    return accel_fail (err, ACCEL_ERR_CALLBACK, "%s", *cause.text ? cause.text : accel_status_string (status));
}

enum accel_status
accel_tree_map (struct accel_tree **mapped, const struct accel_tree *tree, accel_tree_function function, void *user,
                struct accel_error *err)
{
    struct map map = { .function = function, .user = user };
    if (mapped)
        *mapped = NULL;
    if (!function)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tree_map: the function is NULL");
    struct tree_walk walk = { .call = "accel_tree_map", .leaf = map_leaf, .user = &map };
    return tree_walk (&walk, mapped, tree, err);
}

static enum accel_status
batch_size_at (const struct tree_place *place, const struct accel_tree *tree, size_t *batch_size,
               struct accel_error *err)
{
    static const char call[] = "accel_tree_find_batch_size";
    if (tree->count)
        return batch_size_at (&(struct tree_place){ .up = place, .in = tree }, tree->items[0].tree, batch_size, err);
    if (tree->kind != ACCEL_TREE_TENSOR)
        return tree_fail_at (call, place,
                             accel_fail (err, ACCEL_ERR_INVALID, "no batch size in %s%s", tree_kind_name (tree->kind),
                                         tree->kind == ACCEL_TREE_BYTES ? "" : " without items"),
                             err);
    if (!tree->tensor.dl.ndim)
        return tree_fail_at (call, place,
                             accel_fail (err, ACCEL_ERR_INVALID, "no batch size in a tensor without dimensions"), err);
    *batch_size = (size_t) tree->tensor.shape[0];
    return ACCEL_OK;
}

enum accel_status
accel_tree_find_batch_size (const struct accel_tree *tree, size_t *batch_size, struct accel_error *err)
{
    if (!tree || !batch_size)
        return accel_fail_null (err, __func__, tree ? "batch_size" : "tree");
    return batch_size_at (NULL, tree, batch_size, err);
}

struct rows {
    size_t begin, end;
};

static enum accel_status
slice_leaf (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *leaf,
            struct accel_tree **made, struct accel_error *err)
{
    (void) place;
    const struct rows *rows = walk->user;
    if (leaf->kind == ACCEL_TREE_TENSOR && !leaf->tensor.dl.ndim)
        return accel_fail (err, ACCEL_ERR_INVALID, "a tensor without dimensions has no rows");
    enum accel_status status = tree_share (made, leaf, err);
    if (status || leaf->kind == ACCEL_TREE_BYTES)
        return status;
    size_t length = (size_t) leaf->tensor.shape[0];
    size_t end = rows->end < length ? rows->end : length;
    size_t begin = rows->begin < end ? rows->begin : end;
    tensor_view_narrow (&(*made)->tensor, 0, (int64_t) begin, (int64_t) (end - begin));
    return ACCEL_OK;
}

enum accel_status
accel_tree_slice (struct accel_tree **slice, const struct accel_tree *tree, size_t begin, size_t end,
                  struct accel_error *err)
{
    struct rows rows = { .begin = begin, .end = end };
    struct tree_walk walk = { .call = "accel_tree_slice", .leaf = slice_leaf, .user = &rows };
    return tree_walk (&walk, slice, tree, err);
}

struct send {
    DLDevice device;
    const struct accel_send_options *options;
};

static bool
is_skipped (const struct tree_place *place, const struct accel_send_options *options)
{
    for (; place; place = place->up) {
        const char *key = place->in->items[place->index].key;
        for (size_t i = 0; key && i < options->skip_key_count; i++)
            if (!strcmp (options->skip_keys[i], key))
                return true;
    }
    return false;
}

/* GPUs need a module, and a GPU. */
static enum accel_status
fail_copy (DLDevice from, DLDevice to, struct accel_error *err)
{
    bool gpu = from.device_type == kDLCUDA || to.device_type == kDLCUDA;
    return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "cannot copy from %s:%d (DLPack device type %d) to %s:%d (%d): %s",
                       tensor_device_name (from), (int) from.device_id, (int) from.device_type,
                       tensor_device_name (to), (int) to.device_id, (int) to.device_type,
                       gpu && *device_refusal () ? device_refusal () : "this libaccel has no code for it");
}

static enum accel_status
send_leaf (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *leaf,
           struct accel_tree **made, struct accel_error *err)
{
    const struct send *send = walk->user;
    if (leaf->kind == ACCEL_TREE_BYTES || is_skipped (place, send->options))
        return tree_share (made, leaf, err);
    DLDevice from = leaf->tensor.dl.device, to = send->device;
    if (from.device_type == to.device_type && (from.device_type == kDLCPU || from.device_id == to.device_id)) {
        enum accel_status status = tree_share (made, leaf, err);
        if (!status)
            (*made)->tensor.dl.device = to;
        return status;
    }
    if (!memory_of (from) || !memory_of (to) || (tensor_device_is_host (to) && to.device_type != kDLCPU))
        return fail_copy (from, to, err);
    struct accel_tensor copy;
    enum accel_status status = memory_send (&copy, &leaf->tensor.dl, to, err);
    return status ? status : tree_own (made, &copy, err);
}

enum accel_status
accel_send_to_device_sized (size_t options_size, struct accel_tree **sent, const struct accel_tree *tree,
                            DLDevice device, const struct accel_send_options *options, struct accel_error *err)
{
    static const struct accel_send_options none;
    struct accel_send_options room;
    enum accel_status status;
    if (sent)
        *sent = NULL;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    struct send send = { .device = device, .options = options ? options : &none };
    for (size_t i = 0; i < send.options->skip_key_count; i++)
        if (!send.options->skip_keys || !send.options->skip_keys[i])
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_send_to_device: skip_keys[%zu] is NULL", i);
    struct tree_walk walk = { .call = "accel_send_to_device", .leaf = send_leaf, .user = &send };
    return tree_walk (&walk, sent, tree, err);
}
