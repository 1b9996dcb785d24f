/* SPDX-License-Identifier: Apache-2.0 */
/* What is left in memory: after texts that are cut, after each allocation that can fail, and when things end. */
#include <config.h>

#include "lib/data/batch.h"
#include "lib/tree/tree.h"
#include "tests/balance.h"
#include "tests/ranks.h"
#include "tests/samples.h"
#include "tests/scratch.h"

#include <accel/accel.h>
#include <accel/dataset.h>
#include <accel/safetensors.h>

static struct accel_error err;
static float values[6] = { 1, 2, 3, 4, 5, 6 };
static int64_t shape[1] = { 6 };
static DLTensor tensor;

static struct accel_tree *
leaf (void)
{
    struct accel_tree *made = NULL;
    if (accel_tree_copy_tensor (&made, &tensor, &err))
        abort ();
    return made;
}

/* A dict of a tensor and a list of a tensor and bytes. */
static struct accel_tree *
make_tree (void)
{
    struct accel_tree *dict, *list, *bytes;
    if (accel_tree_create (&dict, ACCEL_TREE_DICT, &err) || accel_tree_create (&list, ACCEL_TREE_LIST, &err)
        || accel_tree_create_bytes (&bytes, "bytes", 5, &err) || accel_tree_set (dict, "tensor", leaf (), &err)
        || accel_tree_append (list, leaf (), &err) || accel_tree_append (list, bytes, &err)
        || accel_tree_set (dict, "list", list, &err))
        abort ();
    return dict;
}

static void
test_decode (void)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    struct accel_tree *tree = make_tree ();
    bool good = !tree_encode (tree, &text, &err);
    accel_tree_destroy (tree);
    long before = blocks;
    for (size_t length = 0; length < text.length; length++)
        good = good && tree_decode (&tree, text.text, length, 1 << 20, &err) && !tree;
    ok (good && blocks == before, "texts that are cut leave nothing: %ld blocks", blocks - before);
    enum accel_status status = ACCEL_ERR_NOMEM;
    int failed = -1;
    before = blocks;
    for (long calls = 0; status == ACCEL_ERR_NOMEM; calls++, failed++) {
        calls_left = calls;
        status = tree_decode (&tree, text.text, text.length, 1 << 20, &err);
        calls_left = -1;
        good = good && (!status || !tree);
    }
    accel_tree_destroy (tree);
    ok (good && !status && failed > 5 && blocks == before, "%d allocations that fail leave nothing: %ld blocks", failed,
        blocks - before);
}

static void
test_replace (void)
{
    long before = blocks;
    struct accel_tree *tree = make_tree ();
    bool good = !accel_tree_set (tree, "list", leaf (), &err) && !accel_tree_set (tree, "tensor", leaf (), &err);
    errno = EDOM;
    free_spoils_errno = true;
    accel_tree_destroy (tree);
    free_spoils_errno = false;
    ok (errno == EDOM, "errno stays");
    ok (good && blocks == before, "what was replaced goes: %ld blocks", blocks - before);
}

static void
test_copy (void)
{
    enum accel_status status = ACCEL_ERR_NOMEM;
    struct accel_tree *tree = NULL;
    bool good = true;
    int failed = -1;
    long before = blocks;
    for (long calls = 0; status == ACCEL_ERR_NOMEM; calls++, failed++) {
        tree = (void *) values;
        calls_left = calls;
        status = accel_tree_copy_tensor (&tree, &tensor, &err);
        calls_left = -1;
        good = good && (!status || !tree);
    }
    accel_tree_destroy (tree);
    ok (good && !status && failed >= 3 && blocks == before, "%d allocations that fail leave no leaf: %ld blocks",
        failed, blocks - before);
}

/* The second tensor is not aligned, so its view is a copy. */
static void
test_files (void)
{
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}";
    uint64_t length = sizeof header - 1;
    const struct accel_safetensors_tensor one = { "x", &tensor };
    struct accel_safetensors *file;
    struct accel_dataset *data;
    FILE *out = fopen ("odd", "w");
    bool good = out && fwrite (&length, 1, 8, out) == 8 && fputs (header, out) >= 0 && fwrite ("abcde", 1, 5, out) == 5;
    good = out && !fclose (out) && good && !accel_safetensors_save ("even", &one, 1, NULL, &err);
    long before = blocks;
    good = good && !accel_safetensors_open (&file, "odd", NULL, &err);
    for (size_t i = 0; good && i < accel_safetensors_count (file); i++) {
        DLTensor view;
        good = !accel_safetensors_view (file, i, &view, &err);
    }
    accel_safetensors_close (file);
    ok (good && blocks == before, "views of a file go when it is closed: %ld blocks", blocks - before);
    before = blocks;
    good = !accel_dataset_open_safetensors (&data, "even", NULL, 0, &err);
    accel_dataset_close (data);
    ok (good && blocks == before, "a data set of a file goes: %ld blocks, %s", blocks - before, good ? "" : err.text);
}

static void
test_batch (void)
{
    static const struct accel_field field = { .name = "x", .dtype = ACCEL_FLOAT32, .ndim = 0 };
    static const int64_t larger[1] = { 1000 };
    struct accel_batch batch;
    void *memory;
    long before = blocks;
    bool good = !batch_init (&batch, &field, 1, 2, NULL, &err)
                && !accel_batch_resize (&batch, "x", 1, larger, &memory, &err);
    batch_release (&batch);
    ok (good && blocks == before, "a batch that has grown goes: %ld blocks", blocks - before);
}

/* Groups of the shm engine: what they have goes, and without memory for it they are not made. */
static void
test_groups (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group;
    long before = 0;
    for (int round = 0; round < 3; round++) {
        before = blocks;
        rank_must (accel_comm_split (&group, world, 0, 0, &err), &err);
        rank_must (accel_comm_barrier (group, &err), &err);
        accel_comm_destroy (group);
    }
    right (blocks == before, "a group leaves %ld blocks", blocks - before);
}

/* The last round has one sample for two ranks; the tree with the repeated one goes. */
static void
test_metrics (struct accel *acc)
{
    static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
    const struct accel_dataset dataset = { 3, &field, 1, sample_is_index, NULL, NULL };
    const struct accel_loader_options options = { .batch_size = 1 };
    struct accel_loader *loader;
    const struct accel_batch *batch;
    long before = 0;
    rank_must (accel_loader_create (&loader, &dataset, &options, &err), &err);
    rank_must (accel_prepare (acc, &err, loader), &err);
    while (accel_loader_next (loader, &batch, &err))
        for (int turn = 0; turn < 3; turn++) {
            struct accel_tree *mine = NULL, *all = NULL;
            before = blocks;
            rank_must (accel_tree_copy_tensor (&mine, accel_batch_tensor (batch, "x"), &err), &err);
            rank_must (accel_tree_gather_for_metrics (&all, acc, mine, &err), &err);
            int64_t rows = accel_tree_tensor (all)->shape[0];
            right (rows == (accel_loader_end_of_dataloader (loader) ? 1 : 2), "%d rows", (int) rows);
            accel_tree_destroy (mine);
            accel_tree_destroy (all);
        }
    right (blocks == before, "what is gathered for metrics leaves %ld blocks", blocks - before);
    accel_loader_destroy (loader);
}

static long failing; /* which allocation */

/* Each rank that cannot make its group has given up, so that no rank waits for it. */
static void
test_no_groups (struct accel *acc)
{
    struct accel_comm *group = NULL;
    calls_left = failing;
    enum accel_status status = accel_comm_split (&group, accel_world (acc), 0, 0, &err);
    bool failed = calls_left < 0;
    calls_left = -1;
    right (!status == !failed && !group == failed, "status %d, a group %d", (int) status, !!group);
    accel_comm_destroy (group);
}

int
main (void)
{
    tensor = (DLTensor){ .data = values, .device = { .device_type = kDLCPU }, .ndim = 1, .shape = shape,
                         .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    setenv (ENV_TIMEOUT_MS, "300000", 1);
    scratch_enter ();
    test_decode ();
    test_replace ();
    test_copy ();
    test_files ();
    test_batch ();
    as_ranks (2, "groups go", test_groups);
    as_ranks (2, "what is gathered for metrics goes", test_metrics);
    setenv ("ACCEL_ENGINE", "shm", 1);
    for (failing = 0; failing < 10; failing++)
        as_ranks (1, "a group without memory", test_no_groups);
    return done_testing ();
}
