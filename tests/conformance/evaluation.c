/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of evaluation.sh: `evaluation CHECK [FOLDER]`; says on standard error what is wrong and exits with 1.
 * Evaluations during training leave no trace; token files are agreed on; split_batches of the job holds for loaders. */
#include <config.h>

#include "tests/conformance/check.h"
#include "tests/samples.h"

#include <accel/accel.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 23, EPOCHS = 3, WEIGHTS = 4, RESULT_BYTES = 1 << 16 };

static struct accel_error err;
static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };

/* ---- evaluations leave no trace ---- */

/* The orders of the training loader. */
static const struct order {
    const char *name;
    bool shuffle, random, generator, stream;
    enum accel_flag dispatch;
} orders[] = {
    { "seedable", .shuffle = true },
    { "from the default generator", .random = true },
    { "from a generator", .random = true, .generator = true },
    { "dispatched, from the default generator", .random = true, .dispatch = ACCEL_YES },
    { "dispatched, from a generator", .random = true, .generator = true, .dispatch = ACCEL_YES },
    { "a stream", .stream = true },
};

enum evaluation { NONE, WHOLE, LEFT, FAILED, TWICE, SAME_LOADER, SAME_LEFT, NO_LOADER, EVALUATIONS };

static const char *const evaluation_names[] = {
    [NONE] = "none", [WHOLE] = "whole", [LEFT] = "left early", [FAILED] = "failed", [TWICE] = "two passes",
    [SAME_LOADER] = "over the training loader", [SAME_LEFT] = "over a part of the training loader",
    [NO_LOADER] = "without a loader",
};

/* A training, and what came of it. */
struct run {
    DLTensor data, grad;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_dataset dataset, test_dataset;
    struct accel_dataset stream;
    int64_t next;
    struct accel_loader *loader, *test_loader;
    struct accel_generator *generator;
    const struct accel_batch *batch;
    _Atomic bool fails; /* reads of the test data, also by threads that read ahead */
    unsigned char result[RESULT_BYTES];
    size_t bytes;
};

static enum accel_status
read_number (void *user, size_t index, void *const *into, struct accel_error *error)
{
    const struct run *run = user;
    *(int64_t *) into[0] = (int64_t) index;
    if (!run->fails || index % 3)
        return ACCEL_OK;
    snprintf (error->text, sizeof error->text, "no sample %zu", index);
    return ACCEL_ERR_SYSTEM;
}

static enum accel_status
start (void *user, uint64_t epoch, struct accel_error *error)
{
    (void) epoch, (void) error;
    ((struct run *) user)->next = 0;
    return ACCEL_OK;
}

static enum accel_status
next (void *user, void *const *into, bool *end, struct accel_error *error)
{
    struct run *run = user;
    (void) error;
    if (run->next == SAMPLES)
        *end = true;
    else
        *(int64_t *) into[0] = run->next++;
    return ACCEL_OK;
}

static void
note (struct run *run, const void *bytes, size_t length)
{
    if (check (run->bytes + length <= sizeof run->result, "the result is too long"))
        memcpy (run->result + run->bytes, bytes, length);
    run->bytes += length;
}

/* With noise, as dropout would make it. */
static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct run *run = user;
    const int64_t *numbers = accel_batch_tensor (run->batch, "x")->data;
    (void) error;
    for (size_t i = 0; i < WEIGHTS; i++)
        for (size_t s = 0; s < accel_batch_size (run->batch); s++)
            ((float *) run->grad.data)[i]
                += scale * (((float *) run->data.data)[i] - (float) numbers[s] / 8
                            + accel_generator_uniform (accel_default_generator ()));
    return ACCEL_OK;
}

static bool
make_run (struct run *run, const struct order *order)
{
    static int64_t shape[] = { WEIGHTS };
    struct accel_parameter parameter = { "w", &run->data, &run->grad };
    struct accel_loader_options options = { .batch_size = 2, .shuffle = order->shuffle, .random_sampler = order->random,
                                            .dispatch_batches = order->dispatch };
    struct accel_loader_options test = { .batch_size = 3, .random_sampler = true, .workers = 1 };
    memset (run, 0, sizeof *run);
    run->data = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                            .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    run->grad = run->data;
    run->dataset = (struct accel_dataset){ SAMPLES, &field, 1, sample_is_index, run, NULL };
    run->test_dataset = (struct accel_dataset){ 31, &field, 1, read_number, run, NULL };
    run->stream = (struct accel_dataset){ .fields = &field, .field_count = 1, .size = SAMPLES,
                                          .start = start, .next = next, .user = run };
    bool good = !accel_set_seed (acc, 5, true, &err) && !accel_generator_create (&run->generator, 9, &err);
    options.generator = order->generator ? run->generator : NULL;
    enum accel_status status = accel_loader_create (&run->loader, order->stream ? &run->stream : &run->dataset,
                                                    &options, &err);
    return check (good && !status && !accel_loader_create (&run->test_loader, &run->test_dataset, &test, &err)
                      && !accel_model_create (&run->model, &parameter, 1, &err)
                      && !accel_optimizer_create (&run->optimizer, run->model, ACCEL_SGD,
                                                  &(struct accel_optimizer_options){ .lr = 0.01 }, &err)
                      && !accel_prepare (acc, &err, run->model, run->optimizer, run->loader, run->test_loader),
                  "%s: %s", order->name, err.text);
}

static void
destroy_run (struct run *run)
{
    accel_loader_destroy (run->loader);
    accel_loader_destroy (run->test_loader);
    accel_optimizer_destroy (run->optimizer);
    accel_model_destroy (run->model);
    accel_generator_destroy (run->generator);
}

/* Change all that an evaluation may change. */
static void
disturb (struct run *run)
{
    struct accel_scaler_state state;
    accel_autocast_enable (acc, false);
    accel_scaler_get_state (acc, &state);
    state.scale = 8;
    check (!accel_scaler_set_state (acc, &state, &err) && !accel_set_gradient_accumulation_steps (acc, 3, &err)
               && !accel_no_sync (acc, run->model, &err)
               && !accel_trigger_sync_in_backward (acc, run->model, &err) && !accel_accumulate (acc, &err, run->model),
           "disturb: %s", err.text);
    accel_set_sync_gradients (acc, !accel_sync_gradients (acc));
    (void) accel_generator_next (accel_default_generator ());
}

static void
evaluate (struct run *run, enum evaluation kind, bool mid)
{
    struct accel_evaluation *evaluation;
    const struct accel_batch *batch;
    struct accel_loader *loader = kind == NO_LOADER                 ? NULL
                                  : (kind == SAME_LOADER || kind == SAME_LEFT) && !mid ? run->loader
                                                                                       : run->test_loader;
    if (kind == SAME_LOADER && mid)
        check (accel_evaluate_begin (&evaluation, acc, run->loader, &err) == ACCEL_ERR_INVALID && !evaluation
                   && strstr (err.text, "in the middle of an epoch"),
               "the loader is running: %s", err.text);
    if (!check (!accel_evaluate_begin (&evaluation, acc, loader, &err), "begin: %s", err.text))
        return;
    disturb (run);
    run->fails = kind == FAILED && rank == 0;
    err.code = ACCEL_OK;
    for (int pass = 0; loader && pass < (kind == TWICE ? 2 : 1); pass++)
        for (size_t step = 0; accel_loader_next (loader, &batch, &err); step++) {
            (void) accel_generator_next (accel_default_generator ());
            check (!accel_accumulate (acc, &err), "accumulate: %s", err.text);
            if ((kind == LEFT || kind == SAME_LEFT) && step == 1)
                break;
        }
    check (!run->fails == !err.code, "the pass: %s", err.code ? err.text : "should have failed");
    run->fails = false;
    accel_evaluate_end (evaluation);
}

static void
note_state (struct run *run)
{
    uint8_t state[ACCEL_GENERATOR_STATE_BYTES];
    struct accel_scaler_state scaler;
    struct accel_loader_state loader;
    bool flags[] = { accel_sync_gradients (acc), accel_autocast (acc) == ACCEL_FLOAT16 };
    uint64_t numbers[] = { accel_loader_epoch (run->loader), accel_loader_epoch (run->test_loader),
                           accel_gradient_accumulation_steps (acc), accel_loader_remainder (run->loader) };
    accel_generator_get_state (accel_default_generator (), state);
    note (run, state + 0, 512);
    accel_generator_get_state (run->generator, state);
    note (run, state, 512);
    accel_scaler_get_state (acc, &scaler);
    note (run, &scaler.scale, sizeof scaler.scale);
    check (!accel_loader_get_state (run->loader, &loader, &err), "state: %s", err.text);
    note (run, &loader.checksum, sizeof loader.checksum);
    note (run, numbers, sizeof numbers);
    note (run, flags, sizeof flags);
    note (run, run->data.data, WEIGHTS * sizeof (float));
}

static bool
train (struct run *run, const struct order *order, enum evaluation kind, const struct accel_scaler_state *scaler)
{
    bool good = make_run (run, order)
                && check (!accel_scaler_set_state (acc, scaler, &err)
                              && !accel_set_gradient_accumulation_steps (acc, 2, &err),
                          "start: %s", err.text);
    for (int epoch = 0; epoch < EPOCHS && good; epoch++) {
        err.code = ACCEL_OK;
        for (size_t step = 0; good && accel_loader_next (run->loader, &run->batch, &err); step++) {
            note (run, accel_batch_tensor (run->batch, "x")->data, accel_batch_size (run->batch) * sizeof (int64_t));
            good = check (!accel_accumulate (acc, &err), "accumulate: %s", err.text);
            if (step == 1 && kind)
                evaluate (run, kind, true);
            good = good
                   && check (!accel_backward (acc, run->model, 0, backward, run, &err)
                                 && !accel_optimizer_step (run->optimizer, &err)
                                 && !accel_optimizer_zero_grad (run->optimizer, &err),
                             "step: %s", err.text);
        }
        good = good && check (!err.code, "next: %s", err.text);
        if (kind && good)
            evaluate (run, kind, false);
        note_state (run);
    }
    destroy_run (run);
    return good;
}

static void
check_evaluations (void)
{
    static struct run without, with;
    struct accel_scaler_state scaler;
    accel_scaler_get_state (acc, &scaler);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        if (!train (&without, &orders[i], NONE, &scaler))
            return;
        for (enum evaluation kind = WHOLE; kind < EVALUATIONS; kind++) {
            if (!train (&with, &orders[i], kind, &scaler))
                return;
            check (with.bytes == without.bytes && !memcmp (with.result, without.result, with.bytes),
                   "%s: an evaluation (%s) changed the training", orders[i].name, evaluation_names[kind]);
        }
    }
}

/* Two batches of a pass, the rest of which another loader is to repeat from its state, with an evaluation before. */
static void
check_restored (const struct order *order)
{
    static struct run runs[2];
    struct accel_loader_state state;
    struct accel_evaluation *evaluation;
    const struct accel_batch *batch;
    if (!make_run (&runs[0], order))
        return;
    for (int step = 0; step < 2; step++)
        check (accel_loader_next (runs[0].loader, &batch, &err), "next: %s", err.text);
    check (!accel_loader_get_state (runs[0].loader, &state, &err), "state: %s", err.text);
    for (int later = 0; later < 2; later++) {
        if (later && !make_run (&runs[1], order))
            return;
        if (later) { /* the state counts, and not where the generators are */
            (void) accel_generator_next (accel_default_generator ());
            (void) accel_generator_next (runs[1].generator);
        }
        if (later) {
            if (!check (!accel_loader_set_state (runs[1].loader, &state, &err)
                            && !accel_evaluate_begin (&evaluation, acc, runs[1].loader, &err),
                        "resume: %s", err.text))
                return;
            for (int step = 0; step < 3; step++)
                check (accel_loader_next (runs[1].loader, &batch, &err), "next: %s", err.text);
            accel_evaluate_end (evaluation);
        }
        while (accel_loader_next (runs[later].loader, &batch, &err))
            note (&runs[later], accel_batch_tensor (batch, "x")->data, accel_batch_size (batch) * sizeof (int64_t));
    }
    check (runs[0].bytes == runs[1].bytes && !memcmp (runs[0].result, runs[1].result, runs[0].bytes),
           "%s: resumed after an evaluation, the rest of the epoch differs", order->name);
    destroy_run (&runs[0]);
    destroy_run (&runs[1]);
}

/* A loader that is to begin in the middle of an epoch evaluates all of it, and then begins there. */
static void
check_resumed (void)
{
    static struct run run;
    struct accel_evaluation *evaluation;
    const struct accel_batch *batch;
    size_t counts[2] = { 0 };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        check_restored (&orders[i]);
    if (!make_run (&run, &orders[0]) || !check (!accel_skip_first_batches (run.loader, 2, &err), "%s", err.text))
        return;
    size_t length = accel_loader_length (run.loader);
    check (!accel_evaluate_begin (&evaluation, NULL, run.loader, &err), "without a job: %s", err.text);
    while (accel_loader_next (run.loader, &batch, &err))
        counts[0]++;
    accel_evaluate_end (evaluation);
    while (accel_loader_next (run.loader, &batch, &err))
        counts[1]++;
    check (counts[0] == length && counts[1] == length - 2, "%zu and %zu batches of %zu", counts[0], counts[1], length);
    /* The end of an evaluation whose objects have gone. */
    check (!accel_evaluate_begin (&evaluation, acc, run.test_loader, &err), "begin: %s", err.text);
    destroy_run (&run);
    accel_evaluate_end (evaluation);
    accel_evaluate_end (NULL);
}

/* What the evaluated loader draws from goes away before the end: its memory, which other generators then have, is not
 * written to.  Several processes share one generator, which the first loader of the sampler makes. */
static void
check_source_gone (bool shared)
{
    static struct run run;
    struct accel_sampler *sampler = NULL;
    struct accel_loader *loaders[2] = { NULL, NULL };
    struct accel_evaluation *evaluation;
    struct accel_generator *others[4] = { NULL };
    const struct accel_batch *batch;
    uint8_t before[ACCEL_GENERATOR_STATE_BYTES], after[ACCEL_GENERATOR_STATE_BYTES];
    struct accel_loader_options options = { .batch_size = 2, .random_sampler = !shared };
    run.dataset = (struct accel_dataset){ SAMPLES, &field, 1, sample_is_index, &run, NULL };
    if (shared
        && !check (!accel_sampler_create (&sampler, ACCEL_SAMPLER_RANDOM, SAMPLES, NULL, &err), "sampler: %s",
                   err.text))
        return;
    options.sampler = sampler;
    for (int i = 0; i < 2; i++)
        check (!accel_loader_create (&loaders[i], &run.dataset, &options, &err)
                   && !accel_prepare (acc, &err, loaders[i]), "loader: %s", err.text);
    if (!check (!accel_evaluate_begin (&evaluation, acc, loaders[1], &err), "begin: %s", err.text))
        return;
    check (accel_loader_next (loaders[1], &batch, &err), "next: %s", err.text);
    accel_loader_destroy (loaders[0]);
    if (!shared)
        check (!accel_free_memory (acc, &err), "free: %s", err.text);
    for (size_t i = 0; i < 4; i++)
        check (!accel_generator_create (&others[i], 7, &err), "generator: %s", err.text);
    accel_generator_get_state (others[0], before);
    accel_evaluate_end (evaluation);
    for (size_t i = 0; i < 4; i++) {
        accel_generator_get_state (others[i], after);
        check (!memcmp (before, after, sizeof before), "the end of an evaluation wrote to memory that was freed");
        accel_generator_destroy (others[i]);
    }
    while (accel_loader_next (loaders[1], &batch, &err))
        ;
    check (!err.code, "a pass after the end: %s", err.text);
    accel_loader_destroy (loaders[1]);
    accel_sampler_destroy (sampler);
}

/* A loader that lost its generator, which another loader of the sampler had made, makes its own in its next pass: the
 * same whether an evaluation came before it or not. */
static void
check_taken_along (void)
{
    static struct run runs[2];
    struct accel_evaluation *evaluation;
    const struct accel_batch *batch;
    struct accel_sampler *sampler;
    struct accel_loader *loaders[2];
    for (int with = 0; with < 2; with++) {
        struct run *run = &runs[with];
        run->dataset = (struct accel_dataset){ SAMPLES, &field, 1, sample_is_index, run, NULL };
        if (!check (!accel_set_seed (acc, 5, true, &err)
                        && !accel_sampler_create (&sampler, ACCEL_SAMPLER_RANDOM, SAMPLES, NULL, &err),
                    "sampler: %s", err.text))
            return;
        for (int i = 0; i < 2; i++)
            check (!accel_loader_create (&loaders[i], &run->dataset,
                                         &(struct accel_loader_options){ .batch_size = 2, .sampler = sampler }, &err)
                       && !accel_prepare (acc, &err, loaders[i]), "loader: %s", err.text);
        accel_loader_destroy (loaders[0]);
        if (with && check (!accel_evaluate_begin (&evaluation, acc, loaders[1], &err), "begin: %s", err.text)) {
            check (accel_loader_next (loaders[1], &batch, &err), "next: %s", err.text);
            accel_evaluate_end (evaluation);
        }
        err.code = ACCEL_OK;
        while (accel_loader_next (loaders[1], &batch, &err))
            note (run, accel_batch_tensor (batch, "x")->data, accel_batch_size (batch) * sizeof (int64_t));
        check (!err.code, "a pass: %s", err.text);
        accel_loader_destroy (loaders[1]);
        accel_sampler_destroy (sampler);
    }
    check (runs[0].bytes && runs[0].bytes == runs[1].bytes && !memcmp (runs[0].result, runs[1].result, runs[0].bytes),
           "an evaluation changed the order of a loader that had lost its generator");
}

static enum accel_status
put_rank (void *user, float scale, struct accel_error *error)
{
    (void) scale, (void) error;
    for (size_t i = 0; i < WEIGHTS; i++)
        ((float *) ((DLTensor *) user)->data)[i] = (float) rank;
    return ACCEL_OK;
}

/* A model that is released during an evaluation, and prepared again, knows nothing of a no_sync before. */
static void
check_released_model (void)
{
    static int64_t shape[] = { WEIGHTS };
    struct accel_model *model;
    struct accel_evaluation *evaluation;
    DLTensor data = { .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    DLTensor grad = data;
    struct accel_parameter parameter = { "w", &data, &grad };
    if (!check (!accel_model_create (&model, &parameter, 1, &err) && !accel_prepare (acc, &err, model)
                    && !accel_no_sync (acc, model, &err) && !accel_evaluate_begin (&evaluation, acc, NULL, &err)
                    && !accel_unwrap_model (acc, model, &err), "release: %s", err.text))
        return;
    accel_evaluate_end (evaluation);
    if (check (!accel_prepare (acc, &err, model) && !accel_backward (acc, model, 0, put_rank, &grad, &err),
               "again: %s", err.text))
        check (((float *) grad.data)[0] == (float) (size - 1) / 2, "gradients of a released model are not averaged");
    accel_model_destroy (model);
}

/* ---- token files ---- */

enum { FILES = 3, LENGTH = 4 };

static const size_t counts[FILES] = { 25, 41, 34 };
static char paths[FILES][PATH_MAX];
static const char *list[FILES], *swapped[FILES];

static void
write_files (const char *folder)
{
    uint16_t token = 0;
    for (size_t f = 0; f < FILES; f++) {
        snprintf (paths[f], sizeof paths[f], "%s/t_%zu.bin", folder, f);
        list[f] = paths[f];
        FILE *file = rank == 0 ? fopen (paths[f], "wb") : NULL;
        for (size_t i = 0; i < counts[f]; i++, token++)
            if (file)
                fwrite (&token, sizeof token, 1, file);
        check (rank || (file && !fclose (file)), "cannot write %s", paths[f]);
    }
    swapped[0] = list[1], swapped[1] = list[0], swapped[2] = list[2];
    check (!accel_wait_for_everyone (acc, &err), "wait: %s", err.text);
}

/* Which sequences one epoch of all ranks has: how often each of the 100 tokens begins one. */
static void
count_starts (struct accel_dataset *set, struct accel_sampler *sampler, bool dispatch, int64_t starts[100])
{
    struct accel_loader_options options = { .batch_size = 2, .sampler = sampler, .shuffle = !sampler, .seed = 3,
                                            .workers = 2,
                                            .dispatch_batches = dispatch ? ACCEL_YES : ACCEL_NO };
    struct accel_loader *loader;
    const struct accel_batch *batch;
    memset (starts, 0, 100 * sizeof *starts);
    if (!check (!accel_loader_create (&loader, set, &options, &err) && !accel_prepare (acc, &err, loader), "loader: %s",
                err.text))
        return;
    while (accel_loader_next (loader, &batch, &err)) {
        const int32_t *ids = accel_batch_tensor (batch, "input_ids")->data;
        for (size_t i = 0; i < accel_batch_size (batch); i++)
            starts[ids[i * LENGTH]]++;
    }
    check (!err.code, "next: %s", err.text);
    check (!accel_comm_all_reduce (accel_world (acc), starts, starts, 100, ACCEL_INT64, ACCEL_SUM, &err), "sum: %s",
           err.text);
    accel_loader_destroy (loader);
}

static void
check_orders (struct accel_dataset *set)
{
    struct accel_sampler *sampler;
    int64_t drawn[100], in_order[100], dispatched[100];
    check (!accel_sampler_create_llmc (&sampler, set, NULL, &err), "llm.c: %s", err.text);
    count_starts (set, NULL, false, drawn);
    count_starts (set, sampler, false, in_order);
    count_starts (set, sampler, true, dispatched);
    size_t first = 0, round = 2 * (size_t) size;
    for (size_t f = 0; f < FILES; first += counts[f++])
        for (size_t i = 0; i < counts[f]; i++) {
            size_t samples = (counts[f] - 1) / LENGTH, sample = i / LENGTH;
            bool begins = i % LENGTH == 0 && sample < samples, kept = begins && sample < samples / round * round;
            check (begins ? drawn[first + i] >= 1 : !drawn[first + i], "drawn: token %zu of file %zu", i, f);
            check (in_order[first + i] == kept && dispatched[first + i] == kept, "llm.c: token %zu of file %zu", i, f);
        }
    accel_sampler_destroy (sampler);
}

/* The last rank has other files, or the same elsewhere. */
static void
check_agreement (const char *const *mine, bool across, const char *words)
{
    struct accel_tokens_options options = { .sequence_length = LENGTH, .labels = true, .across_files = across };
    struct accel_dataset *set;
    struct accel_loader *loader = NULL;
    if (!check (!accel_dataset_open_tokens (&set, mine, FILES, &options, &err)
                    && !accel_loader_create (&loader, set, NULL, &err), "open: %s", err.text))
        return;
    enum accel_status status = accel_prepare (acc, &err, loader);
    check (words && size > 1 ? status == ACCEL_ERR_INVALID && strstr (err.text, words) : !status, "agreed: %s",
           status ? err.text : "");
    accel_loader_destroy (loader);
    accel_dataset_close (set);
}

static void
check_files (const char *folder)
{
    struct accel_tokens_options options = { .sequence_length = LENGTH, .labels = true, .open_files = 1 };
    struct accel_dataset *set;
    char text[PATH_MAX];
    const char *pattern = text;
    write_files (folder);
    snprintf (text, sizeof text, "%s/t_*.bin", folder);
    if (!check (!accel_dataset_open_tokens (&set, &pattern, 1, &options, &err), "open: %s", err.text))
        return;
    check_orders (set);
    accel_dataset_close (set);
    bool odd = rank == size - 1;
    check_agreement (list, false, NULL);
    check_agreement (odd ? swapped : list, false, "differ in token files: rank 0 has 3 files, t_0.bin to t_2.bin");
    check_agreement (list, odd, "differ in token files");
}

/* ---- split_batches of the job ---- */

static size_t
batch_of (const struct accel_loader_options *options)
{
    static struct run run; /* for its data set */
    run.dataset = (struct accel_dataset){ 48, &field, 1, sample_is_index, &run, NULL };
    struct accel_loader *loader;
    const struct accel_batch *batch;
    size_t mine = 0;
    if (check (!accel_loader_create (&loader, &run.dataset, options, &err) && !accel_prepare (acc, &err, loader),
               "split: %s", err.text)
        && check (accel_loader_next (loader, &batch, &err), "next: %s", err.text))
        mine = accel_batch_size (batch);
    accel_loader_destroy (loader);
    return mine;
}

static enum accel_status
next_varying (void *user, int64_t *indices, size_t *count, struct accel_error *error)
{
    (void) user, (void) error;
    indices[0] = 0;
    *count = 1;
    return ACCEL_OK;
}

static void
check_split (bool said)
{
    const size_t all = 12, each = 12 / (size_t) size;
    struct accel_dataset dataset = { 48, &field, 1, sample_is_index, NULL, NULL };
    struct accel_batch_sampler varying = { .length = 4, .most = 2, .next = next_varying };
    struct accel_loader *loader = NULL;
    enum accel_status status;
    check (batch_of (&(struct accel_loader_options){ .batch_size = 12 }) == (said ? each : all), "the job's choice");
    check (batch_of (&(struct accel_loader_options){ .batch_size = 12, .split_batches = ACCEL_YES }) == each, "split");
    check (batch_of (&(struct accel_loader_options){ .batch_size = 12, .split_batches = ACCEL_NO }) == all,
           "without split_batches");
    check (batch_of (&(struct accel_loader_options){ .batch_size = 12, .dispatch_batches = ACCEL_YES })
               == (said ? each : all), "the job's choice, dispatched");
    status = accel_loader_create (&loader, &dataset, &(struct accel_loader_options){ .split_batches = 3 }, &err);
    check (status == ACCEL_ERR_INVALID && strstr (err.text, "invalid value for 'split_batches'"), "no choice: %s",
           err.text);
    check (!accel_loader_create (&loader, &dataset, &(struct accel_loader_options){ .batch_sampler = &varying }, &err),
           "varying: %s", err.text);
    status = accel_prepare (acc, &err, loader);
    check (said ? status == ACCEL_ERR_INVALID && strstr (err.text, "set split_batches to ACCEL_NO") : !status,
           "varying: %s", status ? err.text : "");
    accel_loader_destroy (loader);
    check (!accel_loader_create (&loader, &dataset, &(struct accel_loader_options){ .batch_size = 12 }, &err), "%s",
           err.text);
    check (accel_loader_total_batch_size (loader) == 12 && !accel_prepare (acc, &err, loader)
               && accel_loader_total_batch_size (loader) == (said ? 12 : 12 * (size_t) size)
               && accel_loader_length (loader) == (said ? 4 : 4 / (size_t) size + (4 % size != 0)),
           "total batch size %zu, length %zu", accel_loader_total_batch_size (loader), accel_loader_length (loader));
    accel_loader_destroy (loader);
}

/* The last rank alone says split_batches. */
static void
check_odd (void)
{
    struct accel_dataset dataset = { 48, &field, 1, sample_is_index, NULL, NULL };
    struct accel_loader *loader = NULL;
    check (!accel_loader_create (&loader, &dataset, &(struct accel_loader_options){ .batch_size = 12 }, &err)
               && accel_prepare (acc, &err, loader) == ACCEL_ERR_INVALID
               && strstr (err.text, "differ in split_batches: rank 0 has false"),
           "split_batches of one rank: %s", err.text);
    check (accel_loader_total_batch_size (loader) == 12, "and the loader is as it was");
    accel_loader_destroy (loader);
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *odd = getenv ("LOCAL_RANK");
    struct accel_options options = { .timeout_ms = 200000, .mixed_precision = "fp16" };
    options.split_batches = !strcmp (what, "split") || (!strcmp (what, "odd") && odd && !strcmp (odd, "1"));
    if (accel_open (&acc, &options, &err)) {
        fprintf (stderr, "open: %s\n", err.text);
        return 1;
    }
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    if (!strcmp (what, "evaluations"))
        check_evaluations ();
    else if (!strcmp (what, "resumed"))
        check_resumed ();
    else if (!strcmp (what, "released") || !strcmp (what, "shared"))
        check_source_gone (!strcmp (what, "shared"));
    else if (!strcmp (what, "again"))
        check_taken_along (), check_released_model ();
    else if (!strcmp (what, "files") && argc == 3)
        check_files (argv[2]);
    else if (!strcmp (what, "odd"))
        check_odd ();
    else if (!strcmp (what, "split") || !strcmp (what, "unsplit"))
        check_split (options.split_batches);
    else
        check (false, "no check '%s'", what);
    accel_close (acc);
    return wrong != 0;
}
