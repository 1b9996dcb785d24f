/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the module share. */
#ifndef CUDA_GPU_H
#define CUDA_GPU_H

#include "lib/memory/memory.h"

#include <cuda_runtime_api.h>

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

/** Make @p calls on @p device, of which an error is kept.
 *  @param may_wait  for the GPU: other threads can use it meanwhile
 *  @return whether all is well there */
bool gpu_call (DLDevice device, bool may_wait, gpu_calls *calls, void *user);

/** lane.c */
extern const struct memory_lanes lanes_cuda;

#endif
