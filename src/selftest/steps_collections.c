/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: collectives on objects of bytes, on trees, and on tensors whose sizes differ. */
#include <config.h>

#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rank r sends the words "r.0", "r.1" ... of which it has r % 3. */
static void
check_objects (struct self *self)
{
    char words[3][16], wanted[16];
    struct accel_object objects[3];
    struct accel_object_list list = { .count = 0 };
    size_t count = (size_t) self->rank % 3, at = 0;
    for (size_t i = 0; i < 3; i++) {
        int length = snprintf (words[i], sizeof words[i], "%d.%zu", self->rank, i);
        objects[i] = (struct accel_object){ .data = words[i], .size_bytes = (size_t) length + 1 };
    }
    if (!CALL (self, accel_gather_object (&list, self->acc, objects, count, &self->err)))
        return;
    for (int r = 0; r < self->size; r++)
        for (int i = 0; i < r % 3 && at < list.count; i++) {
            snprintf (wanted, sizeof wanted, "%d.%d", r, i);
            expect_text (self, "an object", wanted, list.items[at++].data);
        }
    expect (self, "objects", (long long) at, (long long) list.count);
    if (!*self->why
        && CALL (self, accel_broadcast_object_list (&list, self->acc, objects, 3, self->size - 1, &self->err))) {
        snprintf (wanted, sizeof wanted, "%d.2", self->size - 1);
        expect_text (self, "the last object of the last rank", wanted, list.items[2].data);
    }
    accel_object_list_release (&list);
}

/* A list with one tensor, [rows] of int32: element i of rank r is r + i. */
enum { MOST_ROWS = 4096 }; /* as many as there can be processes */

static struct accel_tree *
make_tree (struct self *self, int64_t rows)
{
    int32_t numbers[MOST_ROWS];
    struct accel_tensor tensor;
    struct accel_tree *list = NULL, *leaf = NULL;
    for (int i = 0; i < MOST_ROWS; i++)
        numbers[i] = self->rank + i;
    if (!CALL (self, accel_tensor_init (&tensor, ACCEL_INT32, 1, &rows, &self->err))
        || !CALL (self, accel_tree_create (&list, ACCEL_TREE_LIST, &self->err)))
        return NULL;
    tensor.dl.data = numbers;
    if (CALL (self, accel_tree_copy_tensor (&leaf, &tensor.dl, &self->err))
        && CALL (self, accel_tree_append (list, leaf, &self->err)))
        return list;
    accel_tree_destroy (leaf);
    accel_tree_destroy (list);
    return NULL;
}

static const DLTensor *
tensor_of (const struct accel_tree *tree)
{
    return accel_tree_tensor (accel_tree_item (tree, 0));
}

/* Element @i of the only tensor of @tree. */
static long long
number (const struct accel_tree *tree, int64_t i)
{
    const DLTensor *tensor = tensor_of (tree);
    return i < tensor->shape[0] ? ((const int32_t *) tensor->data)[i] : -1;
}

static void
check_trees (struct self *self)
{
    struct accel_tree *tree = make_tree (self, 5), *made = NULL;
    int size = self->size;
    if (!tree)
        return;
    if (CALL (self, accel_tree_gather (&made, self->acc, tree, &self->err)))
        for (int i = 0; i < 5 * size; i++)
            expect (self, "an element of a gathered tree", i / 5 + i % 5, number (made, i));
    accel_tree_destroy (made);
    made = NULL;
    if (!*self->why && CALL (self, accel_tree_reduce (&made, self->acc, tree, ACCEL_SUM, 1, &self->err)))
        for (int i = 0; i < 5; i++)
            expect (self, "an element of a reduced tree", size * (size - 1) / 2 + i * size, number (made, i));
    accel_tree_destroy (made);
    if (!*self->why && CALL (self, accel_tree_broadcast (self->acc, tree, size - 1, &self->err)))
        for (int i = 0; i < 5; i++)
            expect (self, "an element of a broadcast tree", size - 1 + i, number (tree, i));
    accel_tree_destroy (tree);
}

/* To rank r goes the number of this rank, then as many bytes as r is. */
static void
check_objects_to_all (struct self *self)
{
    size_t size = (size_t) self->size;
    unsigned char *bytes = calloc (size, sizeof *bytes);
    struct accel_object *objects = calloc (size, sizeof *objects);
    struct accel_object_list list = { .count = 0 };
    if (bytes && objects) {
        memset (bytes, self->rank, size);
        for (size_t r = 0; r < size; r++)
            objects[r] = (struct accel_object){ .data = bytes, .size_bytes = r };
        if (CALL (self, accel_all_to_all_object (&list, self->acc, objects, &self->err)))
            for (int r = 0; r < self->size && !*self->why; r++) {
                expect (self, "bytes of an object", self->rank, (long long) list.items[r].size_bytes);
                if (self->rank)
                    expect (self, "a byte of an object", (unsigned char) r,
                            *(const unsigned char *) list.items[r].data);
            }
    } else
        wrong (self, "out of memory");
    accel_object_list_release (&list);
    free (objects);
    free (bytes);
}

static bool
send_both (struct self *self, const struct accel_tree *tree, int to)
{
    const struct accel_object words[] = { { .data = "both", .size_bytes = 5 }, { .size_bytes = 0 } };
    return CALL (self, accel_tree_send (self->acc, tree, to, &self->err))
           && CALL (self, accel_send_object_list (self->acc, words, 2, to, &self->err));
}

static bool
recv_both (struct self *self, int from)
{
    struct accel_tree *tree = NULL;
    struct accel_object_list list = { .count = 0 };
    bool good = CALL (self, accel_tree_recv (&tree, self->acc, from, &self->err))
                && CALL (self, accel_recv_object_list (&list, self->acc, from, &self->err));
    if (good) {
        expect (self, "rows of a received tree", from % 5 + 1, tensor_of (tree)->shape[0]);
        expect (self, "an element of a received tree", from, number (tree, 0));
        expect (self, "received objects", 2, (long long) list.count);
        expect_text (self, "the first received object", "both", list.items[0].data);
    }
    accel_tree_destroy (tree);
    accel_object_list_release (&list);
    return good;
}

/* From each rank to the next, and from the last to the first, which sends first. */
static void
check_messages (struct self *self)
{
    struct accel_tree *tree = make_tree (self, self->rank % 5 + 1);
    int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
    if (tree && self->size > 1 && (!self->rank || recv_both (self, last)) && send_both (self, tree, next)
        && !self->rank)
        recv_both (self, last);
    accel_tree_destroy (tree);
}

/* Rank r has r % 5 + 1 rows; afterwards all have as many as the longest. */
static void
check_padding (struct self *self)
{
    int rows = self->rank % 5 + 1, most = self->size < 5 ? self->size : 5;
    struct accel_tree *tree = make_tree (self, rows), *made = NULL;
    struct accel_tensor out = { .owned_bytes = 0 };
    if (!tree)
        return;
    if (CALL (self, accel_tree_pad_across_processes (&made, self->acc, tree, 0, 9, false, &self->err))) {
        expect (self, "rows", most, tensor_of (made)->shape[0]);
        for (int i = 0; i < most; i++)
            expect (self, "an element of a padded tree", i < rows ? self->rank + i : 9, number (made, i));
    }
    accel_tree_destroy (made);
    if (!*self->why
        && CALL (self, accel_pad_across_processes (&out, self->acc, tensor_of (tree), 0, 9, true, &self->err))) {
        expect (self, "rows", most, out.dl.shape[0]);
        expect (self, "the first element of a tensor padded at the front", rows < most ? 9 : self->rank,
                *(const int32_t *) out.dl.data);
    }
    accel_tensor_release (&out);
    accel_tree_destroy (tree);
}

const struct step collection_steps[] = {
    { "objects", check_objects },
    { "one object per process", check_objects_to_all },
    { "trees, all processes", check_trees },
    { "sending trees and objects", check_messages },
    { "padding, all processes", check_padding },
    { NULL, NULL },
};
