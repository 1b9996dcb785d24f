/* SPDX-License-Identifier: Apache-2.0 */
/* The form of trees: how many levels they have, and structures of bytes that no tree has. */
#include <config.h>

#include "lib/tree/tree.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>

static struct accel_error err;

/* Levels are counted however a tree is made, and again when a part of it was replaced. */
static void
test_heights (void)
{
    struct accel_tree *top = NULL, *last, *next, *dict = NULL, *leaf = NULL, *list = NULL;
    bool good = !accel_tree_create (&top, ACCEL_TREE_LIST, &err);
    last = top;
    for (int i = 2; i < ACCEL_TREE_MAX_DEPTH && good; i++) {
        good = !accel_tree_create (&next, ACCEL_TREE_LIST, &err) && !accel_tree_append (last, next, &err);
        last = next;
    }
    good = good && !accel_tree_create (&dict, ACCEL_TREE_DICT, &err) && !accel_tree_set (dict, "k", top, &err)
           && !accel_tree_create (&list, ACCEL_TREE_LIST, &err);
    ok (good && accel_tree_append (list, dict, &err) == ACCEL_ERR_INVALID && strstr (err.text, "65 levels"),
        "made from the top, %d levels are as many", ACCEL_TREE_MAX_DEPTH);
    good = good && !accel_tree_create_bytes (&leaf, "low", 3, &err) && !accel_tree_set (dict, "k", leaf, &err);
    ok (good && !accel_tree_append (list, dict, &err), "with a leaf in its place they are two");
    ok (accel_tree_append (list, leaf, &err) == ACCEL_ERR_INVALID && strstr (err.text, "already in a tree"),
        "what replaces another is in the tree");
    accel_tree_destroy (list);
}

/* A copy of the exact size, so that a sanitizer sees reading beyond it. */
static bool
is_refused (const void *text, size_t length)
{
    struct accel_tree *tree = NULL;
    AUTO_FREE void *copy = malloc (length);
    memcpy (copy, text, length);
    enum accel_status status = tree_decode (&tree, copy, length, 1 << 16, &err);
    accel_tree_destroy (tree);
    return status == ACCEL_ERR_FORMAT && !tree;
}

/* Each check of the decoder, by what it says. */
static void
test_malformed (void)
{
    static const struct {
        const char *text;
        size_t length;
        const char *words;
    } cases[] = {
        { "ACT2\2\0\0\0\0\0\0\0\0", 13, "wrong signature" },
        { "ACT1\1\3\0\0\0\0\0\0\0ab", 15, "malformed: bytes" },
        { "ACT1\0\377\0", 7, "a tensor's type or number of dimensions" },
        { "ACT1\0\0\11" "1234567\0" "1234567\0" "1234567\0" "1234567\0" "1234567\0" "1234567\0" "1234567\0"
          "1234567\0" "1234567\0", 79, "a tensor's type or number of dimensions" },
        { "ACT1\0\0\1\0\0\0\0\0\0\0\200", 15, "a tensor's sizes" },
        { "ACT1\3\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0a\0b\2\0\0\0\0\0\0\0\0", 33, "malformed: a key" },
        { "ACT1\2\2\0\0\0\0\0\0\0\1", 14, "a number of items" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok (is_refused (cases[i].text, cases[i].length) && strstr (err.text, cases[i].words), "%s: %s", cases[i].words,
            err.text);
    struct accel_tree *tree = NULL, *made = NULL;
    struct accel_tensor tensor;
    AUTO_STRBUF struct strbuf text = { 0 };
    int64_t shape[] = { 0, INT64_C (3) << 57 };
    bool good = !accel_tensor_init (&tensor, ACCEL_UINT8, 2, shape, &err)
                && !accel_tree_borrow_tensor (&tree, &tensor.dl, &err) && !tree_encode (tree, &text, &err)
                && !tree_decode (&made, text.text, text.length, 1 << 16, &err);
    ok (good && accel_tree_tensor (made)->shape[1] == shape[1], "a 59-bit size: %s", good ? "" : err.text);
    accel_tree_destroy (made);
    accel_tree_destroy (tree);
}

int
main (void)
{
    test_heights ();
    test_malformed ();
    return done_testing ();
}
