/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping and a step of an optimizer as a CUDA graph, whose launches leave the bits of steps that are called: with
 * learning rates that change, with losses scaled on the device, with a step that is skipped, and from a checkpoint.
 * Beside the stand-in, it runs on a card. */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/must.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

enum { TENSORS = 3, ELEMENTS = 700, STEPS = 8, FIRST_CAPTURED = 2, OVERFLOWS = 5 };

static const struct plan {
    const char *name, *precision;
    enum accel_optimizer_kind kind;
    bool schedules, overflows;
} plans[] = {
    { "AdamW", "no", ACCEL_ADAMW, false, false },
    { "AdamW with a schedule, 16 bits", "bf16", ACCEL_ADAMW, true, false },
    { "Adagrad", "no", ACCEL_ADAGRAD, true, false },
    { "SGD", "no", ACCEL_SGD, false, false },
    { "AdamW, scaled losses", "fp16", ACCEL_ADAMW, true, true },
};
enum { LAST = sizeof plans / sizeof *plans - 1 };

struct run {
    const struct plan *plan;
    struct accel *acc;
    DLDevice device;
    const struct memory *memory;
    cudaStream_t stream;
    struct accel_tensor data[TENSORS], grads[TENSORS];
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    int step;
    bool captures;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float result[TENSORS][ELEMENTS];
    uint64_t count;
    struct accel_scaler_state scaler;
};

static void
cuda (cudaError_t error, const char *call)
{
    if (error)
        must (ACCEL_ERR_SYSTEM, call);
}

static void
write_values (const struct run *run, const struct accel_tensor *tensor, size_t seed, float factor)
{
    float values[ELEMENTS];
    for (size_t i = 0; i < ELEMENTS; i++)
        values[i] = factor * sinf ((float) i * 0.61F + (float) seed);
    if (run->plan->overflows && run->step == OVERFLOWS && seed == OVERFLOWS)
        values[7] = INFINITY;
    run->memory->write (run->device, tensor->dl.data, values, sizeof values);
}

/* What comes before a graph in each step, and is no part of it. */
static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct run *run = user;
    float there = 1;
    const float *place = accel_loss_scale_on_device (run->acc);
    if (place && run->memory->read (run->device, &there, place, sizeof there, error))
        return ACCEL_ERR_SYSTEM;
    for (size_t t = 0; t < TENSORS; t++)
        write_values (run, &run->grads[t], t * STEPS + (size_t) run->step, scale * there / 10);
    return ACCEL_OK;
}

static void
clip_and_step (struct run *run)
{
    MUST (accel_clip_grad_norm (run->model, 0.5, NULL, NULL, &err));
    MUST (accel_optimizer_step (run->optimizer, &err));
    MUST (accel_optimizer_zero_grad (run->optimizer, &err));
}

static void
take_step (struct run *run)
{
    MUST (accel_backward (run->acc, run->model, 1, backward, run, &err));
    if (!run->captures || run->step < FIRST_CAPTURED) {
        clip_and_step (run);
    } else {
        if (run->step == FIRST_CAPTURED) {
            cuda (cudaStreamBeginCapture (run->stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
            clip_and_step (run);
            cuda (cudaStreamEndCapture (run->stream, &run->graph), "cudaStreamEndCapture");
            cuda (cudaGraphInstantiate (&run->exec, run->graph, 0), "cudaGraphInstantiate");
        }
        cuda (cudaGraphLaunch (run->exec, run->stream), "cudaGraphLaunch");
    }
    if (run->scheduler)
        MUST (accel_scheduler_step (run->scheduler, &err));
}

static void
make (struct run *run)
{
    static const char *const names[TENSORS] = { "a", "b", "c" };
    const char *some[] = { "b" };
    const int64_t shape[] = { ELEMENTS };
    struct accel_parameter parameters[TENSORS];
    enum accel_flag captures = run->captures ? ACCEL_YES : ACCEL_NO;
    const struct accel_param_group groups[] = { { .parameters = some, .parameter_count = 1, .lr = 0.02 } };
    const struct accel_optimizer_options options = { .lr = 0.1, .groups = groups, .group_count = 1,
                                                     .capturable = captures,
                                                     .amsgrad = run->plan->overflows ? ACCEL_YES : ACCEL_DEFAULT };
    const struct accel_scheduler_options cosine = { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = STEPS };
    for (size_t t = 0; t < TENSORS; t++) {
        struct accel_tensor *both[] = { &run->data[t], &run->grads[t] };
        for (size_t i = 0; i < 2; i++) {
            MUST (memory_allocate (both[i], ACCEL_FLOAT32, 1, shape, run->device, &err));
            both[i]->dl.shape = both[i]->shape;
        }
        write_values (run, &run->data[t], t + 100, 1);
        parameters[t] = (struct accel_parameter){ names[t], &run->data[t].dl, &run->grads[t].dl };
    }
    MUST (accel_model_create (&run->model, parameters, TENSORS, &err));
    MUST (accel_optimizer_create (&run->optimizer, run->model, run->plan->kind, &options, &err));
    if (run->plan->schedules)
        MUST (accel_scheduler_create (&run->scheduler, run->optimizer, &cosine, &err));
    MUST (accel_prepare (run->acc, &err, run->model, run->optimizer, run->scheduler));
}

static void
train (struct run *run, const struct plan *plan, bool captures)
{
    const struct accel_grad_scaler scaler = { .on_device = captures ? ACCEL_YES : ACCEL_NO, .growth_interval = 3 };
    const struct accel_options options = { .mixed_precision = plan->precision, .grad_scaler = &scaler };
    *run = (struct run){ .plan = plan, .captures = captures };
    MUST (accel_open (&run->acc, &options, &err));
    run->device = accel_device (run->acc);
    run->memory = memory_of (run->device);
    cuda (cudaStreamCreateWithFlags (&run->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    MUST (accel_set_stream (run->device, run->stream, &err));
    make (run);
    for (run->step = 0; run->step < STEPS; run->step++)
        take_step (run);
    run->count = accel_optimizer_step_count (run->optimizer);
    accel_scaler_get_state (run->acc, &run->scaler);
    for (size_t t = 0; t < TENSORS; t++)
        MUST (run->memory->read (run->device, run->result[t], run->data[t].dl.data, sizeof run->result[t], &err));
    if (run->exec)
        cuda (cudaGraphExecDestroy (run->exec), "cudaGraphExecDestroy");
    if (run->graph)
        cuda (cudaGraphDestroy (run->graph), "cudaGraphDestroy");
}

static void
drop (struct run *run)
{
    accel_scheduler_destroy (run->scheduler);
    accel_optimizer_destroy (run->optimizer);
    accel_model_destroy (run->model);
    MUST (accel_set_stream (run->device, NULL, &err));
    for (size_t t = 0; t < TENSORS; t++) {
        accel_tensor_release (&run->data[t]);
        accel_tensor_release (&run->grads[t]);
    }
    accel_close (run->acc);
    cudaStreamDestroy (run->stream);
}

static void
compare (const struct plan *plan)
{
    static struct run called, launched;
    uint64_t steps = STEPS - plan->overflows;
    train (&called, plan, false);
    drop (&called);
    train (&launched, plan, true);
    ok (!memcmp (called.result, launched.result, sizeof called.result), "%s: launches have the bits of calls",
        plan->name);
    ok (called.count == steps && launched.count == steps, "%s: %d steps: %d", plan->name, (int) steps,
        (int) launched.count);
    ok (called.scaler.scale == launched.scaler.scale && called.scaler.growth_tracker == launched.scaler.growth_tracker,
        "%s: the scale is %g", plan->name, (double) launched.scaler.scale);
    accel_optimizer_set_step_count (launched.optimizer, 40);
    ok (accel_optimizer_step_count (launched.optimizer) == 40, "%s: the count is set", plan->name);
    drop (&launched);
}

/* ---- what else may happen to a step ---- */

/* A model of float16 gradients in a job of fp16, whose memory the library places on the GPU. */
struct half {
    struct accel *acc;
    uint16_t data[4], grads[4];
    struct accel_tensor tensors[2];
    struct accel_model *model;
    struct accel_optimizer *optimizer;
};

static void
half_make (struct half *half, enum accel_flag on_device)
{
    const struct accel_grad_scaler scaler = { .on_device = on_device, .init_scale = 1024 };
    const struct accel_options options = { .mixed_precision = "fp16", .grad_scaler = &scaler };
    const int64_t shape[] = { 4 };
    const float values[] = { 0.5F, -2, 1.25F, 3 };
    *half = (struct half){ .acc = NULL };
    MUST (accel_open (&half->acc, &options, &err));
    MUST (accel_convert (values, ACCEL_FLOAT32, half->data, ACCEL_FLOAT16, 4, &err));
    for (size_t i = 0; i < 2; i++) {
        MUST (accel_tensor_init (&half->tensors[i], ACCEL_FLOAT16, 1, shape, &err));
        half->tensors[i].dl.data = i ? half->grads : half->data;
    }
    const struct accel_parameter parameter = { "w", &half->tensors[0].dl, &half->tensors[1].dl };
    const struct accel_optimizer_options adamw = { .lr = 0.1 };
    MUST (accel_model_create (&half->model, &parameter, 1, &err));
    MUST (accel_optimizer_create (&half->optimizer, half->model, ACCEL_ADAMW, &adamw, &err));
    MUST (accel_prepare (half->acc, &err, half->model, half->optimizer));
}

static void
half_backward (struct half *half)
{
    const float values[] = { 1024 * 0.25F, 1024 * -0.5F, 1024 * 1, 1024 * 0.125F };
    uint16_t bytes[4];
    const DLTensor *grad = &half->tensors[1].dl;
    MUST (accel_convert (values, ACCEL_FLOAT32, bytes, ACCEL_FLOAT16, 4, &err));
    memory_of (grad->device)->write (grad->device, grad->data, bytes, sizeof bytes);
    MUST (accel_average_gradients (half->acc, half->model, &err));
}

/* Steps in a job, one of whose gradients are unscaled there, and the others after the model has left it. */
static void
half_train (struct half *half, enum accel_flag on_device, bool closes)
{
    half_make (half, on_device);
    for (int i = 0; i < 3; i++) {
        half_backward (half);
        MUST (accel_optimizer_step (half->optimizer, &err));
    }
    half_backward (half);
    MUST (accel_unscale_gradients (half->acc, NULL, &err));
    if (closes)
        accel_close (half->acc);
    else
        MUST (accel_unwrap_model (half->acc, half->model, &err));
    MUST (accel_optimizer_step (half->optimizer, &err));
    MUST (accel_optimizer_step (half->optimizer, &err));
    if (!closes)
        accel_close (half->acc);
}

static void
leave_job (bool closes)
{
    struct half host, there;
    half_train (&host, ACCEL_NO, closes);
    half_train (&there, ACCEL_YES, closes);
    ok (!memcmp (host.data, there.data, sizeof host.data) && accel_optimizer_step_count (there.optimizer) == 5
            && accel_optimizer_step_count (host.optimizer) == 5,
        "a model leaves its job, %s: 5 steps: %d", closes ? "which is closed" : "unwrapped",
        (int) accel_optimizer_step_count (there.optimizer));
    accel_optimizer_destroy (host.optimizer);
    accel_model_destroy (host.model);
    accel_optimizer_destroy (there.optimizer);
    accel_model_destroy (there.model);
}

/* What a process computes with a vocabulary, here the whole of it: none of it can be captured. */
static enum accel_status
use_vocabulary (int which, const int32_t *tokens, float *weights, float *values)
{
    enum { COUNT = 2, ROWS = 4, WIDTH = 4 };
    if (which == 0)
        return accel_parallel_cross_entropy (NULL, tokens, COUNT, ROWS, 1, weights, values, &err);
    if (which == 1)
        return accel_parallel_embedding (NULL, weights, ROWS, WIDTH, tokens, COUNT, values, &err);
    return accel_parallel_embedding_backward (NULL, ROWS, WIDTH, tokens, COUNT, values, weights, &err);
}

static void
refuse_vocabulary (const struct run *run, const char *words)
{
    static const char *const names[] = { "losses", "an embedding", "its gradients" };
    float *memory = run->memory->create (run->device, 64 * sizeof *memory, true), *values = memory + 32, loss;
    const int32_t *tokens = (const int32_t *) (const void *) (memory + 48); /* zeros */
    cudaGraph_t graph;
    cuda (cudaStreamBeginCapture (run->stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (int i = 0; i < 3; i++)
        ok (use_vocabulary (i, tokens, memory, values) == ACCEL_ERR_SYSTEM && strstr (err.text, words),
            "nor can %s: %s", names[i], err.text);
    cuda (cudaStreamEndCapture (run->stream, &graph), "cudaStreamEndCapture");
    for (int i = 2; i >= 0; i--)
        MUST (use_vocabulary (i, tokens, memory, values));
    MUST (run->memory->read (run->device, &loss, values, sizeof loss, &err));
    ok (fabsf (loss - logf (4)) < 1e-6F, "which can be repeated: %g", (double) loss);
    run->memory->destroy (run->device, memory);
    cudaGraphDestroy (graph);
}

/* A step that was not taken before has no room for what it needs, and a number cannot be read: sentences, and the
 * capture goes on. */
static void
refuse (void)
{
    static const char words[]
        = "a stream is being captured into a CUDA graph, and libaccel's work cannot be part of one";
    const struct accel_grad_scaler scaler = { .on_device = ACCEL_YES };
    const struct accel_options options = { .mixed_precision = "fp16", .grad_scaler = &scaler };
    const struct accel_param_group no_amsgrad = { .amsgrad = ACCEL_NO };
    struct run run = { .plan = &plans[LAST], .captures = true };
    struct accel_optimizer *plain;
    float norm;
    MUST (accel_open (&run.acc, &options, &err));
    run.device = accel_device (run.acc);
    run.memory = memory_of (run.device);
    cuda (cudaStreamCreateWithFlags (&run.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    MUST (accel_set_stream (run.device, run.stream, &err));
    make (&run);
    MUST (accel_optimizer_create (&plain, run.model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 }, &err));
    MUST (accel_backward (run.acc, run.model, 1, backward, &run, &err));
    cuda (cudaStreamBeginCapture (run.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    ok (accel_optimizer_step (run.optimizer, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, words),
        "the first step cannot be captured: %s", err.text);
    cuda (cudaStreamEndCapture (run.stream, &run.graph), "cudaStreamEndCapture");
    MUST (accel_optimizer_step (run.optimizer, &err)); /* with the gradients of before */
    MUST (run.memory->read (run.device, run.result[0], run.data[0].dl.data, sizeof run.result[0], &err));
    ok (fabsf (run.result[0][1] - sinf (0.61F + 100)) < 0.2F, "what was refused can be repeated: %g",
        (double) run.result[0][1]);
    clip_and_step (&run);
    cudaGraph_t second;
    cuda (cudaStreamBeginCapture (run.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    ok (accel_clip_grad_norm (run.model, 0.5, &norm, NULL, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, words),
        "nor can a norm that the program asks for: %s", err.text);
    clip_and_step (&run);
    ok (accel_optimizer_step (plain, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, words)
            && accel_optimizer_step_count (plain) == 0,
        "nor a step of another optimizer, without .capturable: %s", err.text);
    cuda (cudaStreamEndCapture (run.stream, &second), "cudaStreamEndCapture");
    ok (accel_optimizer_step_count (run.optimizer) == 2, "a capture is no step");
    ok (accel_optimizer_set_group (run.optimizer, 0, &no_amsgrad, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "amsgrad"),
        "another rule: %s", err.text);
    refuse_vocabulary (&run, words);
    accel_optimizer_destroy (plain);
    cudaGraphDestroy (run.graph);
    cudaGraphDestroy (second);
    drop (&run);
}

int
main (void)
{
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        compare (&plans[i]);
    refuse ();
    leave_job (false);
    leave_job (true);
    return done_testing ();
}
