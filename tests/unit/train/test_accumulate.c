/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient accumulation against the original's: what each pass synchronises, reduces and steps; and its arguments.  One
 * process plays rank RANK of PROCESSES, as in make_accumulate_goldens.py. */
#include <config.h>

#include "lib/data/active.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/model_object.h"
#include "lib/train/optimizer/optimizer_object.h"
#include "tests/allocators.h"
#include "tests/golden/golden.h"
#include "tests/golden/picks.h"
#include "tests/samples.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <math.h>

/* Fields in the order of `names`. */
struct numbers {
    unsigned processes, rank, samples, batch, drop, uneven, split, epochs, plugin, steps, env, keep_scheduler,
        without_dataloader, each, then, inner, evaluate, skip, without_optimizer, cycle;
};

static const char *const names[]
    = { "processes", "rank",  "samples", "batch",          "drop",               "uneven", "split",
        "epochs",    "plugin", "steps",  "env",            "keep_scheduler",     "without_dataloader",
        "each",      "then",  "inner",   "evaluate",       "skip",               "without_optimizer",
        "cycle" };

struct job {
    struct numbers numbers;
    FILE *report;
    uint64_t total;
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_loader *loader, *inner;
    struct accel_dataset dataset, inner_dataset;
    float weight, gradient;
    unsigned passes;
};

static void
must (enum accel_status status, const struct accel_error *err)
{
    if (!status)
        return;
    printf ("Bail out! %s\n", err->text);
    exit (99);
}

/* The same as in make_accumulate_goldens.py. */
static double
factor (void *user, uint64_t step)
{
    (void) user;
    return 1 / (1 + 0.03125 * (double) step);
}

static void
make_loader (struct job *job, struct accel_loader **loader, struct accel_dataset *dataset, size_t samples)
{
    static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
    const struct numbers *numbers = &job->numbers;
    struct accel_error err;
    struct accel_loader_options options = { .batch_size = numbers->batch, .drop_last = numbers->drop,
                                            .even_batches = numbers->uneven ? ACCEL_NO : ACCEL_YES,
                                            .split_batches = numbers->split ? ACCEL_YES : ACCEL_DEFAULT };
    *dataset = (struct accel_dataset){ samples, &field, 1, sample_is_index, NULL };
    if (samples) {
        must (accel_loader_create (loader, dataset, &options, &err), &err);
        must (accel_prepare (job->acc, &err, *loader), &err);
    }
}

static void
open_job (struct job *job)
{
    const struct numbers *numbers = &job->numbers;
    struct accel_error err;
    char text[16];
    struct accel_gradient_accumulation plugin = { numbers->steps,
                                                  numbers->without_dataloader ? ACCEL_NO : ACCEL_YES, numbers->each };
    struct accel_options options = { .gradient_accumulation_steps = numbers->plugin ? 0 : numbers->steps,
                                     .gradient_accumulation_plugin = numbers->plugin ? &plugin : NULL };
    snprintf (text, sizeof text, "%u", numbers->env);
    if (numbers->env)
        setenv ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", text, 1);
    else
        unsetenv ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS");
    must (accel_open (&job->acc, &options, &err), &err);
    job->acc->identity.world_size = (int) numbers->processes;
    job->acc->identity.rank = (int) numbers->rank;
}

static void
set_up (struct job *job)
{
    static DLTensor data, grad;
    const struct numbers *numbers = &job->numbers;
    struct accel_error err;
    struct accel_parameter parameter = { "w", &data, &grad };
    struct accel_optimizer_options sgd = { .lr = 0.25 };
    struct accel_scheduler_options schedule = {
        .schedule = numbers->cycle ? ACCEL_SCHEDULE_ONE_CYCLE : ACCEL_SCHEDULE_LAMBDA,
        .lambda = factor, .total_steps = numbers->cycle, .max_lr = 0.5, .linear = true, .cycle_momentum = ACCEL_NO,
        .step_with_optimizer = numbers->without_optimizer ? ACCEL_NO : ACCEL_YES, /* split_batches is the loader's */
    };
    data = (DLTensor){ .data = &job->weight, .device = { kDLCPU, 0 }, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    grad = data;
    grad.data = &job->gradient;
    open_job (job);
    must (accel_model_create (&job->model, &parameter, 1, &err), &err);
    must (accel_optimizer_create (&job->optimizer, job->model, ACCEL_SGD, &sgd, &err), &err);
    must (accel_scheduler_create (&job->scheduler, job->optimizer, &schedule, &err), &err);
    must (accel_prepare (job->acc, &err, job->model, job->optimizer, job->scheduler), &err);
    make_loader (job, &job->loader, &job->dataset, numbers->samples);
    make_loader (job, &job->inner, &job->inner_dataset,
                 (size_t) (numbers->inner + numbers->evaluate) * numbers->batch * numbers->processes);
}

static void
tear_down (struct job *job)
{
    accel_loader_destroy (job->inner);
    accel_loader_destroy (job->loader);
    accel_scheduler_destroy (job->scheduler);
    accel_optimizer_destroy (job->optimizer);
    accel_model_destroy (job->model);
    accel_close (job->acc);
}

/* One pass: a word, as make_accumulate_goldens.py explains it, and the learning rate. */
static void
do_pass (struct job *job)
{
    struct accel_error err;
    char word[64] = "";
    uint64_t steps = accel_optimizer_step_count (job->optimizer);
    unsigned skip = job->numbers.skip;
    must (accel_accumulate (job->acc, &err, job->model), &err);
    if (accel_sync_gradients (job->acc))
        strcat (word, "s");
    if (accumulate_reduces (job->model) && job->numbers.processes > 1)
        strcat (word, "r");
    must (accel_optimizer_step (job->optimizer, &err), &err);
    if (accel_optimizer_step_count (job->optimizer) > steps)
        strcat (word, "o");
    job->optimizer->step_was_skipped = skip && job->passes % skip == skip - 1;
    must (accel_scheduler_step (job->scheduler, &err), &err);
    job->gradient = 1;
    must (accel_optimizer_zero_grad (job->optimizer, &err), &err);
    if (job->gradient == 0)
        strcat (word, "z");
    if (!*word)
        strcat (word, ".");
    double lr = accel_scheduler_lr (job->scheduler);
    uint64_t bits;
    memcpy (&bits, &lr, sizeof bits);
    job->total = golden_checksum (golden_text_checksum (job->total, word), bits);
    fprintf (job->report, " %s@%.17g", word, lr);
    job->passes++;
}

static void
run_job (struct job *job)
{
    struct accel_error err = { 0 };
    const struct accel_batch *batch;
    for (unsigned epoch = 0; epoch < job->numbers.epochs; epoch++) {
        for (unsigned number = 0; accel_loader_next (job->loader, &batch, &err); number++) {
            if (number == 1 && job->inner)
                while (accel_loader_next (job->inner, &batch, &err))
                    if (job->numbers.inner)
                        do_pass (job);
            do_pass (job);
        }
        must (err.code, &err);
        if (job->numbers.then)
            must (accel_set_gradient_accumulation_steps (job->acc, job->numbers.then, &err), &err);
    }
}

#define CHOICE(picks, ...)                                                                                             \
    (((const unsigned[]){ __VA_ARGS__ })[pick (picks, sizeof (unsigned[]){ __VA_ARGS__ } / sizeof (unsigned))])

static struct numbers
pick_numbers (struct picks *picks)
{
    struct numbers n = { .processes = CHOICE (picks, 1, 1, 2, 2, 3, 4) };
    n.rank = (unsigned) pick (picks, n.processes);
    n.samples = 1 + (unsigned) pick (picks, 24);
    n.batch = 1 + (unsigned) pick (picks, 4);
    n.drop = pick (picks, 5) == 0;
    n.uneven = pick (picks, 5) == 0;
    n.split = pick (picks, 10) < 3;
    n.epochs = CHOICE (picks, 1, 2, 2, 3);
    n.plugin = pick (picks, 10) < 7;
    n.steps = n.plugin ? CHOICE (picks, 0, 1, 2, 3, 4, 5, 7) : CHOICE (picks, 1, 2, 3, 4, 8);
    n.env = CHOICE (picks, 0, 0, 0, 2, 3);
    n.keep_scheduler = pick (picks, 2) && n.plugin;
    n.without_dataloader = pick (picks, 5) < 2 && n.plugin;
    n.each = pick (picks, 5) < 2 && n.plugin;
    n.then = CHOICE (picks, 0, 0, 0, 2, 3);
    size_t nested = pick (picks, 4), count = 1 + pick (picks, 4);
    n.inner = nested == 2 ? (unsigned) count : 0;
    n.evaluate = nested == 3 ? (unsigned) count : 0;
    n.skip = CHOICE (picks, 0, 0, 0, 2, 3);
    n.without_optimizer = pick (picks, 5) == 0;
    n.cycle = CHOICE (picks, 0, 0, 100, 150);
    unsigned cycle = CHOICE (picks, 5, 9, 14, 40);
    n.batch *= n.split ? n.processes : 1;
    if (!n.without_optimizer && !n.split && n.cycle)
        n.cycle = cycle; /* whose end is reached */
    return n;
}

static uint64_t
run_case (struct picks *picks, FILE *report)
{
    struct job job = { .report = report, .numbers = pick_numbers (picks) };
    const unsigned *fields = &job.numbers.processes;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (fields[i])
            fprintf (report, "%s%s=%u", i ? " " : "# ", names[i], fields[i]);
    fputs (":", report);
    set_up (&job);
    run_job (&job);
    tear_down (&job);
    fputs ("\n", report);
    return job.total;
}

static void
test_block (struct golden *golden)
{
    uint64_t key = golden_number (golden), cases = golden_number (golden), total = 0;
    struct picks picks = picks_from (key);
    char *text = NULL;
    size_t size;
    FILE *report = open_memstream (&text, &size);
    for (uint64_t i = 0; i < cases; i++)
        total = golden_checksum (total, run_case (&picks, report));
    fclose (report);
    bool same = total == golden_bits_64 (golden);
    ok (same, "block %llu: %llu trainings as the original's", (unsigned long long) key, (unsigned long long) cases);
    fputs (same ? "" : text, stdout);
    free (text);
}

/* What accel_open() makes of arguments and variables. */
static void
test_open (void)
{
    static const struct {
        const char *what, *steps_variable, *clipping_variable, *error;
        unsigned argument, plugin; /* 0: none; plugin's num_steps + 1 */
        unsigned wanted;
        double clipping;
    } cases[] = {
        { "nothing", NULL, NULL, NULL, 0, 0, 1, INFINITY },
        { "the argument", NULL, NULL, NULL, 3, 0, 3, INFINITY },
        { "the variable before the argument", "5", "none", NULL, 3, 0, 5, INFINITY },
        { "the plugin", NULL, "None", NULL, 0, 5, 4, INFINITY },
        { "a plugin without steps", NULL, "auto", NULL, 0, 1, 1, INFINITY },
        { "the plugin before the variable", "5", "0", NULL, 1, 5, 4, INFINITY },
        { "both", NULL, NULL, "only one of gradient_accumulation_steps and gradient_acc", 2, 5, 0, 0 },
        { "a norm to clip to", NULL, "1.5", NULL, 0, 0, 1, 1.5 },
        { "no steps", "0", NULL, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS='0'", 0, 0, 0, 0 },
        { "fewer", "-2", NULL, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS='-2'", 0, 0, 0, 0 },
        { "an empty variable", "", NULL, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS=''", 0, 0, 0, 0 },
        { "words", "two", NULL, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS='two'", 0, 0, 0, 0 },
        { "half a number", "2.5", NULL, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS='2.5'", 0, 0, 0, 0 },
        { "too many", "4294967296", NULL, "1 to 4294967295", 0, 0, 0, 0 },
        { "no norm", NULL, "much", "ACCELERATE_GRADIENT_CLIPPING='much'", 0, 0, 0, 0 },
        { "a negative norm", NULL, "-1", "ACCELERATE_GRADIENT_CLIPPING='-1'", 0, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel *acc;
        struct accel_error err = { 0 };
        struct accel_gradient_accumulation plugin = { .num_steps = cases[i].plugin - 1 };
        struct accel_options options = { .gradient_accumulation_steps = cases[i].argument,
                                         .gradient_accumulation_plugin = cases[i].plugin ? &plugin : NULL };
        unsetenv ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS");
        unsetenv ("ACCELERATE_GRADIENT_CLIPPING");
        if (cases[i].steps_variable)
            setenv ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", cases[i].steps_variable, 1);
        if (cases[i].clipping_variable)
            setenv ("ACCELERATE_GRADIENT_CLIPPING", cases[i].clipping_variable, 1);
        enum accel_status status = accel_open (&acc, &options, &err);
        if (cases[i].error)
            ok (status == ACCEL_ERR_INVALID && !acc && strstr (err.text, cases[i].error), "%s: %s", cases[i].what,
                err.text);
        else
            ok (!status && accel_gradient_accumulation_steps (acc) == cases[i].wanted
                    && accel_gradient_clipping (acc) == cases[i].clipping,
                "%s: %u steps, clipped to %g", cases[i].what, accel_gradient_accumulation_steps (acc),
                accel_gradient_clipping (acc));
        accel_close (acc);
    }
    unsetenv ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS");
    unsetenv ("ACCELERATE_GRADIENT_CLIPPING");
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    (void) err;
    *(float *) user = scale;
    return ACCEL_OK;
}

/* Which models average, by who was named. */
static void
test_models (struct job *job)
{
    struct accel_error err;
    struct accel *acc = job->acc;
    static float weight, gradient;
    DLTensor data = { .data = &weight, .device = { kDLCPU, 0 }, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    DLTensor grad = data;
    grad.data = &gradient;
    struct accel_parameter parameter = { "w", &data, &grad };
    struct accel_model *a = job->model, *b;
    must (accel_model_create (&b, &parameter, 1, &err), &err);
    must (accel_prepare (acc, &err, b), &err);
    must (accel_set_gradient_accumulation_steps (acc, 4, &err), &err);
    ok (accel_sync_gradients (acc) && accumulate_reduces (a), "a job begins as if it did not accumulate");
    must (accel_accumulate (acc, &err), &err);
    ok (!accumulate_reduces (a) && !accumulate_reduces (b), "without a model: all wait");
    must (accel_accumulate (acc, NULL, b), &err);
    ok (accumulate_reduces (a) && !accumulate_reduces (b), "with one: the others do not");
    must (accel_accumulate (acc, &err, b, a), &err);
    ok (!accumulate_reduces (a) && !accumulate_reduces (b), "with both");
    must (accel_trigger_sync_in_backward (acc, a, &err), &err);
    float scale = 0;
    must (accel_backward (acc, a, 0, backward, &scale, &err), &err);
    ok (!a->triggered && scale == 0.25F, "a trigger holds for one pass; the loss is divided by the steps");
    must (accel_accumulate (acc, &err, b, a), &err);
    ok (accumulate_reduces (a) && accumulate_reduces (b) && accel_sync_gradients (acc), "the last pass");
    accel_set_sync_gradients (acc, false);
    ok (accumulate_reduces (a) && accumulate_waits (&job->optimizer->object), "sync_gradients set by hand");
    accel_set_sync_gradients (acc, true);
    must (accel_no_sync (acc, a, &err), &err);
    must (accel_no_sync (acc, a, &err), &err);
    must (accel_no_sync_end (acc, a, &err), &err);
    ok (!accumulate_reduces (a) && accumulate_reduces (b) && accel_sync_gradients (acc), "no_sync, one of two ended");
    must (accel_trigger_sync_in_backward (acc, a, &err), &err);
    ok (accumulate_reduces (a) && !accumulate_reduces (a), "a trigger within no_sync");
    must (accel_no_sync_end (acc, a, &err), &err);
    ok (accumulate_reduces (a) && accel_no_sync_end (acc, a, &err) == ACCEL_ERR_INVALID, "one end too many: %s",
        err.text);
    accel_model_destroy (b);
}

static void
test_bad (struct job *job)
{
    struct accel_error err = { 0 };
    struct accel *acc = job->acc;
    struct accel_model *model = job->model;
    struct accel_local_sgd *local_sgd = (struct accel_local_sgd *) job;
    static const struct object_kind kind = { .name = kind_of_model };
    struct accel_model stranger = { .object = OBJECT_INIT (&kind) };
    uint64_t passes = accumulation_of (acc)->micro_step;
    struct {
        enum accel_status status;
        const char *what;
    } cases[] = {
        { accel_accumulate (NULL, &err), "accumulate: no acc" },
        { accel_accumulate (acc, &err, model, NULL), "accumulate: no model" },
        { accel_accumulate (acc, &err, model, job->optimizer), "accumulate: an optimizer" },
        { accel_accumulate (acc, &err, &stranger), "accumulate: a model that is not prepared" },
        { accel_set_gradient_accumulation_steps (acc, 0, &err), "no steps" },
        { accel_set_gradient_accumulation_steps (NULL, 2, &err), "steps: no acc" },
        { accel_no_sync (NULL, model, &err), "no_sync: no acc" },
        { accel_no_sync (acc, NULL, &err), "no_sync: no model" },
        { accel_no_sync (acc, &stranger, &err), "no_sync: a model that is not prepared" },
        { accel_no_sync_end (acc, &stranger, &err), "no_sync_end: a model that is not prepared" },
        { accel_trigger_sync_in_backward (acc, NULL, &err), "trigger: no model" },
        { accel_trigger_sync_in_backward (acc, &stranger, &err), "trigger: a model that is not prepared" },
        { accel_local_sgd_begin (NULL, acc, model, 2, true, &err), "local SGD: nowhere to put it" },
        { accel_local_sgd_begin (&local_sgd, acc, model, 0, true, &err), "local SGD: no steps" },
        { accel_local_sgd_begin (&local_sgd, acc, &stranger, 2, false, &err), "local SGD: a model not prepared" },
        { accel_local_sgd_begin (&local_sgd, NULL, model, 2, true, &err), "local SGD: no acc" },
        { accel_local_sgd_step (NULL, &err), "local SGD: a step of none" },
        { accel_end_training (NULL, &err), "end_training: no acc" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok (cases[i].status == ACCEL_ERR_INVALID, "%s", cases[i].what);
    ok (!local_sgd && accumulation_of (acc)->micro_step == passes && !model->unsynced && !model->triggered,
        "and nothing has changed");
    ok (accel_local_sgd_end (NULL, &err) == ACCEL_OK, "local SGD that did not begin ends all the same");
    accel_set_sync_gradients (NULL, false);
    ok (accel_sync_gradients (NULL) && accel_gradient_accumulation_steps (NULL) == 1
            && isinf (accel_gradient_clipping (NULL)) && !accel_optimizer_step_was_skipped (NULL),
        "a job that did not open");
}

/* One process: local SGD counts, and that is all. */
static void
test_local_sgd (struct job *job)
{
    struct accel_error err;
    for (int enabled = 0; enabled < 2; enabled++) {
        struct accel_local_sgd *local_sgd;
        job->weight = 7;
        must (accel_local_sgd_begin (&local_sgd, job->acc, job->model, 1, enabled, &err), &err);
        ok (accumulate_reduces (job->model), "local SGD of one process, %s", enabled ? "enabled" : "disabled");
        must (accel_local_sgd_step (local_sgd, &err), &err);
        must (accel_local_sgd_end (local_sgd, &err), &err);
        ok (accumulate_reduces (job->model) && job->weight == 7, "and its end");
    }
}

static void
test_no_memory (struct job *job)
{
    struct accel_error err = { 0 };
    struct accel_local_sgd *local_sgd = (struct accel_local_sgd *) job;
    calls_left = 0;
    enum accel_status status = accel_local_sgd_begin (&local_sgd, job->acc, job->model, 2, true, &err);
    bool reached = calls_left < 0;
    calls_left = -1;
    ok (reached && status == ACCEL_ERR_NOMEM && !local_sgd && accumulate_reduces (job->model), "no memory: %s",
        err.text);
    calls_left = 0;
    status = accel_accumulate (job->acc, &err, job->model);
    ok (!status && !calls_left, "accel_accumulate needs none");
    calls_left = -1;
}

static void
test_end_training (struct job *job)
{
    struct accel_error err;
    const struct accel_batch *batch;
    if (!accel_loader_next (job->loader, &batch, &err))
        must (ACCEL_ERR_INVALID, &err);
    must (accel_join_uneven_inputs (job->acc, ACCEL_DEFAULT, &err), &err);
    ok (accel_end_training (job->acc, &err) == ACCEL_ERR_INVALID, "the end within join: %s", err.text);
    must (accel_join_end (job->acc, &err), &err);
    must (accel_end_training (job->acc, &err), &err);
    ok (!loader_active (job->acc), "the end stops loaders");
}

/* An optimizer and a scheduler that are not prepared know nothing of accumulation. */
static void
test_unprepared (struct job *job)
{
    struct accel_error err;
    struct accel_optimizer *optimizer;
    must (accel_set_gradient_accumulation_steps (job->acc, 100, &err), &err);
    must (accel_accumulate (job->acc, &err), &err);
    must (accel_optimizer_create (&optimizer, job->model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 },
                                  &err), &err);
    must (accel_optimizer_step (optimizer, &err), &err);
    must (accel_optimizer_step (job->optimizer, &err), &err);
    ok (accel_optimizer_step_count (optimizer) == 1 && accel_optimizer_step_count (job->optimizer) == 0,
        "only what is prepared waits");
    accel_optimizer_destroy (optimizer);
}

int
main (void)
{
    struct golden golden;
    struct job job = { .numbers = { .processes = 1, .samples = 4, .batch = 1, .steps = 1 } };
    golden_find (&golden, "accumulate.txt");
    while (golden_next (&golden))
        test_block (&golden);
    test_open ();
    set_up (&job);
    test_models (&job);
    test_bad (&job);
    test_local_sgd (&job);
    test_no_memory (&job);
    test_end_training (&job);
    test_unprepared (&job);
    tear_down (&job);
    return done_testing ();
}
