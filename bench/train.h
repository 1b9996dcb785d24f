/* SPDX-License-Identifier: Apache-2.0 */
/* What the training loops of bench_train and mpi_train have in common: a network in plain C, data, AdamW, a clock.
 * None of it knows of libaccel or MPI, and it is compiled with -O3, as a user would. */
#ifndef BENCH_TRAIN_H
#define BENCH_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 3, TENSORS = 2 * LAYERS, SAMPLES = 64 };

/** A network of LAYERS dense layers that learns to repeat what another one says of random numbers. */
struct network {
    size_t parameters;         /**< of all tensors together */
    int width[LAYERS + 1];
    int batch;                 /**< samples per process and step */
    size_t count[TENSORS];     /**< weight [in, out] and bias [out] of each layer */
    float *value[TENSORS];     /**< set by the loops, as gradients are */
    float *grad[TENSORS];
    float *inputs, *targets;   /**< [SAMPLES, width[0]], [SAMPLES, width[LAYERS]] */
    float *activation[LAYERS + 1], *back[LAYERS + 1];
};

/** Make what belongs to no loop: @p parameters is about how many; values and gradients have no memory yet. */
void network_make (struct network *network, size_t parameters);

/** Set the values, which are the same in every loop. */
void network_start (struct network *network);

/** Add the gradients of the mean loss over some samples, times @p scale.  @return that loss */
float network_gradients (struct network *network, const float *inputs, const float *targets, int samples, float scale);

void network_free (struct network *network);

/** AdamW as one writes it in C, step counted from 1: the same source, compiled with other options. */
typedef void plain_adamw (float *value, const float *grad, float *mean, float *square, size_t count, float rate,
                          int step);
plain_adamw adamw_o3, adamw_native, adamw_fast;

static inline double
now_us (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec * 1e6 + (double) time.tv_nsec / 1e3;
}

static inline void *
must (void *memory)
{
    if (!memory)
        abort ();
    return memory;
}

/** Zeroed memory whose pages are present. */
static inline float *
floats (size_t count)
{
    float *memory = must (malloc (count * sizeof *memory));
    return memset (memory, 0, count * sizeof *memory);
}

/** One line for each peer: name, size, and the microseconds of every step. */
static inline void
print_times (const char *name, size_t size, const double *times, size_t count)
{
    printf ("%s %zu", name, size);
    for (size_t i = 0; i < count; i++)
        printf (" %.3f", times[i]);
    putchar ('\n');
    fflush (stdout);
}

#endif
