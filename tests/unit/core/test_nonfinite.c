/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that are infinite or NaN: their states are kept apart, push out no good checkpoint and are not resumed.
 * What comes before that: gradients that are not finite, losses and norms that jump. */
#include <config.h>

#include "tests/ranks.h"
#include "tests/scratch.h"

#include <fcntl.h>
#include <math.h>

enum { NUMBERS = 300000 /* more than one piece of a file */ };

static char folder[SCRATCH_SIZE + 64];
static struct accel_error err;

struct world {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[2], grad[2], mask;
    float *w, *b, masked[4];
};

static float *
make_tensor (DLTensor *data, DLTensor *grad, int64_t *count)
{
    *data = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = count,
                        .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    *grad = *data;
    data->data = calloc ((size_t) *count, sizeof (float));
    return data->data;
}

/* A mask has infinite elements by nature; it is not trained. */
static void
make_world (struct world *world, struct accel *acc)
{
    static int64_t large = NUMBERS, small = 4;
    *world = (struct world){ .acc = acc, .masked = { 0, -INFINITY, 0, NAN } };
    world->b = make_tensor (&world->data[0], &world->grad[0], &small);
    world->w = make_tensor (&world->data[1], &world->grad[1], &large);
    world->mask = world->data[0];
    world->mask.data = world->masked;
    const struct accel_parameter parameters[] = { { "mask", &world->mask, NULL },
                                                  { "b", &world->data[0], &world->grad[0] },
                                                  { "w", &world->data[1], &world->grad[1] } };
    const struct accel_optimizer_options adamw = { .lr = 0.1, .weight_decay = ACCEL_ZERO };
    rank_must (accel_model_create (&world->model, parameters, 3, &err), &err);
    rank_must (accel_optimizer_create (&world->optimizer, world->model, ACCEL_ADAMW, &adamw, &err), &err);
    rank_must (accel_prepare (acc, &err, world->model, world->optimizer), &err);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
}

static void
end_world (struct world *world)
{
    accel_optimizer_destroy (world->optimizer);
    accel_model_destroy (world->model);
    free (world->w);
    free (world->b);
}

static bool
there (const char *name)
{
    char path[SCRATCH_SIZE + 200];
    snprintf (path, sizeof path, "%s/%s/manifest.json", folder, name);
    return !access (path, F_OK);
}

static void
configure (struct accel *acc, const char *name, uint64_t limit)
{
    char path[SCRATCH_SIZE + 200];
    snprintf (path, sizeof path, "%s/%s", folder, name);
    const struct accel_project_configuration configuration
        = { .project_dir = path, .automatic_checkpoint_naming = true, .total_limit = limit };
    rank_must (accel_set_project_configuration (acc, &configuration, &err), &err);
}

static bool
ends_with (const char *path, const char *end)
{
    return path && strlen (path) > strlen (end) && !strcmp (path + strlen (path) - strlen (end), end);
}

static void
test_limit (struct accel *acc, const char *name, bool in_background)
{
    struct world world;
    make_world (&world, acc);
    configure (acc, name, 2);
    for (int i = 0; i < 6; i++) {
        world.b[1] = (float) i;
        world.w[NUMBERS - 1] = i < 3 ? 0 : i == 3 ? NAN : INFINITY;
        if (in_background) {
            rank_must (accel_save_state_start (acc, NULL, &err), &err);
            rank_must (accel_save_state_wait (acc, &err), &err);
        } else
            rank_must (accel_save_state (acc, NULL, &err), &err);
        right (ends_with (accel_checkpoint_path (acc), i < 3 ? "2" : ".nonfinite") || i < 2, "saved as %s",
               accel_checkpoint_path (acc));
        right (accel_get_project_configuration (acc)->iteration == (uint64_t) i + 1, "the next number after %d", i);
    }
    rank_must (accel_load_state (acc, NULL, &err), &err);
    right (world.b[1] == 2 && ends_with (accel_checkpoint_path (acc), "checkpoint_2"), "loaded %s",
           accel_checkpoint_path (acc));
    uint64_t next = accel_get_project_configuration (acc)->iteration;
    right (next == 6, "the number after the load: %d", (int) next);
    world.w[NUMBERS - 1] = 1;
    rank_must (accel_save_state (acc, NULL, &err), &err);
    end_world (&world);
}

static void
in_foreground (struct accel *acc)
{
    test_limit (acc, "front", false);
}

static void
in_background (struct accel *acc)
{
    test_limit (acc, "back", true);
}

/* What a program names itself is not replaced by a state that is not finite, either. */
static void
by_name (struct accel *acc)
{
    struct world world;
    char path[SCRATCH_SIZE + 200], apart[SCRATCH_SIZE + 220];
    make_world (&world, acc);
    snprintf (path, sizeof path, "%s/state", folder);
    snprintf (apart, sizeof apart, "%s.nonfinite", path);
    for (int i = 0; i < 4; i++) {
        world.b[0] = (float) i;
        world.b[3] = i < 2 ? 0 : NAN;
        rank_must (accel_save_state (acc, path, &err), &err);
        right (!strcmp (accel_checkpoint_path (acc), i < 2 ? path : apart), "saved as %s", accel_checkpoint_path (acc));
    }
    rank_must (accel_load_state (acc, path, &err), &err);
    right (world.b[0] == 1, "loaded %g", (double) world.b[0]);
    rank_must (accel_load_state (acc, apart, &err), &err);
    right (world.b[0] == 3 && isnan (world.b[3]), "what is kept apart can be loaded by its name");
    end_world (&world);
}

/* Save, and look at what standard error gets. */
static void
save_warns (struct accel *acc, const char *words)
{
    char path[SCRATCH_SIZE + 200], text[1024] = "";
    snprintf (path, sizeof path, "%s/warning", folder);
    int kept = dup (2), file = open (path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    right (kept >= 0 && file >= 0 && dup2 (file, 2) == 2, "standard error is a file");
    accel_set_log_level (ACCEL_LOG_WARNING);
    enum accel_status status = accel_save_state (acc, NULL, &err);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    right (dup2 (kept, 2) == 2 && pread (file, text, sizeof text - 1, 0) >= 0 && strstr (text, words),
           "the warning is: %s", text);
    close (kept);
    close (file);
    rank_must (status, &err);
}

/* Nothing else is there: training does not begin again, nor continue with NaN. */
static void
only_bad (struct accel *acc)
{
    struct world world;
    make_world (&world, acc);
    configure (acc, "bad", 0);
    world.b[2] = NAN;
    rank_must (accel_optimizer_step (world.optimizer, &err), &err);
    save_warns (acc, "parameter 'b' is NaN at element 2 on rank 0 after step 1: the state is kept apart as "
                     "checkpoint_0.nonfinite, and earlier checkpoints stay");
    rank_must (accel_save_state (acc, NULL, &err), &err);
    rank_fails (accel_load_state (acc, NULL, &err), ACCEL_ERR_FORMAT, &err, "'b' is NaN at element 2");
    end_world (&world);
}

/* 16-bit parameters: their masters are looked at, too. */
static void
masters (struct accel *acc)
{
    int64_t count = 4;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    uint16_t numbers[4] = { 0 };
    DLTensor data = { .data = numbers, .device = { kDLCPU, 0 }, .ndim = 1, .shape = &count,
                      .dtype = accel_dtype_to_dl (ACCEL_BFLOAT16) }, grad = data;
    const struct accel_parameter parameter = { "h", &data, &grad };
    const struct accel_optimizer_options adamw = { .lr = 0.1, .weight_decay = ACCEL_ZERO };
    grad.data = NULL;
    rank_must (accel_model_create (&model, &parameter, 1, &err), &err);
    rank_must (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, &adamw, &err), &err);
    rank_must (accel_prepare (acc, &err, model, optimizer), &err);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    rank_must (accel_optimizer_step (optimizer, &err), &err);
    ((float *) accel_model_master (model, 0)->data)[3] = INFINITY;
    configure (acc, "masters", 0);
    rank_must (accel_save_state (acc, NULL, &err), &err);
    right (ends_with (accel_checkpoint_path (acc), "checkpoint_0.nonfinite"), "saved as %s",
           accel_checkpoint_path (acc));
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
}

/* ---- precision ---- */

/* A program makes its parameters after the precision of the job. */
static struct accel_model *
make_layer (struct accel *acc, DLTensor *data, DLTensor *grad)
{
    static int64_t count = 4;
    struct accel_model *model;
    bool half = strcmp (accel_mixed_precision (acc), "no");
    *data = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = &count,
                        .dtype = accel_dtype_to_dl (half ? ACCEL_BFLOAT16 : ACCEL_FLOAT32) };
    *grad = *data;
    rank_must (accel_model_create (&model, &(struct accel_parameter){ "w", data, grad }, 1, &err), &err);
    rank_must (accel_prepare (acc, &err, model), &err);
    return model;
}

static void
save_half (struct accel *acc)
{
    DLTensor data, grad;
    char path[SCRATCH_SIZE + 200];
    struct accel_model *model = make_layer (acc, &data, &grad);
    snprintf (path, sizeof path, "%s/half", folder);
    rank_must (accel_save_state (acc, path, &err), &err);
    accel_model_destroy (model);
}

static void
load_single (struct accel *acc)
{
    DLTensor data, grad;
    char path[SCRATCH_SIZE + 200];
    struct accel_model *model = make_layer (acc, &data, &grad);
    snprintf (path, sizeof path, "%s/half", folder);
    rank_fails (accel_load_state (acc, path, &err), ACCEL_ERR_FORMAT, &err,
                "saved with mixed_precision bf16, but this job has no: set it in accel_options, or launch with "
                "--mixed_precision bf16");
    accel_model_destroy (model);
}

/* ---- clipping ---- */

static void
clip (struct accel *acc)
{
    struct world world;
    float norm;
    char where[32];
    make_world (&world, acc);
    float *grad = world.grad[1].data;
    snprintf (where, sizeof where, "on rank %d,", accel_process_index (acc));
    grad[7] = INFINITY;
    rank_fails (accel_clip_grad_norm (world.model, 1, &norm, &(struct accel_clip_options){ .error_if_nonfinite = true },
                                      &err), ACCEL_ERR_INVALID, &err,
                "step 1: the norm of the gradients is infinite: cannot clip them: the gradient of 'w' is infinite at "
                "element 7 on rank");
    right (strstr (err.text, where) && strstr (err.text, "check_gradients"), "no rank or no hint in: %s", err.text);
    grad[7] = NAN;
    rank_fails (accel_clip_grad_norm (world.model, 1, &norm, &(struct accel_clip_options){ .error_if_nonfinite = true },
                                      &err), ACCEL_ERR_INVALID, &err,
                "step 1: the norm of the gradients is not a number: cannot clip them");
    grad[7] = 0;
    rank_must (accel_optimizer_step (world.optimizer, &err), &err);
    grad[7] = 3e38F;
    grad[8] = 3e38F;
    rank_fails (accel_clip_grad_norm (world.model, 1, &norm,
                                      &(struct accel_clip_options){ .norm_type = 1, .error_if_nonfinite = true },
                                      &err), ACCEL_ERR_INVALID, &err,
                "step 2: the norm of the gradients is infinite: cannot clip them: all gradients are finite");
    end_world (&world);
}

/* ---- outliers ---- */

enum { WINDOW = 16 };

/* Values with mean 2 and deviation 1. */
static double
calm (int step)
{
    return step % 2 ? 1 : 3;
}

/* One step of all; the ranks' losses differ, and their mean is @loss. */
static bool
step_of (struct world *world, double loss, double size)
{
    int rank = accel_process_index (world->acc);
    double mean;
    float norm, *grad = world->grad[0].data, before = world->b[0];
    grad[0] = (float) size;
    rank_must (accel_outlier_loss (world->acc, loss + (rank ? 0.5 : -0.5), &mean, &err), &err);
    right (mean == loss || (isnan (mean) && isnan (loss)), "the mean is %g", mean);
    rank_must (accel_clip_grad_norm (world->model, 1e9, &norm, NULL, &err), &err);
    rank_must (accel_optimizer_step (world->optimizer, &err), &err);
    return accel_optimizer_step_was_skipped (world->optimizer) && world->b[0] == before;
}

static void
counts (const struct world *world, uint64_t losses, uint64_t norms, uint64_t skipped)
{
    uint64_t found[3];
    for (unsigned i = 0; i < 3; i++)
        accel_outlier_get (world->acc, (enum accel_outlier) i, &found[i], NULL);
    right (found[0] == losses && found[1] == norms && found[2] == skipped, "%d losses, %d norms, %d skipped",
           (int) found[0], (int) found[1], (int) found[2]);
}

/* The same jumps twice: the second time, the job has continued from a checkpoint. */
static void
outliers (struct accel *acc)
{
    const struct accel_outlier_options options = { .window = WINDOW, .loss_zscore = 5, .norm_zscore = 6,
                                                   .skip_steps = true };
    char path[SCRATCH_SIZE + 200];
    struct world world;
    double zscore = 0;
    make_world (&world, acc);
    snprintf (path, sizeof path, "%s/watched", folder);
    rank_fails (accel_outlier_loss (acc, 1, NULL, &err), ACCEL_ERR_INVALID, &err, "call accel_outlier_watch first");
    rank_must (accel_outlier_watch (acc, &options, &err), &err);
    right (!step_of (&world, 1e6, 1e6), "an outlier before the window is full");
    rank_must (accel_outlier_watch (acc, &options, &err), &err);
    for (int i = 0; i < WINDOW; i++)
        right (!step_of (&world, calm (i), calm (i)), "step %d was skipped", i);
    rank_must (accel_save_state (acc, path, &err), &err);
    for (int round = 0; round < 2; round++) {
        right (!step_of (&world, 6.5, 7.5), "below the limits");
        accel_outlier_get (acc, ACCEL_OUTLIER_LOSS, NULL, &zscore);
        right (fabs (zscore - 4.5) < 1e-9, "the z-score is %g", zscore);
        rank_must (accel_load_state (acc, path, &err), &err);
        right (step_of (&world, 7.5, 3), "a loss that jumps");
        counts (&world, 1, 0, 1);
        right (!step_of (&world, 2, 2), "the step after it");
        rank_must (accel_load_state (acc, path, &err), &err);
        right (step_of (&world, 3, 8.5), "a norm that jumps");
        counts (&world, 0, 1, 1);
        right (step_of (&world, NAN, 2), "a loss that is NaN");
        right (!step_of (&world, -1e6, 2), "a loss that falls");
        counts (&world, 1, 1, 2);
        rank_must (accel_outlier_loss (acc, NAN, NULL, &err), &err);
        rank_must (accel_load_state (acc, path, &err), &err);
        right (!step_of (&world, 2, 2), "the step after going back to a checkpoint");
        rank_must (accel_outlier_watch (acc, &options, &err), &err);
        rank_must (accel_load_state (acc, path, &err), &err);
    }
    end_world (&world);
}

/* An optimizer that is not prepared steps, whatever its model's gradients are like. */
static void
not_prepared (struct accel *acc)
{
    struct world world;
    struct accel_optimizer *other;
    make_world (&world, acc);
    rank_must (accel_optimizer_create (&other, world.model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 },
                                       &err), &err);
    rank_must (accel_outlier_watch (acc, &(struct accel_outlier_options){ .skip_steps = true }, &err), &err);
    rank_must (accel_outlier_loss (acc, NAN, NULL, &err), &err);
    *(float *) world.grad[0].data = 1;
    rank_must (accel_optimizer_step (other, &err), &err);
    right (world.b[0] == -1 && !accel_optimizer_step_was_skipped (other), "skipped");
    rank_must (accel_optimizer_step (world.optimizer, &err), &err);
    right (accel_optimizer_step_was_skipped (world.optimizer), "the one that is prepared is not skipped");
    counts (&world, 1, 0, 1);
    accel_optimizer_destroy (other);
    end_world (&world);
}

/* Without skip_steps, outliers are only counted. */
static void
only_counted (struct accel *acc)
{
    struct world world;
    make_world (&world, acc);
    rank_must (accel_outlier_watch (acc, NULL, &err), &err);
    right (!step_of (&world, NAN, INFINITY), "skipped");
    counts (&world, 1, 1, 0);
    const struct accel_outlier_options short_one = { .window = 1 }, negative = { .loss_zscore = -1 };
    rank_fails (accel_outlier_watch (acc, &short_one, &err), ACCEL_ERR_INVALID, &err, "window is 1");
    rank_fails (accel_outlier_watch (acc, &negative, &err), ACCEL_ERR_INVALID, &err, "at least 0");
    end_world (&world);
}

int
main (void)
{
    snprintf (folder, sizeof folder, "%s", scratch_folder ());
    as_ranks (2, "states that are not finite neither count nor are resumed", in_foreground);
    ok (there ("front/checkpoints/checkpoint_2") && there ("front/checkpoints/checkpoint_6")
            && !there ("front/checkpoints/checkpoint_1"), "the newest two that are good stay");
    ok (there ("front/checkpoints/checkpoint_5.nonfinite") && !there ("front/checkpoints/checkpoint_3.nonfinite")
            && !there ("front/checkpoints/checkpoint_4.nonfinite"), "of the others, the latest");
    as_ranks (2, "the same for saves in the background", in_background);
    ok (there ("back/checkpoints/checkpoint_2") && there ("back/checkpoints/checkpoint_5.nonfinite"), "both stay");
    as_ranks (2, "a folder named by the program keeps its good state", by_name);
    as_ranks (1, "a project with nothing else is refused", only_bad);
    as_ranks (1, "masters of 16-bit parameters", masters);
    const struct accel_options half = { .mixed_precision = "bf16" };
    ranks_options = &half;
    as_ranks (1, "a state under bf16", save_half);
    ranks_options = NULL;
    as_ranks (1, "without the flag, the message names it", load_single);
    as_ranks (2, "error_if_nonfinite names step, parameter, element and rank", clip);
    as_ranks (2, "losses and norms that jump are counted and skipped on all ranks, also after a load", outliers);
    as_ranks (1, "optimizers that are not prepared skip nothing", not_prepared);
    as_ranks (2, "without skip_steps they are counted", only_counted);
    return done_testing ();
}
