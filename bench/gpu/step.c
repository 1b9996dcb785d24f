/* SPDX-License-Identifier: Apache-2.0 */
/* What a training step costs beside its arithmetic: accel_backward(), clipping, the optimizer's step and zeroed
 * gradients of 148 tiny parameters, and what the step asks of CUDA's runtime, whose functions are counted on their way.
 * usage: step small|full */
#define _GNU_SOURCE
#include "bench/gpu/gpu.h"

#include <dlfcn.h>

/* ---- counting ---- */

static unsigned long launches, copies, fills, waits;

/* The program comes before libraries, so the module calls these, which call the runtime's. */
#define API __attribute__ ((visibility ("default")))
#define NEXT(function, ...)                                                  \
    static __typeof__ (&function) next;                                      \
    if (!next)                                                               \
        *(void **) &next = dlsym (RTLD_NEXT, #function);                     \
    return next (__VA_ARGS__)

/* What nvcc of CUDA 13 compiles a launch to. */
cudaError_t __cudaLaunchKernel (void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                cudaStream_t stream);

API cudaError_t
__cudaLaunchKernel (void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    launches++;
    NEXT (__cudaLaunchKernel, kernel, grid, block, arguments, shared, stream);
}

API cudaError_t
cudaLaunchKernel (const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    launches++;
    NEXT (cudaLaunchKernel, kernel, grid, block, arguments, shared, stream);
}

API cudaError_t
cudaMemcpyAsync (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    copies++;
    NEXT (cudaMemcpyAsync, to, from, bytes, kind, stream);
}

API cudaError_t
cudaMemsetAsync (void *to, int byte, size_t bytes, cudaStream_t stream)
{
    fills++;
    NEXT (cudaMemsetAsync, to, byte, bytes, stream);
}

API cudaError_t
cudaStreamSynchronize (cudaStream_t stream)
{
    waits++;
    NEXT (cudaStreamSynchronize, stream);
}

API cudaError_t
cudaEventSynchronize (cudaEvent_t event)
{
    waits++;
    NEXT (cudaEventSynchronize, event);
}

/* ---- steps ---- */

struct job {
    struct accel *acc;
    struct gpu_model *model;
    struct accel_optimizer *optimizer;
    bool clips;
};

static void
step (struct job *job)
{
    MUST (accel_backward (job->acc, job->model->model, 0, no_backward, NULL, &err));
    if (job->clips)
        MUST (accel_clip_grad_norm (job->model->model, 1, NULL, NULL, &err));
    MUST (accel_optimizer_step (job->optimizer, &err));
    MUST (accel_optimizer_zero_grad (job->optimizer, &err));
}

static void
measure (const char *name, const struct accel_options *options, enum accel_dtype dtype, bool clips, int times)
{
    struct shapes shapes = shapes_gpt2 (96);
    struct job job = { .acc = open_with (options), .clips = clips };
    double queued[ROUNDS], done[ROUNDS];
    job.model = gpu_model_create (&shapes, dtype);
    MUST (accel_optimizer_create (&job.optimizer, job.model->model, ACCEL_ADAMW, NULL, &err));
    MUST (accel_prepare (job.acc, &err, job.model->model, job.optimizer));
    for (int i = 0; i < 3; i++)
        step (&job);
    CUDA (cudaDeviceSynchronize ());
    launches = copies = fills = waits = 0;
    step (&job);
    unsigned long counts[] = { launches, copies, fills, waits };
    for (int round = 0; round < rounds; round++) {
        CUDA (cudaDeviceSynchronize ());
        double begin = seconds ();
        for (int i = 0; i < times; i++)
            step (&job);
        queued[round] = (seconds () - begin) / times;
        CUDA (cudaDeviceSynchronize ());
        done[round] = (seconds () - begin) / times;
    }
    printf ("step %s: %.1f us until it is queued, %.1f us until it is done; %lu launches, %lu copies, %lu fills, "
            "%lu waits\n",
            name, median (queued, rounds) * 1e6, median (done, rounds) * 1e6, counts[0], counts[1], counts[2],
            counts[3]);
    accel_optimizer_destroy (job.optimizer);
    gpu_model_destroy (job.model, &shapes);
    accel_close (job.acc);
}

int
main (int argc, char **argv)
{
    int times = is_small (argc, argv) ? 2 : 200;
    const struct accel_grad_scaler there = { .on_device = ACCEL_YES };
    const struct accel_options plain = { .mixed_precision = "no" }, brief = { .mixed_precision = "bf16" },
                               half = { .mixed_precision = "fp16" },
                               ahead = { .mixed_precision = "fp16", .grad_scaler = &there };
    measure ("in float32", &plain, ACCEL_FLOAT32, false, times);
    measure ("in float32, clipped", &plain, ACCEL_FLOAT32, true, times);
    measure ("in bfloat16, clipped", &brief, ACCEL_BFLOAT16, true, times);
    measure ("in float16, scaled and clipped", &half, ACCEL_FLOAT16, true, times);
    measure ("in float16, scaled on the GPU and clipped", &ahead, ACCEL_FLOAT16, true, times);
    return launches ? 0 : (fprintf (stderr, "no launch was counted\n"), 1);
}
