/* SPDX-License-Identifier: Apache-2.0 */
/* A step of AdamW on a GPU against what its memory can do: the bytes that the step has to read and write, in the time
 * that it takes, against a copy within the GPU.  In turns; medians.  usage: adamw small|full */
#include "bench/gpu/gpu.h"

static double
steps (struct accel_optimizer *optimizer, int times)
{
    CUDA (cudaDeviceSynchronize ());
    double begin = seconds ();
    for (int i = 0; i < times; i++)
        MUST (accel_optimizer_step (optimizer, &err));
    CUDA (cudaDeviceSynchronize ());
    return (seconds () - begin) / times;
}

static void
measure (const char *name, const struct shapes *shapes, enum accel_dtype dtype, int times)
{
    struct accel *acc = open_on_gpu (dtype == ACCEL_FLOAT32 ? "no" : "bf16");
    struct gpu_model *model = gpu_model_create (shapes, dtype);
    struct accel_optimizer *optimizer;
    double step[ROUNDS], copy[ROUNDS];
    const struct accel_optimizer_options adamw = { .lr = 0.001F, .weight_decay = 0.01F };
    MUST (accel_optimizer_create (&optimizer, model->model, ACCEL_ADAMW, &adamw, &err));
    MUST (accel_prepare (acc, &err, model->model, optimizer));
    MUST (accel_backward (acc, model->model, 0, no_backward, NULL, &err));
    /* float32: the parameter, the gradient and two states are read, all but the gradient are written.  16 bits: the
     * same with a master in float32, half of the gradient, and a rounded copy that is written: as many bytes. */
    double bytes = 28.0 * (double) shapes->elements;
    size_t copied = shapes->elements * 4 / 16 * 16;
    void *to = gpu_memory (copied), *from = gpu_memory (copied);
    steps (optimizer, 3); /* the first makes states, and the GPU wakes up */
    for (int round = 0; round < rounds; round++) {
        step[round] = steps (optimizer, times);
        copy[round] = gpu_copies (to, from, copied, (size_t) times);
    }
    double taken = median (step, rounds), limit = median (copy, rounds);
    printf ("adamw %s, %s: %.3f ms, %.1f GB/s, %.1f %% of a copy's %.1f GB/s (goal: 85 %%)\n", name,
            dtype == ACCEL_FLOAT32 ? "float32" : "bfloat16 with masters", taken * 1e3, bytes / taken * 1e-9,
            bytes / taken / limit * 100, limit * 1e-9);
    CUDA (cudaFree (to));
    CUDA (cudaFree (from));
    accel_optimizer_destroy (optimizer);
    gpu_model_destroy (model, shapes);
    accel_close (acc);
}

int
main (int argc, char **argv)
{
    bool small = is_small (argc, argv);
    struct shapes one = { 0 }, gpt2 = shapes_gpt2 (small ? 64 : 1);
    shapes_add (&one, small ? 100003 : (size_t) 1 << 27);
    for (int half = 0; half < 2; half++) {
        enum accel_dtype dtype = half ? ACCEL_BFLOAT16 : ACCEL_FLOAT32;
        measure ("of one parameter", &one, dtype, small ? 2 : 30);
        measure ("of GPT-2, 148 parameters", &gpt2, dtype, small ? 2 : 30);
    }
    return 0;
}
