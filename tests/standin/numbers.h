/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers on a GPU, for programs of several ranks. */
#ifndef TESTS_STANDIN_NUMBERS_H
#define TESTS_STANDIN_NUMBERS_H

#include "lib/memory/memory.h"
#include "tests/must.h"
#include "tests/tap.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

static struct accel *acc;
static struct accel_comm *world;
static DLDevice device;
static const struct memory *memory;
static int rank, size;

static void
check_cuda (cudaError_t error, const char *what)
{
    if (!error)
        return;
    printf ("Bail out! %s: %s\n", what, cudaGetErrorName (error));
    exit (1);
}
#define CUDA(call) check_cuda (call, #call)

/* @return [count] on the device, each @value */
static float *
make (size_t count, float value)
{
    float *values = malloc (count * sizeof *values), *made = memory->create (device, count * sizeof *made, false);
    for (size_t i = 0; i < count; i++)
        values[i] = value;
    memory->write (device, made, values, count * sizeof *made);
    free (values);
    return made;
}

/* Whether each of [count] is @value; they are freed. */
static bool
take (float *given, size_t count, float value)
{
    float *values = malloc (count * sizeof *values);
    bool right = !memory->read (device, values, given, count * sizeof *values, &err);
    for (size_t i = 0; i < count; i++)
        right = right && values[i] > value - 0.5F && values[i] < value + 0.5F;
    if (!right)
        diag ("%g, not %g", (double) values[count - 1], (double) value);
    free (values);
    memory->destroy (device, given);
    return right;
}

static void
open_job (void)
{
    MUST (accel_open (&acc, NULL, &err));
    device = accel_device (acc);
    memory = memory_of (device);
    world = accel_world (acc);
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    CUDA (cudaSetDevice (device.device_id));
}

#endif
