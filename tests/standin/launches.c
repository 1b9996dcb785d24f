/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of training on a GPU: how often it is given work, and waited for, which must not depend on how many parameters
 * there are; and what comes out, which must be the CPU's bits.
 * usage: launches [large]    short: only those that the others are made of */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/must.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 120, MANY = 40, FEW = 10, FIRST_STEPS = 2, STEPS = 4, TYPES = 4 };

static bool is_large;
static void (*count_calls) (struct standin_counts *counts);
static int (*set_device) (int device);

static const enum accel_dtype types[TYPES]
    = { ACCEL_FLOAT32, ACCEL_BFLOAT16, ACCEL_FLOAT8_E4M3FN, ACCEL_FLOAT8_E5M2 };

/* What a step does beside the optimizer's. */
struct plan {
    const char *name;
    const char *precision;
    size_t types; /* of parameters, this many of the list */
    double clip;  /* to a norm of this p; -1: values; NAN: not at all */
    bool asks;    /* for the norm */
    int kind;     /* of the optimizer: 0 AdamW, 1 SGD, 2 Lion in two groups and without one parameter */
    bool is_short;
    bool is_wide;        /* `large` has an array with more elements than one launch has room for */
    unsigned long reads; /* of numbers that the host needs in a step, each with two waits: for its room, and for it */
    uint32_t passes;     /* whose gradients are accumulated; 0: 1 */
    enum accel_flag on_device;  /* the scaler */
    enum accel_flag capturable; /* the optimizer */
    bool overflows;      /* the second step has an infinite gradient */
};
static const struct plan plans[] = {
    { "float32, AdamW", "no", 1, NAN, false, 0, false, false, 0 },
    { "all types, AdamW, clipped by their norm", "bf16", TYPES, 2, false, 0, true, true, 0 },
    { "all types, SGD, clipped by the largest", "bf16", TYPES, INFINITY, false, 1, false, false, 0 },
    { "16 bits, Lion in groups, clipped by value", "bf16", 2, -1, false, 2, true, false, 0 },
    { "float32, AdamW, the norm is asked for", "no", 1, 2, true, 0, false, false, 1 },
    { "float32, the 1-norm", "no", 1, 1, true, 0, true, false, 1 },
    { "all types, scaled losses", "fp16", TYPES, 2, false, 0, false, false, 2 },
    { "all types, scaled losses, clipped before they are complete", "fp16", TYPES, 2, false, 0, true, false, 0, STEPS },
    { "a count of steps on the device", "bf16", TYPES, 2, false, 0, true, false, 0, .capturable = ACCEL_YES },
    { "that of two groups, SGD", "no", 1, NAN, false, 1, false, false, 0, .capturable = ACCEL_YES },
    { "scaled losses on the device", "fp16", TYPES, 2, false, 0, true, false, 0, .on_device = ACCEL_YES },
    { "a step that is skipped", "fp16", TYPES, NAN, false, 0, true, false, 1, .overflows = true },
    { "a step that the device skips", "fp16", TYPES, 2, false, 0, true, false, 0, .on_device = ACCEL_YES,
      .overflows = true },
    { "the same, clipped by value, Lion in groups", "fp16", TYPES, -1, false, 2, true, false, 0,
      .on_device = ACCEL_YES, .overflows = true },
    { "scaled losses on the device, the norm is asked for", "fp16", TYPES, 2, true, 0, false, false, 1,
      .on_device = ACCEL_YES },
};

struct run {
    const struct plan *plan;
    struct accel *acc;
    DLDevice device;
    size_t count;
    struct accel_tensor data[MOST], grads[MOST];
    struct accel_parameter parameters[MOST];
    char names[MOST][16];
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    int step;
    float norm;
    struct standin_counts calls[STEPS];
    unsigned char *result;
    size_t result_bytes;
};

/* Some are empty, some have one element, and one is larger than what a launch of one array would have blocks for. */
static int64_t
elements_of (const struct run *run, size_t index)
{
    if (index == 5)
        return is_large && run->plan->is_wide && run->count > FEW ? 2200000 : 5000;
    return index % 17 == 3 ? 0 : index % 17 == 4 ? 1 : (int64_t) (index * 7 % 60);
}

static float
number (size_t i, size_t seed)
{
    return sinf ((float) (i % 4099) * 0.61F + (float) seed);
}

static struct accel_tensor
make (const struct run *run, enum accel_dtype dtype, size_t index)
{
    const int64_t shape[] = { elements_of (run, index) };
    struct accel_tensor host, there;
    MUST (accel_tensor_init (&host, dtype, 1, shape, &err));
    size_t count = (size_t) shape[0];
    float *values = malloc ((count + 1) * sizeof *values);
    void *bytes = calloc (count + 1, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = number (i, index);
    MUST (accel_convert (values, ACCEL_FLOAT32, bytes, dtype, count, &err));
    host.dl.data = bytes;
    MUST (memory_send (&there, &host.dl, run->device, &err));
    free (values);
    free (bytes);
    return there;
}

static size_t
bytes_of (const DLTensor *tensor)
{
    return accel_tensor_count (tensor) * (tensor->dtype.bits / 8U);
}

/* Gradients that the GPU already has: to write them there would be work, too. */
static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct run *run = user;
    (void) error;
    const struct memory *memory = memory_of (run->device);
    if (accel_loss_scale_on_device (run->acc)) /* where it is still what it was at the beginning */
        scale *= 65536;
    for (size_t p = 0; p < run->count && run->step < FIRST_STEPS; p++) {
        size_t count = accel_tensor_count (&run->grads[p].dl);
        enum accel_dtype dtype = accel_dtype_from_dl (run->grads[p].dl.dtype);
        float *values = malloc ((count + 1) * sizeof *values);
        void *bytes = malloc ((count + 1) * sizeof *values);
        for (size_t i = 0; i < count; i++)
            values[i] = scale * number (i, p * 3 + (size_t) run->step) / 100;
        if (run->plan->overflows && run->step == 1 && p == 5)
            values[4] = INFINITY;
        MUST (accel_convert (values, ACCEL_FLOAT32, bytes, dtype, count, &err));
        memory->write (run->device, run->grads[p].dl.data, bytes, bytes_of (&run->grads[p].dl));
        free (values);
        free (bytes);
    }
    return ACCEL_OK;
}

static void
make_optimizer (struct run *run)
{
    const enum accel_flag capturable = run->plan->capturable;
    const struct accel_optimizer_options adamw = { .lr = 0.01, .weight_decay = 0.01, .amsgrad = true,
                                                   .capturable = capturable };
    const struct accel_optimizer_options sgd = { .lr = 0.1, .momentum = 0.9, .capturable = capturable };
    const char *some[] = { run->names[0], run->names[5] }, *left_out[] = { run->names[7] };
    const struct accel_param_group groups[] = { { .parameters = some, .parameter_count = 2, .lr = 0.02 },
                                                { .parameters = left_out, .parameter_count = 1, .skip = true } };
    const struct accel_optimizer_options lion = { .lr = 0.01, .groups = groups, .group_count = 2 };
    if (run->plan->kind == 0)
        MUST (accel_optimizer_create (&run->optimizer, run->model, ACCEL_ADAMW, &adamw, &err));
    else if (run->plan->kind == 1)
        MUST (accel_optimizer_create (&run->optimizer, run->model, ACCEL_SGD, &sgd, &err));
    else
        MUST (accel_optimizer_create (&run->optimizer, run->model, ACCEL_LION, &lion, &err));
}

static void
take_step (struct run *run)
{
    double clip = run->plan->clip;
    if (run->plan->passes)
        MUST (accel_accumulate (run->acc, &err, run->model));
    MUST (accel_backward (run->acc, run->model, 1, backward, run, &err));
    if (clip >= 0)
        MUST (accel_clip_grad_norm (run->model, 0.5, run->plan->asks ? &run->norm : NULL,
                                    &(struct accel_clip_options){ .norm_type = accel_exactly (clip) }, &err));
    else if (clip < 0)
        MUST (accel_clip_grad_value (run->model, 0.003, &err));
    MUST (accel_optimizer_step (run->optimizer, &err));
    MUST (accel_optimizer_zero_grad (run->optimizer, &err));
}

/* What the memory has at the end. */
static void
fetch (struct run *run)
{
    size_t room = 0;
    for (size_t p = 0; p < run->count; p++)
        room += 4 * (bytes_of (&run->data[p].dl) * 4 + 8);
    run->result = calloc (room + 1, 1);
    for (size_t p = 0; p < run->count; p++) {
        float scale = accel_model_scale (run->model, p);
        DLTensor *tensors[] = { &run->data[p].dl, &run->grads[p].dl, accel_model_master (run->model, p) };
        for (size_t i = 0; i < 3; i++) {
            MUST (memory_of (run->device)->read (run->device, run->result + run->result_bytes, tensors[i]->data,
                                                 bytes_of (tensors[i]), &err));
            run->result_bytes += bytes_of (tensors[i]);
        }
        memcpy (run->result + run->result_bytes, &scale, sizeof scale);
        run->result_bytes += sizeof scale;
    }
}

static void
train (struct run *run, const struct plan *plan, size_t count, bool gpu)
{
    const struct accel_grad_scaler scaler = { .on_device = gpu ? plan->on_device : ACCEL_NO };
    const struct accel_options options = { .mixed_precision = plan->precision, .device_placement = ACCEL_NO,
                                           .grad_scaler = &scaler };
    memset (run, 0, sizeof *run);
    run->plan = plan;
    run->count = count;
    MUST (accel_open (&run->acc, &options, &err));
    if (plan->passes)
        MUST (accel_set_gradient_accumulation_steps (run->acc, plan->passes, &err));
    run->device = gpu ? accel_device (run->acc) : (DLDevice){ .device_type = kDLCPU };
    if (gpu && run->device.device_type != kDLCUDA)
        must (ACCEL_ERR_SYSTEM, "there is no GPU");
    for (size_t i = 0; i < count; i++) {
        enum accel_dtype dtype = types[i % plan->types];
        run->data[i] = make (run, dtype, i);
        run->grads[i] = make (run, dtype == ACCEL_BFLOAT16 && i % 8 < 4 ? dtype : ACCEL_FLOAT32, i);
        run->data[i].dl.shape = run->data[i].shape;
        run->grads[i].dl.shape = run->grads[i].shape;
        snprintf (run->names[i], sizeof run->names[i], "p%zu", i);
        run->parameters[i] = (struct accel_parameter){ run->names[i], &run->data[i].dl, &run->grads[i].dl };
    }
    MUST (accel_model_create (&run->model, run->parameters, count, &err));
    make_optimizer (run);
    MUST (accel_prepare (run->acc, &err, run->model, run->optimizer));
    for (run->step = 0; run->step < STEPS; run->step++) {
        if (gpu && count_calls)
            count_calls (&run->calls[run->step]);
        take_step (run);
    }
    struct standin_counts *last = &run->calls[STEPS - 1], now = { 0 };
    if (gpu && count_calls)
        count_calls (&now);
    *last = (struct standin_counts){ now.launches - last->launches, now.copies - last->copies,
                                     now.fills - last->fills, now.waits - last->waits,
                                     now.allocations - last->allocations };
    fetch (run);
    accel_optimizer_destroy (run->optimizer);
    accel_model_destroy (run->model);
    accel_close (run->acc);
    for (size_t i = 0; i < count; i++) {
        accel_tensor_release (&run->data[i]);
        accel_tensor_release (&run->grads[i]);
    }
}

/* The module's, which it has loaded; NVIDIA's module has none. */
static void
find_counter (void)
{
    char path[4096];
    memory_of ((DLDevice){ .device_type = kDLCUDA });
    snprintf (path, sizeof path, "%s/accel_device_cuda.so", getenv ("ACCEL_ENGINE_PATH"));
    void *module = dlopen (path, RTLD_NOW | RTLD_NOLOAD);
    if (module)
        *(void **) &count_calls = dlsym (module, "standin_count");
    if (module)
        *(void **) &set_device = dlsym (module, "cudaSetDevice");
}

static void
compare (const struct plan *plan)
{
    static struct run host, few, many;
    size_t count = is_large ? MOST : MANY;
    train (&host, plan, count, false);
    train (&many, plan, count, true);
    train (&few, plan, FEW, true);
    const struct standin_counts *most = &many.calls[STEPS - 1], *least = &few.calls[STEPS - 1];
    ok (host.result_bytes == many.result_bytes && !memcmp (host.result, many.result, host.result_bytes)
            && host.norm == many.norm,
        "%s: the bits of the CPU", plan->name);
    if (count_calls)
        ok (most->launches == least->launches && most->launches && most->launches < 16 && most->fills < 4
                && most->fills == least->fills,
            "%s: as many launches for %zu parameters as for %d: %lu, %lu; fills: %lu", plan->name, count, (int) FEW,
            most->launches, least->launches, most->fills);
    if (count_calls && !plan->passes)
        ok (most->waits == 2 * plan->reads && most->copies == plan->reads && !most->allocations,
            "%s: the host waits %lu times, for %lu copies", plan->name, most->waits, most->copies);
    free (host.result);
    free (many.result);
    free (few.result);
}

/* The gradients of two models, which have one norm. */
static void
clip_together (bool gpu, unsigned char *result)
{
    enum { MODELS = 2 };
    struct run run = { .plan = plans };
    struct accel_model *models[MODELS];
    struct accel_tensor data, grads[MODELS];
    MUST (accel_open (&run.acc, &(struct accel_options){ .device_placement = ACCEL_NO }, &err));
    run.device = gpu ? accel_device (run.acc) : (DLDevice){ .device_type = kDLCPU };
    data = make (&run, ACCEL_FLOAT32, 6);
    data.dl.shape = data.shape;
    for (size_t m = 0; m < MODELS; m++) {
        grads[m] = make (&run, ACCEL_FLOAT32, 6);
        grads[m].dl.shape = grads[m].shape;
        const struct accel_parameter parameter = { "w", &data.dl, &grads[m].dl };
        MUST (accel_model_create (&models[m], &parameter, 1, &err));
        MUST (accel_prepare (run.acc, &err, models[m]));
    }
    const struct accel_clip_options options = { .others = models + 1, .other_count = MODELS - 1 };
    MUST (accel_clip_grad_norm (models[0], 0.5, NULL, &options, &err));
    for (size_t m = 0; m < MODELS; m++) {
        MUST (memory_of (run.device)->read (run.device, result, grads[m].dl.data, bytes_of (&grads[m].dl), &err));
        result += bytes_of (&grads[m].dl);
        accel_model_destroy (models[m]);
        accel_tensor_release (&grads[m]);
    }
    accel_tensor_release (&data);
    accel_close (run.acc);
}

static void
compare_clipped (void)
{
    static unsigned char host[4096], there[4096];
    clip_together (false, host);
    clip_together (true, there);
    ok (!memcmp (host, there, sizeof host), "the norm of several models: the bits of the CPU");
}

/* A norm that is not above the limit scales nothing, so a program may ask for the norm alone. */
static void
count_norms (void)
{
    static const double limits[] = { 0.5, INFINITY };
    struct standin_counts counts[3] = { 0 };
    struct run run = { .plan = plans };
    struct accel_model *model;
    float norm;
    MUST (accel_open (&run.acc, &(struct accel_options){ .device_placement = ACCEL_NO }, &err));
    run.device = accel_device (run.acc);
    struct accel_tensor data = make (&run, ACCEL_FLOAT32, 6), grad = make (&run, ACCEL_FLOAT32, 6);
    data.dl.shape = data.shape;
    grad.dl.shape = grad.shape;
    MUST (accel_model_create (&model, &(struct accel_parameter){ "w", &data.dl, &grad.dl }, 1, &err));
    MUST (accel_clip_grad_norm (model, limits[0], &norm, NULL, &err)); /* makes the table */
    for (size_t i = 0; i < 3 && count_calls; i++) {
        count_calls (&counts[i]);
        if (i < 2)
            MUST (accel_clip_grad_norm (model, limits[i], &norm, NULL, &err));
    }
    ok (counts[1].launches - counts[0].launches == counts[2].launches - counts[1].launches + (count_calls ? 1 : 0),
        "a norm without a limit: one launch less");
    accel_model_destroy (model);
    accel_tensor_release (&data);
    accel_tensor_release (&grad);
    accel_close (run.acc);
}

/* Losses of logits: three launches and no wait, unless the host has them. */
static void
count_losses (void)
{
    enum { ROWS = 3, COLUMNS = 4 };
    const DLDevice device = { .device_type = kDLCUDA };
    const struct memory *memory = memory_of (device);
    struct standin_counts counts[3] = { 0 };
    float losses[ROWS], *logits = memory->create (device, ROWS * (COLUMNS + 1) * sizeof *logits, true);
    const int32_t *labels = memory->create (device, ROWS * sizeof *labels, true);
    for (size_t i = 0; i < 3; i++) {
        if (count_calls)
            count_calls (&counts[i]);
        float *into = i ? losses : logits + ROWS * COLUMNS;
        if (i < 2)
            MUST (accel_parallel_cross_entropy (NULL, labels, ROWS, COLUMNS, 1, logits, into, &err));
    }
    ok (counts[1].launches - counts[0].launches == (count_calls ? 3 : 0) && counts[1].waits == counts[0].waits
            && counts[1].copies == counts[0].copies,
        "losses on a GPU: %lu launches, %lu waits", counts[1].launches - counts[0].launches,
        counts[1].waits - counts[0].waits);
    ok (!count_calls || counts[2].waits > counts[1].waits, "losses that the host has: %lu waits",
        counts[2].waits - counts[1].waits);
    memory->destroy (device, logits);
    memory->destroy (device, (void *) (uintptr_t) labels);
}

/* Whether an error of the program's own CUDA work was found by the call that @begin names. */
static bool
is_blamed (enum accel_status status, const char *begin)
{
    return status == ACCEL_ERR_SYSTEM && !strncmp (err.text, begin, strlen (begin))
           && strstr (err.text, "the program's own CUDA work failed before this call");
}

static void
blame_calls (void)
{
    enum { NONE = 99 }; /* the number of no GPU */
    static const char norm_at[] = "accel_clip_grad_norm at ";
    struct run run = { .plan = plans };
    struct accel_model *model;
    float norm;
    if (!set_device)
        return;
    MUST (accel_open (&run.acc, &(struct accel_options){ .device_placement = ACCEL_NO }, &err));
    run.device = accel_device (run.acc);
    struct accel_tensor data = make (&run, ACCEL_FLOAT32, 6), grad = make (&run, ACCEL_FLOAT32, 6);
    data.dl.shape = data.shape;
    grad.dl.shape = grad.shape;
    MUST (accel_model_create (&model, &(struct accel_parameter){ "w", &data.dl, &grad.dl }, 1, &err));
    MUST (accel_optimizer_create (&run.optimizer, model, ACCEL_ADAMW, NULL, &err));
    MUST (accel_clip_grad_norm (model, 0.5, &norm, NULL, &err)); /* makes the table */
    ok (is_blamed (set_device (NONE) ? accel_clip_grad_norm (model, 0.5, NULL, NULL, &err) : ACCEL_OK, norm_at),
        "clipping finds an error of the program, and names itself: %s", err.text);
    ok (is_blamed (set_device (NONE) ? accel_clip_grad_norm (model, 0.5, &norm, NULL, &err) : ACCEL_OK, norm_at),
        "also if the norm is asked for: %s", err.text);
    ok (is_blamed (set_device (NONE) ? accel_clip_grad_value (model, 0.5, &err) : ACCEL_OK,
                   "accel_clip_grad_value at "),
        "by clipping values: %s", err.text);
    ok (is_blamed (set_device (NONE) ? accel_optimizer_step (run.optimizer, &err) : ACCEL_OK,
                   "accel_optimizer_step at "),
        "by a step: %s", err.text);
    ok (is_blamed (set_device (NONE) ? accel_optimizer_zero_grad (run.optimizer, &err) : ACCEL_OK,
                   "accel_optimizer_zero_grad: "),
        "and where gradients become 0: %s", err.text);
    MUST (accel_optimizer_step (run.optimizer, &err)); /* once */
    accel_optimizer_destroy (run.optimizer);
    accel_model_destroy (model);
    accel_tensor_release (&data);
    accel_tensor_release (&grad);
    accel_close (run.acc);
}

int
main (int argc, char **argv)
{
    is_large = argc > 1 && !strcmp (argv[1], "large");
    find_counter ();
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        if (is_large || plans[i].is_short)
            compare (&plans[i]);
    compare_clipped ();
    count_norms ();
    count_losses ();
    blame_calls ();
    return done_testing ();
}
