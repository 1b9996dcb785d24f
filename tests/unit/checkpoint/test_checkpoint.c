/* SPDX-License-Identifier: Apache-2.0 */
/* Whole-state checkpoints: saved and loaded training continues with the same bits, on any number of processes. */
#include <config.h>

#include "tests/ranks.h"
#include "tests/samples.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <math.h>
#include <stdarg.h>
#include <sys/stat.h>

enum { SAMPLES = 60, BATCH = 12, WIDTH = 7, STEPS = 14, TRACE = 4096 };

/* What is trained: WIDTH weights in the precision of the job, and one buffer. */
struct world {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_loader *loader;
    int64_t shape[1], buffer_shape[1];
    DLTensor weight, grad, buffer;
    float counts[2];
    int32_t seen; /* a registered object */
    char trace[TRACE]; /* samples of each step over all ranks, and the loss */
};

static const char *folder;

static enum accel_status
save_seen (void *user, struct accel_state_dict *state, struct accel_error *err)
{
    const struct world *world = user;
    (void) err;
    accel_state_dict_set_int64 (state, "seen", world->seen);
    accel_state_dict_set_text (state, "text", "a \"text\"\n\xc3\xa4");
    accel_state_dict_set_double (state, "nan", (double) NAN);
    accel_state_dict_set_double (state, "zero", -0.0);
    accel_state_dict_set_bytes (state, "bytes", world->counts, sizeof world->counts);
    accel_state_dict_set_int64 (state, "below", INT64_MIN);
    accel_state_dict_set_tensor (state, "tensor", &world->buffer);
    return ACCEL_OK;
}

static enum accel_status
load_seen (void *user, const struct accel_state_dict *state, struct accel_error *err)
{
    struct world *world = user;
    int64_t seen;
    double nan = 0, zero = 1;
    const char *text = "";
    float counts[2] = { -1, -1 };
    enum accel_status status = accel_state_dict_get_int64 (state, "seen", &seen, err);
    world->seen = status ? 0 : (int32_t) seen;
    right (!accel_state_dict_get_text (state, "text", &text, NULL) && !strcmp (text, "a \"text\"\n\xc3\xa4"), "text");
    right (!accel_state_dict_get_double (state, "nan", &nan, NULL) && isnan (nan), "nan");
    right (!accel_state_dict_get_double (state, "zero", &zero, NULL) && signbit (zero), "zero");
    int64_t below = 0;
    float wrong[3];
    DLTensor into = world->buffer;
    into.data = counts;
    right (!accel_state_dict_get_int64 (state, "below", &below, NULL) && below == INT64_MIN, "int64");
    right (accel_state_dict_tensor_count (state, "tensor") == 2, "count of a tensor");
    right (!accel_state_dict_tensor_count (state, "no"), "count of no tensor");
    right (!accel_state_dict_get_tensor (state, "tensor", &into, NULL) && counts[0] >= 0, "tensor");
    into.data = wrong;
    into.shape = (int64_t[]){ 3 };
    right (accel_state_dict_get_tensor (state, "tensor", &into, NULL) == ACCEL_ERR_FORMAT, "a tensor of another shape");
    right (!accel_state_dict_get_bytes (state, "bytes", counts, sizeof counts, NULL), "bytes");
    right (accel_state_dict_get_int64 (state, "text", &seen, NULL) == ACCEL_ERR_FORMAT, "kind");
    right (!accel_state_dict_has (state, "none") && accel_state_dict_has (state, "bytes"), "has");
    return status;
}

static void
make_world (struct world *world, struct accel *acc, const char *dtype)
{
    static const struct accel_field fields[] = { { .name = "number", .dtype = ACCEL_INT64 } };
    static const struct accel_dataset numbers = { .size = SAMPLES, .fields = fields, .field_count = 1,
                                                  .read = sample_is_index };
    struct accel_error err = { 0 };
    enum accel_dtype type = strcmp (dtype, "no") ? ACCEL_BFLOAT16 : ACCEL_FLOAT32;
    *world = (struct world){ .acc = acc, .shape = { WIDTH }, .buffer_shape = { 2 } };
    world->weight = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .dtype = accel_dtype_to_dl (type),
                                .shape = world->shape };
    world->grad = world->weight;
    world->buffer = (DLTensor){ .data = world->counts, .device = { kDLCPU, 0 }, .ndim = 1,
                                .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = world->buffer_shape };
    const struct accel_parameter parameters[]
        = { { "layer.weight", &world->weight, &world->grad }, { "counts", &world->buffer, NULL } };
    rank_must (accel_model_create (&world->model, parameters, 2, &err), &err);
    const struct accel_optimizer_options adamw = { .lr = 0.01, .weight_decay = 0.1 };
    rank_must (accel_optimizer_create (&world->optimizer, world->model, ACCEL_ADAMW, &adamw, &err), &err);
    const struct accel_scheduler_options cosine
        = { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 30, .warmup_steps = 3, .split_batches = true };
    rank_must (accel_scheduler_create (&world->scheduler, world->optimizer, &cosine, &err), &err);
    const struct accel_loader_options options
        = { .batch_size = BATCH, .split_batches = true, .shuffle = true, .seed = 5 };
    rank_must (accel_loader_create (&world->loader, &numbers, &options, &err), &err);
    rank_must (accel_set_seed (acc, 3, true, &err), &err);
    rank_must (accel_prepare (acc, &err, world->model, world->optimizer, world->scheduler, world->loader), &err);
    const struct accel_checkpoint_object object = { .save = save_seen, .load = load_seen, .user = world };
    rank_must (accel_register_for_checkpointing (acc, &object, &err), &err);
    float *master = accel_model_master (world->model, 0)->data;
    for (int i = 0; i < WIDTH; i++)
        master[i] = (float) i / 3;
    accel_model_narrow (world->model);
}

static void
end_world (struct world *world)
{
    accel_loader_destroy (world->loader);
    accel_scheduler_destroy (world->scheduler);
    accel_optimizer_destroy (world->optimizer);
    accel_model_destroy (world->model);
}

/* The gradient of sample i by weight j is exact in every type and order of adding up. */
struct pass {
    struct world *world;
    const DLTensor *batch;
};

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    const struct pass *pass = user;
    (void) err;
    const int64_t *numbers = pass->batch->data;
    size_t count = (size_t) pass->batch->shape[0];
    float sums[WIDTH] = { 0 };
    for (size_t s = 0; s < count; s++)
        for (int j = 0; j < WIDTH; j++)
            sums[j] += (float) ((numbers[s] * (j + 1)) % 8 - 3);
    for (int j = 0; j < WIDTH; j++) {
        sums[j] *= scale * (float) accel_num_processes (pass->world->acc) / 16;
        if (accel_convert (&sums[j], ACCEL_FLOAT32,
                           (char *) pass->world->grad.data
                               + (size_t) j * accel_dtype_bytes (accel_dtype_from_dl (pass->world->grad.dtype)),
                           accel_dtype_from_dl (pass->world->grad.dtype), 1, err))
            return ACCEL_ERR_CALLBACK;
    }
    return ACCEL_OK;
}

static void
note (struct world *world, const struct accel_batch *batch)
{
    struct accel_tensor all = { 0 };
    struct accel_error err = { 0 };
    rank_must (accel_gather_for_metrics (&all, world->acc, accel_batch_tensor (batch, "number"), &err), &err);
    size_t used = strlen (world->trace);
    for (size_t i = 0; i < accel_tensor_count (&all.dl); i++)
        used += (size_t) snprintf (world->trace + used, TRACE - used, "%lld ",
                                   (long long) ((const int64_t *) all.dl.data)[i]);
    snprintf (world->trace + used, TRACE - used, "\n");
    accel_tensor_release (&all);
}

/* Take steps until @to of them have been taken; @from were before this process began. */
static void
train (struct world *world, int from, int to)
{
    const struct accel_batch *batch;
    struct accel_error err = { 0 };
    for (int step = from; step < to; step++) {
        if (!accel_loader_next (world->loader, &batch, &err)) {
            rank_must (err.code, &err);
            step--;
            continue;
        }
        note (world, batch);
        struct pass pass = { world, accel_batch_tensor (batch, "number") };
        rank_must (accel_backward (world->acc, world->model, 0, backward, &pass, &err), &err);
        rank_must (accel_optimizer_step (world->optimizer, &err), &err);
        rank_must (accel_scheduler_step (world->scheduler, &err), &err);
        rank_must (accel_optimizer_zero_grad (world->optimizer, &err), &err);
        world->counts[0] += 1;
        world->seen++;
    }
}

/* Everything that must be the same at the end, in a file that rank 0 writes. */
static void
write_end (struct world *world, const char *name)
{
    char path[512];
    if (accel_process_index (world->acc))
        return;
    snprintf (path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen (path, "w");
    if (!right (out != NULL, "cannot write %s", path))
        return;
    fputs (world->trace, out);
    const unsigned char *bytes = world->weight.data;
    size_t size = WIDTH * accel_dtype_bytes (accel_dtype_from_dl (world->weight.dtype));
    for (size_t i = 0; i < size; i++)
        fprintf (out, "%02x", bytes[i]);
    const unsigned char *master = accel_model_master (world->model, 0)->data;
    for (size_t i = 0; i < WIDTH * sizeof (float); i++)
        fprintf (out, "%02x", master[i]);
    fprintf (out, "\n%a %a %llu %d %llu\n", accel_optimizer_lr (world->optimizer), (double) world->counts[0],
             (unsigned long long) accel_optimizer_step_count (world->optimizer), (int) world->seen,
             (unsigned long long) accel_loader_epoch (world->loader));
    fprintf (out, "%a\n", (double) accel_generator_uniform (accel_default_generator ()));
    fclose (out);
}

static const char *precision;
static int saved; /* steps before the save */

/* The trace of the steps after the save, so that the first part is compared too. */
static void
run_through (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, precision);
    train (&world, 0, STEPS);
    write_end (&world, "whole");
    end_world (&world);
}

/* The state, and the trace up to it, which rank 0 writes. */
static void
save (struct world *world)
{
    char path[512];
    struct accel_error err = { 0 };
    snprintf (path, sizeof path, "%s/state", folder);
    rank_must (accel_save_state (world->acc, path, &err), &err);
    if (accel_process_index (world->acc))
        return;
    snprintf (path, sizeof path, "%s/trace", folder);
    FILE *out = fopen (path, "w");
    fputs (world->trace, out);
    fclose (out);
}

static void
load (struct world *world)
{
    char path[512];
    struct accel_error err = { 0 };
    snprintf (path, sizeof path, "%s/trace", folder);
    FILE *in = fopen (path, "r");
    right (in && fread (world->trace, 1, TRACE - 1, in), "no trace");
    fclose (in);
    snprintf (path, sizeof path, "%s/state", folder);
    rank_must (accel_load_state (world->acc, path, &err), &err);
}

static void
run_and_save (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, precision);
    train (&world, 0, saved);
    save (&world);
    right (accel_checkpoint_path (acc) && strstr (accel_checkpoint_path (acc), "/state"), "the path");
    end_world (&world);
}

static void
load_and_go_on (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, precision);
    load (&world);
    train (&world, saved, STEPS);
    write_end (&world, "resumed");
    end_world (&world);
}

static char *
text_of (const char *name)
{
    static char texts[2][8192];
    static int next;
    char path[512];
    char *text = texts[next++ % 2];
    snprintf (path, sizeof path, "%s/%s", folder, name);
    FILE *in = fopen (path, "r");
    size_t length = in ? fread (text, 1, sizeof texts[0] - 1, in) : 0;
    text[length] = '\0';
    if (in)
        fclose (in);
    return text;
}

/* The same samples in the same order, and the same bits, whichever numbers of processes. */
static void
test_resume (int first, int then, int steps, const char *name)
{
    char text[128];
    precision = name;
    saved = steps;
    snprintf (text, sizeof text, "in %s, a state saved by %d is loaded", name, first);
    setenv ("ACCELERATE_MIXED_PRECISION", name, 1);
    as_ranks (first, "uninterrupted training", run_through);
    as_ranks (first, "training until a save", run_and_save);
    as_ranks (then, text, load_and_go_on);
    is_text (text_of ("resumed"), text_of ("whole"), "the resumed run is the uninterrupted one, bit for bit");
    unsetenv ("ACCELERATE_MIXED_PRECISION");
}

/* From one number of processes to the next, and the next: each continues what the one before has saved. */
static int chained;

static void
load_and_save (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, precision);
    load (&world);
    train (&world, saved, chained);
    save (&world);
    end_world (&world);
}

static void
test_chain (void)
{
    precision = "no";
    as_ranks (4, "uninterrupted training", run_through);
    saved = 3;
    as_ranks (4, "training until a save", run_and_save);
    chained = 7;
    as_ranks (2, "continued by 2 until the next", load_and_save);
    saved = chained;
    chained = 10;
    as_ranks (1, "continued by 1 until the next", load_and_save);
    saved = chained;
    as_ranks (3, "continued by 3 to the end", load_and_go_on);
    is_text (text_of ("resumed"), text_of ("whole"), "from 4 processes to 2, to 1, to 3: the samples and bits of 4");
}

/* ---- folders ---- */

static bool
there (const char *format, ...) ACCEL_PRINTF (1, 2);

/* @return whether there is a file or folder of this name */
static bool
there (const char *format, ...)
{
    char name[300], path[600];
    va_list args;
    va_start (args, format);
    vsnprintf (name, sizeof name, format, args);
    va_end (args);
    snprintf (path, sizeof path, "%s/%s", folder, name);
    return !access (path, F_OK);
}

/* Change one byte of a file. */
static void
damage (const char *name, long at)
{
    char path[600];
    snprintf (path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen (path, "r+");
    int c = file && !fseek (file, at, at < 0 ? SEEK_END : SEEK_SET) ? fgetc (file) : EOF;
    right (c != EOF && !fseek (file, -1, SEEK_CUR) && fputc (c ^ 1, file) != EOF, "cannot damage %s", name);
    if (file)
        fclose (file);
}

static void
configure (struct accel *acc, const char *project, uint64_t total_limit)
{
    struct accel_error err = { 0 };
    char path[600];
    snprintf (path, sizeof path, "%s/%s", folder, project);
    const struct accel_project_configuration configuration
        = { .project_dir = path, .automatic_checkpoint_naming = true, .total_limit = total_limit };
    rank_must (accel_set_project_configuration (acc, &configuration, &err), &err);
}

/* Two of five stay; a damaged one is passed over, and its number is not used again. */
static void
rotate (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    int rank = accel_process_index (acc);
    precision = "no";
    make_world (&world, acc, precision);
    configure (acc, "project", 2);
    const struct accel_project_configuration *project = accel_get_project_configuration (acc);
    right (!strcmp (project->project_dir, project->logging_dir), "the folder for logs");
    rank_fails (accel_load_state (acc, NULL, &err), ACCEL_ERR_NOT_FOUND, &err, "no checkpoint in");
    for (int i = 0; i < 5; i++) {
        world.seen = i;
        rank_must (accel_save_state (acc, "ignored", &err), &err);
        right (accel_get_project_configuration (acc)->iteration == (uint64_t) i + 1, "the next number after %d", i);
    }
    right (!there ("project/checkpoints/checkpoint_2") && there ("project/checkpoints/checkpoint_3/manifest.json")
               && there ("project/checkpoints/checkpoint_4"),
           "not the newest two stay");
    rank_must (accel_load_state (acc, NULL, &err), &err);
    right (world.seen == 4, "loaded %d", (int) world.seen);
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    if (!rank)
        damage ("project/checkpoints/checkpoint_4/model.safetensors", -1);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    rank_must (accel_load_state (acc, NULL, &err), &err);
    right (world.seen == 3 && accel_get_project_configuration (acc)->iteration == 5, "loaded %d", (int) world.seen);
    world.seen = 0;
    rank_must (accel_load_state (acc, "", &err), &err); /* as ACCEL_RESUME_FROM is if there is none */
    right (world.seen == 3, "loaded %d without a path", (int) world.seen);
    char path[600];
    snprintf (path, sizeof path, "%s/project/checkpoints/checkpoint_4", folder);
    rank_fails (accel_load_state (acc, path, &err), ACCEL_ERR_FORMAT, &err, "the checksum of tensor");
    snprintf (path, sizeof path, "%s/project/checkpoints/checkpoint_3", folder);
    if (!rank) /* one letter of a text in the header, which is valid all the same */
        damage ("project/checkpoints/checkpoint_3/model.safetensors", sizeof "........{\"__metadata__\":{\"format\":");
    rank_fails (accel_load_state (acc, path, &err), ACCEL_ERR_FORMAT, &err, "the checksum of its header");
    configure (acc, "project", 0);
    for (int i = 0; i < 3; i++)
        rank_must (accel_save_state (acc, NULL, &err), &err);
    rank_fails (accel_save_state (acc, NULL, &err), ACCEL_ERR_INVALID, &err, "checkpoint_3 already exists");
    end_world (&world);
}

/* The best stays beside the newest two, also after a restart, until there is a better one. */
static void
keep_best (struct accel *acc)
{
    static const double metrics[] = { NAN, 5, 3, 4, 6, 7, 2, 8 };
    static const uint64_t wanted[] = { 1, 0, 0, 1, 2, 3, 0, 1 };
    struct world world;
    struct accel_error err = { 0 };
    uint64_t since;
    make_world (&world, acc, "no");
    configure (acc, "best", 2);
    right (!accel_best_checkpoint_path (acc), "a best checkpoint of none");
    for (int i = 0; i < 8; i++) {
        rank_must (accel_note_metric (acc, metrics[i], &since, &err), &err);
        right (since == wanted[i], "%d since the best after %d", (int) since, i);
        rank_must (accel_save_state (acc, NULL, &err), &err);
        const char *best = accel_best_checkpoint_path (acc);
        right (i ? best && strstr (best, i < 2 ? "/checkpoint_1" : i < 6 ? "/checkpoint_2" : "/checkpoint_6") : !best,
               "the best after %d: %s", i, best);
        if (i == 4)
            rank_must (accel_load_state (acc, NULL, &err), &err); /* what it knows is in the state */
    }
    right (!there ("best/checkpoints/checkpoint_0") && !there ("best/checkpoints/checkpoint_2")
               && there ("best/checkpoints/checkpoint_5") && there ("best/checkpoints/checkpoint_6")
               && there ("best/checkpoints/checkpoint_7"),
           "not the newest and the best");
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    for (int i = 0; i < 3; i++)
        rank_must (accel_save_state (acc, NULL, &err), &err);
    right (there ("best/checkpoints/checkpoint_6") && !there ("best/checkpoints/checkpoint_8")
               && there ("best/checkpoints/checkpoint_9") && there ("best/checkpoints/checkpoint_10"),
           "not the newest two and the best");
    rank_fails (accel_note_metric (NULL, 1, NULL, &err), ACCEL_ERR_INVALID, &err, "acc is NULL");
    end_world (&world);
}

static bool
is_best (struct accel *acc, const char *name)
{
    const char *best = accel_best_checkpoint_path (acc);
    return best ? !strcmp (strrchr (best, '/') + 1, name) : !*name;
}

/* In the background, the next best takes the place of the one before when the program hears that it is complete. */
static void
keep_best_in_flight (struct accel *acc)
{
    static const char *const steps[] = { "", "checkpoint_0", "checkpoint_1" };
    struct world world;
    struct accel_error err = { 0 };
    make_world (&world, acc, "no");
    configure (acc, "flight", 1);
    for (int i = 0; i < 2; i++) {
        rank_must (accel_note_metric (acc, 2 - i, NULL, &err), &err);
        rank_must (accel_save_state_start (acc, NULL, &err), &err);
        right (is_best (acc, steps[i]), "while save %d is in flight", i);
        for (int waited = 0; waited < 10000 && !there ("flight/checkpoints/checkpoint_%d", i); waited++)
            usleep (1000);
        right (is_best (acc, steps[i]) && (!i || there ("flight/checkpoints/checkpoint_0")),
               "when save %d has been written, and the program does not know", i);
        rank_must (accel_save_state_wait (acc, &err), &err);
        right (is_best (acc, steps[i + 1]), "after save %d", i);
    }
    right (there ("flight/checkpoints/checkpoint_0"), "the best before is removed too early");
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    rank_must (accel_save_state (acc, NULL, &err), &err);
    right (!there ("flight/checkpoints/checkpoint_0") && there ("flight/checkpoints/checkpoint_1"),
           "the best before is not removed");
    end_world (&world);
}

/* Names of the program's own, which look like ours: total_limit does not apply to them. */
static void
name_by_hand (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    char path[600];
    make_world (&world, acc, "no");
    snprintf (path, sizeof path, "%s/own", folder);
    const struct accel_project_configuration configuration = { .project_dir = path, .total_limit = 1 };
    rank_must (accel_set_project_configuration (acc, &configuration, &err), &err);
    for (int i = 0; i < 3; i++) {
        snprintf (path, sizeof path, "%s/own/checkpoint_%d", folder, i);
        rank_must (accel_save_state (acc, path, &err), &err);
    }
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    right (there ("own/checkpoint_0") && there ("own/checkpoint_1") && there ("own/checkpoint_2"), "one is gone");
    end_world (&world);
}

/* A checkpoint is replaced; other folders are left alone. */
static void
replace (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    char path[600];
    make_world (&world, acc, "no");
    rank_fails (accel_save_state (acc, NULL, &err), ACCEL_ERR_INVALID, &err, "output_dir is needed");
    rank_fails (accel_load_state (acc, "", &err), ACCEL_ERR_INVALID, &err, "input_dir is needed");
    snprintf (path, sizeof path, "%s/nowhere", folder);
    rank_fails (accel_load_state (acc, path, &err), ACCEL_ERR_INVALID, &err, "the folder does not exist");
    snprintf (path, sizeof path, "%s/a/b/c/", folder);
    for (world.seen = 7; world.seen < 9; world.seen++)
        rank_must (accel_save_state (acc, path, &err), &err);
    rank_must (accel_load_state (acc, path, &err), &err);
    right (world.seen == 8, "loaded %d", (int) world.seen);
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    if (!accel_process_index (acc)) {
        char file[700];
        snprintf (file, sizeof file, "%s/thesis.txt", path);
        FILE *out = fopen (file, "w");
        fclose (out);
    }
    rank_fails (accel_save_state (acc, path, &err), ACCEL_ERR_INVALID, &err, "'thesis.txt' in it is not part of");
    rank_fails (accel_save_state (acc, folder, &err), ACCEL_ERR_INVALID, &err, "is not a checkpoint");
    right (there ("a/b/c/thesis.txt") && there ("a/b/c/model.safetensors"), "files are gone");
    end_world (&world);
}

/* ---- hooks, and what does not fit ---- */

static int hooks_run;

static enum accel_status
write_note (void *user, const char *place, bool *with_models, struct accel_error *err)
{
    const struct accel *acc = user;
    char path[700];
    (void) err;
    hooks_run++;
    *with_models = false;
    if (accel_process_index (acc))
        return ACCEL_OK;
    snprintf (path, sizeof path, "%s/notes", place);
    right (!mkdir (path, 0777), "no folder of a hook");
    snprintf (path, sizeof path, "%s/notes/note", place);
    FILE *out = fopen (path, "w");
    right (out && fputs ("a note", out) >= 0, "no file of a hook");
    fclose (out);
    return ACCEL_OK;
}

static enum accel_status
refuse (void *user, const char *place, bool *with_models, struct accel_error *err)
{
    (void) place, (void) with_models, (void) err;
    return accel_process_index (user) ? ACCEL_ERR_INVALID : ACCEL_OK;
}

static void
hook (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    uint64_t handles[3];
    char path[600];
    make_world (&world, acc, "no");
    snprintf (path, sizeof path, "%s/hooked", folder);
    rank_fails (accel_register_state_hook (acc, (enum accel_state_event) 2, write_note, acc, NULL, &err),
                ACCEL_ERR_INVALID, &err, "invalid accel_state_event 2");
    rank_must (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, write_note, acc, &handles[0], &err), &err);
    rank_must (accel_save_state (acc, path, &err), &err);
    right (hooks_run == 1 && there ("hooked/notes/note") && !there ("hooked/model.safetensors"), "the hook's files");
    rank_fails (accel_load_state (acc, path, &err), ACCEL_ERR_INVALID, &err, "has no model");
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    if (!accel_process_index (acc))
        damage ("hooked/notes/note", 0);
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    rank_fails (accel_load_state (acc, path, &err), ACCEL_ERR_FORMAT, &err, "notes/note: damaged");
    accel_remove_state_hook (acc, handles[0]);
    rank_must (accel_register_state_hook (acc, ACCEL_BEFORE_LOAD, refuse, acc, &handles[1], &err), &err);
    rank_must (accel_save_state (acc, path, &err), &err);
    right (hooks_run == 1, "a hook runs that was removed, or is another");
    rank_fails (accel_load_state (acc, path, &err), ACCEL_ERR_CALLBACK, &err, "the hook before loading the state");
    right (!strncmp (err.text, "accel_load_state at", 19), "%s", err.text);
    right (accel_process_index (acc) || strstr (err.text, "rank 1: "), "%s", err.text);
    accel_remove_state_hook (acc, handles[1]);
    const struct accel_checkpoint_object object = { .save = save_seen, .load = load_seen, .user = &world };
    rank_must (accel_register_for_checkpointing (acc, &object, &err), &err);
    rank_fails (accel_load_state (acc, path, &err), ACCEL_ERR_INVALID, &err, "1 registered objects, but 2");
    end_world (&world);
}

/* Random numbers: rank r continues those of rank r; those that are the same on all ranks are continued by new ones. */
static bool alike;

static void
save_random (struct accel *acc)
{
    struct accel_error err = { 0 };
    char path[600];
    snprintf (path, sizeof path, "%s/random", folder);
    rank_must (accel_set_seed (acc, 40, !alike, &err), &err);
    (void) accel_generator_next (accel_default_generator ());
    rank_must (accel_save_state (acc, path, &err), &err);
}

static void
load_random (struct accel *acc)
{
    struct accel_error err = { 0 };
    struct accel_generator *expected;
    char path[600];
    int rank = accel_process_index (acc);
    snprintf (path, sizeof path, "%s/random", folder);
    rank_must (accel_set_seed (acc, 99, true, &err), &err);
    rank_must (accel_load_state (acc, path, &err), &err);
    uint64_t seed = alike ? 40 : rank < 2 ? 40 + (uint64_t) rank : 99 + (uint64_t) rank;
    rank_must (accel_generator_create (&expected, seed, &err), &err);
    if (alike || rank < 2)
        (void) accel_generator_next (expected);
    right (accel_generator_next (accel_default_generator ()) == accel_generator_next (expected), "other numbers");
    accel_generator_destroy (expected);
}

int
main (void)
{
    folder = scratch_enter ();
    as_ranks (2, "automatic naming", rotate);
    as_ranks (2, "the best checkpoint", keep_best);
    as_ranks (2, "the best checkpoint, in the background", keep_best_in_flight);
    as_ranks (2, "names of the program's own", name_by_hand);
    as_ranks (2, "one folder again and again", replace);
    as_ranks (2, "hooks, and objects that do not fit", hook);
    for (int i = 0; i < 2; i++) {
        alike = i;
        as_ranks (2, alike ? "the same random numbers are saved" : "random numbers are saved", save_random);
        as_ranks (3, "each rank continues its own", load_random);
    }
    test_resume (1, 1, 5, "no");
    test_resume (2, 2, 7, "bf16");
    test_resume (4, 2, 10, "no");
    test_resume (2, 1, 3, "no");
    test_resume (1, 3, 8, "no");
    test_chain ();
    return done_testing ();
}
