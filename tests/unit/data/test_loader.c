/* SPDX-License-Identifier: Apache-2.0 */
/* The loader in one process: batches and what is in them, ends of epochs, failures. */
#include <config.h>

#include "tests/tap.h"
#include "tests/unit/data/loaders.h"

#include <accel/accel.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

static long fails_at = NONE;  /* the sample that cannot be read */
static const char *fail_text; /* what the callback says then; NULL: nothing */

/* Sample i: x = {i, i + 0.5}, label = 3 * i, flag = i is odd, pixels = 2 x 3 bytes from i on. */
static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *err)
{
    int64_t label = (int64_t) index * 3;
    ++*(unsigned *) user;
    if ((long) index == fails_at) {
        if (fail_text)
            snprintf (err->text, sizeof err->text, "%s", fail_text);
        return ACCEL_ERR_SYSTEM;
    }
    memcpy (into[0], (float[]){ (float) index, (float) index + 0.5F }, 2 * sizeof (float));
    memcpy (into[1], &label, sizeof label);
    *(unsigned char *) into[2] = index & 1;
    for (size_t i = 0; i < 6; i++)
        ((unsigned char *) into[3])[i] = (unsigned char) (index + i);
    return ACCEL_OK;
}

static const struct accel_field fields[] = {
    { "x", ACCEL_FLOAT32, 1, { 2 } },
    { "label", ACCEL_INT64, 0, { 0 } },
    { "flag", ACCEL_BOOL, 0, { 0 } },
    { "pixels", ACCEL_UINT8, 2, { 2, 3 } },
};

static unsigned reads;
static struct accel_dataset set = { 10, fields, 4, read_sample, &reads };

static struct accel_loader *
make_loader (size_t samples, const struct accel_loader_options *options)
{
    struct accel_loader *loader;
    struct accel_error err;
    set.size = samples;
    if (accel_loader_create (&loader, &set, options, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
    return loader;
}

static void
print_epoch (struct accel_loader *loader, char *text, size_t size)
{
    size_t count = epoch_text (loader, text, size);
    if (count != accel_loader_length (loader))
        snprintf (text, size, "an error, or not %zu batches", accel_loader_length (loader));
}

static const struct {
    size_t samples, batch_size;
    bool drop_last;
    size_t length, last, remainder;
    const char *order;
} sizes[] = {
    { 0, 4, false, 0, 0, 0, "-" },
    { 0, 4, true, 0, 0, 0, "-" },
    { 1, 0, false, 1, 1, 0, "0" },
    { 1, 4, false, 1, 1, 1, "0" },
    { 1, 4, true, 0, 0, 0, "-" },
    { 3, 8, false, 1, 3, 3, "0,1,2" },
    { 3, 8, true, 0, 0, 0, "-" },
    { 6, 3, false, 2, 3, 0, "0,1,2|3,4,5" },
    { 7, 3, false, 3, 1, 1, "0,1,2|3,4,5|6" },
    { 7, 3, true, 2, 3, 0, "0,1,2|3,4,5" },
    { 2, 0, false, 2, 1, 0, "0|1" },
};

static void
test_sizes (void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct accel_loader_options options = { .batch_size = sizes[i].batch_size, .drop_last = sizes[i].drop_last };
        struct accel_loader *loader = make_loader (sizes[i].samples, &options);
        char got[64];
        bool good = accel_loader_length (loader) == sizes[i].length
                    && accel_loader_remainder (loader) == sizes[i].remainder;
        const struct accel_batch *batch;
        size_t number = 0;
        while (accel_loader_next (loader, &batch, NULL)) {
            bool last = ++number == sizes[i].length;
            good = good && accel_loader_end_of_dataloader (loader) == last
                   && accel_batch_tensor (batch, "x")->shape[0] == (int64_t) accel_batch_size (batch)
                   && (!last || accel_batch_size (batch) == sizes[i].last);
        }
        ok (good && number == sizes[i].length && !accel_loader_end_of_dataloader (loader),
            "%zu samples, batches of %zu%s: %zu batches", sizes[i].samples, sizes[i].batch_size,
            sizes[i].drop_last ? ", drop_last" : "", number);
        print_epoch (loader, got, sizeof got);
        is_text (got, sizes[i].order, "their order");
        accel_loader_destroy (loader);
    }
}

static bool
is_sample (const struct accel_batch *batch, size_t row)
{
    size_t index = (size_t) accel_batch_indices (batch)[row];
    const float *x = accel_batch_tensor (batch, "x")->data;
    const int64_t *label = accel_batch_tensor (batch, "label")->data;
    const unsigned char *flag = accel_batch_tensor (batch, "flag")->data;
    const unsigned char *pixels = accel_batch_tensor (batch, "pixels")->data;
    bool good = x[row * 2] == (float) index && x[row * 2 + 1] == (float) index + 0.5F;
    for (size_t i = 0; i < 6; i++)
        good = good && pixels[row * 6 + i] == (unsigned char) (index + i);
    return good && label[row] == (int64_t) index * 3 && flag[row] == (index & 1);
}

static bool
has_form (const DLTensor *tensor, enum accel_dtype dtype, int ndim, int64_t second, int64_t third)
{
    return tensor && accel_dtype_from_dl (tensor->dtype) == dtype && tensor->ndim == ndim && !tensor->strides
           && tensor->device.device_type == kDLCPU && (ndim < 2 || tensor->shape[1] == second)
           && (ndim < 3 || tensor->shape[2] == third);
}

static void
test_content (void)
{
    struct accel_loader *loader = make_loader (23, &(struct accel_loader_options){ .batch_size = 5, .shuffle = true });
    const struct accel_batch *batch;
    bool content = true, form = true;
    reads = 0;
    while (accel_loader_next (loader, &batch, NULL)) {
        for (size_t i = 0; i < accel_batch_size (batch); i++)
            content = content && is_sample (batch, i);
        form = form && has_form (accel_batch_tensor (batch, "x"), ACCEL_FLOAT32, 2, 2, 0)
               && has_form (accel_batch_tensor (batch, "label"), ACCEL_INT64, 1, 0, 0)
               && has_form (accel_batch_tensor (batch, "flag"), ACCEL_BOOL, 1, 0, 0)
               && has_form (accel_batch_tensor (batch, "pixels"), ACCEL_UINT8, 3, 2, 3)
               && !accel_batch_tensor (batch, "y") && !accel_batch_tensor (batch, "");
    }
    ok (content, "each batch has the samples that its indices say");
    ok (form, "fields have their dtypes and shapes, and there are no others");
    ok (reads == 23, "each sample was read once");
    accel_loader_destroy (loader);
}

/* Every field under its name, where the batch has it; what works on trees works on them. */
static void
check_tree (const struct accel_batch *batch, bool *same, bool *sliced)
{
    struct accel_tree *tree, *slice, *copy;
    size_t size = 0, rows = accel_batch_size (batch);
    if (accel_batch_tree (&tree, batch, NULL) || accel_tree_find_batch_size (tree, &size, NULL)
        || accel_tree_copy (&copy, tree, NULL) || accel_tree_slice (&slice, tree, rows - 1, rows, NULL)) {
        *same = false;
        return;
    }
    *same = *same && size == rows && accel_tree_kind (tree) == ACCEL_TREE_DICT && accel_tree_length (tree) == 4;
    for (size_t i = 0; i < 4; i++) {
        const DLTensor *field = accel_batch_tensor (batch, fields[i].name);
        const DLTensor *leaf = accel_tree_tensor (accel_tree_item (tree, i));
        const DLTensor *last = accel_tree_tensor (accel_tree_get (slice, fields[i].name));
        *same = *same && !strcmp (accel_tree_key (tree, i), fields[i].name) && leaf && leaf->data == field->data
                && leaf->ndim == field->ndim && leaf->shape[0] == (int64_t) rows
                && accel_tree_tensor (accel_tree_item (copy, i))->data != field->data;
        *sliced = *sliced && last && last->shape[0] == 1
                  && (const char *) last->data >= (const char *) field->data;
    }
    accel_tree_destroy (tree);
    const DLTensor *label = accel_tree_tensor (accel_tree_get (slice, "label"));
    *sliced = *sliced && *(const int64_t *) label->data == 3 * accel_batch_indices (batch)[rows - 1];
    accel_tree_destroy (slice);
    accel_tree_destroy (copy);
}

/* The elements of a field, or an error that names it: a typing error must not end in a crash. */
static void
test_fields_by_name (void)
{
    const struct {
        const char *name;
        enum accel_dtype dtype;
        const char *words;
    } refused[] = {
        { "lable", ACCEL_INT64, "the batch has no field 'lable' (did you mean 'label'?)" },
        { "Pixels", ACCEL_UINT8, "the batch has no field 'Pixels' (did you mean 'pixels'?)" },
        { "targets", ACCEL_INT32, "the batch has no field 'targets' (its fields: 'x', 'label', 'flag', 'pixels')" },
        { "", ACCEL_FLOAT32, "the batch has no field '' (its fields: 'x', 'label', 'flag', 'pixels')" },
        { "label", ACCEL_INT32, "field 'label' is int64, not int32" },
        { "label", (enum accel_dtype) 77, "field 'label' is int64, not ?" },
    };
    struct accel_loader *loader = make_loader (5, &(struct accel_loader_options){ .batch_size = 2 });
    const struct accel_batch *batch;
    struct accel_error err = { 0 };
    void *data = NULL;
    ok (accel_loader_next (loader, &batch, NULL) && !accel_batch_data (batch, "label", ACCEL_INT64, &data, &err)
            && data == accel_batch_tensor (batch, "label")->data, "the elements of a field");
    void *before = data;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ok (accel_batch_data (batch, refused[i].name, refused[i].dtype, &data, &err) == ACCEL_ERR_INVALID
                && data == before, "field '%s' is refused", refused[i].name);
        is_text (err.text, refused[i].words, "and the text");
    }
    ok (accel_batch_data (NULL, "label", ACCEL_INT64, &data, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    ok (accel_batch_data (batch, NULL, ACCEL_INT64, &data, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    ok (accel_batch_data (batch, "label", ACCEL_INT64, NULL, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    accel_loader_destroy (loader);
}

static void
test_trees (void)
{
    struct accel_loader *loader = make_loader (13, &(struct accel_loader_options){ .batch_size = 5, .shuffle = true });
    const struct accel_batch *batch;
    struct accel_tree *tree = (void *) &set;
    struct accel_error err = { 0 };
    bool same = true, sliced = true;
    while (accel_loader_next (loader, &batch, NULL))
        check_tree (batch, &same, &sliced);
    ok (same, "a batch as a tree: its fields in their order, its memory");
    ok (sliced, "whose slices outlive it");
    ok (accel_batch_tree (&tree, NULL, &err) == ACCEL_ERR_INVALID && !tree, "no batch: %s", err.text);
    ok (accel_batch_tree (NULL, batch, &err) == ACCEL_ERR_INVALID, "no place: %s", err.text);
    accel_loader_destroy (loader);
}

static void
test_epochs (void)
{
    struct accel_loader_options options = { .batch_size = 4, .shuffle = true, .seed = 42 };
    struct accel_loader *loader = make_loader (10, &options);
    const struct accel_batch *batch;
    char first[64], second[64], got[64];
    print_epoch (loader, first, sizeof first);
    print_epoch (loader, second, sizeof second);
    is_text (first, "2,6,1,8|4,5,0,9|3,7", "epoch 0 of seed 42 is torch's randperm");
    ok (strcmp (first, second), "another order in epoch 1");
    accel_loader_set_epoch (loader, 0);
    print_epoch (loader, got, sizeof got);
    is_text (got, first, "set_epoch (0) repeats the first");
    print_epoch (loader, got, sizeof got);
    is_text (got, second, "and counting continues from there");
    accel_loader_set_epoch (loader, 0);
    ok (accel_loader_next (loader, &batch, NULL) && accel_batch_size (batch) == 4, "one batch of epoch 0");
    accel_loader_end (loader);
    print_epoch (loader, got, sizeof got);
    is_text (got, second, "end in the middle: the next epoch comes");
    ok (accel_loader_next (loader, &batch, NULL), "one batch of epoch 2");
    accel_loader_set_epoch (loader, 1);
    print_epoch (loader, got, sizeof got);
    is_text (got, second, "set_epoch in the middle begins that epoch");
    accel_loader_set_epoch (loader, 0);
    accel_loader_end (loader);
    accel_loader_end (loader);
    print_epoch (loader, got, sizeof got);
    is_text (got, first, "end outside an epoch changes nothing");
    options.seed = 43;
    struct accel_loader *other = make_loader (10, &options);
    print_epoch (other, got, sizeof got);
    is_text (got, second, "epoch e of seed s is epoch 0 of seed s + e");
    accel_loader_destroy (other);
    ok (accel_loader_next (loader, &batch, NULL), "destroyed in the middle of an epoch");
    accel_loader_destroy (loader);
    accel_loader_destroy (NULL);
}

/* What the next pass begins after, whatever is said of its epoch before it begins. */
static void
test_epoch_of_a_rest (void)
{
    struct accel_loader_options options = { .batch_size = 4, .shuffle = true, .seed = 42 };
    struct accel_loader *loader = make_loader (10, &options);
    struct accel_loader_state state;
    const struct accel_batch *batch;
    char got[64];
    ok (!accel_skip_first_batches (loader, 1, NULL), "a batch to be skipped");
    accel_loader_set_epoch (loader, 0);
    accel_loader_end (loader);
    ok (accel_loader_next (loader, &batch, NULL) && accel_batch_indices (batch)[0] == 4,
        "set_epoch and end before the pass leave what is to be skipped");
    ok (!accel_loader_get_state (loader, &state, NULL) && !accel_loader_set_state (loader, &state, NULL), "a state");
    accel_loader_set_epoch (loader, 0);
    accel_loader_end (loader);
    ok (accel_loader_next (loader, &batch, NULL) && accel_batch_indices (batch)[0] == 3,
        "and where a state of that epoch stands");
    ok (!accel_loader_set_state (loader, &state, NULL), "the state again");
    accel_loader_set_epoch (loader, 1);
    accel_loader_set_epoch (loader, 0);
    print_epoch (loader, got, sizeof got);
    is_text (got, "2,6,1,8|4,5,0,9|3,7", "a state's position is not one of other epochs");
    accel_loader_destroy (loader);
}

static void
test_failing_read (void)
{
    struct accel_loader *loader = make_loader (10, &(struct accel_loader_options){ .batch_size = 4 });
    const struct accel_batch *batch;
    struct accel_error err = { 0 };
    char got[64];
    fails_at = 6;
    fail_text = "disk\nis gone";
    ok (accel_loader_next (loader, &batch, &err), "the batch before");
    ok (!accel_loader_next (loader, &batch, &err) && !batch && err.code == ACCEL_ERR_CALLBACK, "a read fails");
    is_text (err.text, "reading sample 6 failed: disk is gone", "its message names the sample, in one line");
    fail_text = NULL;
    ok (!accel_loader_next (loader, &batch, &err) && err.code == ACCEL_ERR_CALLBACK && strstr (err.text, "sample 6")
            && strstr (err.text, accel_status_string (ACCEL_ERR_SYSTEM)),
        "a callback that says nothing: %s", err.text);
    ok (!accel_loader_next (loader, &batch, NULL), "without an error object");
    ok (!accel_loader_end_of_dataloader (loader), "this is not the end");
    fails_at = NONE;
    print_epoch (loader, got, sizeof got);
    is_text (got, "an error, or not 3 batches", "the loader continues with the batch that failed");
    print_epoch (loader, got, sizeof got);
    is_text (got, "0,1,2,3|4,5,6,7|8,9", "and with the next epoch");
    accel_loader_destroy (loader);
}

static const struct {
    const char *why;
    struct accel_field fields[2];
    size_t count, batch_size;
    const char *word;
} bad[] = {
    { "no fields", { { 0 } }, 0, 1, "no fields" },
    { "no name", { { NULL, ACCEL_INT8, 0, { 0 } } }, 1, 1, "field 0" },
    { "empty name", { { "a", ACCEL_INT8, 0, { 0 } }, { "", ACCEL_INT8, 0, { 0 } } }, 2, 1, "field 1" },
    { "the same name twice", { { "a", ACCEL_INT8, 0, { 0 } }, { "a", ACCEL_INT8, 0, { 0 } } }, 2, 1, "'a'" },
    { "no such dtype", { { "a", ACCEL_DTYPE_COUNT, 0, { 0 } } }, 1, 1, "'a'" },
    { "negative dtype", { { "a", (enum accel_dtype) -1, 0, { 0 } } }, 1, 1, "'a'" },
    { "negative ndim", { { "a", ACCEL_INT8, -1, { 0 } } }, 1, 1, "'a'" },
    { "too many dimensions", { { "a", ACCEL_INT8, ACCEL_MAX_DIMS, { 0 } } }, 1, 1, "'a'" },
    { "negative size", { { "a", ACCEL_INT8, 2, { 3, -1 } } }, 1, 1, "negative" },
    { "a huge sample", { { "a", ACCEL_FLOAT64, 2, { INT64_MAX, 4 } } }, 1, 1, "'a'" },
    { "a huge batch of large samples", { { "a", ACCEL_FLOAT64, 1, { INT64_C (1) << 40 } } }, 1, 1 << 30, "'a'" },
    { "the largest batch", { { "a", ACCEL_INT8, 0, { 0 } } }, 1, SIZE_MAX, "batch" },
    { "a batch of more indices than memory", { { "a", ACCEL_INT8, 0, { 0 } } }, 1, SIZE_MAX / 8, "batch" },
};

static void
test_refusals (void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct accel_dataset dataset = { 3, bad[i].fields, bad[i].count, read_sample, &reads };
        struct accel_loader_options options = { .batch_size = bad[i].batch_size };
        struct accel_loader *loader = (void *) &dataset;
        struct accel_error err = { 0 };
        enum accel_status status = accel_loader_create (&loader, &dataset, &options, &err);
        ok (status == ACCEL_ERR_INVALID && err.code == status && !loader && strstr (err.text, bad[i].word), "%s: %s",
            bad[i].why, err.text);
    }
}

static void
test_missing (void)
{
    struct accel_dataset dataset = set;
    struct accel_loader *loader = (void *) &dataset;
    const struct accel_batch *batch = (void *) &dataset;
    struct accel_error err = { 0 };
    ok (accel_loader_create (NULL, &set, NULL, &err) == ACCEL_ERR_INVALID, "no place: %s", err.text);
    ok (accel_loader_create (&loader, NULL, NULL, &err) == ACCEL_ERR_INVALID && !loader, "no data: %s", err.text);
    dataset.read = NULL;
    ok (accel_loader_create (&loader, &dataset, NULL, &err) == ACCEL_ERR_INVALID && !loader, "no read: %s", err.text);
    dataset = set;
    dataset.fields = NULL;
    ok (accel_loader_create (&loader, &dataset, NULL, &err) == ACCEL_ERR_INVALID && !loader, "no fields: %s", err.text);
    ok (!accel_loader_next (NULL, &batch, &err) && !batch && err.code == ACCEL_ERR_INVALID, "no loader: %s", err.text);
    loader = make_loader (3, NULL);
    ok (accel_loader_length (loader) == 3, "no options: batches of 1");
    ok (!accel_loader_next (loader, NULL, &err) && err.code == ACCEL_ERR_INVALID, "no batch: %s", err.text);
    char got[64];
    print_epoch (loader, got, sizeof got);
    is_text (got, "0|1|2", "which used up none");
    accel_loader_destroy (loader);
}

/* ---- the program's own sampler, and a loader in several prepares ---- */

struct steps {
    uint64_t epoch;
    size_t at;
};

static enum accel_status
start_steps (void *user, uint64_t epoch, struct accel_error *err)
{
    (void) err;
    *(struct steps *) user = (struct steps){ .epoch = epoch };
    return ACCEL_OK;
}

/* Every third of ten, from the epoch's number on. */
static enum accel_status
next_step (void *user, int64_t *index, struct accel_error *err)
{
    struct steps *steps = user;
    (void) err;
    *index = (int64_t) ((steps->epoch + 3 * steps->at++) % 10);
    return ACCEL_OK;
}

static void
test_own_sampler (void)
{
    struct steps steps;
    struct accel_sampler *sampler;
    struct accel_error err;
    const struct accel_sampler_calls calls
        = { .length = 10, .start = start_steps, .next = next_step, .user = &steps };
    char got[512];
    ok (!accel_sampler_create_custom (&sampler, &calls, &err), "a sampler of the program's own");
    for (unsigned workers = 0; workers < 2; workers++) {
        const struct accel_loader_options options = { .batch_size = 4, .sampler = sampler, .workers = workers };
        struct accel_loader *loader = make_loader (10, &options);
        print_epoch (loader, got, sizeof got);
        is_text (got, "0,3,6,9|2,5,8,1|4,7", "its order, from thread or caller");
        print_epoch (loader, got, sizeof got);
        is_text (got, "1,4,7,0|3,6,9,2|5,8", "and that of the second epoch");
        accel_loader_destroy (loader);
    }
    accel_sampler_destroy (sampler);
}

static void
test_several_prepares (void)
{
    const struct accel_loader_options options = { .batch_size = 4 };
    struct accel_loader *one = make_loader (10, &options), *two = make_loader (10, &options);
    const struct accel_batch *batch;
    struct accel_error err;
    struct accel *acc;
    char got[512];
    ok (!accel_open (&acc, NULL, &err) && !accel_prepare (acc, &err, one), "a loader is prepared");
    ok (!accel_prepare (acc, &err, two, one), "and once more, with another");
    ok (accel_loader_next (one, &batch, &err) && !accel_prepare (acc, &err, one, two, one), "within an epoch");
    ok (accel_loader_next (one, &batch, &err) && accel_batch_indices (batch)[0] == 4, "which continues");
    accel_loader_end (one);
    print_epoch (one, got, sizeof got);
    is_text (got, "0,1,2,3|4,5,6,7|8,9", "batches are as ever");
    print_epoch (two, got, sizeof got);
    is_text (got, "0,1,2,3|4,5,6,7|8,9", "of both");
    accel_loader_destroy (one);
    accel_loader_destroy (two);
    accel_close (acc);
}

int
main (void)
{
    test_own_sampler ();
    test_several_prepares ();
    test_sizes ();
    test_content ();
    test_fields_by_name ();
    test_trees ();
    test_epochs ();
    test_epoch_of_a_rest ();
    test_failing_read ();
    test_refusals ();
    test_missing ();
    return done_testing ();
}
