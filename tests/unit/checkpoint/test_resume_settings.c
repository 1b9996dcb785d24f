/* SPDX-License-Identifier: Apache-2.0 */
/* Resuming with other settings than a state was saved with, on one process: other data, orders, passes and schedules;
 * and total_batch_size, from which passes follow.  conformance/resume_grid.c has the combinations that continue. */
#include <config.h>

#include "tests/must.h"
#include "tests/samples.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, STEPS = 8 };

static struct accel *acc;

static void
fails (enum accel_status status, const char *text, const char *what)
{
    bool good = status == ACCEL_ERR_INVALID && strstr (err.text, text);
    if (!good)
        diag ("status %d: %s", (int) status, status ? err.text : "");
    ok (good, "%s: %s", what, text);
}

/* ---- data ---- */

static const struct accel_field field = { .name = "x", .dtype = ACCEL_INT64 };

/* Files of 40 tokens, which are 10 samples. */
static void
write_shards (int count)
{
    char path[64];
    for (int i = 0; i < count; i++) {
        snprintf (path, sizeof path, "shard%d.bin", i);
        FILE *file = fopen (path, "w");
        for (int t = 0; file && t < 40; t++)
            fwrite (&(uint16_t){ (uint16_t) (100 * i + t) }, 2, 1, file);
        if (!file || fclose (file))
            exit (98);
    }
}

/* An order of the program's, which begins at `from`. */
struct own_order {
    int64_t from, next, size;
};

static enum accel_status
start_order (void *user, uint64_t epoch, struct accel_error *problem)
{
    struct own_order *order = user;
    (void) epoch, (void) problem;
    order->next = order->from;
    return ACCEL_OK;
}

static enum accel_status
next_index (void *user, int64_t *index, struct accel_error *problem)
{
    struct own_order *order = user;
    (void) problem;
    *index = order->next++ % order->size;
    return ACCEL_OK;
}

/* What a loader is made of. */
struct setting {
    const char *what;
    size_t samples;                 /* of numbers; 0: token files */
    const char *pattern;            /* of them */
    int64_t from;                   /* not -1: of the program's sampler */
    struct accel_loader_options options;
    const char *text;               /* of the refusal, of the first batch, or NULL: it continues */
};

struct loading {
    struct accel_dataset numbers, *dataset;
    struct own_order order;
    struct accel_sampler *sampler;
    struct accel_loader *loader;
};

static void
open_loading (struct loading *loading, const struct setting *setting, bool restarts)
{
    struct accel_loader_options options = setting->options;
    *loading = (struct loading){ .numbers = { setting->samples, &field, 1, sample_is_index, NULL, NULL } };
    loading->order = (struct own_order){ setting->from, 0, (int64_t) setting->samples };
    const struct accel_tokens_options tokens = { .format = ACCEL_TOKENS_UINT16, .sequence_length = 4 };
    if (setting->pattern)
        MUST (accel_dataset_open_tokens (&loading->dataset, &setting->pattern, 1, &tokens, &err));
    const struct accel_sampler_calls calls
        = { .length = setting->samples, .start = start_order, .next = next_index, .user = &loading->order };
    if (setting->from >= 0)
        MUST (accel_sampler_create_custom (&loading->sampler, &calls, &err));
    options.batch_size = options.batch_size ? options.batch_size : BATCH;
    options.sampler = loading->sampler;
    options.restart_on_other_data = restarts;
    MUST (accel_loader_create (&loading->loader, setting->pattern ? loading->dataset : &loading->numbers, &options,
                               &err));
    MUST (accel_prepare (acc, &err, loading->loader));
}

static void
close_loading (struct loading *loading)
{
    accel_loader_destroy (loading->loader);
    accel_sampler_destroy (loading->sampler);
    accel_dataset_close (loading->dataset);
}

/* Two batches of the second epoch. */
static void
save_two (const struct setting *setting, struct accel_loader_state *state)
{
    struct loading loading;
    const struct accel_batch *batch;
    open_loading (&loading, setting, false);
    while (accel_loader_next (loading.loader, &batch, &err))
        ;
    if (!accel_loader_next (loading.loader, &batch, &err) || !accel_loader_next (loading.loader, &batch, &err))
        MUST (ACCEL_ERR_INVALID);
    MUST (accel_save_state (acc, "state", &err));
    MUST (accel_loader_get_state (loading.loader, state, &err));
    close_loading (&loading);
}

/* Between two epochs, no position is kept. */
static void
check_between (const struct setting *before, const struct setting *now)
{
    struct loading loading;
    const struct accel_batch *batch;
    open_loading (&loading, before, false);
    while (accel_loader_next (loading.loader, &batch, &err))
        ;
    MUST (accel_save_state (acc, "between", &err));
    close_loading (&loading);
    open_loading (&loading, now, false);
    enum accel_status status = accel_load_state (acc, "between", &err);
    ok (!status && accel_loader_epoch (loading.loader) == 1 && accel_loader_next (loading.loader, &batch, &err),
        "%s: accepted between two epochs (%s)", now->what, status ? err.text : "");
    close_loading (&loading);
}

static size_t
count_rest (struct accel_loader *loader)
{
    const struct accel_batch *batch;
    size_t count = 0;
    while (accel_loader_next (loader, &batch, &err))
        count += accel_batch_size (batch);
    return err.code ? SIZE_MAX : count;
}

static void
check_setting (const struct setting *before, const struct setting *now)
{
    struct accel_loader_state state;
    struct loading loading;
    save_two (before, &state);
    open_loading (&loading, now, false);
    enum accel_status status = accel_load_state (acc, "state", &err);
    size_t whole = accel_loader_length (loading.loader) * (now->options.batch_size ? now->options.batch_size : BATCH);
    if (!now->text) {
        ok (!status, "%s: continues (%s)", now->what, status ? err.text : "");
        ok (count_rest (loading.loader) == before->samples - 2 * BATCH, "%s: with the rest of the epoch", now->what);
    } else if (now->from >= 0 && before->from >= 0) {
        const struct accel_batch *batch;
        ok (!status && !accel_loader_next (loading.loader, &batch, &err) && strstr (err.text, now->text), "%s: %s",
            now->what, now->text);
    } else {
        fails (status, now->text, now->what);
        fails (accel_loader_set_state (loading.loader, &state, &err), now->options.seed ? "seed" : "other data",
               now->what);
        close_loading (&loading);
        open_loading (&loading, now, true);
        status = accel_load_state (acc, "state", &err);
        ok (!status && accel_loader_epoch (loading.loader) == 1, "%s: restart_on_other_data accepts it (%s)", now->what,
            status ? err.text : "");
        size_t rest = count_rest (loading.loader);
        ok (rest <= whole && rest + BATCH > whole, "%s: the epoch restarts", now->what);
    }
    close_loading (&loading);
}

static void
test_data (void)
{
    const struct setting numbers = { .samples = 32, .from = -1 }, own = { .samples = 32 };
    const struct setting files = { .pattern = "shard[012].bin", .from = -1 };
    const struct setting others[] = {
        { "other batches", 32, NULL, -1, { .batch_size = 8 }, NULL },
        { "another way of reading", 32, NULL, -1, { .workers = 2, .drop_last = true }, NULL },
        { "more samples", 33, NULL, -1, { 0 }, "other data: 32 samples then, 33 samples now" },
        { "another order", 32, NULL, -1, { .shuffle = true }, "other order: the data's own then, shuffle now" },
        { "another seed", 32, NULL, -1, { .seed = 3 }, "with seed 0, but this loader has 3" },
        { "a sampler", 32, NULL, 0, { 0 }, "other order: the data's own then, a custom sampler" },
        { "files", 0, "shard[012].bin", -1, { 0 }, "other data: 32 samples then, 30 samples now" },
    };
    const struct setting fewer = { "other files", 0, "shard[013].bin", -1, { 0 },
                                   "other token files: 3 files, shard0.bin to shard2.bin" };
    const struct setting more = { "more files", 0, "shard?.bin", -1, { 0 }, "30 samples then, 40 samples now" };
    const struct setting shifted = { "the program's sampler gives another order", 32, NULL, 1, { 0 },
                                     "its order differs from the one in the checkpoint" };
    write_shards (4);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        check_setting (&numbers, &others[i]);
        if (!others[i].options.seed)
            check_between (&numbers, &others[i]);
    }
    check_setting (&files, &fewer);
    check_setting (&files, &more);
    check_setting (&own, &shifted);
}

/* ---- passes ---- */

static void
reopen (const struct accel_options *options)
{
    accel_close (acc);
    acc = NULL;
    MUST (accel_open (&acc, options, &err));
}

static void
accumulate (struct accel_loader *loader, int passes)
{
    const struct accel_batch *batch;
    for (int i = 0; i < passes; i++) {
        if (!accel_loader_next (loader, &batch, &err))
            MUST (ACCEL_ERR_INVALID);
        MUST (accel_accumulate (acc, &err));
    }
}

static void
test_passes (void)
{
    const struct setting numbers = { .samples = 32, .from = -1 };
    struct loading loading;
    reopen (&(struct accel_options){ .gradient_accumulation_steps = 2 });
    open_loading (&loading, &numbers, false);
    accumulate (loading.loader, 2);
    MUST (accel_save_state (acc, "whole", &err));
    accumulate (loading.loader, 1);
    MUST (accel_save_state (acc, "half", &err));
    close_loading (&loading);

    reopen (&(struct accel_options){ .gradient_accumulation_steps = 3 });
    open_loading (&loading, &numbers, false);
    fails (accel_load_state (acc, "half", &err), "saved after 1 of 2 passes of 4 samples", "in the middle of a step");
    MUST (accel_load_state (acc, "whole", &err));
    fails (accel_set_gradient_accumulation_steps (acc, 2, &err), "call it before accel_load_state", "passes, too late");
    accumulate (loading.loader, 2);
    ok (!accel_sync_gradients (acc), "a step of 3 passes begins after the state");
    accumulate (loading.loader, 1);
    ok (accel_sync_gradients (acc), "and has all of them");
    MUST (accel_set_gradient_accumulation_steps (acc, 2, &err));
    close_loading (&loading);

    reopen (&(struct accel_options){ .gradient_accumulation_steps = 2 });
    const struct setting larger = { .samples = 32, .from = -1, .options = { .batch_size = 8 } };
    open_loading (&loading, &larger, false);
    fails (accel_load_state (acc, "half", &err), "now a step has 2 passes of 8",
           "the middle of a step, larger batches");
    close_loading (&loading);
    open_loading (&loading, &numbers, false);
    MUST (accel_load_state (acc, "half", &err));
    MUST (accel_save_state (acc, "again", &err)); /* as a job does that is ended just after it has begun */
    MUST (accel_load_state (acc, "half", &err));
    accumulate (loading.loader, 1);
    ok (accel_sync_gradients (acc), "a step that was begun ends after the pass that it lacks");
    close_loading (&loading);
    open_loading (&loading, &numbers, false);
    enum accel_status status = accel_load_state (acc, "again", &err);
    ok (!status, "a state that was loaded and saved can be loaded (%s)", status ? err.text : "");
    accumulate (loading.loader, 1);
    ok (accel_sync_gradients (acc), "and its step ends after the same pass");
    close_loading (&loading);
}

/* ---- total_batch_size ---- */

static const struct total {
    const char *variable;
    size_t total, batch_size;
    uint32_t given, wanted;
    const char *text;
} totals[] = {
    { NULL, 16, 4, 0, 4, NULL },
    { NULL, 4, 4, 0, 1, NULL },
    { NULL, 0, 4, 3, 3, NULL },
    { "8", 16, 4, 0, 2, NULL },
    { NULL, 16, 4, 4, 4, NULL },
    { NULL, 16, 4, 2, 0, "total_batch_size 16 needs 4 passes of 4 samples, but gradient_accumulation_steps is 2" },
    { NULL, 14, 4, 0, 0, "the nearest possible values are 12 and 16" },
    { NULL, 2, 4, 0, 0, "already has 4 samples, on 1 process(es): raise it to 4" },
};

static void
test_totals (void)
{
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        const struct total *total = &totals[i];
        struct accel_dataset dataset = { 32, &field, 1, sample_is_index, NULL, NULL };
        struct accel_loader *loader;
        const struct accel_loader_options options = { .batch_size = total->batch_size };
        if (total->variable)
            setenv ("ACCELERATE_TOTAL_BATCH_SIZE", total->variable, 1);
        reopen (&(struct accel_options){ .total_batch_size = total->total,
                                         .gradient_accumulation_steps = total->given });
        unsetenv ("ACCELERATE_TOTAL_BATCH_SIZE");
        MUST (accel_loader_create (&loader, &dataset, &options, &err));
        enum accel_status status = accel_prepare (acc, &err, loader);
        if (total->text)
            fails (status, total->text, "total_batch_size");
        else
            ok (!status && accel_gradient_accumulation_steps (acc) == total->wanted,
                "total_batch_size %zu in batches of %zu: %u passes, wanted %u (%s)", total->total, total->batch_size,
                accel_gradient_accumulation_steps (acc), total->wanted, status ? err.text : "");
        if (!status && total->total)
            fails (accel_set_gradient_accumulation_steps (acc, 7, &err), "num_steps is 7, but total_batch_size",
                   "other passes");
        accel_loader_destroy (loader);
    }
    setenv ("ACCELERATE_TOTAL_BATCH_SIZE", "many", 1);
    accel_close (acc);
    fails (accel_open (&acc, NULL, &err), "ACCELERATE_TOTAL_BATCH_SIZE='many' is not a number", "the variable");
    unsetenv ("ACCELERATE_TOTAL_BATCH_SIZE");
}

/* Another loader than the first is divided anew, and no loader at all is an error. */
static void
test_loaders (void)
{
    const struct setting first = { .samples = 32, .from = -1 };
    const struct setting second = { .samples = 32, .from = -1, .options = { .batch_size = 2 } };
    const struct setting third = { .samples = 32, .from = -1, .options = { .batch_size = 5 } };
    struct loading loadings[3];
    const struct accel_batch *batch;
    reopen (&(struct accel_options){ .total_batch_size = 8 });
    fails (accel_accumulate (acc, &err), "needs a loader that was prepared", "no loader");
    open_loading (&loadings[0], &first, false);
    open_loading (&loadings[1], &second, false);
    open_loading (&loadings[2], &third, false);
    ok (accel_gradient_accumulation_steps (acc) == 2, "the first loader counts");
    accumulate (loadings[1].loader, 4);
    ok (accel_gradient_accumulation_steps (acc) == 4 && accel_sync_gradients (acc), "or the one that is running");
    accumulate (loadings[1].loader, 1);
    if (!accel_loader_next (loadings[0].loader, &batch, &err))
        MUST (ACCEL_ERR_INVALID);
    fails (accel_accumulate (acc, &err), "a step was begun in passes of 2 samples", "not within a step");
    accel_loader_end (loadings[0].loader);
    accumulate (loadings[1].loader, 3);
    if (!accel_loader_next (loadings[2].loader, &batch, &err))
        MUST (ACCEL_ERR_INVALID);
    fails (accel_accumulate (acc, &err), "the nearest possible values are 5 and 10", "one that does not divide it");
    for (int i = 0; i < 3; i++)
        close_loading (&loadings[i]);
}

/* ---- schedules ---- */

static int64_t shape[] = { 1 };
static float value[1], gradient[1];

struct scheduled {
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
};

static void
begin_scheduled (struct scheduled *made, const struct accel_scheduler_options *options)
{
    static DLTensor data, grad;
    data = (DLTensor){ .data = value, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                       .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    grad = data;
    grad.data = gradient;
    reopen (NULL);
    MUST (accel_model_create (&made->model, &(struct accel_parameter){ "w", &data, &grad }, 1, &err));
    MUST (accel_optimizer_create (&made->optimizer, made->model, ACCEL_SGD,
                                  &(struct accel_optimizer_options){ .lr = 0.5 }, &err));
    MUST (accel_scheduler_create (&made->scheduler, made->optimizer, options, &err));
    MUST (accel_prepare (acc, &err, made->model, made->optimizer, made->scheduler));
}

static void
end_scheduled (const struct scheduled *made)
{
    accel_scheduler_destroy (made->scheduler);
    accel_optimizer_destroy (made->optimizer);
    accel_model_destroy (made->model);
}

static void
test_schedules (void)
{
    const struct {
        const char *what;
        struct accel_scheduler_options options;
        double lr; /* after STEPS steps */
        const char *text;
    } then[] = {
        { "the same", { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = 16 }, 0.25, NULL },
        { "a longer one", { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = 32 }, 0.375, NULL },
        { "a shorter one", { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = 10 }, 0.1, NULL },
        { "another one", { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 32 }, 0,
          "the state is that of a linear schedule, but the scheduler has a cosine schedule" },
    };
    for (size_t i = 0; i < sizeof then / sizeof *then; i++)
        for (int saves = 1; saves >= 0; saves--) {
            struct scheduled made;
            begin_scheduled (&made, &then[saves ? 0 : i].options);
            for (int step = 0; saves && step < STEPS; step++) {
                MUST (accel_optimizer_step (made.optimizer, &err));
                MUST (accel_scheduler_step (made.scheduler, &err));
            }
            if (saves)
                MUST (accel_save_state (acc, "schedule", &err));
            enum accel_status status = saves ? ACCEL_OK : accel_load_state (acc, "schedule", &err);
            double off = accel_optimizer_lr (made.optimizer) - then[i].lr;
            if (!saves && !then[i].text)
                ok (!status && off < 1e-15 && off > -1e-15, "%s: its rate at once (%s)", then[i].what,
                    status ? err.text : "");
            else if (!saves)
                ok (status == ACCEL_ERR_FORMAT && strstr (err.text, then[i].text), "%s: %s", then[i].what,
                    then[i].text);
            end_scheduled (&made);
        }
}

/* Each step of another schedule is made anew, so their number must not be out of all bounds. */
static void
test_many_steps (void)
{
    enum accel_status status = ACCEL_OK;
    for (int run = 0; run < 2; run++) {
        struct accel_scheduler_options options = { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = 16 + run };
        struct accel_scheduler_state state;
        struct scheduled made;
        begin_scheduled (&made, &options);
        accel_scheduler_get_state (made.scheduler, &state);
        state.step = UINT64_C (1) << 60;
        MUST (accel_scheduler_set_state (made.scheduler, &state, 1, &err));
        if (run)
            status = accel_load_state (acc, "many", &err);
        else
            MUST (accel_save_state (acc, "many", &err));
        end_scheduled (&made);
    }
    ok (status == ACCEL_ERR_FORMAT && strstr (err.text, "not a scheduler state"), "2^60 steps are refused: %s",
        status ? err.text : "");
}

int
main (void)
{
    scratch_enter ();
    setenv ("ACCELERATE_LOG_LEVEL", "error", 1);
    MUST (accel_open (&acc, NULL, &err));
    test_data ();
    test_passes ();
    test_totals ();
    test_loaders ();
    test_schedules ();
    test_many_steps ();
    accel_close (acc);
    return done_testing ();
}
