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
                                                     .capturable = captures };
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

/* A step that was not taken before has no room for what it needs, and a number cannot be read: sentences, and the
 * capture goes on. */
static void
refuse (void)
{
    static const char words[]
        = "a stream is being captured into a CUDA graph, and libaccel's work cannot be part of one";
    struct run run = { .plan = &plans[0], .captures = true };
    float norm;
    MUST (accel_open (&run.acc, NULL, &err));
    run.device = accel_device (run.acc);
    run.memory = memory_of (run.device);
    cuda (cudaStreamCreateWithFlags (&run.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    MUST (accel_set_stream (run.device, run.stream, &err));
    make (&run);
    MUST (accel_backward (run.acc, run.model, 1, backward, &run, &err));
    cuda (cudaStreamBeginCapture (run.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    ok (accel_optimizer_step (run.optimizer, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, words),
        "the first step cannot be captured: %s", err.text);
    cuda (cudaStreamEndCapture (run.stream, &run.graph), "cudaStreamEndCapture");
    clip_and_step (&run);
    cudaGraph_t second;
    cuda (cudaStreamBeginCapture (run.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    ok (accel_clip_grad_norm (run.model, 0.5, &norm, NULL, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, words),
        "nor can a norm that the program asks for: %s", err.text);
    clip_and_step (&run);
    cuda (cudaStreamEndCapture (run.stream, &second), "cudaStreamEndCapture");
    ok (accel_optimizer_step_count (run.optimizer) == 1, "a capture is no step");
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
    return done_testing ();
}
