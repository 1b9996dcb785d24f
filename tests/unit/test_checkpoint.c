/* SPDX-License-Identifier: Apache-2.0 */
/* Whole-state checkpoints: training that is saved and loaded goes on with the same bits, on any number of processes. */
#include <config.h>

#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <math.h>
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
read_number (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user, (void) err;
    *(int64_t *) into[0] = (int64_t) index;
    return ACCEL_OK;
}

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
    return ACCEL_OK;
}

static enum accel_status
load_seen (void *user, const struct accel_state_dict *state, struct accel_error *err)
{
    struct world *world = user;
    int64_t seen;
    double nan = 0, zero = 1;
    const char *text = "";
    float counts[2];
    enum accel_status status = accel_state_dict_get_int64 (state, "seen", &seen, err);
    world->seen = status ? 0 : (int32_t) seen;
    right (!accel_state_dict_get_text (state, "text", &text, NULL) && !strcmp (text, "a \"text\"\n\xc3\xa4"), "text");
    right (!accel_state_dict_get_double (state, "nan", &nan, NULL) && isnan (nan), "nan");
    right (!accel_state_dict_get_double (state, "zero", &zero, NULL) && signbit (zero), "zero");
    right (!accel_state_dict_get_bytes (state, "bytes", counts, sizeof counts, NULL), "bytes");
    right (accel_state_dict_get_uint64 (state, "text", (uint64_t *) &seen, NULL) == ACCEL_ERR_FORMAT, "kind");
    right (!accel_state_dict_has (state, "none") && accel_state_dict_has (state, "bytes"), "has");
    return status;
}

static void
make_world (struct world *world, struct accel *acc, const char *dtype)
{
    static const struct accel_field fields[] = { { .name = "number", .dtype = ACCEL_INT64 } };
    static const struct accel_dataset numbers = { .size = SAMPLES, .fields = fields, .field_count = 1,
                                                  .read = read_number };
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
    const struct accel_adamw adamw = { .lr = 0.01, .weight_decay = 0.1 };
    rank_must (accel_adamw_create (&world->optimizer, world->model, &adamw, &err), &err);
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
    rank_must (accel_gather_for_metrics (world->acc, accel_batch_tensor (batch, "number"), &all, &err), &err);
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

static void
run_and_save (struct accel *acc)
{
    struct world world;
    char path[512];
    struct accel_error err = { 0 };
    make_world (&world, acc, precision);
    train (&world, 0, saved);
    snprintf (path, sizeof path, "%s/state", folder);
    rank_must (accel_save_state (acc, path, &err), &err);
    right (accel_checkpoint_path (acc) && strstr (accel_checkpoint_path (acc), "/state"), "the path");
    if (!accel_process_index (acc)) {
        snprintf (path, sizeof path, "%s/trace", folder);
        FILE *out = fopen (path, "w");
        fputs (world.trace, out);
        fclose (out);
    }
    end_world (&world);
}

static void
load_and_go_on (struct accel *acc)
{
    struct world world;
    char path[512];
    struct accel_error err = { 0 };
    make_world (&world, acc, precision);
    snprintf (path, sizeof path, "%s/trace", folder);
    FILE *in = fopen (path, "r");
    right (in && fread (world.trace, 1, TRACE - 1, in), "no trace");
    fclose (in);
    snprintf (path, sizeof path, "%s/state", folder);
    rank_must (accel_load_state (acc, path, &err), &err);
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

int
main (void)
{
    folder = scratch_enter ();
    test_resume (1, 1, 5, "no");
    test_resume (2, 2, 7, "bf16");
    test_resume (4, 2, 10, "no");
    test_resume (2, 1, 3, "no");
    test_resume (1, 3, 8, "no");
    return done_testing ();
}
