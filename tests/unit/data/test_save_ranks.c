/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and loading a model with two ranks: who writes, and what happens when they differ or one of them fails. */
#include <config.h>

#include "tests/ranks.h"
#include "tests/scratch.h"

enum { TENSORS = 4, NUMBERS = 5 << 20 /* 20 MiB each: ranks write at the same time */ };

static char folder[SCRATCH_SIZE + 64];
static struct accel_error err;
static struct accel_tensor tensors[TENSORS];
static float *numbers;

static struct accel_model *
make_model (size_t count)
{
    static const char *const names[TENSORS] = { "a", "b", "c", "d" };
    struct accel_parameter parameters[TENSORS];
    struct accel_model *model = NULL;
    numbers = malloc (TENSORS * count * sizeof *numbers);
    right (numbers != NULL, "memory");
    for (size_t i = 0; i < TENSORS; i++) {
        rank_must (accel_tensor_init (&tensors[i], ACCEL_FLOAT32, 1, (int64_t[]){ (int64_t) count }, &err), &err);
        tensors[i].dl.data = numbers + i * count;
        parameters[i] = (struct accel_parameter){ names[i], &tensors[i].dl, NULL };
    }
    rank_must (accel_model_create (&model, parameters, TENSORS, &err), &err);
    return model;
}

static void
set_numbers (size_t count, float value)
{
    for (size_t i = 0; i < TENSORS * count; i++)
        numbers[i] = value + (float) (i % 1000);
}

static bool
have_numbers (size_t count, float value)
{
    for (size_t i = 0; i < TENSORS * count; i++)
        if (numbers[i] != value + (float) (i % 1000))
            return false;
    return true;
}

/* @each: replicas differ by their ranks, as under local SGD. */
static void
save_and_load (struct accel *acc, size_t count, bool each)
{
    struct accel_save_model_options options = { .max_shard_bytes = count * sizeof *numbers };
    struct accel_model *model = make_model (count);
    set_numbers (count, each ? (float) accel_process_index (acc) : 5);
    rank_must (accel_save_model (acc, model, folder, &options, &err), &err);
    set_numbers (count, 77);
    rank_must (accel_load_model (acc, model, folder, NULL, NULL, &err), &err);
    right (have_numbers (count, each ? 0 : 5), "other numbers were loaded");
    accel_model_destroy (model);
    free (numbers);
}

static void
save_large (struct accel *acc)
{
    save_and_load (acc, NUMBERS, false);
}

static void
save_different (struct accel *acc)
{
    save_and_load (acc, NUMBERS, true);
}

static void
save_small (struct accel *acc)
{
    save_and_load (acc, 100, true);
}

/* One rank fails: both return that, and the former model is still there. */
static void
fail_on_one (struct accel *acc)
{
    enum { COUNT = 100 };
    struct accel_save_model_options options = { .max_shard_bytes = COUNT * sizeof *numbers };
    struct accel_load_model_options lenient = { .strict = ACCEL_NO };
    struct accel_model *model = make_model (COUNT);
    set_numbers (COUNT, 3);
    rank_must (accel_save_model (acc, model, folder, &options, &err), &err);
    bool second = accel_process_index (acc) == 1;
    if (second)
        options = (struct accel_save_model_options){ .max_shard_size = "5GiB" };
    set_numbers (COUNT, 4);
    rank_fails (accel_save_model (acc, model, folder, &options, &err), ACCEL_ERR_INVALID, &err,
                second ? "invalid value for 'max_shard_size': '5GiB'" : "rank 1: invalid value for 'max_shard_size'");
    rank_fails (accel_load_model (acc, model, second ? "/nowhere" : folder, NULL, &lenient, &err), ACCEL_ERR_SYSTEM,
                &err, "/nowhere: No such file");
    right (have_numbers (COUNT, 4), "a load that failed has changed the model");
    rank_must (accel_load_model (acc, model, folder, NULL, &lenient, &err), &err);
    right (have_numbers (COUNT, 3), "the former model is gone");
    accel_model_destroy (model);
    free (numbers);
}

int
main (void)
{
    snprintf (folder, sizeof folder, "%s/model", scratch_folder ());
    as_ranks (2, "two ranks write four large files", save_large);
    as_ranks (2, "replicas that differ are not mixed: rank 0 writes", save_different);
    as_ranks (2, "small files are written by rank 0", save_small);
    as_ranks (2, "a failure on one rank is returned by both", fail_on_one);
    return done_testing ();
}
