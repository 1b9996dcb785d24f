/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between pinned memory of the host and a GPU, on a stream of their own; see struct memory_copy_streams.  Events
 * order them with the stream of the program. */
#include <config.h>

#include "cuda/gpu.h"

#include <stdlib.h>

struct memory_copy_stream {
    DLDevice device;
    cudaStream_t stream;
    cudaEvent_t before;                    /* what the copies come after */
    cudaEvent_t copied[MEMORY_COPY_STREAM_SLOTS];
};

/* ---- pinned memory ---- */

struct pinned {
    void *memory;
    size_t bytes;
};

/* That there is too little of it is not an error of the GPU. */
static cudaError_t
call_pin (void *user, cudaStream_t stream, const char **call)
{
    struct pinned *pinned = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    TRY (cudaHostAlloc, &pinned->memory, pinned->bytes, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError ();
        error = cudaSuccess;
    }
    return error;
}

static void *
pin (DLDevice device, size_t bytes)
{
    struct pinned pinned = { .bytes = bytes + !bytes };
    gpu_call (device, call_pin, &pinned);
    return pinned.memory;
}

static cudaError_t
call_unpin (void *user, cudaStream_t stream, const char **call)
{
    cudaError_t error = cudaSuccess;
    (void) stream;
    TRY (cudaFreeHost, user);
    return error;
}

static void
unpin (DLDevice device, void *memory)
{
    if (memory)
        gpu_call (device, call_unpin, memory);
}

/* ---- a stream ---- */

static void
close_copy_stream (struct memory_copy_stream *its)
{
    if (!its)
        return;
    VISIT (its->device);
    if (gpu && its->stream && NOTE (gpu, cudaStreamSynchronize, its->stream))
        NOTE (gpu, cudaStreamDestroy, its->stream);
    if (gpu && its->before)
        NOTE (gpu, cudaEventDestroy, its->before);
    for (int i = 0; gpu && i < MEMORY_COPY_STREAM_SLOTS; i++)
        if (its->copied[i])
            NOTE (gpu, cudaEventDestroy, its->copied[i]);
    free (its);
}

static bool
create_events (struct memory_copy_stream *its)
{
    VISIT (its->device);
    bool good = gpu && NOTE (gpu, cudaStreamCreateWithFlags, &its->stream, cudaStreamNonBlocking)
                && NOTE (gpu, cudaEventCreateWithFlags, &its->before, cudaEventDisableTiming);
    for (int i = 0; good && i < MEMORY_COPY_STREAM_SLOTS; i++)
        good = NOTE (gpu, cudaEventCreateWithFlags, &its->copied[i], cudaEventDisableTiming);
    return good;
}

static struct memory_copy_stream *
open_copy_stream (DLDevice device)
{
    struct memory_copy_stream *made = calloc (1, sizeof *made);
    if (!made)
        return NULL;
    made->device = device;
    if (create_events (made))
        return made;
    close_copy_stream (made);
    return NULL;
}

static void
begin (struct memory_copy_stream *its)
{
    VISIT (its->device);
    if (gpu && NOTE (gpu, cudaEventRecord, its->before, stream))
        NOTE (gpu, cudaStreamWaitEvent, its->stream, its->before, 0);
}

static void
copy (struct memory_copy_stream *its, void *to, const void *from, size_t bytes)
{
    VISIT (its->device);
    if (gpu && bytes)
        NOTE (gpu, cudaMemcpyAsync, to, from, bytes, cudaMemcpyHostToDevice, its->stream);
}

static void
fetch (struct memory_copy_stream *its, void *to, const void *from, size_t bytes)
{
    VISIT (its->device);
    if (gpu && bytes)
        NOTE (gpu, cudaMemcpyAsync, to, from, bytes, cudaMemcpyDeviceToHost, its->stream);
}

static void
end (struct memory_copy_stream *its, unsigned slot)
{
    VISIT (its->device);
    if (gpu)
        NOTE (gpu, cudaEventRecord, its->copied[slot], its->stream);
}

static void
follow (struct memory_copy_stream *its, unsigned slot)
{
    VISIT (its->device);
    if (gpu)
        NOTE (gpu, cudaStreamWaitEvent, stream, its->copied[slot], 0);
}

static void
wait (struct memory_copy_stream *its, unsigned slot)
{
    VISIT (its->device);
    if (gpu)
        NOTE (gpu, cudaEventSynchronize, its->copied[slot]);
}

const struct memory_copy_streams copy_streams_cuda = {
    .pin = pin,
    .unpin = unpin,
    .open = open_copy_stream,
    .close = close_copy_stream,
    .begin = begin,
    .copy = copy,
    .fetch = fetch,
    .end = end,
    .follow = follow,
    .wait = wait,
};
