/* SPDX-License-Identifier: Apache-2.0 */
/* Models that accel_prepare() puts on a GPU: the same calls with and without it leave the same bits, wherever the model
 * goes (accel_unwrap_model(), accel_prepare() again, accel_close()), whatever its tensors share, and if it cannot go.
 * usage: place [errors | lost | options | full]; ranks as the environment says */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/must.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARAMETERS = 8, RESULT_BYTES = 1 << 20 };

/* ---- a model with everything ---- */

struct world {
    struct accel *acc;
    bool gpu;
    struct accel_model *model;
    struct accel_optimizer *adamw, *late;
    struct accel_tensor data[PARAMETERS], grads[PARAMETERS];
    float array[700], array_grads[700]; /* the program's: two parameters side by side, and a part of the second */
    uint8_t small[90];
    float small_grad[90];
    int64_t numbers[5];
    unsigned char *result;
    size_t used;
    int step;
};

static const struct kind {
    const char *name;
    enum accel_dtype dtype;
    int64_t count;
    bool is_trained;
} kinds[PARAMETERS] = {
    { "ours", ACCEL_FLOAT32, 501, true },       { "narrow", ACCEL_BFLOAT16, 333, true },
    { "left", ACCEL_FLOAT32, 300, true },       { "right", ACCEL_FLOAT32, 400, true },
    { "part", ACCEL_FLOAT32, 100, false },      { "tiny", ACCEL_FLOAT8_E4M3FN, 90, true },
    { "numbers", ACCEL_INT64, 5, false },       { "empty", ACCEL_FLOAT32, 0, true },
};

static void
describe (struct world *world)
{
    for (int i = 0; i < PARAMETERS; i++) {
        MUST (accel_tensor_init (&world->data[i], kinds[i].dtype, 1, &kinds[i].count, &err));
        MUST (accel_tensor_init (&world->grads[i], ACCEL_FLOAT32, 1, &kinds[i].count, &err));
    }
    world->data[2].dl.data = world->array;
    world->data[3].dl.data = world->array + 300;
    world->data[4].dl.data = world->array + 500;
    world->data[5].dl.data = world->small;
    world->data[6].dl.data = world->numbers;
    world->grads[2].dl.data = world->array_grads;
    world->grads[3].dl.data = world->array_grads + 300;
    world->grads[5].dl.data = world->small_grad;
    for (int i = 0; i < 700; i++)
        world->array[i] = sinf ((float) i);
    for (int i = 0; i < 90; i++)
        world->small[i] = (uint8_t) (i % 50 + 8);
    for (int i = 0; i < 5; i++)
        world->numbers[i] = i * INT64_C (1000000007);
}

static void
make (struct world *world)
{
    const struct accel_optimizer_options adamw = { .lr = 0.01, .weight_decay = 0.01, .amsgrad = true };
    struct accel_parameter parameters[PARAMETERS + 1];
    describe (world);
    for (int i = 0; i < PARAMETERS; i++)
        parameters[i] = (struct accel_parameter){ kinds[i].name, &world->data[i].dl,
                                                  kinds[i].is_trained ? &world->grads[i].dl : NULL };
    parameters[PARAMETERS] = (struct accel_parameter){ "again", &world->data[0].dl, NULL };
    MUST (accel_model_create (&world->model, parameters, PARAMETERS + 1, &err));
    MUST (accel_optimizer_create (&world->adamw, world->model, ACCEL_ADAMW, &adamw, &err));
    for (int i = 0; i < 501; i++)
        ((float *) world->data[0].dl.data)[i] = cosf ((float) (i * (1 + accel_process_index (world->acc))));
    float *master = accel_model_master (world->model, 1)->data;
    for (int i = 0; i < 333; i++)
        master[i] = cosf ((float) i / 3);
    accel_model_narrow (world->model);
}

/* ---- what is done with it ---- */

static size_t
bytes_of (const DLTensor *tensor)
{
    return accel_tensor_count (tensor) * (tensor->dtype.bits / 8U);
}

/* Add what a tensor has, wherever it is. */
static void
note (struct world *world, const DLTensor *tensor)
{
    if (!tensor || !tensor->data || world->used + bytes_of (tensor) > RESULT_BYTES)
        return;
    MUST (memory_of (tensor->device)->read (tensor->device, world->result + world->used, tensor->data,
                                            bytes_of (tensor), &err));
    world->used += bytes_of (tensor);
}

static void
note_all (struct world *world)
{
    static const char *const states[] = { "exp_avg", "exp_avg_sq", "momentum_buffer" };
    for (size_t i = 0; i < PARAMETERS; i++) {
        note (world, &world->data[i].dl);
        if (kinds[i].is_trained) {
            note (world, &world->grads[i].dl);
            note (world, accel_model_master (world->model, i));
            for (size_t s = 0; s < 3; s++)
                note (world, accel_optimizer_state_tensor (s < 2 ? world->adamw : world->late, i, states[s]));
        }
    }
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct world *world = user;
    (void) error;
    for (int p = 0; p < PARAMETERS; p++) {
        const DLTensor *grad = &world->grads[p].dl;
        float values[600];
        for (int64_t i = 0; i < kinds[p].count; i++)
            values[i] = scale * sinf ((float) (i * 7 + world->step * 3 + p + accel_process_index (world->acc)));
        if (kinds[p].is_trained && grad->data)
            memory_of (grad->device)->write (grad->device, grad->data, values, bytes_of (grad));
    }
    return ACCEL_OK;
}

static void
train (struct world *world, int steps)
{
    for (int i = 0; i < steps; i++, world->step++) {
        float norm;
        MUST (accel_backward (world->acc, world->model, 0, backward, world, &err));
        MUST (accel_clip_grad_norm (world->model, 0.5, &norm, NULL, &err));
        MUST (accel_optimizer_step (world->adamw, &err));
        if (world->late)
            MUST (accel_optimizer_step (world->late, &err));
    }
    note_all (world);
}

/* On its own: nothing is averaged. */
static void
train_alone (struct world *world)
{
    MUST (backward (world, 1, &err));
    MUST (accel_optimizer_step (world->adamw, &err));
    world->step++;
    note_all (world);
}

static bool
is_at (const struct world *world, DLDeviceType type)
{
    bool good = true;
    for (int i = 0; i < PARAMETERS; i++)
        good = good && world->data[i].dl.device.device_type == type
               && (!kinds[i].is_trained || world->grads[i].dl.device.device_type == type);
    /* What the program has tied, or put side by side, still is. */
    const char *left = world->data[2].dl.data, *right = world->data[3].dl.data;
    return good && right == left + 1200 && (const char *) world->data[4].dl.data == right + 800
           && (char *) world->grads[3].dl.data == (char *) world->grads[2].dl.data + 1200;
}

static void
prepare (struct world *world)
{
    MUST (accel_prepare (world->acc, &err, world->adamw, world->model));
    if (!is_at (world, world->gpu ? kDLCUDA : kDLCPU))
        must (ACCEL_ERR_INVALID, "the model is not where it is to be");
}

static void
unwrap (struct world *world)
{
    MUST (accel_unwrap_model (world->acc, world->model, &err));
    if (!is_at (world, kDLCPU) || world->data[2].dl.data != world->array
        || world->grads[5].dl.data != world->small_grad)
        must (ACCEL_ERR_INVALID, "the model is not where it was");
}

static void
open_world (struct world *world, bool gpu)
{
    const struct accel_options options = { .device_placement = gpu ? ACCEL_YES : ACCEL_NO };
    memset (world, 0, sizeof *world);
    world->gpu = gpu;
    world->result = malloc (RESULT_BYTES);
    MUST (accel_open (&world->acc, &options, &err));
    if (accel_device (world->acc).device_type != kDLCUDA)
        must (ACCEL_ERR_SYSTEM, "there is no GPU");
    make (world);
}

/* @param closes  the job, before the model is destroyed */
static void
live (struct world *world, bool gpu, bool closes)
{
    const struct accel_optimizer_options sgd = { .lr = 0.1, .momentum = 0.9 };
    open_world (world, gpu);
    prepare (world);
    const void *place = world->data[0].dl.data;
    MUST (accel_prepare (world->acc, &err, world->model));
    if (place != world->data[0].dl.data)
        must (ACCEL_ERR_INVALID, "a second accel_prepare has moved the model");
    train (world, 2);
    MUST (accel_optimizer_create (&world->late, world->model, ACCEL_SGD, &sgd, &err));
    train (world, 2);
    unwrap (world);
    train_alone (world);
    prepare (world);
    train (world, 1);
    accel_optimizer_destroy (world->late);
    world->late = NULL;
    train (world, 1);
    MUST (accel_free_memory (world->acc, &err));
    train_alone (world);
    prepare (world);
    train (world, 1);
    if (closes) {
        accel_close (world->acc);
        world->acc = NULL;
        if (!is_at (world, kDLCPU))
            must (ACCEL_ERR_INVALID, "the model is not where it was");
        note_all (world);
    }
    accel_optimizer_destroy (world->adamw);
    accel_model_destroy (world->model);
    accel_close (world->acc);
    if (world->data[2].dl.data != world->array || world->data[0].dl.data || world->grads[0].dl.data)
        must (ACCEL_ERR_INVALID, "tensors do not point to the program's memory at the end");
    /* The program's memory has the values. */
    for (int i = 2; i < 7; i++)
        note (world, &world->data[i].dl);
    if (!closes)
        note (world, &world->grads[3].dl);
}

static void
compare (bool closes)
{
    static struct world host, gpu;
    live (&host, false, closes);
    live (&gpu, true, closes);
    ok (host.used == gpu.used && host.used > 100000 && !memcmp (host.result, gpu.result, host.used),
        "the bits of the CPU, %s",
        closes ? "which the job leaves in its memory" : "and the program's memory at the end");
    free (host.result);
    free (gpu.result);
}

/* ---- errors ---- */

static void
end (struct world *world)
{
    accel_optimizer_destroy (world->adamw);
    accel_model_destroy (world->model);
    accel_close (world->acc);
    free (world->result);
}

enum outcome { PREPARED, WRONG, AS_BEFORE = 3 };

/* In a process of its own, for what fails is counted from its start. */
static enum outcome
try_to_prepare (const char *plan, enum accel_status wanted)
{
    static struct world world, before;
    open_world (&world, true);
    note_all (&world);
    size_t used = world.used;
    before = world;
    setenv ("STANDIN_FAIL", plan, true);
    enum accel_status status = accel_prepare (world.acc, &err, world.model);
    unsetenv ("STANDIN_FAIL");
    if (!status)
        return PREPARED;
    note_all (&world);
    if (status != wanted || !is_at (&world, kDLCPU) || memcmp (before.data, world.data, sizeof before.data)
        || memcmp (before.grads, world.grads, sizeof before.grads) || world.used != 2 * used
        || memcmp (world.result, world.result + used, used)) {
        printf ("# %s: status %d: %s\n", plan, (int) status, err.text);
        return WRONG;
    }
    if (wanted == ACCEL_ERR_NOMEM) {
        prepare (&world);
        train (&world, 1);
    }
    end (&world);
    return AS_BEFORE;
}

/* What fails leaves everything as it was; after a lack of memory, the next try succeeds.
 * @param first  the first call that fails */
static void
fail_each (const char *call, int first, const char *error, enum accel_status wanted)
{
    int failures = 0, status = -1;
    char plan[64];
    fflush (stdout);
    do {
        snprintf (plan, sizeof plan, "%s:%d:%s", call, first + failures, error);
        pid_t child = fork ();
        if (!child) {
            enum outcome outcome = try_to_prepare (plan, wanted);
            if (outcome == AS_BEFORE)
                exit ((int) outcome); /* nothing may be left: the leak sanitizer looks */
            fflush (stdout);
            _exit ((int) outcome);
        }
        if (waitpid (child, &status, 0) != child || !WIFEXITED (status))
            break;
        failures++;
    } while (WEXITSTATUS (status) == AS_BEFORE);
    ok (!status && failures > 5, "%s: %d failures, after which all was as before: %x", call, failures - 1,
        (unsigned) status);
}

static void
refuse (void)
{
    static struct world world;
    struct accel_model *same, *near;
    struct accel_tensor tensor;
    const int64_t count = 10;
    open_world (&world, true);
    MUST (accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, &count, &err));
    tensor.dl.data = world.array + 650;
    const struct accel_parameter first = { "w", &world.data[2].dl, NULL }, second = { "w", &tensor.dl, NULL };
    MUST (accel_model_create (&same, &first, 1, &err));
    MUST (accel_model_create (&near, &second, 1, &err));
    MUST (accel_prepare (world.acc, &err, world.model));
    ok (accel_prepare (world.acc, &err, same) == ACCEL_ERR_UNSUPPORTED
            && strstr (err.text, "parameter 'w' is on cuda:0, but was on cpu:0 when its model was created"),
        "another model with a tensor that has moved: %s", err.text);
    ok (accel_prepare (world.acc, &err, near) == ACCEL_ERR_UNSUPPORTED && tensor.dl.data == world.array + 650
            && strstr (err.text, "the model shares memory with another one, which accel_prepare has placed on cuda:0"),
        "another model with memory that has moved: %s", err.text);
    MUST (accel_unwrap_model (world.acc, world.model, &err));
    ok (!accel_prepare (world.acc, &err, near) && tensor.dl.device.device_type == kDLCUDA,
        "which is possible when the first one is back");
    accel_model_destroy (near);
    accel_model_destroy (same);
    end (&world);
}

/* Models that share tensors, and of which one is placed, or taken back, while the other is used. */
static void
share (void)
{
    static struct world world;
    struct accel_model *early, *late, *tied;
    struct accel_optimizer *optimizers[2];
    struct accel_tensor own;
    open_world (&world, true);
    MUST (accel_tensor_init (&own, ACCEL_FLOAT32, 1, &kinds[2].count, &err));
    const struct accel_parameter same = { "w", &world.data[2].dl, &world.grads[2].dl };
    const struct accel_parameter gradient = { "w", &own.dl, &world.grads[2].dl };
    MUST (accel_model_create (&early, &same, 1, &err));
    MUST (accel_model_create (&tied, &gradient, 1, &err));
    MUST (accel_optimizer_create (&optimizers[0], early, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 0.1 },
                                  &err));
    prepare (&world);
    ok (accel_optimizer_step (optimizers[0], &err) == ACCEL_ERR_UNSUPPORTED
            && strstr (err.text, "parameter 'w' is on cuda:0, but was on cpu:0 when its model was created: another "
                                 "model with the same tensor has been prepared or taken back since"),
        "a step of a model whose tensor has moved: %s", err.text);
    ok (accel_prepare (world.acc, &err, tied) == ACCEL_ERR_UNSUPPORTED
            && strstr (err.text, "the gradient of 'w' is on cuda:0, but was on cpu:0 when its model was created"),
        "a model whose gradient has moved: %s", err.text);
    MUST (accel_model_create (&late, &same, 1, &err));
    MUST (accel_optimizer_create (&optimizers[1], late, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 0.1 },
                                  &err));
    MUST (accel_prepare (world.acc, &err, late));
    MUST (accel_optimizer_step (optimizers[1], &err));
    MUST (accel_unwrap_model (world.acc, world.model, &err));
    ok (accel_optimizer_step (optimizers[1], &err) == ACCEL_ERR_UNSUPPORTED
            && accel_optimizer_zero_grad (optimizers[1], &err) == ACCEL_ERR_UNSUPPORTED
            && accel_average_gradients (world.acc, late, &err) == ACCEL_ERR_UNSUPPORTED
            && strstr (err.text, "parameter 'w' is on cpu:0, but was on cuda:0 when its model was created"),
        "calls on a model whose tensor has gone back: %s", err.text);
    prepare (&world);
    for (int i = 0; i < 2; i++)
        accel_optimizer_destroy (optimizers[i]);
    accel_model_destroy (late);
    accel_model_destroy (early);
    accel_model_destroy (tied);
    end (&world);
}

/* Frozen, and in pages of which one may be written: as if the others were of a file. */
static void
keep_pages (void)
{
    enum { PAGE = 4096 };
    const int64_t count = 3 * PAGE;
    static struct world world;
    struct accel_model *model;
    struct accel_tensor tensor;
    const char value = 7;
    char *pages = mmap (NULL, (size_t) count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    open_world (&world, true);
    MUST (accel_tensor_init (&tensor, ACCEL_UINT8, 1, &count, &err));
    tensor.dl.data = pages + 1;
    *tensor.dl.shape = count - 1;
    const struct accel_parameter frozen = { "frozen", &tensor.dl, NULL };
    MUST (accel_model_create (&model, &frozen, 1, &err));
    if (mprotect (pages, PAGE, PROT_READ) || mprotect (pages + 2 * PAGE, PAGE, PROT_READ))
        must (ACCEL_ERR_SYSTEM, "mprotect");
    MUST (accel_prepare (world.acc, &err, model));
    memory_of (tensor.dl.device)->write (tensor.dl.device, (char *) tensor.dl.data + 2 * PAGE - 2, &value, 1);
    MUST (accel_unwrap_model (world.acc, model, &err));
    ok (tensor.dl.data == pages + 1 && pages[2 * PAGE - 1] == value && !pages[2 * PAGE],
        "frozen parameters that have not changed are not written");
    MUST (accel_prepare (world.acc, &err, model));
    accel_model_destroy (model);
    munmap (pages, (size_t) count);
    end (&world);
}

static enum accel_status
do_nothing (void *user, const struct accel_update *update, struct accel_error *error)
{
    (void) user, (void) update, (void) error;
    return ACCEL_OK;
}

static void
unwrap_world (void *world)
{
    unwrap (world);
}

/* The program's function that frees its data takes the model back. */
static void
end_custom (void)
{
    static struct world world;
    static const char *const names[] = { "state" };
    const struct accel_custom_optimizer custom = { .lr = 1, .state_names = names, .state_count = 1,
                                                   .step = do_nothing, .destroy = unwrap_world, .user = &world };
    struct accel_optimizer *optimizer;
    open_world (&world, true);
    MUST (accel_optimizer_create_custom (&optimizer, world.model, &custom, &err));
    prepare (&world);
    accel_optimizer_destroy (optimizer);
    ok (is_at (&world, kDLCPU), "a custom optimizer that takes its model back when it is destroyed");
    end (&world);
}

/* The GPU fails while the model is there. */
static void
lose (void)
{
    static struct world world;
    open_world (&world, true);
    prepare (&world);
    train (&world, 1);
    setenv ("STANDIN_FAIL", "cudaMemcpyAsync:1:700", true);
    enum accel_status status = accel_unwrap_model (world.acc, world.model, &err);
    ok (status == ACCEL_ERR_SYSTEM && is_at (&world, kDLCUDA), "a model that cannot come back stays: %s", err.text);
    accel_close (world.acc);
    world.acc = NULL;
    ok (is_at (&world, kDLCUDA), "also at the end of the job");
    MUST (accel_open (&world.acc, NULL, &err));
    status = accel_prepare (world.acc, &err, world.model);
    ok (status == ACCEL_ERR_SYSTEM && is_at (&world, kDLCUDA), "and when another job cannot prepare it: %s", err.text);
    end (&world);
    ok (world.data[2].dl.data == world.array && world.data[2].dl.device.device_type == kDLCPU,
        "but the program has its memory at the end");
}

/* Ranks of which one places and one does not. */
static void
differ (void)
{
    static struct world world;
    const char *rank = getenv ("RANK");
    open_world (&world, rank && *rank == '0');
    enum accel_status status = accel_prepare (world.acc, &err, world.model);
    ok (status == ACCEL_ERR_INVALID && is_at (&world, kDLCPU)
            && strstr (err.text, "rank 0 has 'ours' [501] float32, on cuda, rank 1 has 'ours' [501] float32"),
        "ranks that differ: %s", err.text);
    end (&world);
}

/* The GPU of rank 1 has less memory than the model needs, and then more and more. */
static void
fill_up (void)
{
    static struct world world, before;
    char limit[32];
    bool good = true;
    int turns = 0;
    open_world (&world, true);
    note_all (&world);
    size_t used = world.used;
    enum accel_status status = ACCEL_ERR_NOMEM;
    const DLDevice device = accel_device (world.acc);
    memory_of (device)->destroy (device, memory_of (device)->create (device, 1, false)); /* CUDA has what it needs */
    for (; good && turns < 100; turns++) {
        before = world;
        snprintf (limit, sizeof limit, "%d", turns * 4000);
        if (accel_process_index (world.acc) == 1)
            setenv ("STANDIN_BYTES", limit, true);
        status = accel_prepare (world.acc, &err, world.model);
        unsetenv ("STANDIN_BYTES");
        world.used = used;
        if (!status)
            break;
        note_all (&world);
        good = status == ACCEL_ERR_NOMEM && is_at (&world, kDLCPU)
               && !memcmp (before.data, world.data, sizeof before.data)
               && !memcmp (before.grads, world.grads, sizeof before.grads) && world.used == 2 * used
               && !memcmp (world.result, world.result + used, used);
        if (accel_process_index (world.acc) == 0)
            good = good && strstr (err.text, "the model cannot be placed on the GPU of rank 1: ");
    }
    ok (good && !status && turns > 5 && is_at (&world, kDLCUDA), "%d times too little memory on rank 1: %d: %s", turns,
        (int) status, err.text);
    prepare (&world);
    train (&world, 1);
    end (&world);
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp (what, "errors")) {
        fail_each ("cudaMalloc", 2, "2", ACCEL_ERR_NOMEM);
        fail_each ("cudaMemcpyAsync", 1, "700", ACCEL_ERR_SYSTEM);
        refuse ();
        share ();
        keep_pages ();
        end_custom ();
        return done_testing ();
    }
    if (!strcmp (what, "lost"))
        lose ();
    else if (!strcmp (what, "options"))
        differ ();
    else if (!strcmp (what, "full"))
        fill_up ();
    else {
        compare (false);
        compare (true);
    }
    return done_testing ();
}
