/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of resume_grid.sh: every kind of loader and schedule is trained over, without interruption ("whole"), and up
 * to some step, where the state is saved ("save"); "resume" continues each state with every number of passes and batch
 * size on this number of ranks, and compares the rest with a run that was never interrupted.
 *
 * Gradients are multiples of 2^-10 and few enough that all their sums are exact: the same steps have the same bits, on
 * any number of ranks and in any number of passes. */
#include <config.h>

#include "tests/conformance/check.h"
#include "tests/samples.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WEIGHTS = 3, SAMPLES = 96, EPOCHS = 2, TOTAL = 16, MOST_STEPS = 2 * EPOCHS * SAMPLES / TOTAL + 1, MOST_RANKS = 4
};

/* ---- what is varied ---- */

/* `batch` for each of `ranks`, that often per step. */
struct geometry {
    int ranks, batch, passes;
};

static const struct geometry geometries[] = {
    { 1, 16, 1 }, { 1, 4, 4 }, { 2, 4, 2 }, { 2, 8, 1 }, { 4, 2, 2 }, /* and others, of which long runs have all: */
    { 1, 8, 2 }, { 2, 2, 4 }, { 4, 4, 1 }, { 4, 1, 4 }, { 1, 8, 1 }, { 2, 2, 2 },
};

enum { GEOMETRIES = sizeof geometries / sizeof *geometries, FEW_GEOMETRIES = 5 };

/* DRAWN: the order is drawn from generators of the ranks, so that a run on another number of ranks has another order
 * from the beginning; one that is continued keeps its own. */
enum { DRAWN = 1, GENERATOR = 2, WEIGHTED = 4, STREAM = 8, SPLIT = 16, BATCHES = 32, LLMC = 64 };

static const struct kind {
    const char *name;
    int flags;
    struct accel_loader_options options;
} kinds[] = {
    { "sequential", 0, { .batch_size = 0 } },
    { "seedable", 0, { .shuffle = true, .seed = 7, .workers = 2 } },
    { "generator", GENERATOR, { .random_sampler = true } },
    { "random", DRAWN, { .random_sampler = true } },
    { "weighted", DRAWN | WEIGHTED, { .batch_size = 0 } },
    { "split", SPLIT, { .shuffle = true, .split_batches = true } },
    { "batches", BATCHES, { .batch_size = 0 } },
    { "random, synchronized", DRAWN, { .random_sampler = true, .synchronize_rng = true } },
    { "dispatched", 0, { .shuffle = true, .dispatch_batches = ACCEL_YES } },
    { "dispatched generator", GENERATOR, { .random_sampler = true, .dispatch_batches = ACCEL_YES } },
    { "dispatched random", DRAWN, { .random_sampler = true, .dispatch_batches = ACCEL_YES } },
    { "dispatched random, synchronized", DRAWN,
      { .random_sampler = true, .synchronize_rng = true, .dispatch_batches = ACCEL_YES } },
    { "stream", STREAM, { .dispatch_batches = ACCEL_NO } },
    { "dispatched stream", STREAM, { .workers = 1 } },
    { "llm.c", LLMC, { .batch_size = 0 } },
    { "dispatched llm.c", LLMC, { .dispatch_batches = ACCEL_YES } },
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static double
falling (void *user, uint64_t step)
{
    return 1 / (1 + (double) step / *(const double *) user);
}

/* In steps of the optimizer; those without split_batches are stretched by the number of ranks, as programs do whose
 * scheduler makes that many steps for each. */
static const struct plan {
    const char *name;
    struct accel_scheduler_options options;
    bool chained;
} plans[] = {
    { "linear", { .schedule = ACCEL_SCHEDULE_LINEAR, .warmup_steps = 2, .total_steps = 12 }, false },
    { "cosine", { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 12, .split_batches = true }, false },
    { "step", { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 3, .gamma = 0.5 }, false },
    { "one-cycle",
      { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 30, .max_lr = 0.25, .split_batches = true }, false },
    { "polynomial",
      { .schedule = ACCEL_SCHEDULE_POLYNOMIAL, .total_steps = 12, .power = 2, .split_batches = true }, false },
    { "lambda", { .schedule = ACCEL_SCHEDULE_LAMBDA, .lambda = falling }, false },
    { "warm-up, then cosine", { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 12 }, true },
};

enum { PLANS = sizeof plans / sizeof *plans };

/* Where the state is saved: after so many steps of TOTAL samples, after as many and one more pass, between epochs. */
enum when { AT_STEP, IN_STEP, BETWEEN };

static const struct point {
    const char *name;
    size_t step;
    enum when when;
} points[] = {
    { "step 2", 2, AT_STEP }, { "the end of an epoch", 6, BETWEEN }, { "a pass after step 8", 8, IN_STEP },
    { "the last step of an epoch", 6, AT_STEP }, { "step 8", 8, AT_STEP },
};

enum { POINTS = sizeof points / sizeof *points };

/* One run.  `stretch`: the schedule is that many times as long. */
struct cell {
    struct geometry geometry;
    size_t kind, plan, point;
    int stretch;
};

static int
total_of (const struct geometry *geometry)
{
    return geometry->ranks * geometry->batch * geometry->passes;
}

/* ---- a run ---- */

struct step {
    uint64_t epoch;
    double lr;
    uint64_t weights;      /* hash */
    float drawn[MOST_RANKS]; /* a random number of each rank */
    int64_t samples[TOTAL];
    size_t count;
};

/* The steps of @p cell before its state is saved. */
static size_t
steps_before (const struct cell *cell)
{
    return points[cell->point].step * TOTAL / (size_t) total_of (&cell->geometry);
}

struct trace {
    size_t count;
    struct step steps[MOST_STEPS];
};

struct run {
    struct cell cell;
    float values[WEIGHTS];
    DLTensor data, grad;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_generator *generator;
    struct accel_sampler *sampler;
    struct accel_dataset dataset;
    struct accel_dataset stream;
    struct accel_batch_sampler batches;
    int64_t next; /* of the stream, or the batch sampler */
    struct accel_loader *loader;
    const struct accel_batch *batch;
    double scale; /* of the lambda */
};

static const struct accel_field field = { .name = "x", .dtype = ACCEL_INT64 };

static enum accel_status
start (void *user, uint64_t epoch, struct accel_error *err)
{
    struct run *run = user;
    (void) epoch, (void) err;
    run->next = 0;
    return ACCEL_OK;
}

static enum accel_status
next_number (void *user, void *const *into, bool *end, struct accel_error *err)
{
    struct run *run = user;
    (void) err;
    *end = run->next == SAMPLES;
    if (!*end)
        *(int64_t *) into[0] = run->next++;
    return ACCEL_OK;
}

static enum accel_status
next_batch (void *user, int64_t *indices, size_t *count, struct accel_error *err)
{
    struct run *run = user;
    (void) err;
    *count = (size_t) run->cell.geometry.batch;
    for (size_t i = 0; i < *count; i++)
        indices[i] = SAMPLES - 1 - run->next++;
    return ACCEL_OK;
}

/* llm.c's order, shuffled, of two files with as many samples as the data set. */
static enum accel_status
make_llmc_sampler (struct accel_sampler **sampler, struct accel_error *err)
{
    static const uint16_t tokens[SAMPLES / 2];
    const struct accel_tokens_options options = { .sequence_length = 1 };
    const char *paths[] = { "one.bin", "two.bin" };
    struct accel_dataset *files;
    for (size_t i = 0; !rank && i < 2; i++) {
        FILE *file = fopen (paths[i], "w");
        bool good = file && fwrite (tokens, sizeof tokens, 1, file) == 1;
        check (file && !fclose (file) && good, "%s: cannot be written", paths[i]);
    }
    enum accel_status status = accel_wait_for_everyone (acc, err);
    if (!status)
        status = accel_dataset_open_tokens (&files, paths, 2, &options, err);
    if (status)
        return status;
    status = accel_sampler_create_llmc (sampler, files, &(struct accel_sampler_options){ .shuffle = ACCEL_YES }, err);
    accel_dataset_close (files);
    return status;
}

static bool
make_loader (struct run *run)
{
    const struct kind *kind = &kinds[run->cell.kind];
    const struct geometry *geometry = &run->cell.geometry;
    struct accel_loader_options options = kind->options;
    struct accel_error err;
    double weights[SAMPLES];
    enum accel_status status = ACCEL_OK;
    options.batch_size = (size_t) (kind->flags & SPLIT ? geometry->batch * geometry->ranks : geometry->batch);
    for (int i = 0; i < SAMPLES; i++)
        weights[i] = 1 + i % 3;
    run->dataset = (struct accel_dataset){ SAMPLES, &field, 1, sample_is_index, NULL, NULL };
    run->stream = (struct accel_dataset){ .fields = &field, .field_count = 1,
                                          .start = start, .next = next_number, .user = run };
    run->batches = (struct accel_batch_sampler){ .length = (size_t) (SAMPLES / geometry->batch), .start = start,
                                                 .batch_size = options.batch_size, .next = next_batch, .user = run };
    if (kind->flags & GENERATOR)
        status = accel_generator_create (&run->generator, 11 + (uint64_t) rank, &err);
    if (!status && kind->flags & WEIGHTED)
        status = accel_sampler_create (
            &run->sampler, ACCEL_SAMPLER_WEIGHTED, SAMPLES,
            &(struct accel_sampler_options){ .weights = weights, .replacement = true }, &err);
    if (!status && kind->flags & LLMC)
        status = make_llmc_sampler (&run->sampler, &err);
    options.generator = run->generator;
    options.sampler = run->sampler;
    if (kind->flags & BATCHES) {
        options.batch_sampler = &run->batches;
        options.batch_size = 0;
    }
    if (!status)
        status = accel_loader_create (&run->loader, kind->flags & STREAM ? &run->stream : &run->dataset, &options,
                                      &err);
    return check (!status, "%s: %s", kind->name, err.text);
}

static bool
make_scheduler (struct run *run)
{
    const struct plan *plan = &plans[run->cell.plan];
    struct accel_scheduler_options options = plan->options;
    struct accel_error err;
    uint64_t unit = options.split_batches || kinds[run->cell.kind].flags & SPLIT ? 1 : (uint64_t) size;
    options.warmup_steps *= unit;
    options.total_steps *= unit * (uint64_t) run->cell.stretch;
    options.step_size *= unit;
    run->scale = 3 * (double) unit;
    options.user = &run->scale;
    const struct accel_scheduler_options parts[]
        = { { .schedule = ACCEL_SCHEDULE_CONSTANT, .warmup_steps = 4 * unit }, options };
    const uint64_t milestone = 4 * unit;
    struct accel_scheduler **made = &run->scheduler;
    enum accel_status status
        = plan->chained ? accel_scheduler_create_sequential (made, run->optimizer, parts, 2, &milestone, &err)
                        : accel_scheduler_create (made, run->optimizer, &options, &err);
    return check (!status, "%s: %s", plan->name, err.text);
}

static bool
make_run (struct run *run, const struct cell *cell)
{
    static int64_t shape[] = { WEIGHTS };
    struct accel_error err;
    struct accel_parameter parameter = { "w", &run->data, &run->grad };
    struct accel_optimizer_options sgd = { .lr = 0.25, .momentum = 0.5 };
    *run = (struct run){ .cell = *cell };
    run->data = (DLTensor){ .data = run->values, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                            .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    run->grad = run->data;
    run->grad.data = NULL;
    check (!accel_set_seed (acc, 5, false, &err), "%s", err.text);
    return check (!accel_set_gradient_accumulation_steps (acc, (uint32_t) cell->geometry.passes, &err), "%s", err.text)
           && check (!accel_model_create (&run->model, &parameter, 1, &err), "%s", err.text)
           && check (!accel_optimizer_create (&run->optimizer, run->model, ACCEL_SGD, &sgd, &err), "%s", err.text)
           && make_scheduler (run) && make_loader (run)
           && check (!accel_prepare (acc, &err, run->model, run->optimizer, run->scheduler, run->loader), "%s",
                     err.text);
}

static void
end_run (struct run *run)
{
    struct accel_error err;
    check (!accel_free_memory (acc, &err), "%s", err.text);
    accel_loader_destroy (run->loader);
    accel_sampler_destroy (run->sampler);
    accel_generator_destroy (run->generator);
    accel_scheduler_destroy (run->scheduler);
    accel_optimizer_destroy (run->optimizer);
    accel_model_destroy (run->model);
}

/* Squared errors of a linear model.  The gradient of each sample is rounded, and less than 8. */
static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct run *run = user;
    const int64_t *samples = accel_batch_tensor (run->batch, "x")->data;
    size_t count = accel_batch_size (run->batch);
    (void) err;
    for (size_t s = 0; s < count; s++) {
        double x[WEIGHTS], error = -(double) (samples[s] % 5) / 4;
        for (int i = 0; i < WEIGHTS; i++) {
            x[i] = (double) ((samples[s] * 7 + i * 5) % 11) / 8 - 0.5;
            error += (double) run->values[i] * x[i];
        }
        for (int i = 0; i < WEIGHTS; i++) {
            double gradient = fmax (-7, fmin (7, floor (error * x[i] * 1024) / 1024));
            ((float *) run->grad.data)[i] += (float) (gradient * (double) scale / (double) count);
        }
    }
    return ACCEL_OK;
}

static void
note_step (struct run *run, struct step *step)
{
    struct accel_error err;
    float drawn = accel_generator_uniform (accel_default_generator ());
    step->epoch = accel_loader_epoch (run->loader);
    step->weights = UINT64_C (0xcbf29ce484222325);
    for (int i = 0; i < WEIGHTS; i++) {
        uint32_t word;
        memcpy (&word, &run->values[i], sizeof word);
        step->weights = (step->weights ^ word) * UINT64_C (0x100000001b3);
    }
    check (!accel_comm_all_gather (accel_world (acc), &drawn, step->drawn, 1, ACCEL_FLOAT32, &err), "%s", err.text);
}

/* One pass.  @return whether it ended a step, which is then in @p step */
static bool
pass (struct run *run, struct step *step)
{
    struct accel_error err;
    struct accel_tensor all = { 0 };
    check (!accel_accumulate (acc, &err), "%s", err.text);
    check (!accel_gather_for_metrics (&all, acc, accel_batch_tensor (run->batch, "x"), &err), "%s", err.text);
    for (int64_t i = 0; all.dl.data && i < all.shape[0] && step->count < TOTAL; i++)
        step->samples[step->count++] = ((int64_t *) all.dl.data)[i];
    accel_tensor_release (&all);
    step->lr = accel_optimizer_lr (run->optimizer);
    check (!accel_backward (acc, run->model, 0, backward, run, &err), "%s", err.text);
    check (!accel_optimizer_step (run->optimizer, &err), "%s", err.text);
    check (!accel_scheduler_step (run->scheduler, &err), "%s", err.text);
    check (!accel_optimizer_zero_grad (run->optimizer, &err), "%s", err.text);
    if (accel_sync_gradients (acc))
        note_step (run, step);
    return accel_sync_gradients (acc);
}

/* From where the run is to its end, or to @p point, which may be NULL.  @return whether it is there */
static bool
train (struct run *run, struct trace *trace, const struct point *point)
{
    struct accel_error err;
    size_t wanted = point ? steps_before (&run->cell) : 0;
    memset (trace, 0, sizeof *trace);
    while (accel_loader_epoch (run->loader) < EPOCHS) {
        while (accel_loader_next (run->loader, &run->batch, &err)) {
            bool ended = pass (run, &trace->steps[trace->count]);
            if (point && trace->count == wanted - ended && point->when == (ended ? AT_STEP : IN_STEP))
                return true;
            trace->count += ended && trace->count < MOST_STEPS - 1;
        }
        if (!check (!err.code, "next: %s", err.text))
            return false;
        if (point && trace->count == wanted && point->when == BETWEEN)
            return true;
    }
    return false;
}

/* ---- stages ---- */

static void
name_file (char *path, size_t room, const char *folder, const char *what, const struct cell *cell)
{
    snprintf (path, room, "%s/%s.%d.%d.%d.%zu.%zu.%zu.%d", folder, what, cell->geometry.ranks, cell->geometry.batch,
              cell->geometry.passes, cell->kind, cell->plan, cell->point, cell->stretch);
}

static void
keep_trace (const char *folder, const struct cell *cell, struct trace *trace, bool writes)
{
    char path[4096];
    name_file (path, sizeof path, folder, "whole", cell);
    FILE *file = fopen (path, writes ? "w" : "r");
    size_t done = 0;
    if (file) {
        done = writes ? fwrite (trace, sizeof *trace, 1, file) : fread (trace, sizeof *trace, 1, file);
        done -= fclose (file) != 0;
    }
    check (done == 1, "%s: cannot be %s", path, writes ? "written" : "read");
}

static void
run_whole (const char *folder, const struct cell *cell)
{
    static struct run run;
    static struct trace trace;
    if (make_run (&run, cell)) {
        train (&run, &trace, NULL);
        if (!rank)
            keep_trace (folder, cell, &trace, true);
    }
    end_run (&run);
}

static void
run_save (const char *folder, const struct cell *cell)
{
    static struct run run;
    static struct trace trace;
    struct accel_error err;
    char path[4096];
    name_file (path, sizeof path, folder, "state", cell);
    if (make_run (&run, cell)
        && check (train (&run, &trace, &points[cell->point]), "%s: there is no %s", path, points[cell->point].name))
        check (!accel_save_state (acc, path, &err), "%s", err.text);
    end_run (&run);
}

/* ---- comparing ---- */

static int cells, failed, refused;

/* Say once for each cell what is wrong. */
static bool
complain (const struct cell *saved, const struct cell *cell, const char *what)
{
    failed++;
    wrong++;
    if (!rank)
        printf ("# %s, %s%s: %d x %d x %d, at %s, then %d x %d x %d: %s\n", kinds[cell->kind].name,
                plans[cell->plan].name, cell->stretch > 1 ? ", longer" : "", saved->geometry.ranks,
                saved->geometry.batch, saved->geometry.passes, points[saved->point].name, cell->geometry.ranks,
                cell->geometry.batch, cell->geometry.passes, what);
    return false;
}

/* The samples of the first @p steps of @p got are those of @p wanted after the first @p skip. */
static bool
same_order (const struct trace *got, size_t steps, const struct trace *wanted, size_t skip)
{
    size_t step = 0, at = 0;
    for (size_t s = 0; s < steps; s++)
        for (size_t i = 0; i < got->steps[s].count; i++) {
            while (step < wanted->count && (skip || at == wanted->steps[step].count)) {
                size_t part = wanted->steps[step].count - at;
                part = part < skip ? part : skip;
                skip -= part;
                at += part;
                if (at < wanted->steps[step].count)
                    break;
                at = 0;
                step++;
            }
            if (step == wanted->count || got->steps[s].samples[i] != wanted->steps[step].samples[at++])
                return false;
        }
    return true;
}

/* Other ranks, or batches, are another order of llm.c's. */
static bool
has_other_order (const struct cell *saved, const struct cell *cell)
{
    const struct geometry *from = &saved->geometry, *to = &cell->geometry;
    return kinds[cell->kind].flags & LLMC && (from->ranks != to->ranks || from->batch != to->batch);
}

/* What the rest has to be, for a total batch of the same size: as the run with these settings that was never
 * interrupted; and where such a run has another order from its beginning, as the one that was saved. */
static const char *
compare (const struct cell *saved, const struct cell *cell, const struct trace *got, const struct trace *mine,
         const struct trace *before)
{
    const struct geometry *from = &saved->geometry, *to = &cell->geometry;
    bool drawn = kinds[cell->kind].flags & DRAWN && from->ranks != to->ranks, longer = saved->stretch != cell->stretch;
    size_t done = steps_before (saved);
    if (total_of (from) != total_of (to)) {
        size_t same = 0; /* later epochs are seeded from the generator that the program draws from in each step */
        while (same < got->count && (!(kinds[cell->kind].flags & DRAWN) || got->steps[same].epoch == got->steps->epoch))
            same++;
        return same_order (got, same, has_other_order (saved, cell) ? mine : before, done * (size_t) total_of (from))
                   ? NULL : "other samples";
    }
    if (got->count + done != mine->count)
        return "another number of steps";
    if (points[saved->point].when == IN_STEP) /* the first one has samples from before the state */
        return memcmp (&got->steps[got->count - 1].weights, &(drawn ? before : mine)->steps[mine->count - 1].weights,
                       sizeof got->steps->weights)
                   ? "other weights" : NULL;
    for (size_t i = 0; i < got->count; i++) {
        const struct step *step = &got->steps[i], *wanted = &(drawn ? before : mine)->steps[i + done];
        if (step->epoch != wanted->epoch || step->count != wanted->count
            || memcmp (step->samples, wanted->samples, step->count * sizeof *step->samples))
            return "other samples";
        if (step->lr - mine->steps[i + done].lr != 0)
            return "another learning rate";
        if (!longer && !has_other_order (saved, cell) && step->weights != wanted->weights)
            return "other weights";
        for (int r = 0; r < (from->ranks == to->ranks ? to->ranks : 1); r++)
            if (step->drawn[r] - wanted->drawn[r] != 0)
                return "other random numbers";
    }
    return NULL;
}

/* A state in the middle of a step continues only in passes of the same size, and a position in one order only there. */
static bool
has_to_fail (const struct cell *saved, const struct cell *cell)
{
    const struct geometry *from = &saved->geometry, *to = &cell->geometry;
    if (has_other_order (saved, cell) && points[saved->point].when != BETWEEN)
        return true;
    return points[saved->point].when == IN_STEP
           && (from->passes != to->passes || total_of (from) != total_of (to));
}

static void
run_resume (const char *folder, const struct cell *saved, const struct cell *cell)
{
    static struct run run;
    static struct trace got, mine, before;
    struct accel_error err;
    char path[4096];
    name_file (path, sizeof path, folder, "state", saved);
    cells++;
    if (make_run (&run, cell)) {
        enum accel_status status = accel_load_state (acc, path, &err);
        struct cell whole = *cell, old = *saved;
        whole.point = old.point = 0;
        keep_trace (folder, &whole, &mine, false);
        keep_trace (folder, &old, &before, false);
        refused += has_to_fail (saved, cell) && status;
        if (has_to_fail (saved, cell) != (status != ACCEL_OK))
            complain (saved, cell, status ? err.text : "not refused");
        if (!status && !has_to_fail (saved, cell)) {
            train (&run, &got, NULL);
            const char *what = compare (saved, cell, &got, &mine, &before);
            if (what)
                complain (saved, cell, what);
        }
    }
    end_run (&run);
}

/* ---- all cells ---- */

/* Each kind has one schedule in short runs, and two in long ones. */
static bool
is_chosen (const struct cell *cell, bool all)
{
    return cell->plan == cell->kind % PLANS || (all && cell->plan == (cell->kind + 3) % PLANS);
}

/* The end of @p cell: each of the settings that this number of ranks can have. */
static void
resume_all (const char *folder, const struct cell *saved, bool all)
{
    for (size_t to = 0; to < (all ? GEOMETRIES : FEW_GEOMETRIES); to++) {
        struct cell cell = *saved;
        cell.geometry = geometries[to];
        if (cell.geometry.ranks != size)
            continue;
        run_resume (folder, saved, &cell);
        cell.stretch = 2;
        if (points[saved->point].when == AT_STEP && plans[saved->plan].options.total_steps)
            run_resume (folder, saved, &cell);
    }
}

static void
run_cell (const char *stage, const char *folder, struct cell *cell, bool all)
{
    bool mine = cell->geometry.ranks == size, whole = !strcmp (stage, "whole");
    for (int stretch = 1; mine && whole && stretch <= 2; stretch++) {
        cell->stretch = stretch;
        cell->point = 0;
        run_whole (folder, cell);
    }
    cell->stretch = 1;
    for (cell->point = 0; !whole && cell->point < (all ? POINTS : POINTS - 2); cell->point++) {
        if (points[cell->point].when == IN_STEP && cell->geometry.passes == 1)
            continue;
        if (mine && !strcmp (stage, "save"))
            run_save (folder, cell);
        else if (!strcmp (stage, "resume"))
            resume_all (folder, cell, all);
    }
}

int
main (int argc, char **argv)
{
    struct accel_error err;
    if (argc < 3)
        return 2;
    bool all = argc > 3 && !strcmp (argv[3], "all");
    accel_check (accel_open (&acc, &(struct accel_options){ .cpu = true }, &err), &err);
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t plan = 0; plan < PLANS; plan++)
            for (size_t from = 0; from < (all ? GEOMETRIES : FEW_GEOMETRIES); from++) {
                struct cell cell = { .geometry = geometries[from], .kind = kind, .plan = plan };
                if (is_chosen (&cell, all))
                    run_cell (argv[1], argv[2], &cell, all);
            }
    if (!rank && !strcmp (argv[1], "resume"))
        printf ("%d cells, %d wrong, %d refused\n", cells, failed, refused);
    fflush (stdout);
    accel_check (accel_wait_for_everyone (acc, &err), &err); /* a rank that fails ends the others */
    accel_close (acc);
    return wrong != 0;
}
