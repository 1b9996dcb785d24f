/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a model on the CPU or on a GPU: what both save are the same files, which either of them loads.
 * usage: checkpoint cpu|cuda COMMAND
 *
 *   run FOLDER            train, save in the middle of a step and, while training continues, once more; FOLDER/end has
 *                         what the training ends with
 *   resume STATE END [small]    train on from a state, as `run` did after it
 *   weights MODEL END     a new model with the parameters of a saved one
 *   open FOLDER           save with gradients that no step has used, as one of several ranks
 *   allocate N ERROR      the N-th allocation on the GPU fails with this error
 *   first FOLDER [async]  save
 *   fail CALL N ERROR FOLDER [async]    save; then the N-th CALL of the CUDA runtime fails, and the next save with it
 *   full FOLDER [async]   the same where the disk is full: each call to the file system fails once */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/fault/disk.h"
#include "tests/must.h"

#include <accel/accel.h>

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 6, STEPS = 4, MOST_CALLS = 500 };

/* A model of all types; the buffer is larger than what is copied at once. */
static const struct {
    const char *name;
    enum accel_dtype dtype;
    int64_t shape[2];
    bool is_trained;
} kinds[PARAMETERS] = {
    { "layer.weight", ACCEL_BFLOAT16, { 37, 41 }, true }, { "layer.bias", ACCEL_FLOAT32, { 41, 1 }, true },
    { "half", ACCEL_FLOAT16, { 13, 97 }, true },          { "eight", ACCEL_FLOAT8_E4M3FN, { 50, 10 }, true },
    { "table", ACCEL_FLOAT32, { 2300, 1001 }, false },    { "empty", ACCEL_FLOAT32, { 0, 5 }, false },
};

struct world {
    struct accel *acc;
    DLDevice device;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_tensor data[PARAMETERS], grads[PARAMETERS];
    int step;
};

static float
number (size_t i, int step)
{
    return sinf ((float) (i % 10007) * 0.37F + (float) step);
}

static struct accel_tensor
make (const struct world *world, enum accel_dtype dtype, const int64_t *shape, int step)
{
    struct accel_tensor host, there;
    MUST (accel_tensor_init (&host, dtype, 2, shape, &err));
    size_t count = accel_tensor_count (&host.dl);
    float *values = malloc ((count + 1) * sizeof *values);
    void *bytes = malloc ((count + 1) * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = number (i, step);
    MUST (accel_convert (values, ACCEL_FLOAT32, bytes, dtype, count, &err));
    host.dl.data = bytes;
    MUST (memory_send (&there, &host.dl, world->device, &err));
    free (values);
    free (bytes);
    return there;
}

static void
begin (struct world *world, bool cuda, bool is_large, int seed)
{
    const struct accel_options options = { .mixed_precision = "fp16", .device_placement = ACCEL_NO };
    const struct accel_optimizer_options adamw = { .lr = 0.01, .weight_decay = 0.01, .amsgrad = true };
    const struct accel_scheduler_options schedule = { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = 20 };
    struct accel_parameter parameters[PARAMETERS];
    memset (world, 0, sizeof *world);
    MUST (accel_open (&world->acc, &options, &err));
    world->device = cuda ? accel_device (world->acc) : (DLDevice){ .device_type = kDLCPU };
    MUST (accel_set_seed (world->acc, 1, false, &err));
    if (cuda && world->device.device_type != kDLCUDA)
        must (ACCEL_ERR_SYSTEM, "there is no GPU");
    for (int i = 0; i < PARAMETERS; i++) {
        const int64_t shape[] = { is_large ? kinds[i].shape[0] : kinds[i].shape[0] % 2000, kinds[i].shape[1] };
        world->data[i] = make (world, kinds[i].dtype, shape, seed + i);
        world->data[i].dl.shape = world->data[i].shape;
        if (kinds[i].is_trained) {
            world->grads[i] = make (world, ACCEL_FLOAT32, kinds[i].shape, 0);
            world->grads[i].dl.shape = world->grads[i].shape;
        }
        parameters[i] = (struct accel_parameter){ kinds[i].name, &world->data[i].dl,
                                                  kinds[i].is_trained ? &world->grads[i].dl : NULL };
    }
    MUST (accel_model_create (&world->model, parameters, PARAMETERS, &err));
    MUST (accel_optimizer_create (&world->optimizer, world->model, ACCEL_ADAMW, &adamw, &err));
    MUST (accel_scheduler_create (&world->scheduler, world->optimizer, &schedule, &err));
    MUST (accel_prepare (world->acc, &err, world->model, world->optimizer, world->scheduler));
}

static void
end (struct world *world)
{
    accel_scheduler_destroy (world->scheduler);
    accel_optimizer_destroy (world->optimizer);
    accel_model_destroy (world->model);
    accel_close (world->acc);
    for (int i = 0; i < PARAMETERS; i++) {
        accel_tensor_release (&world->data[i]);
        accel_tensor_release (&world->grads[i]);
    }
}

/* ---- training ---- */

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct world *world = user;
    const struct memory *memory = memory_of (world->device);
    (void) error;
    for (int p = 0; p < PARAMETERS; p++) {
        size_t count = accel_tensor_count (&world->data[p].dl);
        if (!kinds[p].is_trained)
            continue;
        float *values = malloc (count * sizeof *values);
        for (size_t i = 0; i < count; i++)
            values[i] = scale * number (i, world->step * 7 + p);
        memory->write (world->device, world->grads[p].dl.data, values, count * sizeof *values);
        free (values);
    }
    return ACCEL_OK;
}

static void
begin_step (struct world *world)
{
    MUST (accel_backward (world->acc, world->model, 1, backward, world, &err));
    MUST (accel_clip_grad_norm (world->model, 1, NULL, &(struct accel_clip_options){ .norm_type = INFINITY }, &err));
}

static void
end_step (struct world *world)
{
    MUST (accel_optimizer_step (world->optimizer, &err));
    MUST (accel_scheduler_step (world->scheduler, &err));
    MUST (accel_optimizer_zero_grad (world->optimizer, &err));
    world->step++;
}

static void
go_on (struct world *world, int steps)
{
    for (int i = 0; i < steps; i++) {
        begin_step (world);
        end_step (world);
    }
}

/* What training ends with. */
static void
dump (const struct world *world, const char *path)
{
    FILE *file = fopen (path, "w");
    for (size_t p = 0; p < PARAMETERS; p++) {
        const DLTensor *tensors[] = { &world->data[p].dl, accel_model_master (world->model, p),
                                      accel_optimizer_state_tensor (world->optimizer, p, "exp_avg"),
                                      accel_optimizer_state_tensor (world->optimizer, p, "max_exp_avg_sq") };
        float scale = accel_model_scale (world->model, p);
        for (size_t i = 0; i < 4; i++) {
            size_t bytes = tensors[i] ? accel_tensor_count (tensors[i]) * (tensors[i]->dtype.bits / 8U) : 0;
            char *copy = malloc (bytes + 1);
            if (bytes)
                MUST (memory_of (world->device)->read (world->device, copy, tensors[i]->data, bytes, &err));
            fwrite (copy, 1, bytes, file);
            free (copy);
        }
        fwrite (&scale, sizeof scale, 1, file);
    }
    if (!file || fclose (file))
        must (ACCEL_ERR_SYSTEM, path);
}

/* ---- the commands ---- */

static int
run (struct world *world, const char *folder)
{
    char path[PATH_MAX];
    const struct accel_save_model_options smaller
        = { .precision = ACCEL_SAVE_AS, .dtype = ACCEL_FLOAT16, .max_shard_size = "5KB" };
    go_on (world, 2);
    begin_step (world);
    snprintf (path, sizeof path, "%s/state", folder);
    MUST (accel_save_state (world->acc, path, &err));
    snprintf (path, sizeof path, "%s/later", folder);
    MUST (accel_save_state_reserve (world->acc, &err));
    MUST (accel_save_state_start (world->acc, path, &err));
    end_step (world);
    go_on (world, STEPS);
    MUST (accel_save_state_wait (world->acc, &err));
    snprintf (path, sizeof path, "%s/model", folder);
    MUST (accel_save_model (world->acc, world->model, path, NULL, &err));
    snprintf (path, sizeof path, "%s/half", folder);
    MUST (accel_save_model (world->acc, world->model, path, &smaller, &err));
    struct accel_safetensors_tensor one = { "table", &world->data[4].dl };
    snprintf (path, sizeof path, "%s/one.safetensors", folder);
    MUST (accel_safetensors_save (path, &one, 1, NULL, &err));
    snprintf (path, sizeof path, "%s/end", folder);
    dump (world, path);
    return 0;
}

static int
resume (struct world *world, const char *state, const char *path)
{
    MUST (accel_load_state (world->acc, state, &err));
    world->step = 2;
    end_step (world);
    go_on (world, STEPS);
    dump (world, path);
    return 0;
}

static int
weights (struct world *world, const char *model, const char *path)
{
    MUST (accel_load_model (world->acc, world->model, model, NULL, NULL, &err));
    dump (world, path);
    return 0;
}

static enum accel_status
save (struct world *world, const char *folder, bool async)
{
    if (!async)
        return accel_save_state (world->acc, folder, &err);
    enum accel_status status = accel_save_state_start (world->acc, folder, &err);
    return status ? status : accel_save_state_wait (world->acc, &err);
}

static int
save_open (struct world *world, const char *folder)
{
    go_on (world, 2);
    begin_step (world);
    return (int) save (world, folder, false);
}

/* All that allocates: a model with masters, an optimizer, gradients in buckets and out of them, and an output. */
static enum accel_status
allocate_all (struct world *world, struct accel_model **model, struct accel_optimizer **optimizer,
              struct accel_tensor *out)
{
    const struct accel_optimizer_options lion = { .lr = 0.1 };
    struct accel_parameter parameters[PARAMETERS];
    static DLTensor grads[PARAMETERS]; /* the model has pointers to them until it is destroyed */
    for (int i = 0; i < PARAMETERS; i++) {
        grads[i] = world->grads[i].dl;
        grads[i].data = NULL;
        parameters[i] = (struct accel_parameter){ kinds[i].name, &world->data[i].dl,
                                                  kinds[i].is_trained ? &grads[i] : NULL };
    }
    enum accel_status status = accel_model_create (model, parameters, PARAMETERS, &err);
    if (!status)
        status = accel_optimizer_create (optimizer, *model, ACCEL_LION, &lion, &err);
    if (!status)
        status = accel_prepare (world->acc, &err, *model);
    if (!status)
        status = accel_unwrap_model (world->acc, *model, &err);
    return status ? status : accel_gather (out, world->acc, &world->data[0].dl, &err);
}

/* @return 0: this call has failed, with the error that it should have; 3: there is no such call */
static int
allocate (struct world *world, const char *call, const char *error)
{
    struct accel_model *model = NULL;
    struct accel_optimizer *optimizer = NULL;
    struct accel_tensor out = { .owned_bytes = 0 };
    char plan[100];
    snprintf (plan, sizeof plan, "cudaMalloc:%s:%s", call, error);
    setenv ("STANDIN_FAIL", plan, true);
    enum accel_status status = allocate_all (world, &model, &optimizer, &out);
    printf ("%s\n", status ? err.text : "allocated");
    bool is_good = status == err.code && !strchr (err.text, '\n')
                   && (strcmp (error, "2") ? status == ACCEL_ERR_SYSTEM && strstr (err.text, "cuda:0: cudaMalloc: ")
                                           : status == ACCEL_ERR_NOMEM);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
    accel_tensor_release (&out);
    return status ? !is_good : 3;
}

/* @return 0: the save has failed, as it should */
static int
fail (struct world *world, char **words)
{
    char plan[100];
    bool async = words[4] != NULL;
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    MUST (save (world, words[3], async));
    go_on (world, 1);
    snprintf (plan, sizeof plan, "%s:%s:%s", words[0], words[1], words[2]);
    setenv ("STANDIN_FAIL", plan, true);
    enum accel_status status = save (world, words[3], async);
    printf ("%s\n", status ? err.text : "saved");
    if (status && (status != err.code || strchr (err.text, '\n')))
        return 2;
    return !status;
}

/* @return 0: each call has failed once, and left what was there */
static int
fill_disk (struct world *world, const char *folder, bool async)
{
    long call = 0;
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    MUST (save (world, folder, async));
    go_on (world, 1);
    snprintf (disk_root, sizeof disk_root, "%s", folder);
    *strrchr (disk_root, '/') = '\0';
    disk_shadow = getenv ("DISK_SHADOW"); /* to look at what happens */
    disk_errno = ENOSPC;
    for (bool is_over = false; !is_over && call < MOST_CALLS; call++) {
        struct accel_error own = { 0 };
        disk_left = call;
        enum accel_status status = save (world, folder, async);
        is_over = disk_left >= 0;
        disk_left = -1;
        own = err;
        if (is_over && status)
            must (status, "without a fault");
        if (status && (own.code != status || strchr (own.text, '\n') || !strstr (own.text, strerror (ENOSPC))))
            must (ACCEL_ERR_SYSTEM, own.text);
        MUST (accel_load_state (world->acc, folder, &err));
    }
    printf ("%ld calls\n", call);
    return call < 10 || call == MOST_CALLS;
}

int
main (int argc, char **argv)
{
    struct world world;
    if (argc < 4)
        return 2;
    bool first = strcmp (argv[2], "resume") && strcmp (argv[2], "weights");
    bool is_large = !strcmp (argv[2], "run") || (!first && argc == 5);
    begin (&world, !strcmp (argv[1], "cuda"), is_large, first ? 1 : 9);
    int status = 2;
    if (!strcmp (argv[2], "run"))
        status = run (&world, argv[3]);
    else if (!strcmp (argv[2], "resume") && argc > 4)
        status = resume (&world, argv[3], argv[4]);
    else if (!strcmp (argv[2], "weights") && argc > 4)
        status = weights (&world, argv[3], argv[4]);
    else if (!strcmp (argv[2], "open"))
        status = save_open (&world, argv[3]);
    else if (!strcmp (argv[2], "allocate") && argc == 5)
        status = allocate (&world, argv[3], argv[4]);
    else if (!strcmp (argv[2], "first"))
        status = (int) save (&world, argv[3], argc > 4);
    else if (!strcmp (argv[2], "fail") && argc > 6)
        status = fail (&world, argv + 3);
    else if (!strcmp (argv[2], "full"))
        status = fill_disk (&world, argv[3], argc > 4);
    end (&world);
    return status;
}
