/* SPDX-License-Identifier: Apache-2.0 */
/* A state that is saved between the backward passes of one step of the optimizer: training that loads it continues with
 * the same bits, because gradients and what PowerSGD remembers are saved too.  On another number of processes, the
 * averages over the ranks are the same but for rounding. */
#include <config.h>

#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <math.h>
#include <sys/stat.h>

enum { ROWS = 12, COLUMNS = 16, WEIGHTS = ROWS * COLUMNS, BIASES = 8, NUMBERS = WEIGHTS + 2 * BIASES, PASSES = 14,
       STEPS = 3 };

struct way {
    const char *name;
    enum accel_dtype dtype;
    enum accel_comm_hook hook;
    bool unused; /* the bias is used in the first pass of each step only */
    bool no_sync; /* the program accumulates by itself */
    bool cold;    /* PowerSGD draws its matrices in each pass */
    bool thin;    /* the weight's gradients have one direction, so PowerSGD draws the other column anew in each pass */
    const char *precision;
};

static const struct way *way;
static const char *folder;
static int saved; /* passes before the save */
static bool unstepped; /* and one more, but not its step */

struct world {
    struct accel *acc;
    struct accel_model *model, *other;
    struct accel_optimizer *optimizer, *other_optimizer;
    int64_t shape[2], bias_shape[1];
    DLTensor weight, weight_grad, bias, bias_grad, other_bias, other_grad;
    int pass;
};

static void
make_world (struct world *world, struct accel *acc)
{
    struct accel_error err = { 0 };
    *world = (struct world){ .acc = acc, .shape = { ROWS, COLUMNS }, .bias_shape = { BIASES } };
    world->weight = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 2, .dtype = accel_dtype_to_dl (way->dtype),
                                .shape = world->shape };
    world->bias = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .dtype = accel_dtype_to_dl (way->dtype),
                              .shape = world->bias_shape };
    world->weight_grad = world->weight;
    world->bias_grad = world->other_bias = world->other_grad = world->bias;
    const struct accel_parameter parameters[]
        = { { "layer.weight", &world->weight, &world->weight_grad },
            { "layer.bias", &world->bias, &world->bias_grad } };
    const struct accel_ddp_options ddp
        = { .comm_hook = way->hook, .start_iter = 1, .matrix_approximation_rank = 2,
            .find_unused_parameters = way->unused, .warm_start = way->cold ? ACCEL_NO : ACCEL_YES };
    rank_must (accel_model_create (&world->model, parameters, 2, &err), &err);
    rank_must (accel_model_set_ddp (world->model, &ddp, &err), &err);
    const struct accel_optimizer_options sgd = { .lr = 0.1, .momentum = 0.9 };
    rank_must (accel_optimizer_create (&world->optimizer, world->model, ACCEL_SGD, &sgd, &err), &err);
    /* A second model, whose parameter has a name that the first one has, too. */
    const struct accel_parameter alone = { "layer.bias", &world->other_bias, &world->other_grad };
    rank_must (accel_model_create (&world->other, &alone, 1, &err), &err);
    rank_must (accel_optimizer_create (&world->other_optimizer, world->other, ACCEL_SGD, &sgd, &err), &err);
    rank_must (accel_prepare (acc, &err, world->model, world->optimizer, world->other, world->other_optimizer), &err);
    rank_must (accel_set_gradient_accumulation_steps (acc, way->no_sync ? 1 : STEPS, &err), &err);
}

static void
end_world (struct world *world)
{
    accel_optimizer_destroy (world->optimizer);
    accel_optimizer_destroy (world->other_optimizer);
    accel_model_destroy (world->model);
    accel_model_destroy (world->other);
}

static void
add (const DLTensor *grad, size_t index, float value)
{
    enum accel_dtype dtype = accel_dtype_from_dl (grad->dtype);
    char *at = (char *) grad->data + index * accel_dtype_bytes (dtype);
    float sum;
    struct accel_error err = { 0 };
    rank_must (accel_convert (at, dtype, &sum, ACCEL_FLOAT32, 1, &err), &err);
    sum += value;
    rank_must (accel_convert (&sum, ACCEL_FLOAT32, at, dtype, 1, &err), &err);
}

/* What the ranks add differs, but their average does not depend on how many there are. */
static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct world *world = user;
    int pass = world->pass, ranks = accel_num_processes (world->acc), rank = accel_process_index (world->acc);
    float off = (float) rank - (float) (ranks - 1) / 2;
    for (size_t i = 0; i < WEIGHTS; i++)
        add (&world->weight_grad, i,
             scale * (way->thin ? sinf ((float) (i / COLUMNS + 3)) * cosf ((float) (i % COLUMNS + (size_t) pass * 5))
                                : sinf ((float) (i * 7 + 3) * (float) (pass + 1))
                                      + off * cosf ((float) (i + 5 * (size_t) pass))));
    if (way->unused && accel_grad_ready (world->model, 0, err))
        return ACCEL_ERR_CALLBACK;
    if (way->unused && pass % STEPS)
        return ACCEL_OK;
    for (size_t i = 0; i < BIASES; i++)
        add (&world->bias_grad, i, scale * (float) (pass + 1) * (1 + off) / (float) (i + 3));
    return way->unused ? accel_grad_ready (world->model, 1, err) : ACCEL_OK;
}

static enum accel_status
backward_other (void *user, float scale, struct accel_error *err)
{
    struct world *world = user;
    (void) err;
    for (size_t i = 0; i < BIASES; i++)
        add (&world->other_grad, i, scale * cosf ((float) (i + 2 * (size_t) world->pass)));
    return ACCEL_OK;
}

/* @return whether the program accumulates by itself in this pass */
static bool
is_alone (int pass)
{
    return way->no_sync && (pass + 1) % STEPS;
}

static void
go_backward (struct world *world, int pass)
{
    struct accel_error err = { 0 };
    world->pass = pass;
    if (!way->no_sync)
        rank_must (accel_accumulate (world->acc, &err), &err);
    if (is_alone (pass))
        rank_must (accel_no_sync (world->acc, world->model, &err), &err);
    rank_must (accel_backward (world->acc, world->model, 0, backward, world, &err), &err);
    rank_must (accel_backward (world->acc, world->other, 0, backward_other, world, &err), &err);
    if (is_alone (pass))
        rank_must (accel_no_sync_end (world->acc, world->model, &err), &err);
}

static void
step (struct world *world, int pass)
{
    struct accel_error err = { 0 };
    if (is_alone (pass))
        return;
    rank_must (accel_optimizer_step (world->optimizer, &err), &err);
    rank_must (accel_optimizer_zero_grad (world->optimizer, &err), &err);
    rank_must (accel_optimizer_step (world->other_optimizer, &err), &err);
    rank_must (accel_optimizer_zero_grad (world->other_optimizer, &err), &err);
}

static void
train (struct world *world, int from, int to)
{
    for (int pass = from; pass < to; pass++) {
        go_backward (world, pass);
        step (world, pass);
    }
}

static void
write_numbers (FILE *out, const DLTensor *tensor)
{
    for (size_t i = 0; i < accel_tensor_count (tensor); i++) {
        enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
        float value;
        struct accel_error err = { 0 };
        rank_must (accel_convert ((const char *) tensor->data + i * accel_dtype_bytes (dtype), dtype, &value,
                                  ACCEL_FLOAT32, 1, &err), &err);
        fprintf (out, "%a\n", (double) value);
    }
}

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
    write_numbers (out, &world->weight);
    write_numbers (out, &world->bias);
    write_numbers (out, &world->other_bias);
    fclose (out);
}

static void
run_through (struct accel *acc)
{
    struct world world;
    make_world (&world, acc);
    train (&world, 0, PASSES);
    write_end (&world, "whole");
    end_world (&world);
}

static void
save (struct accel *acc, const char *name)
{
    char path[512];
    struct accel_error err = { 0 };
    snprintf (path, sizeof path, "%s/%s", folder, name);
    rank_must (accel_save_state (acc, path, &err), &err);
}

/* Then it is as if it was killed two passes later. */
static void
run_and_die (struct accel *acc)
{
    struct world world;
    make_world (&world, acc);
    train (&world, 0, saved);
    if (unstepped)
        go_backward (&world, saved);
    save (acc, "state");
    if (unstepped)
        step (&world, saved);
    train (&world, saved + unstepped, saved + 2);
    fflush (stdout);
    _exit (0);
}

static void
load (struct accel *acc, const char *name)
{
    char path[512];
    struct accel_error err = { 0 };
    snprintf (path, sizeof path, "%s/%s", folder, name);
    rank_must (accel_load_state (acc, path, &err), &err);
}

static void
load_and_go_on (struct accel *acc)
{
    struct world world;
    make_world (&world, acc);
    load (acc, "state");
    if (unstepped)
        step (&world, saved);
    train (&world, saved + unstepped, PASSES);
    write_end (&world, "resumed");
    end_world (&world);
}

/* The same job goes back to what it has saved: what it accumulated since must be forgotten. */
static void
go_back (struct accel *acc)
{
    struct world world;
    make_world (&world, acc);
    train (&world, 0, saved);
    save (acc, "state");
    train (&world, saved, PASSES - 1);
    load (acc, "state");
    train (&world, saved, PASSES);
    write_end (&world, "resumed");
    end_world (&world);
}

/* @return the largest difference between the numbers of the two runs; INFINITY: they cannot be compared */
static double
difference (void)
{
    double most = 0, values[2];
    size_t count = 0;
    char paths[2][512];
    FILE *in[2];
    for (int i = 0; i < 2; i++) {
        snprintf (paths[i], sizeof paths[i], "%s/%s", folder, i ? "resumed" : "whole");
        in[i] = fopen (paths[i], "r");
    }
    while (in[0] && in[1] && fscanf (in[0], "%la", &values[0]) == 1 && fscanf (in[1], "%la", &values[1]) == 1) {
        double one = fabs (values[0] - values[1]);
        most = one > most || isnan (one) ? one : most;
        count++;
    }
    for (int i = 0; i < 2; i++)
        if (in[i])
            fclose (in[i]);
    return count == NUMBERS ? most : (double) INFINITY;
}

static bool
has (const char *name)
{
    char path[512];
    snprintf (path, sizeof path, "%s/state/%s", folder, name);
    return !access (path, F_OK);
}

static void
test_same (const struct way *its, int ranks, int passes)
{
    way = its;
    saved = passes;
    setenv ("ACCELERATE_MIXED_PRECISION", way->precision ? way->precision : "no", 1);
    diag ("%s, saved after %d passes", way->name, saved);
    as_ranks (ranks, "uninterrupted training", run_through);
    as_ranks (ranks, "training that is killed after a save", run_and_die);
    ok (has ("gradients_0.safetensors") == (passes % STEPS != 0), "gradients are in files only while they are needed");
    as_ranks (ranks, "resumed training", load_and_go_on);
    double most = difference ();
    ok (most == 0, "bit for bit the uninterrupted run");
    diag ("difference %g", most);
    as_ranks (ranks, "training that loads what it has saved before", go_back);
    ok (difference () == 0, "bit for bit the uninterrupted run");
}

/* Saved after the last backward pass of a step; the resumed program begins with the step. */
static void
test_unstepped (const struct way *its)
{
    way = its;
    saved = 2 * STEPS - 1;
    setenv ("ACCELERATE_MIXED_PRECISION", way->precision ? way->precision : "no", 1);
    unstepped = true;
    as_ranks (2, "uninterrupted training", run_through);
    as_ranks (2, "training that is killed after a save", run_and_die);
    as_ranks (2, "resumed training", load_and_go_on);
    unstepped = false;
    ok (difference () == 0, "%s, saved before a step: bit for bit the uninterrupted run", way->name);
    unsetenv ("ACCELERATE_MIXED_PRECISION");
}

static void
test_reshard (const struct way *its, int first, int then)
{
    way = its;
    saved = 2 * STEPS + 1;
    as_ranks (first, "uninterrupted training", run_through);
    as_ranks (first, "training that is killed after a save", run_and_die);
    as_ranks (then, "resumed training", load_and_go_on);
    double most = difference ();
    ok (most < 1e-5, "%s, %d ranks and then %d: the same but for rounding", way->name, first, then);
    diag ("difference %g", most);
}

/* A rank's file is missing, although the manifest lists it: nothing is made up for it. */
static void
load_incomplete (struct accel *acc)
{
    struct world world;
    char path[512];
    struct accel_error err = { 0 };
    make_world (&world, acc);
    snprintf (path, sizeof path, "%s/state", folder);
    rank_fails (accel_load_state (acc, path, &err), ACCEL_ERR_SYSTEM, &err, "gradients_1.safetensors");
    end_world (&world);
}

int
main (void)
{
    static const struct way ways[] = {
        { "float32", ACCEL_FLOAT32, ACCEL_COMM_HOOK_NONE, false, false, false, false, NULL },
        { "bfloat16", ACCEL_BFLOAT16, ACCEL_COMM_HOOK_NONE, false, false, false, false, NULL },
        { "unused parameters", ACCEL_FLOAT32, ACCEL_COMM_HOOK_NONE, true, false, false, false, NULL },
        { "PowerSGD", ACCEL_FLOAT32, ACCEL_COMM_HOOK_POWER_SGD, false, false, false, false, NULL },
        { "PowerSGD of bfloat16", ACCEL_BFLOAT16, ACCEL_COMM_HOOK_POWER_SGD, false, false, false, false, NULL },
        { "accel_no_sync", ACCEL_FLOAT32, ACCEL_COMM_HOOK_NONE, false, true, false, false, NULL },
        { "PowerSGD without a warm start", ACCEL_FLOAT32, ACCEL_COMM_HOOK_POWER_SGD, false, false, true, false, NULL },
        { "fp16", ACCEL_FLOAT16, ACCEL_COMM_HOOK_NONE, false, false, false, false, "fp16" },
        { "PowerSGD of gradients of one direction", ACCEL_FLOAT32, ACCEL_COMM_HOOK_POWER_SGD, .thin = true },
    };
    char path[600];
    folder = scratch_folder ();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        test_same (&ways[i], 2, 2 * STEPS + 1);
    test_same (&ways[3], 2, 2 * STEPS);
    test_unstepped (&ways[0]);
    test_unstepped (&ways[7]);
    test_same (&ways[0], 1, STEPS + 2);
    test_reshard (&ways[0], 3, 2);
    test_reshard (&ways[0], 2, 1);
    test_reshard (&ways[0], 1, 2);
    test_reshard (&ways[2], 2, 3);
    test_reshard (&ways[3], 3, 2);
    way = &ways[0];
    as_ranks (2, "training that is killed after a save", run_and_die);
    snprintf (path, sizeof path, "%s/state/gradients_1.safetensors", folder);
    ok (!unlink (path), "a file is lost");
    as_ranks (3, "a lost file", load_incomplete);
    return done_testing ();
}
