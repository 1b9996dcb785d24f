/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from pinned memory of the host to a GPU, on a stream of their own; see struct memory_copy_streams.  Events
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
    if (error)
        pinned->memory = NULL;
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
    gpu_call (device, true, call_pin, &pinned);
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
        gpu_call (device, true, call_unpin, memory);
}

/* ---- a lane ---- */

static cudaError_t
call_open (void *user, cudaStream_t stream, const char **call)
{
    struct memory_copy_stream *copy_stream = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    TRY (cudaStreamCreateWithFlags, &copy_stream->stream, cudaStreamNonBlocking);
    TRY (cudaEventCreateWithFlags, &copy_stream->before, cudaEventDisableTiming);
    for (int i = 0; i < MEMORY_COPY_STREAM_SLOTS; i++)
        TRY (cudaEventCreateWithFlags, &copy_stream->copied[i], cudaEventDisableTiming);
    return error;
}

static cudaError_t
call_close (void *user, cudaStream_t stream, const char **call)
{
    struct memory_copy_stream *copy_stream = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    if (copy_stream->stream) {
        TRY (cudaStreamSynchronize, copy_stream->stream);
        TRY (cudaStreamDestroy, copy_stream->stream);
    }
    if (copy_stream->before)
        TRY (cudaEventDestroy, copy_stream->before);
    for (int i = 0; i < MEMORY_COPY_STREAM_SLOTS; i++)
        if (copy_stream->copied[i])
            TRY (cudaEventDestroy, copy_stream->copied[i]);
    return error;
}

static void
close_copy_stream (struct memory_copy_stream *copy_stream)
{
    if (copy_stream)
        gpu_call (copy_stream->device, false, call_close, copy_stream);
    free (copy_stream);
}

static struct memory_copy_stream *
open_copy_stream (DLDevice device)
{
    struct memory_copy_stream *copy_stream = calloc (1, sizeof *copy_stream);
    if (!copy_stream)
        return NULL;
    copy_stream->device = device;
    if (gpu_call (device, false, call_open, copy_stream))
        return copy_stream;
    close_copy_stream (copy_stream);
    return NULL;
}

static cudaError_t
call_begin (void *user, cudaStream_t stream, const char **call)
{
    struct memory_copy_stream *copy_stream = user;
    cudaError_t error = cudaSuccess;
    TRY (cudaEventRecord, copy_stream->before, stream);
    TRY (cudaStreamWaitEvent, copy_stream->stream, copy_stream->before, 0);
    return error;
}

static void
begin (struct memory_copy_stream *copy_stream)
{
    gpu_call (copy_stream->device, false, call_begin, copy_stream);
}

struct copying {
    struct memory_copy_stream *copy_stream;
    void *to;
    const void *from;
    size_t bytes;
};

static cudaError_t
call_copy (void *user, cudaStream_t stream, const char **call)
{
    const struct copying *copy = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    TRY (cudaMemcpyAsync, copy->to, copy->from, copy->bytes, cudaMemcpyHostToDevice, copy->copy_stream->stream);
    return error;
}

static void
copy (struct memory_copy_stream *copy_stream, void *to, const void *from, size_t bytes)
{
    struct copying copying = { .copy_stream = copy_stream, .to = to, .from = from, .bytes = bytes };
    if (bytes)
        gpu_call (copy_stream->device, false, call_copy, &copying);
}

struct mark {
    struct memory_copy_stream *copy_stream;
    unsigned slot;
};

static cudaError_t
call_end (void *user, cudaStream_t stream, const char **call)
{
    const struct mark *mark = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    TRY (cudaEventRecord, mark->copy_stream->copied[mark->slot], mark->copy_stream->stream);
    return error;
}

static void
end (struct memory_copy_stream *copy_stream, unsigned slot)
{
    gpu_call (copy_stream->device, false, call_end, &(struct mark){ copy_stream, slot });
}

static cudaError_t
call_follow (void *user, cudaStream_t stream, const char **call)
{
    const struct mark *mark = user;
    cudaError_t error = cudaSuccess;
    TRY (cudaStreamWaitEvent, stream, mark->copy_stream->copied[mark->slot], 0);
    return error;
}

static void
follow (struct memory_copy_stream *copy_stream, unsigned slot)
{
    gpu_call (copy_stream->device, false, call_follow, &(struct mark){ copy_stream, slot });
}

static cudaError_t
call_wait (void *user, cudaStream_t stream, const char **call)
{
    const struct mark *mark = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    TRY (cudaEventSynchronize, mark->copy_stream->copied[mark->slot]);
    return error;
}

static void
wait (struct memory_copy_stream *copy_stream, unsigned slot)
{
    gpu_call (copy_stream->device, false, call_wait, &(struct mark){ copy_stream, slot });
}

const struct memory_copy_streams copy_streams_cuda = {
    .pin = pin,
    .unpin = unpin,
    .open = open_copy_stream,
    .close = close_copy_stream,
    .begin = begin,
    .copy = copy,
    .end = end,
    .follow = follow,
    .wait = wait,
};
