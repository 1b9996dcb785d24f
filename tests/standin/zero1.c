/* SPDX-License-Identifier: Apache-2.0 */
/* A program that shards its optimizer itself (ZeRO-1) and keeps all parameters in one array on a GPU, by public calls
 * alone, in the order of llm.c's GPU trainer (tests/gpu/llmc/): gradients are averaged layer by layer while the next
 * ones are still being computed, each rank keeping its slice of each tensor in place; the norm of all; a step of the
 * own slices; and the slices are gathered in place.  Gradients are multiples of 1/256, so their averages are exact on
 * 1, 2 and 4 ranks, and all end with the same bits, also if they stop in the middle and continue from a checkpoint.
 * usage: zero1 FILE [save | load] [own-stream]      FILE.RANK gets the parameters; folder "checkpoint" has the state */
#include <accel/accel.h>

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 5, LAYERS = 2, SAMPLES = 4, STEPS = 6, SAVED_STEP = 3, FLOATS = 25364 };
static const size_t sizes[TENSORS] = { 4096, 64, 1200, 4, 20000 };
static const int layer_of[TENSORS] = { 0, 0, 1, 1, 1 };

static struct accel_error err;
#define MUST(call) accel_check ((call), &err)
#define CUDA(call) cuda_check ((call), #call, __LINE__)

static struct accel *acc;
static struct accel_comm *world;
static DLDevice device;
static cudaStream_t stream, own_stream; /* the program's; of collectives, or NULL: they are ordered with the first */
static cudaEvent_t event;
static float *params, *grads; /* [FLOATS] on the GPU */
static float host[FLOATS], host_grads[FLOATS];
static struct accel_tensor weights, shard[2 * TENSORS];
static struct accel_model *shards;
static struct accel_optimizer *adamw;
static struct accel_work *works[TENSORS];
static int in_flight;
static int64_t step;

static void
cuda_check (cudaError_t status, const char *call, int line)
{
    if (!status)
        return;
    fprintf (stderr, "zero1.c:%d: %s: error %d\n", line, call, (int) status);
    exit (1);
}

static size_t
offset_of (int tensor)
{
    size_t offset = 0;
    for (int i = 0; i < tensor; i++)
        offset += sizes[i];
    return offset;
}

/* The elements of this rank's slice of a tensor, and where it begins. */
static size_t
slice (int tensor, size_t *begin)
{
    size_t count = sizes[tensor] / (size_t) accel_comm_size (world);
    *begin = offset_of (tensor) + (size_t) accel_comm_rank (world) * count;
    return count;
}

static DLTensor *
describe (struct accel_tensor *tensor, size_t count, float *data)
{
    MUST (accel_tensor_init (tensor, ACCEL_FLOAT32, 1, (int64_t[]){ (int64_t) count }, &err));
    tensor->dl.device = device;
    tensor->dl.data = data;
    return &tensor->dl;
}

/* What is queued on @p to from now on comes after what is on @p from. */
static void
order (cudaStream_t from, cudaStream_t to)
{
    if (!own_stream)
        return;
    CUDA (cudaEventRecord (event, from));
    CUDA (cudaStreamWaitEvent (to, event, 0));
}

static void
wait_for_all (void)
{
    for (int i = 0; i < in_flight; i++)
        MUST (accel_work_wait (works[i], &err));
    in_flight = 0;
    order (own_stream, stream);
}

/* Average the gradients of a layer, of which each rank keeps its slices. */
static void
reduce_layer (int layer)
{
    size_t begin;
    order (stream, own_stream);
    MUST (accel_group_begin (world, &err));
    for (int i = 0; i < TENSORS; i++) {
        size_t count = slice (i, &begin);
        if (layer_of[i] == layer)
            MUST (accel_comm_reduce_scatter_start (&works[in_flight++], world, grads + offset_of (i), grads + begin,
                                                   count, ACCEL_FLOAT32, ACCEL_AVG, &err));
    }
    MUST (accel_group_end (world, &err));
}

static void
gather_layer (int layer)
{
    size_t begin;
    order (stream, own_stream);
    MUST (accel_group_begin (world, &err));
    for (int i = 0; i < TENSORS; i++) {
        size_t count = slice (i, &begin);
        if (layer_of[i] == layer)
            MUST (accel_comm_all_gather_start (&works[in_flight++], world, params + begin, params + offset_of (i),
                                               count, ACCEL_FLOAT32, &err));
    }
    MUST (accel_group_end (world, &err));
}

/* The mean over this rank's samples of parameter minus target, and its way to the GPU. */
static void
compute_layer (int layer)
{
    int own = SAMPLES / accel_comm_size (world), first = own * accel_comm_rank (world);
    for (int i = 0; i < TENSORS; i++) {
        size_t from = offset_of (i);
        if (layer_of[i] != layer)
            continue;
        for (size_t j = from; j < from + sizes[i]; j++) {
            host_grads[j] = 0;
            for (int sample = first; sample < first + own; sample++) {
                uint32_t drawn = (uint32_t) (j * SAMPLES + (size_t) sample + (size_t) step * FLOATS) * 2654435761U;
                float target = (float) (drawn >> 24) / 256 - 0.5F;
                host_grads[j] += rintf ((host[j] - target) * 256) / 256 / (float) own;
            }
        }
        CUDA (cudaMemcpyAsync (grads + from, host_grads + from, sizes[i] * sizeof *grads, cudaMemcpyHostToDevice,
                               stream));
    }
}

static void
read_params (void)
{
    CUDA (cudaMemcpyAsync (host, params, sizeof host, cudaMemcpyDeviceToHost, stream));
    CUDA (cudaStreamSynchronize (stream));
}

static void
train_step (void)
{
    float norm;
    read_params ();
    for (int layer = LAYERS; layer-- > 0;) {
        compute_layer (layer);
        reduce_layer (layer);
    }
    wait_for_all ();
    MUST (accel_clip_grad_norm (shards, INFINITY, &norm, NULL, &err));
    double squared = (double) norm * norm;
    MUST (accel_reduce_number (acc, &squared, ACCEL_SUM, &err));
    MUST (accel_optimizer_step (adamw, &err));
    for (int layer = 0; layer < LAYERS; layer++)
        gather_layer (layer);
    wait_for_all ();
    step++;
    accel_print (acc, "step %lld norm %.2f\n", (long long) step, sqrt (squared));
}

/* The parameters and the step are the same on all ranks: rank 0 saves them. */
static enum accel_status
save_weights (void *user, struct accel_state_dict *state, struct accel_error *why)
{
    (void) user;
    (void) why;
    accel_state_dict_set_int64 (state, "step", step);
    accel_state_dict_set_tensor (state, "weights", &weights.dl);
    return ACCEL_OK;
}

static enum accel_status
load_weights (void *user, const struct accel_state_dict *state, struct accel_error *why)
{
    (void) user;
    enum accel_status status = accel_state_dict_get_int64 (state, "step", &step, why);
    accel_optimizer_set_step_count (adamw, (uint64_t) step);
    return status ? status : accel_state_dict_get_tensor (state, "weights", &weights.dl, why);
}

/* Each rank's moments are in a file of its own in the checkpoint. */
static void
name_moments (struct accel_safetensors_tensor moments[2 * TENSORS], char names[2 * TENSORS][32], char path[4096],
              const char *folder)
{
    for (int i = 0; i < 2 * TENSORS; i++) {
        const char *state = accel_optimizer_state_name (adamw, (size_t) i % 2);
        snprintf (names[i], sizeof names[i], "%d.%s", i / 2, state);
        moments[i] = (struct accel_safetensors_tensor){ names[i],
                                                        accel_optimizer_state_tensor (adamw, (size_t) i / 2, state) };
    }
    snprintf (path, 4096, "%s/rank_%d.safetensors", folder, accel_process_index (acc));
}

static enum accel_status
save_moments (void *user, const char *folder, bool *with_models, struct accel_error *why)
{
    struct accel_safetensors_tensor moments[2 * TENSORS];
    char names[2 * TENSORS][32], path[4096];
    (void) user;
    (void) with_models;
    name_moments (moments, names, path, folder);
    return accel_safetensors_save (path, moments, 2 * TENSORS, NULL, why);
}

static enum accel_status
load_moments (void *user, const char *folder, bool *with_models, struct accel_error *why)
{
    struct accel_safetensors_tensor moments[2 * TENSORS];
    char names[2 * TENSORS][32], path[4096];
    struct accel_safetensors *file;
    size_t index = 0;
    (void) user;
    (void) with_models;
    name_moments (moments, names, path, folder);
    enum accel_status status = accel_safetensors_open (&file, path, NULL, why);
    for (int i = 0; i < 2 * TENSORS && !status; i++) {
        status = accel_safetensors_find (file, moments[i].name, &index, why);
        if (!status)
            status = accel_safetensors_read (file, index, NULL, NULL, moments[i].tensor, why);
    }
    accel_safetensors_close (file);
    return status;
}

static void
begin (bool has_own_stream)
{
    MUST (accel_open (&acc, NULL, &err));
    world = accel_world (acc);
    device = accel_device (acc);
    CUDA (cudaSetDevice (device.device_id));
    CUDA (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking));
    MUST (accel_set_stream (device, stream, &err));
    if (has_own_stream) {
        CUDA (cudaStreamCreateWithFlags (&own_stream, cudaStreamNonBlocking));
        CUDA (cudaEventCreateWithFlags (&event, cudaEventDisableTiming));
        MUST (accel_comm_set_stream (world, own_stream, &err));
    }
    CUDA (cudaMalloc ((void **) &params, sizeof host));
    CUDA (cudaMalloc ((void **) &grads, sizeof host));
    for (int i = 0; i < FLOATS; i++)
        host[i] = (float) (i % 37) / 32;
    CUDA (cudaMemcpyAsync (params, host, sizeof host, cudaMemcpyHostToDevice, stream));
    CUDA (cudaStreamSynchronize (stream));
}

/* The slices that this rank updates are its model, which no other rank has: it is not prepared. */
static void
make_shards (void)
{
    static const char *const names[TENSORS] = { "0", "1", "2", "3", "4" };
    struct accel_parameter rows[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        size_t begin, count = slice (i, &begin);
        rows[i] = (struct accel_parameter){ names[i], describe (&shard[2 * i], count, params + begin),
                                            describe (&shard[2 * i + 1], count, grads + begin) };
    }
    MUST (accel_model_create (&shards, rows, TENSORS, &err));
    MUST (accel_optimizer_create (&adamw, shards, ACCEL_ADAMW, &(struct accel_optimizer_options){ .lr = 0.01 }, &err));
    describe (&weights, FLOATS, params);
    struct accel_checkpoint_object object = { save_weights, load_weights, NULL };
    MUST (accel_register_for_checkpointing (acc, &object, &err));
    MUST (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, save_moments, NULL, NULL, &err));
    MUST (accel_register_state_hook (acc, ACCEL_BEFORE_LOAD, load_moments, NULL, NULL, &err));
}

static void
end (const char *path)
{
    char name[4096];
    read_params ();
    snprintf (name, sizeof name, "%s.%d", path, accel_process_index (acc));
    FILE *file = fopen (name, "wb");
    if (!file || fwrite (host, sizeof host, 1, file) != 1 || fclose (file)) {
        perror (name);
        exit (1);
    }
    accel_optimizer_destroy (adamw);
    accel_model_destroy (shards);
    MUST (accel_set_stream (device, NULL, &err));
    accel_close (acc);
    CUDA (cudaFree (params));
    CUDA (cudaFree (grads));
    CUDA (cudaStreamDestroy (stream));
    if (own_stream) {
        CUDA (cudaEventDestroy (event));
        CUDA (cudaStreamDestroy (own_stream));
    }
}

int
main (int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    begin (argc > 2 && !strcmp (argv[argc - 1], "own-stream"));
    make_shards ();
    if (!strcmp (what, "load"))
        MUST (accel_load_state (acc, "checkpoint", &err));
    while (step < STEPS) {
        train_step ();
        if (step == SAVED_STEP && !strcmp (what, "save"))
            MUST (accel_save_state (acc, "checkpoint", &err));
    }
    end (argv[1]);
    return 0;
}
