/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that compute on the host, and whose tensors may be on a GPU: copies of them.  Compiled without ON_GPU,
 * there is none, and what would be copied is the same memory. */
#ifndef TESTS_CONFORMANCE_MIRROR_H
#define TESTS_CONFORMANCE_MIRROR_H

#include <accel/accel.h>

#ifdef ON_GPU
#include "lib/memory/memory.h"

#include <stdio.h>
#include <stdlib.h>

static inline size_t
mirror_bytes (const DLTensor *tensor)
{
    return accel_tensor_count (tensor) * (tensor->dtype.bits / 8U);
}

/* @return what @tensor has, in @copy, which grows */
static inline void *
mirror_get (void **copy, const DLTensor *tensor)
{
    struct accel_error err;
    size_t bytes = mirror_bytes (tensor);
    *copy = realloc (*copy, bytes);
    accel_check (memory_of (tensor->device)->read (tensor->device, *copy, tensor->data, bytes, &err), &err);
    return *copy;
}

/* @tensor gets what is in @copy. */
static inline void
mirror_put (const DLTensor *tensor, const void *copy)
{
    memory_of (tensor->device)->write (tensor->device, tensor->data, copy, mirror_bytes (tensor));
}

/* Move @tensor, which is on the host, to the GPU. */
static inline void
mirror_move (DLTensor *tensor, DLDevice device)
{
    const void *host = tensor->data;
    tensor->device = device;
    tensor->data = memory_of (device)->create (device, mirror_bytes (tensor), false);
    mirror_put (tensor, host);
}

/* An array of as many 32-bit numbers, moved to the GPU. */
static inline void *
mirror_array (const void *host, size_t count, DLDevice device)
{
    int64_t shape[] = { (int64_t) count };
    DLTensor array = { .data = (void *) (uintptr_t) host, .ndim = 1, .dtype = { kDLFloat, 32, 1 }, .shape = shape };
    mirror_move (&array, device);
    return array.data;
}

/* What such an array has; it ends. */
static inline void
mirror_take (void *host, void *array, size_t count, DLDevice device)
{
    struct accel_error err;
    accel_check (memory_of (device)->read (device, host, array, count * sizeof (float), &err), &err);
    memory_of (device)->destroy (device, array);
}

static inline void
mirror_end_array (void *array, DLDevice device)
{
    memory_of (device)->destroy (device, array);
}

static inline void
mirror_end (const DLTensor *tensor)
{
    memory_of (tensor->device)->destroy (tensor->device, tensor->data);
}

/* On the GPU. */
static inline enum accel_status
mirror_sum (struct accel_comm *comm, DLDevice device, float *values, size_t count, struct accel_error *err)
{
    const struct memory *memory = memory_of (device);
    size_t bytes = count * sizeof *values;
    if (device.device_type != kDLCUDA)
        accel_check (ACCEL_ERR_INVALID, &(struct accel_error){ .text = "the job computes on the CPU" });
    float *there = memory->create (device, bytes, false);
    memory->write (device, there, values, bytes);
    enum accel_status status = accel_comm_all_reduce (comm, there, there, count, ACCEL_FLOAT32, ACCEL_SUM, err);
    if (!status)
        status = memory->read (device, values, there, bytes, err);
    memory->destroy (device, there);
    return status;
}
#else
#define mirror_get(copy, tensor) ((tensor)->data)
#define mirror_put(tensor, copy) ((void) (copy))
#define mirror_move(tensor, device) ((void) (device))
#define mirror_array(host, count, device) ((void) (device), (void *) (uintptr_t) (host))
#define mirror_end_array(array, device) ((void) (array), (void) (device))
#define mirror_take(host, array, count, device) ((void) (count))
#define mirror_end(tensor) ((void) (tensor))
#define mirror_sum(comm, device, values, count, err) \
    accel_comm_all_reduce (comm, values, values, count, ACCEL_FLOAT32, ACCEL_SUM, err)
#endif

#endif
