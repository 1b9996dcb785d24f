/* SPDX-License-Identifier: Apache-2.0 */
/* For the measurements on GPUs: statuses, a clock, medians, and the parameters of a model.  On the host's clock, from
 * the first call until the GPU has done everything: what is measured is long enough for that. */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <accel/accel.h>

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7 };
static int rounds = ROUNDS; /* 1 on the stand-in, where only the results matter */
static struct accel_error err;

static inline void
must (enum accel_status status, const char *what)
{
    if (!status)
        return;
    fprintf (stderr, "%s: %s\n", what, err.text);
    exit (1);
}
#define MUST(call) must (call, #call)

static inline void
must_cuda (cudaError_t error, const char *what)
{
    if (!error)
        return;
    fprintf (stderr, "%s: %s\n", what, cudaGetErrorString (error));
    exit (1);
}
#define CUDA(call) must_cuda (call, #call)

static inline double
seconds (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

static inline int
compare_doubles (const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static inline double
median (double *values, int count)
{
    qsort (values, (size_t) count, sizeof *values, compare_doubles);
    return values[count / 2];
}

/* @return how often to repeat what takes @p each seconds, so that the host's clock can measure it; once if small */
static inline size_t
repeats (double each)
{
    const double most = 50, wanted = 0.02 / each;
    return rounds == 1 || wanted < 1 ? 1 : (size_t) (wanted < most ? wanted : most);
}

/* @return bytes read and written each second by @p times copies of @p bytes within the GPU */
static inline double
gpu_copies (void *to, const void *from, size_t bytes, size_t times)
{
    CUDA (cudaDeviceSynchronize ());
    double begin = seconds ();
    for (size_t i = 0; i < times; i++)
        CUDA (cudaMemcpyAsync (to, from, bytes, cudaMemcpyDeviceToDevice, NULL));
    CUDA (cudaDeviceSynchronize ());
    return 2.0 * (double) bytes * (double) times / (seconds () - begin);
}

static inline void *
gpu_memory (size_t bytes)
{
    void *memory = NULL;
    CUDA (cudaMalloc (&memory, bytes));
    CUDA (cudaMemsetAsync (memory, 0, bytes, NULL));
    return memory;
}

/* ---- models on the GPU ---- */

enum { PARAMETERS_MOST = 160 };

struct shapes {
    size_t count, elements; /* elements: of all together */
    size_t each[PARAMETERS_MOST];
};

static inline void
shapes_add (struct shapes *shapes, size_t elements)
{
    shapes->each[shapes->count++] = elements;
    shapes->elements += elements;
}

/* The 148 parameters of GPT-2 with 124 million elements, or of one with embeddings that are smaller by @less. */
static inline struct shapes
shapes_gpt2 (size_t less)
{
    struct shapes shapes = { 0 };
    size_t wide = 768 / less;
    shapes_add (&shapes, 50257 / less * wide);
    shapes_add (&shapes, 1024 / less * wide);
    for (int layer = 0; layer < 12; layer++) {
        const size_t layers[] = { wide, wide, 3 * wide * wide, 3 * wide, wide * wide, wide, wide, wide,
                                  4 * wide * wide, 4 * wide, 4 * wide * wide, wide };
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
            shapes_add (&shapes, layers[i]);
    }
    shapes_add (&shapes, wide);
    shapes_add (&shapes, wide);
    return shapes;
}

struct gpu_model {
    struct accel_model *model;
    struct accel_tensor data[PARAMETERS_MOST], grads[PARAMETERS_MOST];
    char names[PARAMETERS_MOST][16];
};

/* Zeros: what is computed takes as long as with any other numbers. */
static inline struct gpu_model *
gpu_model_create (const struct shapes *shapes, enum accel_dtype dtype)
{
    struct gpu_model *made = calloc (1, sizeof *made);
    struct accel_parameter parameters[PARAMETERS_MOST];
    for (size_t i = 0; i < shapes->count; i++) {
        const int64_t shape[] = { (int64_t) shapes->each[i] };
        struct accel_tensor *both[] = { &made->data[i], &made->grads[i] };
        snprintf (made->names[i], sizeof made->names[i], "p%zu", i);
        for (int b = 0; b < 2; b++) {
            MUST (accel_tensor_init (both[b], dtype, 1, shape, &err));
            both[b]->dl.device = (DLDevice){ .device_type = kDLCUDA };
            both[b]->dl.data = gpu_memory (shapes->each[i] * accel_dtype_bytes (dtype));
        }
        parameters[i]
            = (struct accel_parameter){ .name = made->names[i], .data = &both[0]->dl, .grad = &both[1]->dl };
    }
    MUST (accel_model_create (&made->model, parameters, shapes->count, &err));
    return made;
}

static inline void
gpu_model_destroy (struct gpu_model *model, const struct shapes *shapes)
{
    accel_model_destroy (model->model);
    for (size_t i = 0; i < shapes->count; i++) {
        CUDA (cudaFree (model->data[i].dl.data));
        CUDA (cudaFree (model->grads[i].dl.data));
    }
    free (model);
}

/* The backward pass of a program that has written its gradients. */
static inline enum accel_status
no_backward (void *user, float scale, struct accel_error *error)
{
    (void) user, (void) scale, (void) error;
    return ACCEL_OK;
}

/* Parameters without gradients are an error, and so is a missing GPU. */
static inline struct accel *
open_with (const struct accel_options *options)
{
    struct accel *acc;
    MUST (accel_open (&acc, options, &err));
    if (accel_device (acc).device_type != kDLCUDA) {
        fprintf (stderr, "no GPU, or libaccel has no code for it\n");
        exit (1);
    }
    return acc;
}

static inline struct accel *
open_on_gpu (const char *precision)
{
    return open_with (&(struct accel_options){ .mixed_precision = precision });
}

static inline bool
is_small (int argc, char **argv)
{
    bool small = argc > 1 && !strcmp (argv[1], "small");
    if (small)
        rounds = 1;
    return small;
}

#endif
