/* SPDX-License-Identifier: Apache-2.0 */
/* Trees: against the original's operations, against each other on random trees, and in every way to misuse them. */
#include <config.h>

#include "tests/allocators.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "tests/unit/core/tree_text.h"
#include "util/cleanup.h"

#include <malloc.h>

static struct accel_error err;

/* One case of tree.txt in one layout of memory. */
static char *
run_golden (const char *operation, char *line, enum layout layout)
{
    struct golden golden = { .rest = line };
    struct accel_tree *made = NULL, *trees[8] = { 0 };
    long a = 0, b = 0, c = 0, d = 0;
    size_t count = 1, rows = 0;
    char *text = NULL;
    int numbers = !strcmp (operation, "batch") ? 0 : !strcmp (operation, "pad") ? 4 : 2;
    long *arguments[] = { &a, &b, &c, &d };
    for (int i = 0; i < numbers; i++)
        *arguments[i] = strtol (golden_word (&golden), NULL, 10);
    if (!strcmp (operation, "concatenate"))
        count = (size_t) b;
    for (size_t i = 0; i < count; i++)
        trees[i] = tree_of (golden_word (&golden), layout);
    enum accel_status status = ACCEL_OK;
    if (!strcmp (operation, "batch")) {
        status = accel_tree_find_batch_size (trees[0], &rows, &err);
        if (asprintf (&text, status ? "error" : "%zu", rows) < 0)
            text = NULL;
    } else if (!strcmp (operation, "slice"))
        status = accel_tree_slice (&made, trees[0], (size_t) a, (size_t) b, &err);
    else if (!strcmp (operation, "concatenate"))
        status = accel_tree_concatenate (&made, (const struct accel_tree *const *) trees, count, (int) a, &err);
    else if (!strcmp (operation, "pad"))
        status = accel_tree_pad (&made, trees[0], (int) a, (size_t) b, (double) c, d, &err);
    else
        status = accel_pad_input_tensors (&made, trees[0], (size_t) a, (size_t) b, &err);
    for (size_t i = 0; i < count; i++)
        accel_tree_destroy (trees[i]);
    if (!text)
        text = text_of (made);
    if (status && strcmp (text, "error") != 0)
        diag ("a failure left a result");
    forget_memory ();
    return text;
}

static void
test_goldens (void)
{
    struct golden golden;
    golden_find (&golden, "tree.txt");
    for (int number = 1; golden_next (&golden); number++) {
        const char *operation = golden_word (&golden), *wanted = strrchr (golden.rest, ' ') + 1;
        bool good = true;
        for (int layout = 0; layout < LAYOUTS; layout++) {
            AUTO_FREE char *line = strdup (golden.rest);
            AUTO_FREE char *got = run_golden (operation, line, (enum layout) layout);
            if (strcmp (got, wanted) != 0) {
                diag ("layout %d: got %s, wanted %s (%s)", layout, got, wanted, err.text);
                good = false;
            }
        }
        ok (good, "the original's %s, case %d", operation, number);
    }
}

/* Cut into pieces and joined, copied, sent, or encoded and decoded, a tree is the same. */
static void
test_round_trips (void)
{
    bool good = true;
    for (int round = 0; round < 300 && good; round++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        size_t rows = 1 + any (8), cut = any (rows + 1), cut2 = cut + any (rows + 1 - cut);
        random_text (&text, rows, 0);
        struct accel_tree *tree = tree_of (text.text, (enum layout) any (LAYOUTS)), *pieces[3] = { 0 }, *joined = NULL;
        struct accel_tree *copy = NULL, *sent = NULL, *other = NULL;
        size_t found = 0, bounds[] = { 0, cut, cut2, rows };
        for (int i = 0; i < 3; i++)
            good = good && !accel_tree_slice (&pieces[i], tree, bounds[i], bounds[i + 1], &err);
        good = good && !accel_tree_concatenate (&joined, (const struct accel_tree *const *) pieces, 3, 0, &err)
               && !accel_tree_copy (&copy, tree, &err) && !accel_tree_find_batch_size (tree, &found, &err)
               && !accel_send_to_device (&sent, tree, (DLDevice){ kDLCPU, 3 }, NULL, &err) && found == rows;
        struct strbuf structure = { 0 };
        good = good && !tree_encode (tree, &structure, &err)
               && !tree_decode (&other, structure.text, structure.length, 1 << 20, &err);
        struct strbuf again = { 0 };
        good = good && !tree_encode (other, &again, &err) && again.length == structure.length
               && !memcmp (again.text, structure.text, again.length);
        for (int i = 0; i < 3; i++)
            accel_tree_destroy (pieces[i]);
        accel_tree_destroy (other);
        accel_tree_destroy (tree);
        strbuf_release (&structure);
        strbuf_release (&again);
        AUTO_FREE char *joined_text = text_of (joined), *copy_text = text_of (copy), *sent_text = text_of (sent);
        good = good && !strcmp (joined_text, text.text) && !strcmp (copy_text, text.text)
               && !strcmp (sent_text, text.text);
        if (!good)
            diag ("round %d, cut at %zu and %zu: %s; %s", round, cut, cut2, text.text, err.text);
        forget_memory ();
    }
    ok (good, "300 random trees: slice and concatenate, copy, send, encode and decode");
}

/* What operations say of trees that they cannot work on. */
static void
test_messages (void)
{
    static const struct {
        const char *operation, *trees[3], *message;
    } cases[] = {
        { "concatenate", { "{a:[f2=1,2;l1=1;]}", "{a:[f2=1,2;i1=1;]}" },
          "accel_tree_concatenate: tree['a'][1]: tree 1 has type int32, but tree 0 has int64" },
        { "concatenate", { "[f1x2=1,2;]", "[f1x2=1,2;]", "[f1x3=1,2,3;]" },
          "accel_tree_concatenate: tree[0]: tree 2 has shape [1, 3], but tree 0 has [1, 2]: "
          "only dimension 0 may differ" },
        { "concatenate", { "[f=1;]" }, "accel_tree_concatenate: tree[0]: a tensor of 0 dimensions has no dimension 0" },
        { "concatenate", { "{a:f1=1;}", "{a:f1=1;b:f1=1;}" },
          "accel_tree_concatenate: tree: tree 0 has no key 'b', which tree 1 has" },
        { "concatenate", { "{a:f1=1;b:f1=1;}", "{a:f1=1;}" },
          "accel_tree_concatenate: tree: tree 1 has no key 'b', which tree 0 has" },
        { "concatenate", { "[[]]", "[{}]" },
          "accel_tree_concatenate: tree[0]: tree 1 has a dict, but tree 0 has a list" },
        { "concatenate", { "[[]]", "[[]f=1;]" },
          "accel_tree_concatenate: tree: tree 1 has a list of 2 items, but tree 0 has 1" },
        { "concatenate", { "{s:'x'}", "{s:'x'}" },
          "accel_tree_concatenate: tree['s']: only tensors can be concatenated, not bytes" },
        { "slice", { "{ids:[f1=1;f1=1;f=1;]}" },
          "accel_tree_slice: tree['ids'][2]: a tensor without dimensions has no rows" },
        { "batch", { "{a:[]}" }, "accel_tree_find_batch_size: tree['a']: no batch size in a list without items" },
        { "batch", { "['x']" }, "accel_tree_find_batch_size: tree[0]: no batch size in bytes" },
        { "batch", { "f=1;" }, "accel_tree_find_batch_size: tree: no batch size in a tensor without dimensions" },
        { "pad", { "[B1=1;]" }, "accel_tree_pad: tree[0]: cannot pad with -1: it is not a value of type uint8" },
        { "pad", { "{a:'x'}" }, "accel_tree_pad: tree['a']: expected a tensor, got bytes" },
        { "inputs", { "[f=1;]" }, "accel_pad_input_tensors: tree[0]: a tensor without dimensions has no rows" },
        { "inputs", { "[f9=1,2,3,4,5,6,7,8,9;]" },
          "accel_pad_input_tensors: tree[0]: 9 rows, more than the 2 of the padded batch" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_tree *trees[3] = { 0 }, *made = NULL;
        size_t count = 0, rows;
        for (; count < 3 && cases[i].trees[count]; count++)
            trees[count] = tree_of (cases[i].trees[count], PACKED);
        err = (struct accel_error){ 0 };
        const char *operation = cases[i].operation;
        enum accel_status status
            = !strcmp (operation, "concatenate")
                  ? accel_tree_concatenate (&made, (const struct accel_tree *const *) trees, count, 0, &err)
              : !strcmp (operation, "slice") ? accel_tree_slice (&made, trees[0], 0, 1, &err)
              : !strcmp (operation, "batch") ? accel_tree_find_batch_size (trees[0], &rows, &err)
              : !strcmp (operation, "pad")   ? accel_tree_pad (&made, trees[0], 0, 4, -1, false, &err)
                                             : accel_pad_input_tensors (&made, trees[0], 1, 2, &err);
        is_text (err.text, cases[i].message, cases[i].message);
        ok (status == ACCEL_ERR_INVALID && !made, "... and there is no result");
        for (size_t t = 0; t < count; t++)
            accel_tree_destroy (trees[t]);
        forget_memory ();
    }
}

static void
test_padding_values (void)
{
    static const struct {
        enum accel_dtype dtype;
        double value;
        int64_t bits; /* -1: refused */
    } cases[] = {
        { ACCEL_FLOAT16, 1, 0x3c00 },          { ACCEL_FLOAT16, -2, 0xc000 },
        { ACCEL_FLOAT16, 65504, 0x7bff },      { ACCEL_FLOAT16, 65519, 0x7bff },
        { ACCEL_FLOAT16, 65520, 0x7c00 },      { ACCEL_FLOAT16, 0x1p-24, 0x0001 },
        { ACCEL_FLOAT16, 0x1p-25, 0x0000 },    { ACCEL_FLOAT16, 0x1.8p-25, 0x0001 },
        { ACCEL_FLOAT16, 0x1.ff8p-15, 0x03ff }, { ACCEL_FLOAT16, 0x1.ffcp-15, 0x0400 },
        { ACCEL_FLOAT16, 1 + 0x1p-11, 0x3c00 }, { ACCEL_FLOAT16, 1 + 0x3p-11, 0x3c02 },
        { ACCEL_FLOAT16, -INFINITY, 0xfc00 },  { ACCEL_FLOAT16, NAN, 0x7e00 },
        { ACCEL_FLOAT16, -1e30, 0xfc00 },      { ACCEL_BFLOAT16, -1e300, 0xff80 },
        { ACCEL_BFLOAT16, 1, 0x3f80 },         { ACCEL_BFLOAT16, -1e9, 0xce6e },
        { ACCEL_BFLOAT16, 1 + 0x1p-8, 0x3f80 }, { ACCEL_BFLOAT16, 1 + 0x3p-8, 0x3f82 },
        { ACCEL_BFLOAT16, 0x1p-133, 0x0001 },  { ACCEL_BFLOAT16, 0x1.fffp127, 0x7f80 },
        { ACCEL_FLOAT32, 0.5, 0x3f000000 },    { ACCEL_INT8, -128, 0x80 },
        { ACCEL_INT8, 128, -1 },               { ACCEL_INT8, 0.5, -1 },
        { ACCEL_INT8, NAN, -1 },               { ACCEL_UINT8, 255, 0xff },
        { ACCEL_UINT8, 256, -1 },              { ACCEL_UINT8, -1, -1 },
        { ACCEL_INT32, -100, 0xffffff9c },     { ACCEL_INT32, 0x1p31, -1 },
        { ACCEL_INT64, 0x1p62, 1LL << 62 },    { ACCEL_INT64, 0x1p63, -1 },
        { ACCEL_BOOL, 1, 1 },                  { ACCEL_BOOL, 2, -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t none = 0, bits = 0;
        DLTensor empty = { .dtype = accel_dtype_to_dl (cases[i].dtype), .ndim = 1, .shape = &none };
        empty.device.device_type = kDLCPU;
        struct accel_tree *leaf, *padded;
        bool good = !accel_tree_borrow_tensor (&leaf, &empty, &err);
        enum accel_status status = accel_tree_pad (&padded, leaf, 0, 3, cases[i].value, false, &err);
        if (padded) /* the last one, which filling reaches last */
            memcpy (&bits, element_at (accel_tree_tensor (padded), 2), accel_dtype_bytes (cases[i].dtype));
        good = good && (cases[i].bits == -1 ? status == ACCEL_ERR_INVALID : !status && bits == cases[i].bits);
        ok (good, "padding %s with %g", accel_dtype_name (cases[i].dtype), cases[i].value);
        if (!good)
            diag ("got %llx: %s", (unsigned long long) bits, status ? err.text : "");
        accel_tree_destroy (leaf);
        accel_tree_destroy (padded);
    }
}

static void
test_ownership (void)
{
    struct accel_tree *list = NULL, *dict = NULL, *leaf = NULL, *other = NULL, *part = NULL;
    bool made = !accel_tree_create (&list, ACCEL_TREE_LIST, &err) && !accel_tree_create (&dict, ACCEL_TREE_DICT, &err)
                && !accel_tree_create_bytes (&leaf, "one", 3, &err) && !accel_tree_create_bytes (&other, NULL, 0, &err);
    ok (made && !accel_tree_append (list, leaf, &err), "a leaf in a list");
    ok (accel_tree_append (list, leaf, &err) == ACCEL_ERR_INVALID, "not twice");
    is_text (err.text, "accel_tree_append: item 1: the item is already in a tree", "... and the message says why");
    ok (accel_tree_set (dict, "k", leaf, &err) == ACCEL_ERR_INVALID && !accel_tree_length (dict), "nor in two trees");
    ok (!accel_tree_set (dict, "k", list, &err), "a list in a dict");
    ok (accel_tree_append (list, dict, &err) == ACCEL_ERR_INVALID, "no cycle");
    ok (accel_tree_append (list, list, &err) == ACCEL_ERR_INVALID, "nor one of a single tree");
    ok (accel_tree_append (dict, other, &err) == ACCEL_ERR_INVALID && accel_tree_set (list, "k", other, &err)
            && accel_tree_append (leaf, other, &err) && accel_tree_append (NULL, other, &err)
            && accel_tree_set (dict, NULL, other, &err) && accel_tree_append (list, NULL, &err),
        "append wants a list, set a dict and a key, both an item");
    accel_tree_destroy (leaf);
    is_text (accel_tree_bytes (accel_tree_item (list, 0), NULL), "one", "destroying an item does nothing");
    ok (!accel_tree_set (dict, "k", other, &err) && accel_tree_get (dict, "k") == other
            && accel_tree_length (dict) == 1,
        "setting a key again replaces what it had");
    size_t size = 1;
    ok (accel_tree_bytes (other, &size) && !size && !accel_tree_tensor (other) && !accel_tree_bytes (dict, NULL)
            && !accel_tree_item (dict, 1) && !accel_tree_key (other, 0) && !accel_tree_get (other, "k")
            && !accel_tree_get (accel_tree_get (NULL, "k"), "k") && !accel_tree_length (NULL),
        "getters find nothing where there is nothing");
    accel_tree_destroy (dict);
    accel_tree_destroy (NULL);

    struct accel_tensor tensor;
    ok (!accel_tensor_init (&tensor, ACCEL_INT32, 1, (int64_t[]){ 4 }, &err)
            && accel_tree_take_tensor (&leaf, &tensor, &err) == ACCEL_ERR_INVALID,
        "memory of others is not taken over");
    tensor.dl.data = (int32_t[]){ 1, 2, 3, 4 };
    ok (accel_tree_take_tensor (&leaf, &tensor, &err) == ACCEL_ERR_INVALID && !leaf && tensor.dl.data,
        "... nor where there is some");
    tensor.dl.data = memcpy (malloc (16), (int32_t[]){ 1, 2, 3, 4 }, 16);
    tensor.owned_bytes = 16;
    tensor.dl.shape = (int64_t[]){ 4 };
    tensor.shape[0] = 3; /* the first is what counts */
    ok (!accel_tree_take_tensor (&leaf, &tensor, &err) && !tensor.dl.data && !tensor.owned_bytes
            && accel_tree_tensor (leaf)->shape[0] == 4,
        "taking memory over");
    ok (!accel_tree_slice (&part, leaf, 1, 3, &err), "a part of it");
    accel_tree_destroy (leaf);
    AUTO_FREE char *text = text_of (part);
    is_text (text, "i2=2,3;", "... outlives the whole");
}

static void
test_limits (void)
{
    struct accel_tree *tree = NULL, *above, *items[1000];
    bool good = !accel_tree_create_bytes (&tree, "deep", 4, &err);
    for (int i = 1; i < ACCEL_TREE_MAX_DEPTH && good; i++) {
        good = !accel_tree_create (&above, ACCEL_TREE_LIST, &err) && !accel_tree_append (above, tree, &err);
        tree = above;
    }
    ok (good, "%d levels", ACCEL_TREE_MAX_DEPTH);
    struct accel_tree *copy;
    ok (!accel_tree_copy (&copy, tree, &err), "... are copied");
    accel_tree_destroy (copy);
    ok (!accel_tree_create (&above, ACCEL_TREE_DICT, &err)
            && accel_tree_set (above, "k", tree, &err) == ACCEL_ERR_INVALID,
        "one more is refused");
    is_text (err.text, "accel_tree_set: key 'k': the tree would have 65 levels; the maximum is 64",
             "... with a message");
    accel_tree_destroy (tree);
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf (key, sizeof key, "key %d", i);
        good = good && !accel_tree_create (&items[i], ACCEL_TREE_LIST, &err)
               && !accel_tree_set (above, key, items[i], &err);
    }
    for (size_t i = 0; i < 1000; i++)
        good = good && accel_tree_get (above, accel_tree_key (above, i)) == items[i];
    ok (good && accel_tree_length (above) == 1000 && !accel_tree_get (above, "key 1000"), "a dict of 1000 keys");
    accel_tree_destroy (above);

    int64_t shape[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, huge = INT64_MAX / 2;
    static float one;
    DLTensor sound = { .data = &one, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .device = { kDLCPU, 0 }, .ndim = 1,
                       .shape = shape };
    DLTensor bad[6] = { sound, sound, sound, sound, sound, sound };
    bad[0].ndim = 9;
    bad[1].data = NULL;
    bad[2].shape = NULL;
    bad[3].dtype.lanes = 2;
    bad[4].shape = &huge;
    bad[5].shape = (int64_t[]){ 3 };
    bad[5].strides = &huge;
    for (int i = 0; i < 6; i++)
        ok (accel_tree_borrow_tensor (&tree, &bad[i], &err) && !tree && accel_tree_copy_tensor (&tree, &bad[i], &err),
            "refused: %s", err.text);
    ok (accel_tree_borrow_tensor (&tree, NULL, &err) && accel_tree_copy_tensor (&tree, NULL, &err)
            && accel_tree_take_tensor (&tree, NULL, &err) && accel_tree_copy (&tree, NULL, &err)
            && accel_tree_slice (&tree, NULL, 0, 1, &err) && accel_tree_map (&tree, NULL, NULL, NULL, &err)
            && accel_tree_concatenate (&tree, NULL, 1, 0, &err)
            && accel_tree_concatenate (&tree, (const struct accel_tree *[]){ NULL }, 1, 0, &err)
            && accel_tree_find_batch_size (NULL, &(size_t){ 0 }, &err)
            && accel_tree_copy_tensor (&tree, &bad[0], NULL) == ACCEL_ERR_INVALID,
        "NULL is refused, also without a place for the error");
    good = !accel_tree_copy_tensor (&tree, &sound, &err);
    ok (accel_tree_pad (&copy, tree, 0, SIZE_MAX, 0, false, &err) && !copy
            && accel_tree_pad (&copy, tree, 0, INT64_MAX, 0, false, &err) && !copy
            && accel_pad_input_tensors (&copy, tree, SIZE_MAX, 3, &err) && !copy
            && accel_pad_input_tensors (&copy, tree, 1, 0, &err) && !copy,
        "sizes beyond any memory, and 0 processes");
    ok (!accel_tree_pad (&copy, tree, 0, 0, 7, true, &err)
            && accel_tree_tensor (copy)->data == accel_tree_tensor (tree)->data
            && accel_tree_tensor (copy)->shape[0] == 1,
        "what is long enough is shared as it is");
    accel_tree_destroy (copy);
    accel_tree_destroy (tree);
}

struct mapped {
    struct strbuf places;
    const char *fail_at; /* place */
    enum { KEEP, REPLACE, RETURN_LEAF, RETURN_ITEM } what;
    struct accel_tree *other;
};

static enum accel_status
note_place (void *user, const char *place, const struct accel_tree *leaf, struct accel_tree **result,
            struct accel_error *error)
{
    struct mapped *mapped = user;
    strbuf_printf (&mapped->places, "%s ", place);
    if (mapped->fail_at && !strcmp (mapped->fail_at, place)) {
        snprintf (error->text, sizeof error->text, "no good");
        return ACCEL_ERR_FORMAT;
    }
    if (mapped->what == RETURN_LEAF)
        *result = (struct accel_tree *) (uintptr_t) leaf;
    if (mapped->what == RETURN_ITEM)
        *result = (struct accel_tree *) (uintptr_t) accel_tree_item (mapped->other, 0);
    return mapped->what == REPLACE ? accel_tree_create_bytes (result, "new", 3, error) : ACCEL_OK;
}

static void
test_map (void)
{
    static const char text[] = "{a:[f2=1,2;'x']b:{c:l1=7;}}";
    struct accel_tree *tree = tree_of (text, PACKED), *mapped;
    struct mapped user = { .what = KEEP };
    ok (!accel_tree_map (&mapped, tree, note_place, &user, &err), "map");
    ok (accel_tree_tensor (accel_tree_item (accel_tree_get (mapped, "a"), 0))->data
            == accel_tree_tensor (accel_tree_item (accel_tree_get (tree, "a"), 0))->data,
        "leaves that are let alone share their memory");
    AUTO_FREE char *same = text_of (mapped);
    is_text (same, text, "... and are the same");
    is_text (user.places.text, "tree['a'][0] tree['a'][1] tree['b']['c'] ", "places in the order of the tree");
    user.what = REPLACE;
    ok (!accel_tree_map (&mapped, tree, note_place, &user, &err), "replacing");
    AUTO_FREE char *replaced = text_of (mapped);
    is_text (replaced, "{a:['new''new']b:{c:'new'}}", "... puts new trees in the leaves' places");
    user.fail_at = "tree['b']['c']";
    ok (accel_tree_map (&mapped, tree, note_place, &user, &err) == ACCEL_ERR_CALLBACK && !mapped,
        "a function that fails");
    is_text (err.text, "accel_tree_map: tree['b']['c']: no good", "... is named with its place");
    user = (struct mapped){ .places = user.places, .what = RETURN_LEAF };
    ok (accel_tree_map (&mapped, tree, note_place, &user, &err) == ACCEL_ERR_CALLBACK,
        "a function that returns the leaf");
    struct accel_tree *alone = tree_of ("l1=7;", PACKED);
    ok (accel_tree_map (&mapped, alone, note_place, &user, &err) == ACCEL_ERR_CALLBACK && !mapped,
        "... which is a whole tree: %s", err.text);
    accel_tree_destroy (alone);
    user = (struct mapped){ .places = user.places, .what = RETURN_ITEM, .other = tree_of ("['x''y']", PACKED) };
    ok (accel_tree_map (&mapped, tree, note_place, &user, &err) == ACCEL_ERR_CALLBACK && !mapped,
        "a function that returns what another tree has: %s", err.text);
    AUTO_FREE char *other = text_of (user.other);
    is_text (other, "['x''y']", "... which stays as it is");
    strbuf_release (&user.places);
    accel_tree_destroy (tree);
    forget_memory ();
}

/* Bytes that are allocated; 0 if they are not counted. */
static size_t
memory_in_use (void)
{
#if defined __GLIBC__ && __GLIBC_PREREQ (2, 33)
    struct mallinfo2 info = mallinfo2 ();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

enum { LARGE = 65536, ROUNDS = 64 };

struct making {
    bool fails; /* having made a leaf; otherwise what it makes is a list of a list */
};

static enum accel_status
make_large (void *user, const char *place, const struct accel_tree *leaf, struct accel_tree **result,
            struct accel_error *error)
{
    static const char bytes[LARGE];
    const struct making *making = user;
    struct accel_tree *item, *list;
    (void) place, (void) leaf;
    enum accel_status status = accel_tree_create_bytes (&item, bytes, sizeof bytes, error);
    *result = item;
    for (int i = 0; i < 2 && !status && !making->fails; i++) {
        status = accel_tree_create (&list, ACCEL_TREE_LIST, error);
        if (!status)
            status = accel_tree_append (list, *result, error);
        *result = status ? *result : list;
    }
    if (!status && making->fails) {
        snprintf (error->text, sizeof error->text, "no good");
        return ACCEL_ERR_FORMAT;
    }
    return status;
}

/* What was made before a failure is freed: leaves of functions that fail, and items that are too deep to be added. */
static void
test_failed_maps (void)
{
    for (int fails = 0; fails < 2; fails++) {
        struct making making = { .fails = fails };
        struct accel_tree *tree, *above, *mapped;
        bool good = !accel_tree_create_bytes (&tree, "deep", 4, &err);
        for (int i = 1; i < ACCEL_TREE_MAX_DEPTH && good; i++) {
            good = !accel_tree_create (&above, ACCEL_TREE_LIST, &err) && !accel_tree_append (above, tree, &err);
            tree = above;
        }
        size_t before = 0;
        for (int i = 0; i < 2 * ROUNDS && good; i++) {
            before = i == ROUNDS ? memory_in_use () : before;
            good = accel_tree_map (&mapped, tree, make_large, &making, &err) && !mapped
                   && strstr (err.text, fails ? "no good" : "levels");
        }
        size_t after = memory_in_use (), grown = after > before ? after - before : 0;
        ok (good && grown < ROUNDS / 2 * LARGE, "%d maps that fail: %zu bytes more; %s", ROUNDS, grown, err.text);
        accel_tree_destroy (tree);
    }
}

/* A place that is longer than an error is cut, and the reason is there whole. */
static void
test_long_places (void)
{
    static const size_t lengths[] = { 100, 227, 240, 1000 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char key[1001] = "";
        struct accel_tree *tree, *leaf, *mapped;
        struct making making = { .fails = true };
        memset (key, 'k', lengths[i]);
        ok (!accel_tree_create (&tree, ACCEL_TREE_DICT, &err) && !accel_tree_create_bytes (&leaf, "x", 1, &err)
                && !accel_tree_set (tree, key, leaf, &err), "a key of %zu characters", lengths[i]);
        bool whole = lengths[i] < 230, failed = accel_tree_map (&mapped, tree, make_large, &making, &err) != ACCEL_OK;
        const char *end = whole ? "kk']: no good" : "kk...: no good";
        size_t length = strlen (err.text), wanted = strlen (end);
        ok (failed && length > wanted && !strcmp (err.text + length - wanted, end), "its error ends with %s", end);
        accel_tree_destroy (tree);
    }
}

/* Dimensions of 1 are passed over by no stride; and memory that is not a tensor's own stays. */
static void
test_tensors (void)
{
    static const struct {
        int64_t shape[3], strides[3];
        bool contiguous;
    } rows[] = {
        { { 2, 1, 3 }, { 3, 3, 1 }, true },   { { 2, 1, 3 }, { 3, 77, 1 }, true },  { { 1, 2, 3 }, { 0, 3, 1 }, true },
        { { 2, 3, 1 }, { 3, 1, 9 }, true },   { { 2, 1, 3 }, { 4, 3, 1 }, false }, { { 2, 1, 3 }, { 3, 3, 2 }, false },
        { { 2, 3, 1 }, { 1, 2, 1 }, false },
    };
    float numbers[16] = { 0 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        DLTensor tensor = { .data = numbers, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .device = { kDLCPU, 0 },
                            .ndim = 3, .shape = (int64_t *) (uintptr_t) rows[i].shape,
                            .strides = (int64_t *) (uintptr_t) rows[i].strides };
        struct accel_tree *tree;
        ok (!accel_tree_borrow_tensor (&tree, &tensor, &err)
                && !accel_tree_tensor (tree)->strides == rows[i].contiguous,
            "strides %d, %d, %d", (int) rows[i].strides[0], (int) rows[i].strides[1], (int) rows[i].strides[2]);
        accel_tree_destroy (tree);
    }
    struct accel_tensor borrowed;
    ok (!accel_tensor_init (&borrowed, ACCEL_FLOAT32, 1, (int64_t[]){ 16 }, &err), "a tensor without memory");
    borrowed.dl.data = numbers;
    accel_tensor_release (&borrowed);
    ok (!borrowed.dl.data, "released, with memory of another owner");
}

static void
test_send (void)
{
    struct accel_tree *tree = tree_of ("{a:f2=1,2;s:'x'keep:[f1=3;]}", COLUMNS), *sent, *pinned, *device;
    struct accel_tree *part = NULL;
    DLDevice cuda = { kDLCUDA, 1 }, host = { kDLCPU, 0 };
    const DLTensor *a = accel_tree_tensor (accel_tree_get (tree, "a"));
    ok (!accel_send_to_device (&sent, tree, (DLDevice){ kDLCPU, 2 }, NULL, &err)
            && accel_tree_tensor (accel_tree_get (sent, "a"))->data == a->data
            && accel_tree_tensor (accel_tree_get (sent, "a"))->device.device_id == 2,
        "the host's memory is one device");
    accel_tree_destroy (sent);
    ok (accel_send_to_device (&sent, tree, cuda, NULL, &err) == ACCEL_ERR_UNSUPPORTED && !sent
            && strstr (err.text, "accel_send_to_device: tree['a']: cannot copy from cpu:0 (DLPack device type 1) to "
                                 "cuda:1"),
        "no GPU: %s", err.text);
    struct accel_send_options options = { .skip_keys = (const char *[]){ "a", "keep" }, .skip_key_count = 2 };
    ok (!accel_send_to_device (&sent, tree, cuda, &options, &err)
            && accel_tree_tensor (accel_tree_item (accel_tree_get (sent, "keep"), 0))->device.device_type == kDLCPU,
        "skip_keys");
    accel_tree_destroy (sent);
    options.skip_keys = NULL;
    ok (accel_send_to_device (&sent, tree, cuda, &options, &err) == ACCEL_ERR_INVALID, "skip_keys NULL");

    DLTensor memory = *a;
    memory.device = (DLDevice){ kDLCUDAHost, 0 };
    ok (!accel_tree_borrow_tensor (&pinned, &memory, &err) && !accel_send_to_device (&sent, pinned, host, NULL, &err)
            && accel_tree_tensor (sent)->data != a->data && accel_tree_tensor (sent)->device.device_type == kDLCPU,
        "pinned memory is copied");
    accel_tree_destroy (pinned);
    AUTO_FREE char *text = text_of (sent);
    is_text (text, "f2=1,2;", "... rightly");
    memory.device = cuda;
    ok (!accel_tree_borrow_tensor (&device, &memory, &err) && !accel_tree_slice (&part, device, 1, 2, &err)
            && accel_tree_tensor (part)->data == memory.data
            && accel_tree_tensor (part)->byte_offset == memory.byte_offset + 8,
        "a device's memory is cut without touching it");
    accel_tree_destroy (part);
    ok (accel_send_to_device (&sent, device, (DLDevice){ kDLCUDA, 0 }, NULL, &err) == ACCEL_ERR_UNSUPPORTED && !sent
            && strstr (err.text, "from cuda:1 (DLPack device type 2) to cuda:0"),
        "another GPU is another memory: %s", err.text);
    ok (!accel_send_to_device (&sent, device, cuda, NULL, &err) && accel_tree_copy (&part, device, &err)
            && accel_tree_pad (&part, device, 0, 9, 0, false, &err)
            && accel_send_to_device (&part, device, host, NULL, &err) == ACCEL_ERR_UNSUPPORTED,
        "... and nothing else can be done with it but to let it where it is");
    accel_tree_destroy (sent);
    accel_tree_destroy (device);
    accel_tree_destroy (tree);
    forget_memory ();
}

/* Decode what may be anything, which must make a tree or an error; whether it made a tree. */
static bool
decodes (const void *text, size_t length)
{
    struct accel_tree *tree;
    /* A copy of the exact size, so that a sanitizer sees reading beyond it. */
    AUTO_FREE void *copy = malloc (length + !length);
    memcpy (copy, text, length);
    enum accel_status status = tree_decode (&tree, copy, length, 1 << 16, &err);
    bool good = status == ACCEL_OK;
    if (good != (tree != NULL) || (!good && status != ACCEL_ERR_FORMAT))
        ok (false, "decoding: %s", err.text);
    accel_tree_destroy (tree);
    return good;
}

static void
test_decoding (void)
{
    static const char original[] = "{a:[f2x3=1,2,3,4,5,6;'bytes'[]{}]b:{c:l1=7;dd:?=1;}e:h3x0=;}";
    struct accel_tree *tree = tree_of (original, BACKWARDS), *made = NULL;
    AUTO_STRBUF struct strbuf text = { 0 };
    ok (!tree_encode (tree, &text, &err) && !tree_decode (&made, text.text, text.length, 24 + 8 + 1 + 1, &err),
        "%zu bytes of structure", text.length);
    AUTO_FREE char *zeros = text_of (made);
    is_text (zeros, "{a:[f2x3=0,0,0,0,0,0;'bytes'[]{}]b:{c:l1=0;dd:?=0;}e:h3x0=;}", "a tree like it, zeroed");
    ok (tree_decode (&made, text.text, text.length, 32, &err) == ACCEL_ERR_FORMAT && !made, "beyond the limit: %s",
        err.text);
    int wrong = 0, flipped = 0;
    for (size_t i = 0; i < text.length; i++)
        wrong += decodes (text.text, i);
    ok (!wrong, "no beginning of it is a structure");
    for (size_t bit = 0; bit < text.length * 8; bit++) {
        text.text[bit / 8] ^= (char) (1 << bit % 8);
        flipped += decodes (text.text, text.length);
        text.text[bit / 8] ^= (char) (1 << bit % 8);
    }
    ok (flipped < (int) text.length * 8, "each bit flipped: %d are structures too", flipped);
    for (int round = 0; round < 20000; round++) {
        AUTO_FREE char *bytes = malloc (text.length);
        memcpy (bytes, text.text, text.length);
        for (size_t n = 1 + any (6); n; n--)
            bytes[4 + any (text.length - 4)] = (char) (any (2) ? any (256) : any (5));
        decodes (bytes, any (8) ? text.length : any (text.length));
    }
    ok (true, "20000 times a few bytes changed");
    strbuf_add_char (&text, 0);
    ok (!decodes (text.text, text.length), "something after it");
    char deep[4 + 9 * 100] = "ACT1";
    for (int i = 0; i < 100; i++)
        memcpy (deep + 4 + 9 * i, "\2\1\0\0\0\0\0\0\0", 9);
    ok (!decodes (deep, sizeof deep) && strstr (err.text, "levels"), "100 levels: %s", err.text);
    static const char twice[] = "ACT1\3\2\0\0\0\0\0\0\0"
                                "\1\0\0\0\0\0\0\0k\2\0\0\0\0\0\0\0\0"
                                "\1\0\0\0\0\0\0\0k\2\0\0\0\0\0\0\0";
    ok (!decodes (twice, sizeof twice) && strstr (err.text, "duplicate"), "one key twice: %s", err.text);
    accel_tree_destroy (tree);
    forget_memory ();
}

static enum accel_status
build (struct accel_tree **dict, struct accel_tree *unused)
{
    struct accel_tree *item = NULL;
    int64_t shape[] = { 1 };
    DLTensor tensor = { .data = shape, .dtype = accel_dtype_to_dl (ACCEL_INT64), .ndim = 1, .shape = shape };
    tensor.device.device_type = kDLCPU;
    (void) unused;
    enum accel_status status = accel_tree_create (dict, ACCEL_TREE_DICT, &err);
    for (int i = 0; i < 40 && !status; i++) {
        char key[8];
        snprintf (key, sizeof key, "%d", i);
        status = i % 3 == 0   ? accel_tree_create_bytes (&item, "x", 1, &err)
                 : i % 3 == 1 ? accel_tree_create (&item, ACCEL_TREE_LIST, &err)
                              : accel_tree_copy_tensor (&item, &tensor, &err);
        if (!status && (status = accel_tree_set (*dict, key, item, &err)))
            accel_tree_destroy (item);
    }
    if (status) {
        accel_tree_destroy (*dict);
        *dict = NULL;
    }
    return status;
}

static enum accel_status
carry (struct accel_tree **made, struct accel_tree *tree)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    enum accel_status status = tree_encode (tree, &text, &err);
    return status ? status : tree_decode (made, text.text, text.length, 1 << 20, &err);
}

static enum accel_status
replace (void *user, const char *place, const struct accel_tree *leaf, struct accel_tree **result,
         struct accel_error *error)
{
    (void) user, (void) place, (void) leaf;
    return accel_tree_create (result, ACCEL_TREE_LIST, error);
}

#define OPERATION(name, call)                                    \
    static enum accel_status                                     \
    name (struct accel_tree **made, struct accel_tree *tree)     \
    {                                                            \
        return call;                                             \
    }
OPERATION (cut, accel_tree_slice (made, tree, 0, 1, &err))
OPERATION (join, accel_tree_concatenate (made, (const struct accel_tree *[]){ tree, tree }, 2, 0, &err))
OPERATION (duplicate, accel_tree_copy (made, tree, &err))
OPERATION (pad, accel_tree_pad (made, tree, 0, 7, 1, true, &err))
OPERATION (inputs, accel_pad_input_tensors (made, tree, 2, 3, &err))
OPERATION (map, accel_tree_map (made, tree, replace, NULL, &err))
OPERATION (send_away, accel_send_to_device (made, tree, (DLDevice){ kDLCPU, 0 }, NULL, &err))

/* Each allocation of each operation fails once: an error, no result, and nothing lost (a sanitizer looks). */
static void
test_no_memory (void)
{
    enum accel_status (*const operations[]) (struct accel_tree **, struct accel_tree *)
        = { build, carry, cut, join, duplicate, pad, inputs, map, send_away };
    struct accel_tree *tree = tree_of ("{a:[f2=1,2;[l2x2=1,2,3,4;]{}]b:h2=1,2;c:[[[?2=1,0;]]]}", COLUMNS), *made;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        bool good = true;
        for (long n = 0; good; n++) {
            made = NULL;
            calls_left = n;
            enum accel_status status = operations[i] (&made, tree);
            bool reached = calls_left < 0;
            calls_left = -1;
            good = status ? !made && (status == ACCEL_ERR_NOMEM || status == ACCEL_ERR_CALLBACK) : made != NULL;
            accel_tree_destroy (made);
            if (reached)
                good = good && status;
            else if (!status) {
                ok (n > 3, "operation %zu: each of %ld allocations failed once", i, n);
                break;
            }
        }
        if (!good)
            ok (false, "operation %zu: %s", i, err.text);
    }
    accel_tree_destroy (tree);
    forget_memory ();
}

int
main (void)
{
    test_no_memory ();
    test_goldens ();
    test_round_trips ();
    test_messages ();
    test_padding_values ();
    test_ownership ();
    test_limits ();
    test_map ();
    test_failed_maps ();
    test_long_places ();
    test_tensors ();
    test_send ();
    test_decoding ();
    return done_testing ();
}
