/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels use of CUDA, so that nvcc and a host compiler take the same source: launches, shared memory and loops
 * over elements.  For the host, tests/standin/shim.h defines the same words.  Kernels need -fmad=false of nvcc and
 * -ffp-contract=off of host compilers, and have no other way to share data than SHARED and atomics. */
#ifndef CUDA_PORTABLE_H
#define CUDA_PORTABLE_H

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define SHARED(type, name, dimensions) __shared__ type name dimensions
#define REACH(pointer) global_memory (pointer)
#define ALIGNED(pointer, bytes) (pointer)
#define UNROLL _Pragma ("unroll")
#define CHECKS_USES 0
#define USES(kernel, stream, pointer) ((void) 0)
#define LAUNCH(kernel, blocks, stream, ...) kernel<<<(blocks), CUDA_BLOCK, 0, (cudaStream_t) (stream)>>> (__VA_ARGS__)

/* For loads and stores of global memory instead of any. */
template <class T> __device__ __forceinline__ static T *
global_memory (T *pointer)
{
    __builtin_assume (__isGlobal (pointer));
    return pointer;
}
#else
#include "tests/standin/shim.h"
#endif

#include <stddef.h>

/* Threads of each block, and how many elements each thread has at least, up to so many blocks; tests have fewer, so
 * that small arrays take loops round, too. */
enum { CUDA_BLOCK = 256, CUDA_ELEMENTS_EACH = 16 };
#ifndef CUDA_MOST_BLOCKS
#define CUDA_MOST_BLOCKS 2048
#endif

/* @return blocks for @p count elements, which depend on nothing else: nor do the sums that blocks make */
static inline unsigned
cuda_blocks (size_t count)
{
    size_t each = (size_t) CUDA_BLOCK * CUDA_ELEMENTS_EACH, blocks = (count + each - 1) / each;
    return blocks < CUDA_MOST_BLOCKS ? (unsigned) blocks : (unsigned) CUDA_MOST_BLOCKS;
}

/* For each element i of count; threads next to each other have elements next to each other. */
#define FOR_EACH(i, count)                                                                     \
    for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < (count); \
         i += (size_t) gridDim.x * blockDim.x)

#endif
