/* SPDX-License-Identifier: Apache-2.0 */
/* The model that make_goldens.py and make_train_goldens.py train: 37 parameters, pseudo-random gradients. */
#ifndef TESTS_SMALL_MODEL_H
#define TESTS_SMALL_MODEL_H

#include <accel/optimizer.h>
#include <accel/random.h>
#include <accel/train.h>

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 37, TENSORS = 3 };

static int64_t shapes[] = { 5, 5, 11, 0 };
static float values[COUNT], gradients[COUNT];
static DLTensor data[TENSORS], grads[TENSORS];
static struct accel_model *model;

/* Three tensors of 25, 11 and 1 elements (the last without dimensions) in one array. */
static void
make_model (void)
{
    static const int first[] = { 0, 25, 36 }, shape[] = { 0, 2, 3 }, ndim[] = { 2, 1, 0 };
    static const char *const names[] = { "a", "b", "c" };
    struct accel_parameter parameters[TENSORS];
    struct accel_error err;
    for (int i = 0; i < TENSORS; i++) {
        data[i] = (DLTensor){ .data = values + first[i], .device = { kDLCPU, 0 }, .ndim = ndim[i],
                              .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = shapes + shape[i] };
        grads[i] = data[i];
        grads[i].data = gradients + first[i];
        parameters[i] = (struct accel_parameter){ names[i], &data[i], &grads[i] };
    }
    if (accel_model_create (&model, parameters, TENSORS, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
}

/* The same as trained() in those programs.  @p halving: halve the learning rate after every tenth step */
static void
train (struct accel_optimizer *optimizer, uint64_t seed, int steps, bool halving)
{
    struct accel_generator *generator;
    if (accel_generator_create (&generator, seed, NULL))
        exit (99);
    for (int i = 0; i < COUNT; i++)
        values[i] = accel_generator_uniform (generator) + 0.5F;
    for (int step = 1; step <= steps; step++) {
        for (int i = 0; i < COUNT; i++)
            gradients[i] = accel_generator_uniform (generator) * 2 - 1;
        if (accel_optimizer_step (optimizer, NULL)
            || (halving && step % 10 == 0
                && accel_optimizer_set_lr (optimizer, accel_optimizer_lr (optimizer) / 2, NULL)))
            exit (99);
    }
    accel_generator_destroy (generator);
}

#endif
