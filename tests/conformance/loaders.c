/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of loaders.sh: `loaders CHECK [ARGUMENT]...`; says on standard error what is wrong and exits with 1. */
#include <config.h>

#include "tests/conformance/loaders.h"
#include "tests/golden/loader_cases.h"

#define CHECK_SCOPE
#include "tests/conformance/check.h"

enum { TEXT_SIZE = 16384, MOST = 4096 };

const struct accel_field number_field = { "x", ACCEL_INT64, 0, { 0 } };

enum accel_status
read_number (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user, (void) err;
    *(int64_t *) into[0] = (int64_t) index;
    return ACCEL_OK;
}

enum accel_status
start_counter (void *user, uint64_t epoch, struct accel_error *err)
{
    (void) epoch, (void) err;
    ((struct counter *) user)->next = 0;
    return ACCEL_OK;
}

enum accel_status
next_number (void *user, void *const *into, bool *end, struct accel_error *err)
{
    struct counter *counter = user;
    (void) err;
    if (counter->next == counter->end)
        *end = true;
    else
        *(int64_t *) into[0] = counter->next++;
    return ACCEL_OK;
}

bool
open_loading (struct loading *loading, bool is_stream, size_t samples, const struct accel_loader_options *options)
{
    struct accel_error err;
    *loading = (struct loading){ .counter = { 0, (int64_t) samples } };
    loading->stream = (struct accel_dataset){ .fields = &number_field, .field_count = 1,
                                              .start = start_counter, .next = next_number, .user = &loading->counter };
    loading->dataset = (struct accel_dataset){ samples, &number_field, 1, read_number, NULL, NULL };
    enum accel_status status
        = accel_loader_create (&loading->loader, is_stream ? &loading->stream : &loading->dataset, options, &err);
    return check (!status, "loader: %s", err.text)
           && check (!accel_prepare (acc, &err, loading->loader), "prepare: %s", err.text);
}

/* The batch as a tree, gathered, has the rows of its field gathered alone. */
static void
check_tree (const struct accel_batch *batch, const DLTensor *wanted)
{
    struct accel_tree *tree = NULL, *all = NULL;
    struct accel_error err;
    if (check (!accel_batch_tree (&tree, batch, &err) && !accel_tree_gather_for_metrics (&all, acc, tree, &err),
               "the batch as a tree: %s", err.text)) {
        const DLTensor *got = accel_tree_tensor (accel_tree_get (all, "x"));
        check (got && got->shape[0] == wanted->shape[0]
                   && !memcmp (got->data, wanted->data, (size_t) wanted->shape[0] * sizeof (int64_t)),
               "a tree gathered for metrics has other rows than its tensor");
    }
    accel_tree_destroy (all);
    accel_tree_destroy (tree);
}

size_t
gather_samples (struct loading *loading, size_t steps, int64_t *samples, size_t *count, size_t most)
{
    struct accel_tensor out = { 0 };
    struct accel_error err = { 0 };
    const struct accel_batch *batch;
    size_t step = 0;
    for (; step < steps && accel_loader_next (loading->loader, &batch, &err); step++) {
        const DLTensor *numbers = accel_batch_tensor (batch, "x");
        check (!memcmp (numbers->data, accel_batch_indices (batch), accel_batch_size (batch) * sizeof (int64_t)),
               "the batch's numbers are not its indices");
        if (!check (!accel_gather_for_metrics (&out, acc, numbers, &err), "%s", err.text))
            break;
        check_tree (batch, &out.dl);
        for (int64_t i = 0; i < out.shape[0] && *count < most; i++)
            samples[(*count)++] = ((int64_t *) out.dl.data)[i];
    }
    check (!err.code, "next: %s", err.text);
    accel_tensor_release (&out);
    return step;
}

/* After the last batch of an epoch all ranks are at its end. */
static void
check_position (const struct accel_loader *loader, size_t samples)
{
    struct accel_loader_state state;
    struct accel_error err;
    check (!accel_loader_get_state (loader, &state, &err), "state: %s", err.text);
    check (state.position == samples, "the state is after %llu samples of %zu",
           (unsigned long long) state.position, samples);
}

/* One epoch as text; *remainder as reported after the last batch.  @p samples are all, or SIZE_MAX
 * where ranks end at different places. */
static void
print_epoch (struct accel_loader *loader, char *text, size_t samples, size_t *remainder)
{
    const struct accel_batch *batch;
    struct accel_error err = { 0 };
    size_t at = 0;
    snprintf (text, TEXT_SIZE, "-");
    *remainder = 0;
    for (size_t count = 0; accel_loader_next (loader, &batch, &err); count++) {
        const int64_t *numbers = accel_batch_tensor (batch, "x")->data;
        for (size_t i = 0; i < accel_batch_size (batch) && at + 64 < TEXT_SIZE; i++)
            at += (size_t) snprintf (text + at, TEXT_SIZE - at, "%s%lld", i ? "," : count ? "|" : "",
                                     (long long) numbers[i]);
        if (accel_loader_end_of_dataloader (loader)) {
            *remainder = accel_loader_remainder (loader);
            if (samples != SIZE_MAX)
                check_position (loader, samples);
        }
    }
    check (!err.code, "next: %s", err.text);
}

/* So many epochs as text, with the remainder, which each epoch with batches has to say. */
static void
print_epochs (struct accel_loader *loader, char *text, int epochs, size_t samples)
{
    char epoch[TEXT_SIZE];
    size_t remainder = SIZE_MAX, said, at = 0;
    for (int i = 0; i < epochs; i++) {
        print_epoch (loader, epoch, samples, &said);
        at += (size_t) snprintf (text + at, TEXT_SIZE - at, "%s%s", i ? ";" : "", epoch);
        if (strcmp (epoch, "-")) {
            check (remainder == SIZE_MAX || said == remainder, "remainder %zu, then %zu", remainder, said);
            remainder = said;
        }
    }
    remainder = remainder == SIZE_MAX ? accel_loader_remainder (loader) : remainder;
    snprintf (text + at, TEXT_SIZE - at, " %zu", remainder);
}

static bool
run_dispatch (const struct loader_case *test, char *text)
{
    struct accel_loader_options options = { .dispatch_batches = ACCEL_YES,
                                            .seed = 3,
                                            .shuffle = !strcmp (test->order, "shuffled"),
                                            .batch_size = test->batch_size,
                                            .split_batches = test->split ? ACCEL_YES : ACCEL_DEFAULT,
                                            .drop_last = test->drop_last,
                                            .workers = test->number % 4 == 3 ? 2 : 0 };
    struct loading loading;
    size_t round = test->batch_size * (test->split ? 1 : test->processes);
    size_t dropped = test->drop_last ? test->samples % round : 0;
    bool opened = open_loading (&loading, !strcmp (test->order, "stream"), test->samples, &options);
    if (opened)
        print_epochs (loading.loader, text, 1, test->samples - dropped);
    accel_loader_destroy (loading.loader);
    return opened;
}

/* Orders that are drawn: the ranks begin with other random numbers than rank 0, whose count. */
static bool
run_map (const struct loader_case *test, char *text)
{
    struct loading loading;
    struct accel_generator *generator = NULL;
    struct accel_error err;
    bool seedable = !strcmp (test->order, "seedable");
    struct accel_loader_options options = { .batch_size = test->batch_size,
                                            .split_batches = test->split ? ACCEL_YES : ACCEL_DEFAULT,
                                            .drop_last = test->drop_last,
                                            .even_batches = test->even ? ACCEL_YES : ACCEL_NO,
                                            .shuffle = seedable,
                                            .seed = seedable ? test->seed : 0,
                                            .random_sampler = !seedable };
    check (!accel_set_seed (NULL, test->seed + (uint64_t) rank * 1000, false, &err), "seed: %s", err.text);
    if (!strcmp (test->order, "generator"))
        check (!accel_generator_create (&generator, test->seed + 1 + (uint64_t) rank, &err), "generator: %s", err.text);
    options.generator = generator;
    bool opened = open_loading (&loading, false, test->samples, &options);
    if (opened)
        print_epochs (loading.loader, text, 3, SIZE_MAX);
    accel_loader_destroy (loading.loader);
    accel_generator_destroy (generator);
    return opened;
}

static uint64_t
run_cases (const struct loader_line *line, FILE *report)
{
    char text[TEXT_SIZE];
    uint64_t total = 0;
    for (size_t number = 0; number < line->cases; number++) {
        if (loader_case_failed (line, number))
            continue;
        struct loader_case test = pick_loader_case (line, number);
        if (*line->kind == 'd' ? run_dispatch (&test, text) : run_map (&test, text))
            total = golden_text_checksum (total, text);
        print_loader_case (report, &test, (size_t) rank, text);
    }
    return total;
}

static void
check_goldens (const char *path)
{
    struct golden golden;
    golden_open (&golden, path);
    while (golden_next (&golden)) {
        struct loader_line line = read_loader_line (&golden);
        bool drawn = !strcmp (line.order, "seedable") || !strcmp (line.order, "random")
                     || !strcmp (line.order, "generator");
        if (line.processes != (size_t) size || !(!strcmp (line.kind, "dispatch") || (*line.kind == 'm' && drawn)))
            continue;
        char *text = NULL;
        size_t length;
        FILE *report = open_memstream (&text, &length);
        uint64_t total = run_cases (&line, report), wanted = 0;
        fclose (report);
        for (int i = 0; i <= rank; i++)
            wanted = golden_bits_64 (&golden);
        check (total == wanted, "not what PyTorch gives: %s %s %zu %zu\n%s", line.kind, line.order, line.processes,
               line.cases, text);
        free (text);
    }
}

/* Ragged samples: sample i has i % 5 numbers, all of them i; a batch is as wide as its widest. */
static enum accel_status
collate_ragged (void *user, const int64_t *indices, size_t count, struct accel_batch *batch, struct accel_error *err)
{
    int64_t shape[2] = { (int64_t) count, 0 };
    void *values, *lengths;
    (void) user;
    for (size_t i = 0; i < count; i++)
        shape[1] = indices[i] % 5 > shape[1] ? indices[i] % 5 : shape[1];
    enum accel_status status = accel_batch_resize (batch, "values", 2, shape, &values, err);
    if (!status)
        status = accel_batch_resize (batch, "lengths", 1, shape, &lengths, err);
    for (size_t i = 0; i < count && !status; i++) {
        ((int32_t *) lengths)[i] = (int32_t) (indices[i] % 5);
        for (int64_t j = 0; j < shape[1]; j++)
            ((int64_t *) values)[(int64_t) i * shape[1] + j] = j < indices[i] % 5 ? indices[i] : -1;
    }
    return status;
}

/* Whether the rows are what the indices say. */
static bool
is_ragged_batch (const struct accel_batch *batch)
{
    const DLTensor *values = accel_batch_tensor (batch, "values"), *lengths = accel_batch_tensor (batch, "lengths");
    size_t rows = accel_batch_size (batch);
    if (values->ndim != 2 || lengths->ndim != 1 || values->shape[0] != (int64_t) rows
        || lengths->shape[0] != (int64_t) rows)
        return false;
    for (size_t i = 0; i < rows; i++) {
        int64_t index = accel_batch_indices (batch)[i], width = values->shape[1];
        if (((int32_t *) lengths->data)[i] != index % 5 || index % 5 > width)
            return false;
        for (int64_t j = 0; j < width; j++)
            if (((int64_t *) values->data)[(int64_t) i * width + j] != (j < index % 5 ? index : -1))
                return false;
    }
    return true;
}

static void
check_ragged (void)
{
    static const struct accel_field fields[] = { { "values", ACCEL_INT64, 1, { 1 } },
                                                 { "lengths", ACCEL_INT32, 0, { 0 } } };
    for (unsigned form = 0; form < 12; form++) {
        struct accel_dataset dataset = { (size_t) size * 11, fields, 2, NULL, NULL, NULL };
        struct accel_loader_options options = { .batch_size = (size_t) size, .split_batches = true,
                                                .shuffle = form & 2, .collate = collate_ragged,
                                                .workers = form / 4, .seed = form };
        struct accel_loader *loader;
        const struct accel_batch *batch;
        struct accel_error err = { 0 };
        int64_t sum = 0, wanted = (int64_t) dataset.size * ((int64_t) dataset.size - 1) / 2;
        options.dispatch_batches = form & 1 ? ACCEL_YES : ACCEL_NO;
        if (!check (!accel_loader_create (&loader, &dataset, &options, &err), "ragged: %s", err.text)
            || !check (!accel_prepare (acc, &err, loader), "ragged: %s", err.text))
            return;
        while (accel_loader_next (loader, &batch, &err)) {
            check (is_ragged_batch (batch), "ragged batches, form %u: other rows than indices", form);
            for (size_t i = 0; i < accel_batch_size (batch); i++)
                sum += accel_batch_indices (batch)[i];
        }
        check (!err.code, "ragged batches, form %u: %s", form, err.text);
        check (!accel_comm_all_reduce (accel_world (acc), &sum, &sum, 1, ACCEL_INT64, ACCEL_SUM, &err), "%s", err.text);
        check (sum == wanted, "ragged batches, form %u: not every sample came once", form);
        accel_loader_destroy (loader);
    }
}

/* Two loaders over one sampler, which the ranks have to agree on, and the first one goes away. */
static void
check_shared_sampler (void)
{
    enum { SAMPLES = 24 };
    int64_t counts[SAMPLES] = { 0 };
    struct accel_sampler *sampler = NULL;
    struct accel_error err;
    struct loading loadings[2];
    const struct accel_batch *batch;
    check (!accel_set_seed (acc, 3, true, &err)
               && !accel_sampler_create (&sampler, ACCEL_SAMPLER_RANDOM, SAMPLES, NULL, &err), "sampler: %s",
           err.text);
    struct accel_loader_options options = { .batch_size = 2, .sampler = sampler };
    for (int i = 0; i < 2; i++)
        if (!open_loading (&loadings[i], false, SAMPLES, &options))
            return;
    accel_loader_destroy (loadings[0].loader);
    while (accel_loader_next (loadings[1].loader, &batch, &err))
        for (size_t i = 0; i < accel_batch_size (batch); i++)
            counts[accel_batch_indices (batch)[i]]++;
    check (!err.code, "next: %s", err.text);
    check (!accel_comm_all_reduce (accel_world (acc), counts, counts, SAMPLES, ACCEL_INT64, ACCEL_SUM, &err), "%s",
           err.text);
    for (int i = 0; i < SAMPLES; i++)
        check (counts[i] == 1, "sample %d came %d times", i, (int) counts[i]);
    accel_loader_destroy (loadings[1].loader);
    accel_sampler_destroy (sampler);
}

int
main (int argc, char **argv)
{
    struct accel_error err;
    const char *what = argc > 1 ? argv[1] : "";
    /* Without what these look at, ranks wait for each other. */
    bool may_wait = !strcmp (what, "differences") || !strcmp (what, "retries");
    if (accel_open (&acc, &(struct accel_options){ .timeout_ms = may_wait ? 30000 : 200000 }, &err)) {
        fprintf (stderr, "open: %s\n", err.text);
        return 1;
    }
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    if (!strcmp (what, "goldens") && argc == 3)
        check_goldens (argv[2]);
    else if (!strcmp (what, "properties") && argc == 4)
        check_properties (strtoull (argv[2], NULL, 10), atoi (argv[3]));
    else if (!strcmp (what, "ragged"))
        check_ragged ();
    else if (!strcmp (what, "differences"))
        check_differences ();
    else if (!strcmp (what, "epochs"))
        check_epochs ();
    else if (!strcmp (what, "retries"))
        check_retries ();
    else if (!strcmp (what, "shared-sampler"))
        check_shared_sampler ();
    else if (!strcmp (what, "resume") && argc == 4)
        check_resume (argv[2], argv[3]);
    else
        check (false, "no check '%s'", what);
    accel_close (acc);
    return wrong != 0;
}
