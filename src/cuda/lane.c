/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from pinned memory of the host to a GPU, on a stream of their own; see struct memory_lanes.  Events order them
 * with the stream of the program. */
#include <config.h>

#include "cuda/gpu.h"

#include <stdlib.h>

struct memory_lane {
    DLDevice device;
    cudaStream_t stream;
    cudaEvent_t before;                    /* what the copies come after */
    cudaEvent_t copied[MEMORY_LANE_SLOTS];
};

/* ---- pinned memory ---- */

struct pinned {
    void *memory;
    size_t bytes;
};

/* That there is too little of it is no error of the GPU. */
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
    struct memory_lane *lane = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    TRY (cudaStreamCreateWithFlags, &lane->stream, cudaStreamNonBlocking);
    TRY (cudaEventCreateWithFlags, &lane->before, cudaEventDisableTiming);
    for (int i = 0; i < MEMORY_LANE_SLOTS; i++)
        TRY (cudaEventCreateWithFlags, &lane->copied[i], cudaEventDisableTiming);
    return error;
}

static cudaError_t
call_close (void *user, cudaStream_t stream, const char **call)
{
    struct memory_lane *lane = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    if (lane->stream) {
        TRY (cudaStreamSynchronize, lane->stream);
        TRY (cudaStreamDestroy, lane->stream);
    }
    if (lane->before)
        TRY (cudaEventDestroy, lane->before);
    for (int i = 0; i < MEMORY_LANE_SLOTS; i++)
        if (lane->copied[i])
            TRY (cudaEventDestroy, lane->copied[i]);
    return error;
}

static void
close_lane (struct memory_lane *lane)
{
    if (lane)
        gpu_call (lane->device, false, call_close, lane);
    free (lane);
}

static struct memory_lane *
open_lane (DLDevice device)
{
    struct memory_lane *lane = calloc (1, sizeof *lane);
    if (!lane)
        return NULL;
    lane->device = device;
    if (gpu_call (device, false, call_open, lane))
        return lane;
    close_lane (lane);
    return NULL;
}

static cudaError_t
call_begin (void *user, cudaStream_t stream, const char **call)
{
    struct memory_lane *lane = user;
    cudaError_t error = cudaSuccess;
    TRY (cudaEventRecord, lane->before, stream);
    TRY (cudaStreamWaitEvent, lane->stream, lane->before, 0);
    return error;
}

static void
begin (struct memory_lane *lane)
{
    gpu_call (lane->device, false, call_begin, lane);
}

struct copying {
    struct memory_lane *lane;
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
    TRY (cudaMemcpyAsync, copy->to, copy->from, copy->bytes, cudaMemcpyHostToDevice, copy->lane->stream);
    return error;
}

static void
copy (struct memory_lane *lane, void *to, const void *from, size_t bytes)
{
    struct copying copying = { .lane = lane, .to = to, .from = from, .bytes = bytes };
    if (bytes)
        gpu_call (lane->device, false, call_copy, &copying);
}

struct mark {
    struct memory_lane *lane;
    unsigned slot;
};

static cudaError_t
call_end (void *user, cudaStream_t stream, const char **call)
{
    const struct mark *mark = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    TRY (cudaEventRecord, mark->lane->copied[mark->slot], mark->lane->stream);
    return error;
}

static void
end (struct memory_lane *lane, unsigned slot)
{
    gpu_call (lane->device, false, call_end, &(struct mark){ lane, slot });
}

static cudaError_t
call_follow (void *user, cudaStream_t stream, const char **call)
{
    const struct mark *mark = user;
    cudaError_t error = cudaSuccess;
    TRY (cudaStreamWaitEvent, stream, mark->lane->copied[mark->slot], 0);
    return error;
}

static void
follow (struct memory_lane *lane, unsigned slot)
{
    gpu_call (lane->device, false, call_follow, &(struct mark){ lane, slot });
}

static cudaError_t
call_wait (void *user, cudaStream_t stream, const char **call)
{
    const struct mark *mark = user;
    cudaError_t error = cudaSuccess;
    (void) stream;
    TRY (cudaEventSynchronize, mark->lane->copied[mark->slot]);
    return error;
}

static void
wait (struct memory_lane *lane, unsigned slot)
{
    gpu_call (lane->device, false, call_wait, &(struct mark){ lane, slot });
}

const struct memory_lanes lanes_cuda = {
    .pin = pin,
    .unpin = unpin,
    .open = open_lane,
    .close = close_lane,
    .begin = begin,
    .copy = copy,
    .end = end,
    .follow = follow,
    .wait = wait,
};
