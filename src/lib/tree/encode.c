/* SPDX-License-Identifier: Apache-2.0 */
/* A tree's structure as bytes, for other processes to make a tree like it: see lib/tree/tree.h.
 *
 *   text    "ACT1" node
 *   node    kind (1 byte), then
 *     tensor  type (1), dimensions (1), each size (8)
 *     bytes   length (8), the bytes
 *     list    items (8), each a node
 *     dict    items (8), each length of the key (8), the key, a node
 *
 * Numbers are little-endian. */
#include <config.h>

#include "lib/tree/tree.h"

#include "lib/base/error.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>

static const char magic[4] = { 'A', 'C', 'T', '1' };

static void
add_number (struct strbuf *text, uint64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char) (number >> 8 * i);
    strbuf_add_bytes (text, bytes, sizeof bytes);
}

static void
encode_node (const struct accel_tree *tree, struct strbuf *text)
{
    const DLTensor *tensor = &tree->tensor.dl;
    strbuf_add_char (text, (char) tree->kind);
    switch (tree->kind) {
    case ACCEL_TREE_TENSOR:
        strbuf_add_char (text, (char) accel_dtype_from_dl (tensor->dtype));
        strbuf_add_char (text, (char) tensor->ndim);
        for (int i = 0; i < tensor->ndim; i++)
            add_number (text, (uint64_t) tensor->shape[i]);
        break;
    case ACCEL_TREE_BYTES:
        add_number (text, tree->size_bytes);
        strbuf_add_bytes (text, tree->memory->data, tree->size_bytes);
        break;
    default:
        add_number (text, tree->count);
    }
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->kind == ACCEL_TREE_DICT) {
            size_t length = strlen (tree->items[i].key);
            add_number (text, length);
            strbuf_add_bytes (text, tree->items[i].key, length);
        }
        encode_node (tree->items[i].tree, text);
    }
}

enum accel_status
tree_encode (const struct accel_tree *tree, struct strbuf *text, struct accel_error *err)
{
    strbuf_add_bytes (text, magic, sizeof magic);
    encode_node (tree, text);
    return text->failed ? accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the structure of a tree")
                        : ACCEL_OK;
}

struct source {
    const unsigned char *at;
    size_t left;
    size_t limit; /* bytes that tensors may still have */
};

static enum accel_status
malformed (const char *what, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_FORMAT, "the structure of a tree is malformed: %s", what);
}

/* The next @count bytes; NULL if there are not so many. */
static const unsigned char *
take (struct source *source, uint64_t count)
{
    const unsigned char *taken = source->at;
    if (count > source->left)
        return NULL;
    source->at += count;
    source->left -= (size_t) count;
    return taken;
}

static bool
take_number (struct source *source, uint64_t *number)
{
    const unsigned char *bytes = take (source, 8);
    *number = 0;
    for (int i = 0; bytes && i < 8; i++)
        *number |= (uint64_t) bytes[i] << 8 * i;
    return bytes;
}

static enum accel_status
decode_tensor (struct source *source, struct accel_tree **made, struct accel_error *err)
{
    const unsigned char *head = take (source, 2);
    int64_t shape[ACCEL_MAX_DIMS];
    if (!head || head[0] >= ACCEL_DTYPE_COUNT || head[1] > ACCEL_MAX_DIMS)
        return malformed ("a tensor's type or number of dimensions", err);
    for (int i = 0; i < head[1]; i++) {
        uint64_t size;
        if (!take_number (source, &size) || size > INT64_MAX)
            return malformed ("a tensor's sizes", err);
        shape[i] = (int64_t) size;
    }
    struct accel_tensor tensor;
    if (accel_tensor_init (&tensor, (enum accel_dtype) head[0], head[1], shape, NULL)
        || accel_tensor_count (&tensor.dl) * accel_dtype_bytes ((enum accel_dtype) head[0]) > source->limit)
        return malformed ("a tensor is too large", err);
    enum accel_status status = tensor_allocate (&tensor, (enum accel_dtype) head[0], head[1], shape, true, err);
    if (status)
        return status;
    /* An empty tensor takes memory too. */
    source->limit -= tensor.owned_bytes < source->limit ? tensor.owned_bytes : source->limit;
    return tree_own (made, &tensor, err);
}

static enum accel_status decode_node (struct source *source, int depth, struct accel_tree **made,
                                      struct accel_error *err);

static enum accel_status
decode_item (struct source *source, int depth, struct accel_tree *tree, struct accel_error *err)
{
    AUTO_FREE char *key = NULL;
    if (tree->kind == ACCEL_TREE_DICT) {
        uint64_t length;
        const unsigned char *bytes = take_number (source, &length) ? take (source, length) : NULL;
        if (!bytes || memchr (bytes, 0, (size_t) length))
            return malformed ("a key", err);
        key = strndup ((const char *) bytes, (size_t) length);
        if (!key)
            return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a key");
        if (accel_tree_get (tree, key))
            return malformed ("a duplicate key", err);
    }
    struct accel_tree *item = NULL;
    enum accel_status status = decode_node (source, depth + 1, &item, err);
    if (!status)
        status = tree_add (tree, key, item, err);
    if (status)
        accel_tree_destroy (item);
    return status;
}

static enum accel_status
decode_items (struct source *source, int depth, struct accel_tree **made, enum accel_tree_kind kind,
              struct accel_error *err)
{
    uint64_t count;
    if (!take_number (source, &count) || count > source->left)
        return malformed ("a number of items", err);
    enum accel_status status = tree_new (made, kind, err);
    for (uint64_t i = 0; !status && i < count; i++)
        status = decode_item (source, depth, *made, err);
    if (status) {
        accel_tree_destroy (*made);
        *made = NULL;
    }
    return status;
}

static enum accel_status
decode_node (struct source *source, int depth, struct accel_tree **made, struct accel_error *err)
{
    const unsigned char *kind = take (source, 1);
    uint64_t length;
    if (depth > ACCEL_TREE_MAX_DEPTH)
        return malformed ("too many levels", err);
    if (!kind)
        return malformed ("it is truncated", err);
    switch (*kind) {
    case ACCEL_TREE_TENSOR:
        return decode_tensor (source, made, err);
    case ACCEL_TREE_BYTES: {
        const unsigned char *bytes = take_number (source, &length) ? take (source, length) : NULL;
        return bytes ? accel_tree_create_bytes (made, bytes, (size_t) length, err) : malformed ("bytes", err);
    }
    case ACCEL_TREE_LIST:
    case ACCEL_TREE_DICT:
        return decode_items (source, depth, made, (enum accel_tree_kind) *kind, err);
    default:
        return malformed ("an unknown kind", err);
    }
}

enum accel_status
tree_decode (struct accel_tree **tree, const void *text, size_t length, size_t limit, struct accel_error *err)
{
    struct source source = { .at = text, .left = length, .limit = limit };
    const unsigned char *start = take (&source, sizeof magic);
    *tree = NULL;
    if (!start || memcmp (start, magic, sizeof magic) != 0)
        return malformed ("wrong signature", err);
    enum accel_status status = decode_node (&source, 1, tree, err);
    if (!status && source.left) {
        accel_tree_destroy (*tree);
        *tree = NULL;
        return malformed ("trailing bytes", err);
    }
    return status;
}
