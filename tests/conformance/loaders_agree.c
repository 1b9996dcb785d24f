/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks have to agree on: loaders that differ are refused, epochs count alike on ranks without batches, and a read
 * that failed on one rank can be asked for again, after which all is as if it had not failed. */
#include <config.h>

#include "tests/conformance/loaders.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 29, EPOCHS = 3, MOST = 256, FAILURES = 2 };

static const struct accel_batch_sampler two_batches = { .length = 2, .batch_size = 2 };
static const struct accel_batch_sampler larger_batches = { .length = 2, .batch_size = 3 };
static const struct accel_batch_sampler whole_batches = { .length = 2, .batch_size = 2, .drop_last = true };
static const struct accel_field other_name = { "y", ACCEL_INT64, 0, { 0 } };
static const struct accel_field other_dtype = { "x", ACCEL_INT32, 0, { 0 } };
static const struct accel_field other_shape = { "x", ACCEL_INT64, 2, { 3, 1 } };
static const struct accel_field two_fields[] = { { "x", ACCEL_INT64, 0, { 0 } }, { "z", ACCEL_BOOL, 0, { 0 } } };

static enum accel_status
collate_nothing (void *user, const int64_t *indices, size_t count, struct accel_batch *batch, struct accel_error *err)
{
    (void) user, (void) indices, (void) count, (void) batch, (void) err;
    return ACCEL_OK; /* never called */
}

/* All ranks but the last have a data set of 20 numbers and batches of 2, unless @common says otherwise. */
struct difference {
    const char *what, *first, *last; /* what the error says; NULL: there is none */
    struct accel_loader_options options;
    size_t samples, skipped;
    const struct accel_field *fields;
    size_t field_count;
    const struct accel_batch_sampler *batches;
    bool is_stream, sampler, generator, runs;
    uint64_t epoch;
    const struct difference *common;
};

static const struct difference common = { .options = { .batch_size = 2 } }, batched = { .batches = &two_batches },
                               one_reads = { .options = { .batch_size = 2, .dispatch_batches = ACCEL_YES } },
                               dropping = { .options = { .drop_last = true }, .batches = &two_batches };

static const struct difference differences[] = {
    { "number of samples", "20", "19", { .batch_size = 2 }, .samples = 19 },
    { "batch_size", "2", "3", { .batch_size = 3 } },
    { "seed", "0", "7", { .batch_size = 2, .seed = 7 } },
    { "order", "the data's own", "shuffle", { .batch_size = 2, .shuffle = true } },
    { "order", "the data's own", "random_sampler", { .batch_size = 2, .random_sampler = true } },
    { "order", "the data's own", "the data's own with a generator", { .batch_size = 2 },
      .generator = true },
    { "order", "the data's own", "a random sampler, 20 of 20 samples, seed 0", { .batch_size = 2 },
      .sampler = true },
    { "drop_last", "false", "true", { .batch_size = 2, .drop_last = true } },
    { "even_batches", "true", "false", { .batch_size = 2, .even_batches = ACCEL_NO } },
    { "split_batches", "false", "true", { .batch_size = 2, .split_batches = true } },
    { "dispatch_batches", "auto", "yes", { .batch_size = 2, .dispatch_batches = ACCEL_YES } },
    { "synchronize_rng", "false", "true", { .batch_size = 2, .synchronize_rng = true } },
    { "kind of data", "a data set", "a stream", { .batch_size = 2 }, .is_stream = true },
    { "batch_size", "2", "0", { 0 }, .batches = &two_batches },
    { "batch_sampler", "2 batches of 2 samples (at most 0)", "2 batches of 3 samples (at most 0)", { 0 },
      .batches = &larger_batches, .common = &batched },
    { "batch_sampler", "2 batches of 2 samples (at most 0)", "2 batches of 2 samples (at most 0), drop_last", { 0 },
      .batches = &whole_batches, .common = &dropping },
    { "position", "epoch 0 after 0 samples", "epoch 4 after 0 samples", { .batch_size = 2 },
      .epoch = 4 },
    { "position", "epoch 0 after 0 samples", "epoch 0 after ", { .batch_size = 2 }, .skipped = 1 },
    { "position", "epoch 0 after 0 samples", "in the middle of an epoch", { .batch_size = 2 },
      .runs = true },
    { "collate", "none", "a function", { .batch_size = 2, .collate = collate_nothing } },
    { "number of fields", "1", "2", { .batch_size = 2 }, .fields = two_fields, .field_count = 2 },
    { "field 0", "'x' int64 []", "'y' int64 []", { .batch_size = 2 }, .fields = &other_name },
    { "field 0", "'x' int64 []", "'x' int32 []", { .batch_size = 2 }, .fields = &other_dtype },
    { "field 0", "'x' int64 []", "'x' int64 [3, 1]", { .batch_size = 2 }, .fields = &other_shape },
    /* What ranks may do as they like. */
    { NULL, NULL, NULL, { .batch_size = 2, .workers = 1, .prefetch = 3, .timeout_ms = 1000 } },
    /* Only rank 0 reads. */
    { NULL, NULL, NULL, { .batch_size = 2, .dispatch_batches = ACCEL_YES }, .samples = 19,
      .common = &one_reads },
};

static void
check_difference (const struct difference *row)
{
    const struct difference *mine = rank == size - 1 ? row : row->common ? row->common : &common;
    const struct accel_field *fields = mine->fields ? mine->fields : &number_field;
    size_t samples = mine->samples ? mine->samples : 20, count = mine->field_count ? mine->field_count : 1;
    struct counter counter = { 0, 20 };
    struct accel_dataset dataset = { samples, fields, count, read_number, NULL, NULL };
    struct accel_dataset stream = { .fields = fields, .field_count = count, .size = 20,
                                    .start = start_counter, .next = next_number, .user = &counter };
    struct accel_loader_options options = mine->options;
    struct accel_sampler *sampler = NULL;
    struct accel_generator *generator = NULL;
    struct accel_loader *loader;
    struct accel_error err = { 0 };
    const struct accel_batch *batch;
    char wanted[256] = "";
    if (mine->sampler)
        check (!accel_sampler_create (&sampler, ACCEL_SAMPLER_RANDOM, samples, NULL, &err), "%s", err.text);
    if (mine->generator)
        check (!accel_generator_create (&generator, 1, &err), "%s", err.text);
    struct accel_batch_sampler batches = mine->batches ? *mine->batches : two_batches;
    batches.next = (void *) read_number; /* which is not called */
    options.sampler = sampler;
    options.generator = generator;
    options.batch_sampler = mine->batches ? &batches : NULL;
    enum accel_status status = accel_loader_create (&loader, mine->is_stream ? &stream : &dataset, &options, &err);
    if (!check (!status, "%s", err.text))
        return;
    accel_loader_set_epoch (loader, mine->epoch);
    check (!mine->skipped || !accel_skip_first_batches (loader, mine->skipped, &err), "%s", err.text);
    if (mine->runs)
        check (accel_loader_next (loader, &batch, &err), "%s", err.text);
    status = accel_prepare (acc, &err, loader);
    if (row->what)
        snprintf (wanted, sizeof wanted, "differ in %s: rank 0 has %s, rank %d has %s", row->what, row->first, size - 1,
                  row->last);
    check (row->what ? status == ACCEL_ERR_INVALID && strstr (err.text, wanted) : !status,
           "accel_prepare: expected %s%s, got status %d: %s", row->what ? "an error with: " : "no error", wanted,
           (int) status, status ? err.text : "");
    accel_loader_destroy (loader);
    accel_sampler_destroy (sampler);
    accel_generator_destroy (generator);
}

void
check_differences (void)
{
    for (size_t i = 0; i < sizeof differences / sizeof *differences && !wrong; i++)
        check_difference (&differences[i]);
}

static enum accel_status
read_large (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user, (void) err;
    *(int64_t *) into[0] = (int64_t) index + 100;
    return ACCEL_OK;
}

/* Fewer samples than ranks: those that there are come again and again, so that each rank has one. */
static void
check_little (void)
{
    for (int samples = 1; samples < size; samples++)
        for (int workers = 0; workers < 2; workers++) {
            struct accel_dataset dataset = { (size_t) samples, &number_field, 1, read_large, NULL, NULL };
            struct accel_loader_options options
                = { .batch_size = 4, .workers = (unsigned) workers, .dispatch_batches = ACCEL_YES };
            struct accel_loader *loader;
            struct accel_error err = { 0 };
            const struct accel_batch *batch;
            if (!check (!accel_loader_create (&loader, &dataset, &options, &err)
                            && !accel_prepare (acc, &err, loader), "%d samples: %s", samples, err.text))
                return;
            bool more = accel_loader_next (loader, &batch, &err);
            int64_t got = more ? *(int64_t *) accel_batch_tensor (batch, "x")->data : -1;
            check (more && accel_batch_size (batch) == 1 && got == rank % samples + 100
                       && accel_batch_indices (batch)[0] == rank % samples,
                   "%d samples: this rank has %lld %s", samples, (long long) got, err.text);
            check (!accel_loader_next (loader, &batch, &err) && !err.code, "%d samples: and no more", samples);
            accel_loader_destroy (loader);
        }
}

/* An epoch begins with rank 0's default generator where that is asked for, and with each rank's own where not. */
static void
check_synchronized (void)
{
    for (int together = 0; together < 2; together++) {
        struct accel_dataset dataset = { 8, &number_field, 1, read_number, NULL, NULL };
        struct accel_loader_options options = { .batch_size = 1, .synchronize_rng = together };
        struct accel_loader *loader;
        struct accel_error err = { 0 };
        const struct accel_batch *batch;
        if (!check (!accel_set_seed (acc, 5, true, &err) && !accel_loader_create (&loader, &dataset, &options, &err)
                        && !accel_prepare (acc, &err, loader), "synchronized: %s", err.text))
            return;
        check (accel_loader_next (loader, &batch, &err), "synchronized: %s", err.text);
        int64_t mine = accel_generator_next (accel_default_generator ()), first = mine;
        check (!accel_comm_broadcast (accel_world (acc), &first, 1, ACCEL_INT64, 0, &err), "%s", err.text);
        check ((mine == first) == (together || !rank), "the default generator is%s that of rank 0",
               mine == first ? "" : " not");
        accel_loader_destroy (loader);
    }
}

/* The loop of accel_loader(3), over data that give some ranks no batches. */
void
check_epochs (void)
{
    static const struct {
        size_t samples;
        bool is_stream;
        struct accel_loader_options options;
    } rows[] = {
        { 10, false, { .batch_size = 5, .even_batches = ACCEL_NO } },
        { 5, false, { .batch_size = 8, .drop_last = true } },
        { 0, false, { .shuffle = true } },                    { 0, false, { .dispatch_batches = ACCEL_YES } },
        { 0, true, { .dispatch_batches = ACCEL_NO } }, { 0, true, { 0 } },
        { 3, true, { .batch_size = 8, .drop_last = true } },  { 1, false, { .workers = 2, .even_batches = ACCEL_NO } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct loading loading;
        struct accel_error err = { 0 };
        const struct accel_batch *batch;
        int passes = 0;
        if (!open_loading (&loading, rows[i].is_stream, rows[i].samples, &rows[i].options))
            return;
        while (accel_loader_epoch (loading.loader) < EPOCHS && passes < 100) {
            while (accel_loader_next (loading.loader, &batch, &err))
                ;
            passes++;
        }
        check (passes == EPOCHS && !err.code, "row %zu: %d epochs in %d passes: %s", i, EPOCHS, passes, err.text);
        accel_loader_destroy (loading.loader);
    }
    check_little ();
    check_synchronized ();
}

/* Reads number `bad_from` and following of one rank fail, until so many have. */
static atomic_long reads, bad_from, failures_left;
static int victim;

static bool
fails (void)
{
    return rank == victim && atomic_fetch_add (&reads, 1) >= bad_from && atomic_fetch_sub (&failures_left, 1) > 0;
}

static enum accel_status
burn (struct accel_error *err)
{
    (void) accel_generator_next (accel_default_generator ());
    snprintf (err->text, sizeof err->text, "disk on fire");
    return ACCEL_ERR_SYSTEM;
}

static enum accel_status
read_or_fail (void *user, size_t index, void *const *into, struct accel_error *err)
{
    if (fails ())
        return snprintf (err->text, sizeof err->text, "disk on fire"), ACCEL_ERR_SYSTEM;
    return read_number (user, index, into, err);
}

static enum accel_status
next_or_fail (void *user, void *const *into, bool *end, struct accel_error *err)
{
    if (fails ())
        return snprintf (err->text, sizeof err->text, "disk on fire"), ACCEL_ERR_SYSTEM;
    return next_number (user, into, end, err);
}

static enum accel_status
start_or_fail (void *user, uint64_t epoch, struct accel_error *err)
{
    return fails () ? burn (err) : start_counter (user, epoch, err);
}

static enum accel_status
skip_numbers (void *user, uint64_t count, struct accel_error *err)
{
    (void) err;
    ((struct counter *) user)->next += (int64_t) count;
    return ACCEL_OK;
}

static enum accel_status
next_index (void *user, int64_t *index, struct accel_error *err)
{
    (void) err;
    *index = ((struct counter *) user)->next++;
    return ACCEL_OK;
}

static const struct retry {
    const char *name;
    struct accel_loader_options options;
    bool is_stream, starts, skips, sampler, generator; /* starts: it is starting a pass that fails */
    long bad_from;
} retries[] = {
    { "a set", { .batch_size = 3 }, .bad_from = 7 },
    { "its first sample", { .batch_size = 3, .random_sampler = true } },
    { "a set, with workers", { .batch_size = 3, .random_sampler = true, .workers = 2 }, .bad_from = 7 },
    { "a set with a generator", { .batch_size = 2, .random_sampler = true }, .generator = true, .bad_from = 4 },
    { "a sampler", { .batch_size = 2, .synchronize_rng = true }, .sampler = true, .starts = true },
    { "a dispatched set", { .batch_size = 3, .random_sampler = true, .dispatch_batches = ACCEL_YES },
      .bad_from = 7 },
    { "its first sample", { .batch_size = 3, .random_sampler = true, .dispatch_batches = ACCEL_YES } },
    { "a dispatched set, with workers",
      { .batch_size = 3, .random_sampler = true, .workers = 3, .dispatch_batches = ACCEL_YES },
      .generator = true, .bad_from = 11 },
    { "a dispatched sampler", { .batch_size = 2, .dispatch_batches = ACCEL_YES }, .sampler = true,
      .starts = true },
    { "a stream", { .batch_size = 2, .dispatch_batches = ACCEL_NO }, .is_stream = true, .bad_from = 13 },
    { "a stream, with a worker", { .batch_size = 2, .workers = 1, .dispatch_batches = ACCEL_NO },
      .is_stream = true, .bad_from = 14 },
    { "a stream that skips", { .batch_size = 2, .dispatch_batches = ACCEL_NO }, .is_stream = true,
      .skips = true, .bad_from = 17 },
    { "a stream's start", { .batch_size = 2, .dispatch_batches = ACCEL_NO }, .is_stream = true,
      .starts = true },
    { "a dispatched stream", { .batch_size = 2, .dispatch_batches = ACCEL_YES }, .is_stream = true,
      .bad_from = 15 },
    { "a dispatched stream that skips, with a worker",
      { .batch_size = 2, .workers = 1, .dispatch_batches = ACCEL_YES }, .is_stream = true, .skips = true,
      .bad_from = 16 },
    { "a dispatched stream's start", { .batch_size = 2, .dispatch_batches = ACCEL_YES }, .is_stream = true,
      .starts = true },
};

/* What this rank gets, and where that leaves the random numbers. */
struct outcome {
    int64_t samples[MOST];
    size_t count, failures;
    uint8_t generator[ACCEL_GENERATOR_STATE_BYTES];
};

/* Whoever fails asks again; its peers wait for it in the collective of each step. */
static void
go_through (struct accel_loader *loader, const struct retry *retry, bool bad, struct outcome *outcome)
{
    const struct accel_batch *batch;
    struct accel_error err = { 0 };
    *outcome = (struct outcome){ 0 };
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        atomic_store (&reads, 0);
        atomic_store (&bad_from, retry->bad_from);
        atomic_store (&failures_left, bad ? FAILURES : 0);
        for (;;) {
            if (!accel_loader_next (loader, &batch, &err)) {
                if (!err.code || outcome->failures > 100)
                    break;
                outcome->failures++;
                if (!check (strstr (err.text, "disk on fire"), "%s: expected batches, or the error of a read, got: %s",
                            retry->name, err.text))
                    return;
                continue;
            }
            for (size_t i = 0; i < accel_batch_size (batch) && outcome->count < MOST; i++)
                outcome->samples[outcome->count++] = ((int64_t *) accel_batch_tensor (batch, "x")->data)[i];
            if (!check (!accel_wait_for_everyone (acc, &err), "%s: expected all ranks to have a batch, got: %s",
                        retry->name, err.text))
                return;
        }
    }
    accel_generator_get_state (accel_default_generator (), outcome->generator);
}

static void
run_retry (const struct retry *retry, bool bad, struct outcome *outcome)
{
    struct counter counter = { 0, SAMPLES };
    struct accel_dataset dataset = { SAMPLES, &number_field, 1, read_number, NULL, NULL };
    struct accel_dataset stream = { .fields = &number_field, .field_count = 1,
                                    .start = start_counter, .next = next_number, .user = &counter };
    struct accel_sampler_calls calls = { SAMPLES, start_counter, next_index, &counter };
    struct accel_loader_options options = retry->options;
    struct accel_sampler *sampler = NULL;
    struct accel_generator *generator = NULL;
    struct accel_loader *loader;
    struct accel_error err;
    check (!accel_set_seed (acc, 3, true, &err), "%s", err.text);
    if (!retry->starts)
        dataset.read = read_or_fail, stream.next = next_or_fail;
    else
        stream.start = calls.start = start_or_fail;
    stream.skip = retry->skips ? skip_numbers : NULL;
    if (retry->generator)
        check (!accel_generator_create (&generator, 5, &err), "%s", err.text);
    if (retry->sampler)
        check (!accel_sampler_create_custom (&sampler, &calls, &err), "%s", err.text);
    options.sampler = sampler;
    options.generator = generator;
    if (check (!accel_loader_create (&loader, retry->is_stream ? &stream : &dataset, &options, &err), "%s", err.text)
        && check (!accel_prepare (acc, &err, loader), "%s", err.text))
        go_through (loader, retry, bad, outcome);
    accel_loader_destroy (loader);
    accel_sampler_destroy (sampler);
    accel_generator_destroy (generator);
}

void
check_retries (void)
{
    static struct outcome good, mended;
    for (size_t i = 0; i < sizeof retries / sizeof *retries && !wrong; i++) {
        bool dispatched = retries[i].options.dispatch_batches == ACCEL_YES;
        victim = dispatched ? 0 : size / 2;
        run_retry (&retries[i], false, &good);
        if (!wrong)
            run_retry (&retries[i], true, &mended);
        if (wrong)
            return;
        size_t wanted = dispatched || rank == victim ? EPOCHS * FAILURES : 0;
        /* Two threads may fail in one attempt to begin. */
        size_t least = retries[i].options.workers ? wanted / FAILURES : wanted;
        check (!good.failures && mended.failures >= least && mended.failures <= wanted,
               "%s: expected %zu failures, got %zu", retries[i].name, wanted, mended.failures);
        check (good.count == mended.count && good.count > SAMPLES / (size_t) size
                   && !memcmp (good.samples, mended.samples, sizeof good.samples),
               "%s: asked for again, it gives other samples", retries[i].name);
        check (!memcmp (good.generator, mended.generator, sizeof good.generator),
               "%s: asked for again, it leaves the default generator elsewhere", retries[i].name);
    }
}
