/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of a process, and what the files of the module share. */
#ifndef CUDA_GPU_H
#define CUDA_GPU_H

#include "cuda/cublas.h"
#include "lib/memory/device.h"
#include "lib/memory/memory.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

/** Calls of the runtime, up to the first that fails.
 *  @param stream    the program's
 *  @param[out] call  its name */
typedef cudaError_t gpu_calls (void *user, cudaStream_t stream, const char **call);

/** The next of them, in a function with @p call and a variable `error`, which is 0 so far. */
#define TRY(function, ...)                  \
    do {                                    \
        if (!error) {                       \
            *call = #function;              \
            error = function (__VA_ARGS__); \
        }                                   \
    } while (0)

/** Make @p calls on @p device, which may wait for it: other threads can use it meanwhile.  An error is kept.
 *  @return whether all is well there */
bool gpu_call (DLDevice device, gpu_calls *calls, void *user);

enum {
    GPU_STAGES = 2, /* pieces of pinned memory, one of which is filled while the other is copied */
    GPU_STAGE_BYTES = 1 << 20,
    GPU_POOL_BYTES = 256 << 20, /* freed memory that is kept for the next allocations */
};

struct gpu_stage {
    char *memory;
    cudaEvent_t copied;
};

struct gpu {
    pthread_mutex_t lock;
    bool is_ready;
    cudaError_t error; /* the first */
    const char *call;  /* what had it */
    bool may_pass;     /* it is kept until it has been told */
    cudaError_t own;   /* the first of the program's own since then, which is told with it */
    char *scratch;     /* [CUDA_SCRATCH] of the program's stream */
    cudaStream_t side_stream; /* NULL: not made yet */
    char *side_scratch;       /* [CUDA_SCRATCH] of that */
    struct gpu_stage stages[GPU_STAGES];
    unsigned next_stage;
    _Atomic (cudaStream_t) stream; /* the program's */
    cudaEvent_t ordered; /* what has been queued, if the next operation is on another stream */
    unsigned long last;  /* the number of the thread that queued it, if each thread has a stream */
    struct cublas cublas;
    cudaMemPool_t pool; /* NULL: it has none */
    struct gpu_late *late; /* memory that could not be freed, because a stream was being captured */
    uint64_t peers;     /* set of GPUs that its memory has been opened to, if it could be */
};

/** An error of cuBLAS, which `call` says. */
#define NOT_CUDA ((cudaError_t) INT_MAX)

/** Keep an error, with the lock.  @return whether the call went well */
bool gpu_note (struct gpu *gpu, cudaError_t error, const char *call);
#define NOTE(gpu, function, ...) gpu_note (gpu, function (__VA_ARGS__), #function)

/** A call on a GPU, which leaves the thread's present device as it was. */
struct visit {
    struct gpu *gpu; /* locked; NULL: nothing can be done on it, because of: */
    cudaError_t error;
    const char *call;
    cudaStream_t stream; /* the program's, or the one beside it */
    char *scratch;       /* of that stream */
    int before, now;
    bool is_relaxed;     /* its calls end no capture of the program's */
    enum cudaStreamCaptureMode capture_mode; /* the thread's, before */
};
/** @param in_graph  what is queued may become part of a CUDA graph, if the thread has permitted that */
struct visit visit_begin (DLDevice device, bool in_graph);
void visit_end (struct visit *visit);
/** For the rest of a function: `visit`, `gpu` and `stream`. */
#define VISIT_AS(device, in_graph)                                                             \
    __attribute__ ((cleanup (visit_end))) struct visit visit = visit_begin (device, in_graph); \
    struct gpu *gpu = visit.gpu;                                                               \
    __attribute__ ((unused)) cudaStream_t const stream = visit.stream
#define VISIT(device) VISIT_AS (device, false)
/** For functions that queue only what can be done again: no copies from or to the host, no waits, no allocations. */
#define VISIT_IN_GRAPH(device) VISIT_AS (device, true)

/** permit_capture of struct memory_live */
bool gpu_permit_capture (DLDevice device, bool permits);

/** After calls outside of a visit: take away what they have left as the thread's last error, and keep @p earlier, the
 *  program's own that was there before, for the next visit. */
void gpu_take_away (cudaError_t earlier);

/** The error of the GPU that is visited, or why it cannot be. */
enum accel_status visit_fail (const struct visit *visit, DLDevice device, struct accel_error *err);

/** After a call without the lock. */
void gpu_lock_again (struct gpu *gpu);

/** stream, set_stream, order, side_stream and use_side_stream of struct memory @{ */
void *gpu_stream (DLDevice device);
enum accel_status gpu_set_stream (DLDevice device, void *stream, struct accel_error *err);
enum accel_status gpu_order (DLDevice device, void *before, void *after, struct accel_error *err);
enum accel_status gpu_side_stream (DLDevice device, void **stream, struct accel_error *err);
void gpu_use_side_stream (DLDevice device, bool uses);
/** @} */

/** Memory for what is queued from now on, within @p visit.
 *  @return NULL: there is none, which is not an error of the GPU, or the GPU has an error, which is kept */
void *gpu_allocate (const struct visit *visit, size_t bytes);

/** destroy of struct memory: also while nothing else can be done.  What has been queued may still use it. */
void gpu_free (DLDevice device, void *memory);

/** copy_from of struct memory */
enum accel_status gpu_copy_from (DLDevice device, void *to, DLDevice other, const void *from, size_t bytes,
                                 struct accel_error *err);

/** owns of struct memory */
bool gpu_owns (const void *address, DLDevice *device);

/** Set before the first call on a GPU. */
extern const struct device_helpers *gpu_helper;

/** copy_stream.c */
extern const struct memory_copy_streams copy_streams_cuda;

#endif
