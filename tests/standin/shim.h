/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA C++ for a host compiler: what src/cuda/portable.h has of the language.  Threads are fibers; arguments that are
 * pointers are addresses of the stand-in's device, which its memory has only while a kernel runs. */
#ifndef TESTS_STANDIN_SHIM_H
#define TESTS_STANDIN_SHIM_H

#include "tests/standin/cuda/fibers.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>
#include <type_traits>

#undef __global__
#undef __device__
#undef __host__
#define __global__ static
#define __device__
#define __host__
#define SHARED(type, name, dimensions) \
    static char name##_key;            \
    auto &name = *(std::add_pointer_t<type dimensions>) fiber_shared (&name##_key, sizeof (type dimensions))
#define threadIdx (fiber_self->tid)
#define blockIdx (fiber_self->ctaid)
#define blockDim (fiber_self->ntid)
#define gridDim (fiber_self->nctaid)

static inline void
__syncthreads (void)
{
    fiber_barrier ();
}

/* A card ends a kernel for an access that is not aligned to its size. */
template <class T> static inline T
shim_aligned (T pointer, size_t bytes)
{
    if ((uintptr_t) pointer % bytes) {
        fprintf (stderr, "standin: a kernel uses %zu bytes at %p, which is not aligned to them\n", bytes,
                 (const void *) pointer);
        abort ();
    }
    return pointer;
}

/* The bytes of accesses to several elements at once, for packs.h.  All threads of a kernel count them. */
extern "C" {
__attribute__ ((weak)) unsigned long standin_packed;
}

template <class T> static inline T
shim_packed (T pointer, size_t bytes)
{
    if (bytes > sizeof *pointer)
        __atomic_fetch_add (&standin_packed, bytes, __ATOMIC_RELAXED);
    return shim_aligned (pointer, bytes);
}
#define ALIGNED(pointer, bytes) shim_packed (pointer, bytes)

template <class T> static inline T
atomicOr (T *address, std::common_type_t<T> value)
{
    return __atomic_fetch_or (shim_aligned (address, sizeof *address), value, __ATOMIC_RELAXED);
}

template <class T> static inline T
shim_keep (T *address, T value, bool (*better) (T, T))
{
    T old = __atomic_load_n (shim_aligned (address, sizeof *address), __ATOMIC_RELAXED);
    while (better (value, old)
           && !__atomic_compare_exchange_n (address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return old;
}

template <class T> static inline T
atomicMin (T *address, std::common_type_t<T> value)
{
    return shim_keep<T> (address, value, [] (T a, T b) { return a < b; });
}

template <class T> static inline T
atomicMax (T *address, std::common_type_t<T> value)
{
    return shim_keep<T> (address, value, [] (T a, T b) { return a > b; });
}

/* The stand-in's: check what a kernel that is queued on @stream will use, where that really is when the kernel runs,
 * and a copy of @bytes of @closure for it. */
extern "C" void standin_use (const char *kernel, const void *address, bool writes, cudaStream_t stream);
extern "C" void *standin_real (const void *address);
extern "C" void standin_enqueue (const char *kernel, dim3 grid, dim3 block, cudaStream_t stream, const void *closure,
                                 size_t bytes, void (*run) (void *));

template <class T> static inline void
shim_use (const char *kernel, cudaStream_t stream, T value)
{
    if constexpr (std::is_pointer_v<T>)
        standin_use (kernel, (const void *) value, !std::is_const_v<std::remove_pointer_t<T>>, stream);
}

template <class T> static inline T
shim_real (T value)
{
    if constexpr (std::is_pointer_v<T>)
        return (T) standin_real ((const void *) value);
    else
        return value;
}

template <class... P, class... A> static inline void
shim_launch (const char *name, unsigned blocks, unsigned threads, cudaStream_t stream, void (*kernel) (P...),
             A... arguments)
{
    struct closure {
        void (*kernel) (P...);
        std::tuple<P...> arguments;
    } closure{ kernel, std::tuple<P...> (arguments...) };
    std::apply ([&] (auto... argument) { (shim_use (name, stream, argument), ...); }, closure.arguments);
    standin_enqueue (name, dim3 (blocks), dim3 (threads), stream, &closure, sizeof closure, [] (void *queued) {
        struct closure *c = (struct closure *) queued;
        std::apply ([c] (auto... argument) { c->kernel (shim_real (argument)...); }, c->arguments);
    });
}

/* Pointers that come to a kernel in memory of the device: what the kernel may use, and where that is. */
#define CHECKS_USES 1
#define USES(kernel, stream, pointer) shim_use (#kernel, (cudaStream_t) (stream), pointer)
#define REACH(pointer) shim_real (pointer)
#define UNROLL

#define LAUNCH(kernel, blocks, stream, ...) \
    shim_launch (#kernel, blocks, CUDA_BLOCK, (cudaStream_t) (stream), kernel, __VA_ARGS__)

#endif
