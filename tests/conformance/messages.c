/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of trees, and trees and objects that go from one process to one other. */
#include <config.h>

#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 2, COLUMNS = 3, MOST_RANKS = 8, MOST = ROWS * COLUMNS * MOST_RANKS, LARGE = 400000 };

static void
check (struct rank *self, bool good, const char *what)
{
    if (!good)
        fail (self, "%s", what);
}

/* ---- trees ---- */

static struct accel_tree *
put (struct rank *self, struct accel_tree *in, const char *key, struct accel_tree *item)
{
    struct accel_error err;
    must (self, key ? accel_tree_set (in, key, item, &err) : accel_tree_append (in, item, &err), &err, "put");
    return item;
}

static struct accel_tree *
new_tree (struct rank *self, bool dict)
{
    struct accel_tree *tree;
    struct accel_error err;
    must (self, accel_tree_create (&tree, dict ? ACCEL_TREE_DICT : ACCEL_TREE_LIST, &err), &err, "create");
    return tree;
}

static struct accel_tree *
new_leaf (struct rank *self, enum accel_dtype dtype, int ndim, const int64_t *shape, void *data)
{
    struct accel_tensor tensor;
    struct accel_tree *leaf;
    struct accel_error err;
    must (self, accel_tensor_init (&tensor, dtype, ndim, shape, &err), &err, "init");
    tensor.dl.data = data;
    must (self, accel_tree_copy_tensor (&leaf, &tensor.dl, &err), &err, "copy");
    return leaf;
}

/* [rows, COLUMNS] of float32 with as much between the rows, in @memory. */
static struct accel_tree *
new_strided (struct rank *self, int64_t rows, const float *data, float *memory)
{
    struct accel_tensor tensor;
    struct accel_tree *leaf;
    struct accel_error err;
    int64_t strides[] = { 2 * COLUMNS, 1 };
    must (self, accel_tensor_init (&tensor, ACCEL_FLOAT32, 2, (int64_t[]){ rows, COLUMNS }, &err), &err, "init");
    tensor.dl.data = memory;
    tensor.dl.strides = strides;
    for (int64_t i = 0; i < rows * COLUMNS; i++)
        memory[i / COLUMNS * strides[0] + i % COLUMNS] = data[i];
    must (self, accel_tree_borrow_tensor (&leaf, &tensor.dl, &err), &err, "borrow");
    return leaf;
}

/* {'types': [a tensor of each type], 'deep': {'list': [], 'dict': {}, 'empty': [0, 3], 'strided': as the first}}, what
 * rank @rank has.  @memory must stay. */
static struct accel_tree *
new_parts (struct rank *self, int rank, int64_t rows, int types, float *memory)
{
    struct accel_tree *tree = new_tree (self, true), *list = put (self, tree, "types", new_tree (self, false)),
                      *deep = put (self, tree, "deep", new_tree (self, true));
    int64_t shape[] = { rows, COLUMNS }, none[] = { 0, 3 };
    double data[MOST];
    for (int type = 0; type < types; type++) {
        reference_input (data, (enum accel_dtype) type, rank, (size_t) rows * COLUMNS);
        put (self, list, NULL, new_leaf (self, (enum accel_dtype) type, 2, shape, data));
    }
    put (self, deep, "list", new_tree (self, false));
    put (self, deep, "dict", new_tree (self, true));
    put (self, deep, "empty", new_leaf (self, ACCEL_INT64, 2, none, data));
    reference_input (data, ACCEL_FLOAT32, rank, (size_t) rows * COLUMNS);
    put (self, deep, "strided", new_strided (self, rows, (const float *) data, memory));
    return tree;
}

/* What this rank gets of tensors of this type: its part of the reduction, or from each its part where @op is NULL. */
static size_t
expect_part (struct rank *self, enum accel_dtype dtype, const enum accel_op *op, char *wanted)
{
    double inputs[MOST_RANKS][MOST], all[MOST];
    const void *sources[MOST_RANKS];
    size_t count = (size_t) self->size * ROWS * COLUMNS, each = ROWS * COLUMNS, bytes = accel_dtype_bytes (dtype);
    for (int r = 0; r < self->size; r++) {
        sources[r] = inputs[r];
        reference_input (inputs[r], dtype, r, count);
        memcpy (wanted + (size_t) r * each * bytes, (char *) inputs[r] + (size_t) self->rank * each * bytes,
                each * bytes);
    }
    if (!op)
        return count;
    reference_reduce (all, dtype, *op, sources, self->size, count);
    memcpy (wanted, (char *) all + (size_t) self->rank * each * bytes, each * bytes);
    return each;
}

/* @leaf's tensor, divided among the ranks. */
static void
check_part (struct rank *self, const struct accel_tree *leaf, enum accel_dtype dtype, const enum accel_op *op)
{
    double wanted[MOST];
    struct accel_tensor part = { .owned_bytes = 0 };
    struct accel_error err;
    size_t count = expect_part (self, dtype, op, (char *) wanted);
    must (self, op ? accel_reduce_scatter (&part, self->acc, accel_tree_tensor (leaf), *op, &err)
                   : accel_all_to_all (&part, self->acc, accel_tree_tensor (leaf), &err),
          &err, "a part");
    check (self, accel_dtype_from_dl (part.dl.dtype) == dtype && part.dl.ndim == 2
                     && part.dl.shape[0] * COLUMNS == (int64_t) count && part.dl.shape[1] == COLUMNS,
           "a part of another shape");
    if (reference_compare (dtype, part.dl.data, wanted, count) != count)
        fail (self, "%s of %s: another part", op ? "reduce-scatter" : "all-to-all", accel_dtype_name (dtype));
    accel_tensor_release (&part);
}

static void
check_parts (struct rank *self, const enum accel_op *op)
{
    static float memory[2 * MOST];
    int types = op ? ACCEL_BOOL + 1 : ACCEL_DTYPE_COUNT;
    struct accel_tree *tree = new_parts (self, self->rank, (int64_t) self->size * ROWS, types, memory);
    for (int type = 0; type < types; type++)
        check_part (self, accel_tree_item (accel_tree_get (tree, "types"), (size_t) type), (enum accel_dtype) type, op);
    check_part (self, accel_tree_get (accel_tree_get (tree, "deep"), "strided"), ACCEL_FLOAT32, op);
    accel_tree_destroy (tree);
}

/* Reduce-scatter and all-to-all refuse a tensor of @dtype with @why; NULL: they take it. */
static void
refuse_part (struct rank *self, enum accel_dtype dtype, int ndim, const int64_t *shape, enum accel_op op,
             const char *reduction, const char *exchange)
{
    static float memory[2 * MOST];
    struct accel_tree *leaf = new_leaf (self, dtype, ndim, shape, memory);
    struct accel_tensor part = { .owned_bytes = 0 };
    struct accel_error err;
    must_refuse (self, accel_reduce_scatter (&part, self->acc, accel_tree_tensor (leaf), op, &err), &err, "a part",
                 reduction);
    if (exchange)
        must_refuse (self, accel_all_to_all (&part, self->acc, accel_tree_tensor (leaf), &err), &err, "a part",
                     exchange);
    else
        must (self, accel_all_to_all (&part, self->acc, accel_tree_tensor (leaf), &err), &err, "a part");
    accel_tensor_release (&part);
    accel_tree_destroy (leaf);
}

static void
refuse_parts (struct rank *self)
{
    static const int64_t odd[] = { ROWS * MOST_RANKS + 1, 1 }, empty[] = { 0, 1 };
    refuse_part (self, ACCEL_INT32, 2, empty, ACCEL_AVG, "cannot average int32", NULL);
    refuse_part (self, ACCEL_FLOAT32, 2, empty, ACCEL_OP_COUNT, "invalid ", NULL);
    refuse_part (self, ACCEL_FLOAT8_E5M2, 2, empty, ACCEL_SUM, "float8_e5m2", NULL);
    refuse_part (self, ACCEL_FLOAT32, 0, NULL, ACCEL_SUM, "no rows", "no rows");
    if (self->size > 1 && odd[0] % self->size)
        refuse_part (self, ACCEL_INT8, 2, odd, ACCEL_SUM, "17 rows evenly", "17 rows evenly");
}

static void
same_trees (struct rank *self, const struct accel_tree *a, const struct accel_tree *b)
{
    size_t sizes[2];
    const DLTensor *left = accel_tree_tensor (a), *right = accel_tree_tensor (b);
    check (self, accel_tree_kind (a) == accel_tree_kind (b) && accel_tree_length (a) == accel_tree_length (b),
           "a tree of another structure came");
    for (size_t i = 0; i < accel_tree_length (a); i++) {
        check (self, accel_tree_kind (a) == ACCEL_TREE_LIST || !strcmp (accel_tree_key (a, i), accel_tree_key (b, i)),
               "another key came");
        same_trees (self, accel_tree_item (a, i), accel_tree_item (b, i));
    }
    if (accel_tree_kind (a) == ACCEL_TREE_BYTES) {
        const void *one = accel_tree_bytes (a, &sizes[0]), *other = accel_tree_bytes (b, &sizes[1]);
        check (self, sizes[0] == sizes[1] && !memcmp (one, other, sizes[0]), "other bytes came");
    }
    if (!left)
        return;
    size_t bytes = accel_tensor_count (left) * left->dtype.bits / 8;
    check (self, left->ndim == right->ndim && left->dtype.code == right->dtype.code
                     && left->dtype.bits == right->dtype.bits
                     && (!left->ndim || !memcmp (left->shape, right->shape, (size_t) left->ndim * sizeof *left->shape)),
           "a tensor of another shape came");
    check (self, !bytes || !memcmp (left->data, right->data, bytes), "other elements came");
}

/* To the next rank, from the last; rank 0 sends first.  @theirs is what the last one must send. */
static void
pass_tree (struct rank *self, const struct accel_tree *mine, const struct accel_tree *theirs)
{
    struct accel_tree *came = NULL, *wanted;
    struct accel_error err;
    int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
    if (self->rank)
        must (self, accel_tree_recv (&came, self->acc, last, &err), &err, "accel_tree_recv");
    must (self, accel_tree_send (self->acc, mine, next, &err), &err, "accel_tree_send");
    if (!self->rank)
        must (self, accel_tree_recv (&came, self->acc, last, &err), &err, "accel_tree_recv");
    must (self, accel_tree_copy (&wanted, theirs, &err), &err, "copy");
    same_trees (self, came, wanted);
    accel_tree_destroy (wanted);
    accel_tree_destroy (came);
}

/* new_parts() with what only messages can have, rank + 1 of it. */
static struct accel_tree *
new_message (struct rank *self, int rank, float *memory, const float *large)
{
    static const int64_t many = LARGE;
    struct accel_tree *tree = new_parts (self, rank, rank % 3, ACCEL_DTYPE_COUNT, memory), *bytes;
    struct accel_tree *list = put (self, tree, "more", new_tree (self, false));
    struct accel_error err;
    float number = (float) rank;
    for (int i = 0; i <= rank; i++) {
        must (self, accel_tree_create_bytes (&bytes, "some words", (size_t) (i % 10), &err), &err, "bytes");
        put (self, list, NULL, bytes);
        put (self, list, NULL, new_leaf (self, ACCEL_FLOAT32, 0, NULL, &number));
    }
    put (self, tree, "large", new_leaf (self, ACCEL_FLOAT32, 1, &many, (float *) large + rank));
    must (self, accel_tree_create_bytes (&bytes, large, LARGE, &err), &err, "bytes");
    put (self, tree, "", bytes);
    return tree;
}

static void
check_tree_messages (struct rank *self)
{
    static float memory[2][2 * MOST];
    int last = (self->rank + self->size - 1) % self->size;
    float *large = calloc (LARGE + MOST_RANKS, sizeof *large);
    for (int i = 0; i < LARGE + MOST_RANKS; i++)
        large[i] = (float) (i % 1009);
    struct accel_tree *mine = new_message (self, self->rank, memory[0], large);
    struct accel_tree *theirs = new_message (self, last, memory[1], large);
    struct accel_tree *deepest = new_tree (self, false), *in = deepest, *dict = new_tree (self, true);
    for (int i = 2; i < ACCEL_TREE_MAX_DEPTH; i++)
        in = put (self, in, NULL, new_tree (self, false));
    put (self, in, NULL, new_leaf (self, ACCEL_FLOAT64, 0, NULL, large));
    for (int round = 0; round < 3; round++)
        pass_tree (self, mine, theirs);
    pass_tree (self, dict, dict);
    pass_tree (self, deepest, deepest);
    pass_tree (self, accel_tree_get (mine, "large"), accel_tree_get (theirs, "large"));
    pass_tree (self, accel_tree_get (mine, ""), accel_tree_get (theirs, ""));
    accel_tree_destroy (dict);
    accel_tree_destroy (deepest);
    accel_tree_destroy (theirs);
    accel_tree_destroy (mine);
    free (large);
}

/* ---- objects ---- */

/* Object @index, of @most bytes where it is 1, from rank @from to rank @to. */
static struct accel_object
new_object (int from, int to, int index, size_t most)
{
    size_t size = index == 1 ? most / (size_t) (from + 1) : (size_t) ((from * 5 + to * 3 + index) % 7);
    unsigned char *bytes = size ? malloc (size) : NULL;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char) ((size_t) (from * 31 + to * 7 + index) + i % 251);
    return (struct accel_object){ .data = bytes, .size_bytes = size };
}

static void
check_object (struct rank *self, const struct accel_object *object, int from, int index, size_t most)
{
    struct accel_object wanted = new_object (from, self->rank, index, most);
    check (self, object->size_bytes == wanted.size_bytes
                     && (!wanted.size_bytes || !memcmp (object->data, wanted.data, wanted.size_bytes)),
           "received an object that no rank has sent");
    free ((void *) wanted.data);
}

static void
recv_objects (struct rank *self, int from, int count, size_t most, struct accel_object_list *list)
{
    struct accel_error err;
    must (self, accel_recv_object_list (list, self->acc, from, &err), &err, "accel_recv_object_list");
    check (self, list->count == (size_t) count, "another number of objects came");
    for (int i = 0; i < count; i++)
        check_object (self, &list->items[i], from, i, most);
}

static void
pass_objects (struct rank *self, size_t most, struct accel_object_list *list)
{
    struct accel_object objects[MOST_RANKS];
    struct accel_error err;
    int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
    for (int i = 0; i < self->rank; i++)
        objects[i] = new_object (self->rank, next, i, most);
    if (self->rank)
        recv_objects (self, last, last, most, list);
    must (self, accel_send_object_list (self->acc, self->rank ? objects : NULL, (size_t) self->rank, next, &err), &err,
          "accel_send_object_list");
    if (!self->rank)
        recv_objects (self, last, last, most, list);
    for (int i = 0; i < self->rank; i++)
        free ((void *) objects[i].data);
}

/* Every other pair has an object of @most bytes. */
static void
exchange_objects (struct rank *self, size_t most, struct accel_object_list *list)
{
    struct accel_object objects[MOST_RANKS];
    struct accel_error err;
    for (int r = 0; r < self->size; r++)
        objects[r] = new_object (self->rank, r, (self->rank + r) % 2, most);
    must (self, accel_all_to_all_object (list, self->acc, objects, &err), &err, "accel_all_to_all_object");
    check (self, list->count == (size_t) self->size, "accel_all_to_all_object: another number of objects");
    for (int r = 0; r < self->size; r++) {
        check_object (self, &list->items[r], r, (self->rank + r) % 2, most);
        free ((void *) objects[r].data);
    }
}

/* ---- what is refused, before anything is sent ---- */

static void
refuse_messages (struct rank *self)
{
    struct accel *acc = self->acc;
    struct accel_error err;
    struct accel_tree *tree = new_tree (self, true), *came = tree;
    struct accel_object good[MOST_RANKS], bad = { .size_bytes = 1 };
    struct accel_object huge[2] = { { .data = "x", .size_bytes = PTRDIFF_MAX }, { .data = "x", .size_bytes = 1 } };
    struct accel_object_list list = { 0 };
    static const struct {
        int rank;
        const char *words;
    } peers[] = { { 0, "to itself" }, { -1, "negative" }, { 1, "no rank" } };
    for (int r = 0; r < MOST_RANKS; r++)
        good[r] = (struct accel_object){ .data = "x", .size_bytes = 1 };
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        int peer = peers[i].rank < 0 ? -1 : peers[i].rank ? self->size : self->rank;
        const char *words = peers[i].words;
        must_refuse (self, accel_tree_send (acc, tree, peer, &err), &err, "tree_send", words);
        must_refuse (self, accel_tree_recv (&came, acc, peer, &err), &err, "tree_recv", words);
        must_refuse (self, accel_send_object_list (acc, good, 1, peer, &err), &err, "send objects", words);
        must_refuse (self, accel_recv_object_list (&list, acc, peer, &err), &err, "recv objects", words);
    }
    check (self, !came, "accel_tree_recv left a tree behind");
    int other = (self->rank + 1) % self->size;
    must_refuse (self, accel_tree_send (acc, NULL, other, &err), &err, "no tree", "messages.c:");
    must_refuse (self, accel_tree_send (NULL, tree, other, &err), &err, "no job", "NULL");
    must_refuse (self, accel_tree_recv (NULL, acc, other, &err), &err, "no place", "NULL");
    must_refuse (self, accel_tree_recv (&came, NULL, other, &err), &err, "no job", "NULL");
    must_refuse (self, accel_send_object_list (NULL, good, 1, other, &err), &err, "no job", "NULL");
    must_refuse (self, accel_send_object_list (acc, NULL, 1, other, &err), &err, "no objects", "NULL");
    must_refuse (self, accel_send_object_list (acc, &bad, 1, other, &err), &err, "no data", "data is NULL");
    must_refuse (self, accel_send_object_list (acc, huge, 2, other, &err), &err, "too large", "overflows");
    must_refuse (self, accel_send_object_list (acc, good, SIZE_MAX, other, &err), &err, "too many", "overflows");
    must_refuse (self, accel_recv_object_list (NULL, acc, other, &err), &err, "no list", "messages.c:");
    must_refuse (self, accel_recv_object_list (&list, NULL, other, &err), &err, "no job", "NULL");
    must_refuse (self, accel_all_to_all_object (&list, NULL, good, &err), &err, "no job", "NULL");
    must_refuse (self, accel_all_to_all_object (NULL, acc, good, &err), &err, "no list", "NULL");
    must_refuse (self, accel_all_to_all_object (&list, acc, NULL, &err), &err, "no objects", "NULL");
    good[0] = bad;
    must_refuse (self, accel_all_to_all_object (&list, acc, good, &err), &err, "no data", "data is NULL");
    accel_tree_destroy (tree);
}

void
suite_messages (struct rank *self)
{
    static const size_t most[] = { 0, 1, 5000, 3 << 20 };
    struct accel_object_list list = { 0 };
    check_parts (self, NULL);
    for (int op = 0; op < ACCEL_OP_COUNT; op++)
        if (op != ACCEL_AVG)
            check_parts (self, &(enum accel_op){ (enum accel_op) op });
    refuse_parts (self);
    refuse_messages (self);
    if (self->size > 1)
        check_tree_messages (self);
    for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
        if (self->size > 1)
            pass_objects (self, most[m], &list);
        exchange_objects (self, most[m], &list);
    }
    accel_object_list_release (&list);
}
