/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of bytes, trees, and tensors whose sizes differ. */
#include <config.h>

#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <string.h>

/* ---- objects ---- */

/* Number of bytes of object @index of rank @rank: none, few, or, of the first, up to @most. */
static size_t
length_of (int rank, size_t index, size_t most)
{
    return index ? (size_t) rank * 3 + index * 5 - 5 : most / (size_t) (rank + 1);
}

static unsigned char
byte_of (int rank, size_t index, size_t at)
{
    return (unsigned char) ((size_t) rank * 31 + index * 7 + at % 251);
}

static void
fill_objects (struct accel_object *objects, int rank, size_t count, size_t most)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = length_of (rank, i, most);
        unsigned char *bytes = size ? malloc (size) : NULL;
        for (size_t b = 0; b < size; b++)
            bytes[b] = byte_of (rank, i, b);
        objects[i] = (struct accel_object){ .data = bytes, .size_bytes = size };
    }
}

static void
free_objects (struct accel_object *objects, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free ((void *) objects[i].data);
}

static void
check_object (struct rank *self, const struct accel_object *object, int rank, size_t index, size_t most)
{
    size_t size = length_of (rank, index, most);
    if (object->size_bytes != size)
        fail (self, "object %zu of rank %d has %zu bytes, not %zu", index, rank, object->size_bytes, size);
    for (size_t b = 0; b < size; b++)
        if (((const unsigned char *) object->data)[b] != byte_of (rank, index, b))
            fail (self, "object %zu of rank %d: byte %zu is wrong", index, rank, b);
}

/* Rank r has (r + more) % 4 objects. */
static void
gather_objects (struct rank *self, size_t more, size_t most, struct accel_object_list *list)
{
    struct accel_object objects[4];
    struct accel_error err;
    size_t count = ((size_t) self->rank + more) % 4, at = 0;
    fill_objects (objects, self->rank, count, most);
    must (self, accel_gather_object (list, self->acc, objects, count, &err), &err, "accel_gather_object");
    for (int r = 0; r < self->size; r++)
        for (size_t i = 0; i < ((size_t) r + more) % 4; i++, at++) {
            if (at >= list->count)
                fail (self, "accel_gather_object: %zu objects are too few", list->count);
            check_object (self, &list->items[at], r, i, most);
        }
    if (at != list->count)
        fail (self, "accel_gather_object: %zu objects, not %zu", list->count, at);
    free_objects (objects, count);
}

static void
broadcast_objects (struct rank *self, int root, size_t count, size_t most, struct accel_object_list *list)
{
    struct accel_object objects[4];
    struct accel_error err;
    bool sends = self->rank == root;
    if (sends)
        fill_objects (objects, root, count, most);
    must (self, accel_broadcast_object_list (list, self->acc, sends ? objects : NULL, count, root, &err), &err,
          "accel_broadcast_object_list");
    if (list->count != count)
        fail (self, "accel_broadcast_object_list: %zu objects, not %zu", list->count, count);
    for (size_t i = 0; i < count; i++)
        check_object (self, &list->items[i], root, i, most);
    if (sends)
        free_objects (objects, count);
}

static void
refuse_objects (struct rank *self)
{
    struct accel *acc = self->acc;
    struct accel_error err;
    struct accel_object good = { .data = "x", .size_bytes = 1 }, bad = { .size_bytes = 1 };
    struct accel_object huge[2] = { { .data = "x", .size_bytes = PTRDIFF_MAX }, { .data = "x", .size_bytes = 1 } };
    struct accel_object_list list = { 0 };
    must_refuse (self, accel_gather_object (NULL, acc, &good, 1, &err), &err, "no list", "collections.c:");
    must_refuse (self, accel_gather_object (&list, acc, NULL, 1, &err), &err, "no objects", "NULL");
    must_refuse (self, accel_gather_object (&list, acc, &bad, 1, &err), &err, "no data", "data is NULL");
    must_refuse (self, accel_gather_object (&list, acc, huge, 2, &err), &err, "too large", "overflows");
    must_refuse (self, accel_gather_object (&list, NULL, &good, 1, &err), &err, "no job", "NULL");
    must_refuse (self, accel_broadcast_object_list (&list, acc, &good, 1, -1, &err), &err, "root -1",
                 "not a rank of this job");
    must_refuse (self, accel_broadcast_object_list (&list, acc, &good, 1, self->size, &err), &err, "no root", "rank");
    if (self->size > 1) {
        /* All find it, and nothing is broken. */
        size_t count = self->rank == 1 ? 2 : 1;
        struct accel_object two[2] = { good, good };
        must_refuse (self, accel_broadcast_object_list (&list, acc, two, count, 0, &err), &err, "other counts",
                     "numbers of objects differ: 1 on rank 0, 2 on rank 1");
        must_refuse (self, accel_broadcast_object_list (&list, acc, two, 1, self->rank == 1, &err), &err, "other roots",
                     "roots differ: 0 on rank 0, 1 on rank 1");
    }
}

void
suite_objects (struct rank *self)
{
    static const size_t most[] = { 0, 1, 100, 5000, 700000, 3 << 20 };
    struct accel_object_list list = { 0 };
    for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
        for (size_t more = 0; more < 4; more++)
            gather_objects (self, more, most[m], &list);
        for (int root = 0; root < self->size; root++)
            broadcast_objects (self, root, (size_t) root % 4, most[m], &list);
        broadcast_objects (self, self->size - 1, 3, most[m], &list);
    }
    refuse_objects (self);
    accel_object_list_release (&list);
    accel_object_list_release (&list);
    accel_object_list_release (NULL);
}

/* ---- trees and padding ---- */

/* {'x': [rows, 2] of float32, 'list': [[3] of int64, 0-d of float32]}; element i of rank r is 100 r + i. */
static struct accel_tree *
make_tree (struct rank *self, int64_t rows)
{
    const int64_t matrix[] = { rows, 2 }, three = 3;
    float x[20], zero = (float) (100 * self->rank);
    int64_t numbers[3];
    struct accel_tensor tensors[3];
    struct accel_tree *tree = NULL, *list = NULL, *leaves[3];
    struct accel_error err;
    for (int i = 0; i < 20; i++)
        x[i] = (float) (100 * self->rank + i);
    for (int i = 0; i < 3; i++)
        numbers[i] = 100 * self->rank + i;
    must (self, accel_tensor_init (&tensors[0], ACCEL_FLOAT32, 2, matrix, &err), &err, "init");
    must (self, accel_tensor_init (&tensors[1], ACCEL_INT64, 1, &three, &err), &err, "init");
    must (self, accel_tensor_init (&tensors[2], ACCEL_FLOAT32, 0, NULL, &err), &err, "init");
    tensors[0].dl.data = x;
    tensors[1].dl.data = numbers;
    tensors[2].dl.data = &zero;
    must (self, accel_tree_create (&tree, ACCEL_TREE_DICT, &err), &err, "dict");
    must (self, accel_tree_create (&list, ACCEL_TREE_LIST, &err), &err, "list");
    for (int i = 0; i < 3; i++)
        must (self, accel_tree_copy_tensor (&leaves[i], &tensors[i].dl, &err), &err, "copy");
    must (self, accel_tree_set (tree, "x", leaves[0], &err), &err, "set");
    must (self, accel_tree_append (list, leaves[1], &err), &err, "append");
    must (self, accel_tree_append (list, leaves[2], &err), &err, "append");
    must (self, accel_tree_set (tree, "list", list, &err), &err, "set");
    return tree;
}

static const DLTensor *
leaf (const struct accel_tree *tree, int index)
{
    if (!index)
        return accel_tree_tensor (accel_tree_get (tree, "x"));
    return accel_tree_tensor (accel_tree_item (accel_tree_get (tree, "list"), (size_t) index - 1));
}

static double
element (const DLTensor *tensor, size_t i)
{
    return tensor->dtype.code == kDLInt ? (double) ((const int64_t *) tensor->data)[i]
                                        : (double) ((const float *) tensor->data)[i];
}

static void
check_tree_calls (struct rank *self)
{
    struct accel_tree *tree = make_tree (self, 4), *gathered = NULL, *reduced = NULL;
    struct accel_error err;
    int size = self->size;
    double ranks = 100.0 * size * (size - 1) / 2;
    must (self, accel_tree_gather (&gathered, self->acc, tree, &err), &err, "accel_tree_gather");
    must (self, accel_tree_reduce (&reduced, self->acc, tree, ACCEL_SUM, 1, &err), &err, "accel_tree_reduce");
    for (int l = 0; l < 3; l++) {
        const DLTensor *own = leaf (tree, l), *all = leaf (gathered, l), *sum = leaf (reduced, l);
        size_t each = accel_tensor_count (own);
        if (accel_tensor_count (all) != each * (size_t) size || all->ndim != (own->ndim ? own->ndim : 1))
            fail (self, "accel_tree_gather: leaf %d has a wrong shape", l);
        for (size_t i = 0; i < each; i++) {
            for (int r = 0; r < size; r++)
                if (element (all, (size_t) r * each + i) != 100.0 * r + (double) i)
                    fail (self, "accel_tree_gather: leaf %d, element %zu of rank %d is wrong", l, i, r);
            if (element (sum, i) != ranks + (double) i * size || element (own, i) != 100.0 * self->rank + (double) i)
                fail (self, "accel_tree_reduce: leaf %d, element %zu is wrong", l, i);
        }
    }
    accel_tree_destroy (reduced);
    accel_tree_destroy (gathered);
    must (self, accel_tree_broadcast (self->acc, tree, size - 1, &err), &err, "accel_tree_broadcast");
    for (int l = 0; l < 3; l++)
        for (size_t i = 0; i < accel_tensor_count (leaf (tree, l)); i++)
            if (element (leaf (tree, l), i) != 100.0 * (size - 1) + (double) i)
                fail (self, "accel_tree_broadcast: leaf %d, element %zu is wrong", l, i);
    accel_tree_destroy (tree);
}

/* Rank r has r + 1 rows; @x must have as many as the last. */
static void
check_padded (struct rank *self, const DLTensor *x, bool first)
{
    size_t rows = (size_t) self->size, own = (size_t) self->rank + 1, begin = first ? rows - own : 0;
    if (x->shape[0] != self->size || x->shape[1] != 2)
        fail (self, "accel_pad_across_processes: %lld rows", (long long) x->shape[0]);
    for (size_t i = 0; i < rows * 2; i++) {
        bool filled = i / 2 < begin || i / 2 >= begin + own;
        if (element (x, i) != (filled ? -7 : 100.0 * self->rank + (double) (i - begin * 2)))
            fail (self, "accel_pad_across_processes: element %zu is %g", i, element (x, i));
    }
}

static void
check_padding (struct rank *self)
{
    struct accel_tree *tree = make_tree (self, self->rank + 1), *padded = NULL;
    struct accel_tensor out = { .owned_bytes = 0 };
    struct accel_error err;
    for (int first = 0; first < 2; first++) {
        must (self, accel_tree_pad_across_processes (&padded, self->acc, tree, 0, -7, first, &err), &err, "tree");
        check_padded (self, leaf (padded, 0), first);
        if (accel_tensor_count (leaf (padded, 1)) != 3 || leaf (padded, 2)->ndim)
            fail (self, "accel_tree_pad_across_processes changed what was as long as all");
        accel_tree_destroy (padded);
        must (self, accel_pad_across_processes (&out, self->acc, leaf (tree, 0), -2, -7, first, &err), &err, "tensor");
        check_padded (self, &out.dl, first);
    }
    /* No such dimension: as it is. */
    must (self, accel_pad_across_processes (&out, self->acc, leaf (tree, 0), 2, 0, false, &err), &err, "dimension 2");
    if (out.dl.shape[0] != self->rank + 1 || element (&out.dl, 1) != 100.0 * self->rank + 1)
        fail (self, "accel_pad_across_processes with no such dimension changed the tensor");
    must_refuse (self, accel_pad_across_processes (&out, self->acc, leaf (tree, 1), 0, 0.5, false, &err), &err,
                 "0.5 of int64", "int64");
    must_refuse (self, accel_tree_pad_across_processes (&padded, self->acc, tree, 0, 0.5, false, &err), &err,
                 "0.5 in a tree", "tree['list'][0]");
    accel_tensor_release (&out);
    accel_tree_destroy (tree);
}

static void
refuse_trees (struct rank *self)
{
    struct accel_tree *tree = make_tree (self, 2), *bytes, *made;
    struct accel *acc = self->acc;
    struct accel_error err;
    must_refuse (self, accel_tree_reduce (&made, acc, tree, ACCEL_AVG, 1, &err), &err, "mean of int64", "['list'][0]");
    must_refuse (self, accel_tree_reduce (&made, acc, tree, ACCEL_SUM, 2, &err), &err, "scaled int64", "['list'][0]");
    must_refuse (self, accel_tree_broadcast (acc, tree, self->size, &err), &err, "no root", "no rank");
    must (self, accel_tree_create_bytes (&bytes, "words", 5, &err), &err, "bytes");
    must (self, accel_tree_set (tree, "name", bytes, &err), &err, "set");
    must_refuse (self, accel_tree_gather (&made, acc, tree, &err), &err, "bytes", "tree['name']: ");
    must_refuse (self, accel_tree_reduce (&made, acc, tree, ACCEL_SUM, 1, &err), &err, "bytes", "tree['name']: ");
    must_refuse (self, accel_tree_broadcast (acc, tree, 0, &err), &err, "bytes", "tree['name']: ");
    must_refuse (self, accel_tree_pad_across_processes (&made, acc, tree, 0, 0, false, &err), &err, "bytes", "name");
    must_refuse (self, accel_tree_gather (&made, acc, NULL, &err), &err, "no tree", "NULL");
    must_refuse (self, accel_tree_gather (&made, NULL, tree, &err), &err, "no job", "NULL");
    accel_tree_destroy (tree);
}

/* ---- parts of a tensor, and a tensor between two ---- */

enum { PART_ROWS = 3, PART_COLUMNS = 2 };

static float
part_value (int rank, int64_t row, int64_t column)
{
    return (float) (rank * 1000 + row * PART_COLUMNS + column);
}

/* Rows by columns, in the memory of columns by rows where @p strided. */
static void
fill_parts (struct rank *self, struct accel_tensor *tensor, float *data, int64_t rows, bool strided, int from)
{
    static _Thread_local int64_t strides[2];
    struct accel_error err;
    must (self, accel_tensor_init (tensor, ACCEL_FLOAT32, 2, (int64_t[]){ rows, PART_COLUMNS }, &err), &err, "init");
    strides[0] = strided ? 1 : PART_COLUMNS;
    strides[1] = strided ? rows : 1;
    tensor->dl.data = data;
    tensor->dl.strides = strides;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < PART_COLUMNS; j++)
            data[i * strides[0] + j * strides[1]] = from < 0 ? 0 : part_value (from, i, j);
}

/* Row @p begin + i of the output has to be what rank @p from has in its row @p first + i; -1: the sum of all ranks. */
static void
check_rows (struct rank *self, const struct accel_tensor *out, int64_t begin, int from, int64_t first, const char *what)
{
    for (int64_t i = 0; i < PART_ROWS; i++)
        for (int64_t j = 0; j < PART_COLUMNS; j++) {
            float wanted = from < 0 ? 0 : part_value (from, first + i, j);
            for (int rank = 0; from < 0 && rank < self->size; rank++)
                wanted += part_value (rank, first + i, j);
            float got = ((const float *) out->dl.data)[(begin + i) * PART_COLUMNS + j];
            if (got != wanted)
                fail (self, "%s: row %lld is %g, not %g", what, (long long) (begin + i), (double) got, (double) wanted);
        }
}

/* From each rank to the next one; rank 0 sends first. */
static void
pass_round (struct rank *self, float *data, bool strided)
{
    struct accel_tensor mine, theirs;
    struct accel_error err;
    float received[PART_ROWS * PART_COLUMNS];
    int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
    fill_parts (self, &theirs, received, PART_ROWS, strided, -1);
    if (self->rank)
        must (self, accel_recv (self->acc, &theirs.dl, last, &err), &err, "accel_recv");
    fill_parts (self, &mine, data, PART_ROWS, !strided, self->rank);
    must (self, accel_send (self->acc, &mine.dl, next, &err), &err, "accel_send");
    fill_parts (self, &mine, data, PART_ROWS, strided, last);
    if (!self->rank)
        must (self, accel_recv (self->acc, &theirs.dl, last, &err), &err, "accel_recv");
    if (memcmp (received, data, sizeof received))
        fail (self, "accel_recv: other elements than rank %d has", last);
}

static void
check_parts (struct rank *self)
{
    struct accel_tensor tensor, out = { 0 };
    struct accel_error err;
    int64_t rows = (int64_t) self->size * PART_ROWS;
    float *data = calloc ((size_t) rows * PART_COLUMNS, sizeof *data);
    for (int strided = 0; strided < 2; strided++) {
        fill_parts (self, &tensor, data, rows, strided, self->rank);
        must (self, accel_all_to_all (&out, self->acc, &tensor.dl, &err), &err, "accel_all_to_all");
        for (int rank = 0; rank < self->size; rank++)
            check_rows (self, &out, (int64_t) rank * PART_ROWS, rank, (int64_t) self->rank * PART_ROWS, "all_to_all");
        must (self, accel_reduce_scatter (&out, self->acc, &tensor.dl, ACCEL_SUM, &err), &err, "accel_reduce_scatter");
        if (out.shape[0] != PART_ROWS || out.shape[1] != PART_COLUMNS)
            fail (self, "accel_reduce_scatter: another shape");
        check_rows (self, &out, 0, -1, (int64_t) self->rank * PART_ROWS, "reduce_scatter");
        if (self->size > 1)
            pass_round (self, data, strided);
    }
    fill_parts (self, &tensor, data, 0, false, self->rank);
    must (self, accel_reduce_scatter (&out, self->acc, &tensor.dl, ACCEL_SUM, &err), &err, "nothing");
    must (self, accel_all_to_all (&out, self->acc, &tensor.dl, &err), &err, "nothing");
    fill_parts (self, &tensor, data, rows - 1, false, self->rank);
    if (self->size > 1) {
        must_refuse (self, accel_all_to_all (&out, self->acc, &tensor.dl, &err), &err, "rows", "evenly among");
        must_refuse (self, accel_reduce_scatter (&out, self->acc, &tensor.dl, ACCEL_SUM, &err), &err, "rows",
                     "collections.c:");
    }
    accel_tensor_release (&out);
    free (data);
}

void
suite_trees (struct rank *self)
{
    check_parts (self);
    check_tree_calls (self);
    check_padding (self);
    refuse_trees (self);
}

/* ---- debug mode: all ranks learn what each has passed, and continue ---- */

void
suite_debug (struct rank *self)
{
    struct accel_tree *tree, *made;
    struct accel_tensor out = { .owned_bytes = 0 }, typed;
    struct accel_error err;
    const int64_t two = 2;
    float data[2];
    if (self->size == 1)
        return;
    tree = make_tree (self, self->rank == 1 ? 5 : 4);
    must_refuse (self, accel_gather (&out, self->acc, leaf (tree, 0), &err), &err, "other shapes",
                 "shapes differ between processes, but must be the same on all.  Input shapes:"
                 "  - Process 0: [4, 2]  - Process 1: [5, 2]");
    must_refuse (self, accel_tree_gather (&made, self->acc, tree, &err), &err, "trees of other shapes",
                 "  - Process 0: {'x': [4, 2], 'list': [[3], []]}  - Process 1: {'x': [5, 2], 'list': [[3], []]}");
    must_refuse (self, accel_tree_broadcast (self->acc, tree, 0, &err), &err, "other shapes", "Process 1: {'x': [5");
    must_refuse (self, accel_all_to_all (&out, self->acc, leaf (tree, 0), &err), &err, "other shapes",
                 "Process 1: [5");
    must_refuse (self, accel_reduce_scatter (&out, self->acc, leaf (tree, 0), ACCEL_SUM, &err), &err, "other shapes",
                 "accel_reduce_scatter at");
    must (self, accel_tensor_init (&typed, self->rank == 1 ? ACCEL_INT32 : ACCEL_FLOAT32, 1, &two, &err), &err, "init");
    typed.dl.data = data;
    must_refuse (self, accel_reduce (self->acc, &typed.dl, ACCEL_SUM, 1, &err), &err, "other types",
                 "element types differ between processes");
    must_refuse (self, accel_broadcast (self->acc, &typed.dl, 0, &err), &err, "other types", "- Process 1: int32 [2]");
    must (self, accel_gather (&out, self->acc, leaf (tree, 1), &err), &err, "equal shapes afterwards");
    accel_tensor_release (&out);
    accel_tree_destroy (tree);
}
