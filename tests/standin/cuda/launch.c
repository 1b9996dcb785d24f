/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: those of shim.h come with what calls them; those of nvcc are registered by name when a program starts, and
 * their code is what ptx2c.py made of their PTX, the functions ptx_NAME of a library that is loaded first. */
#include <config.h>

#include "tests/standin/cuda/standin.h"

#include "tests/standin/cuda/fibers.h"
#include "tests/standin/cuda/ptx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__ ((visibility ("default")))

/* ---- of the shim ---- */

void standin_use (const char *kernel, const void *address, bool writes, cudaStream_t handle);
void *standin_real (const void *address);
void standin_enqueue (const char *kernel, dim3 grid, dim3 block, cudaStream_t handle, const void *closure,
                      size_t bytes, void (*run) (void *));

/* The bytes of allocations that the next launch will use; each counts once. */
static _Thread_local size_t bytes_ahead;
static _Thread_local uint64_t launch_ahead; /* 0: it uses none yet */
static uint64_t launches_begun;

static void
count_use (struct block *block)
{
    if (!launch_ahead)
        launch_ahead = ++launches_begun;
    if (block->launch != launch_ahead)
        bytes_ahead += block->bytes;
    block->launch = launch_ahead;
}

API void
standin_use (const char *kernel, const void *address, bool writes, cudaStream_t handle)
{
    pthread_mutex_lock (&standin_lock);
    struct block *block = address ? block_of (address) : NULL;
    if (address && !block && !pinned_has (address, 0))
        report (NULL, NULL, "kernel %s gets %p, which is not an address of the device", kernel, address);
    if (block) {
        stream_uses (stream_of (handle), block, NULL, 0, writes, kernel);
        count_use (block);
    }
    pthread_mutex_unlock (&standin_lock);
}

/* Where memory that a kernel uses really is.  Only the thread that runs kernels is here, and each of their threads asks
 * for the same blocks, so it remembers some.  No block is freed while a kernel runs.  The thread sanitizer takes the
 * kernel's threads for threads of ours. */
static void *
real_in_kernel (const char *at, size_t bytes)
{
    static struct block *recent[16];
    struct block **near = &recent[(uintptr_t) at / 256 % (sizeof recent / sizeof *recent)];
    struct block *block = __atomic_load_n (near, __ATOMIC_RELAXED);
    if (block && block->real && at >= block->seen && at + bytes <= block->seen + block->bytes)
        return block->real + (at - block->seen);
    pthread_mutex_lock (&standin_lock);
    __atomic_store_n (near, block_of (at), __ATOMIC_RELAXED);
    void *real = real_of (at, bytes);
    pthread_mutex_unlock (&standin_lock);
    return real;
}

API void *
standin_real (const void *address)
{
    return address ? real_in_kernel (address, 0) : NULL;
}

static bool
is_launched (dim3 grid, dim3 block)
{
    return block.x * block.y * block.z - 1 < 1024 && grid.x && grid.y && grid.z;
}

API void
standin_enqueue (const char *kernel, dim3 grid, dim3 block, cudaStream_t handle, const void *closure, size_t bytes,
                 void (*run) (void *))
{
    size_t used = bytes_ahead;
    bytes_ahead = launch_ahead = 0;
    if (call_fail (is_launched (grid, block) ? call_injected ("cudaLaunchKernel") : cudaErrorInvalidConfiguration))
        return;
    pthread_mutex_lock (&standin_lock);
    call_counts.launches++;
    standin_launch ();
    struct operation *launch = stream_add (stream_of (handle), OPERATION_KERNEL);
    launch->name = kernel;
    launch->grid = grid;
    launch->block = block;
    launch->run = run;
    launch->closure = malloc (bytes + !bytes);
    if (!launch->closure)
        abort ();
    memcpy (launch->closure, closure, bytes);
    launch->closure_bytes = bytes;
    launch->cost_ns = standin_kernel_ns (kernel, used);
    stream_go ();
    pthread_mutex_unlock (&standin_lock);
}

/* ---- of the stand-in for NCCL ---- */

API void *
standin_range (const char *call, const void *address, size_t bytes, bool writes, cudaStream_t handle)
{
    pthread_mutex_lock (&standin_lock);
    struct block *block = block_of (address);
    if (!block)
        report (NULL, NULL, "%s gets %p, which is not an address of the device", call, address);
    stream_uses (stream_of (handle), block, address, bytes, writes, call);
    void *real = real_of (address, bytes);
    pthread_mutex_unlock (&standin_lock);
    return real;
}

API void
standin_poll (const char *call, cudaStream_t handle, enum standin_progress (*poll) (void *), void *closure,
              int64_t issued_ns)
{
    pthread_mutex_lock (&standin_lock);
    struct operation *operation = stream_add (stream_of (handle), OPERATION_POLL);
    operation->name = call;
    operation->poll = poll;
    operation->closure = closure;
    operation->issued_ns = issued_ns;
    stream_go ();
    pthread_mutex_unlock (&standin_lock);
}

API int64_t
standin_host_ns (int64_t more)
{
    host_ns += more;
    return host_ns;
}

API void
standin_spend (cudaStream_t handle, int64_t ns)
{
    pthread_mutex_lock (&standin_lock);
    standin_launch ();
    stream_add (stream_of (handle), OPERATION_SPEND)->cost_ns = ns;
    stream_go ();
    pthread_mutex_unlock (&standin_lock);
}

API int
standin_injected (const char *name)
{
    return (int) call_injected (name);
}

/* ---- of nvcc ---- */

API void *
ptx_at (uint64_t address, size_t bytes)
{
    return real_in_kernel ((const char *) (uintptr_t) address, bytes);
}

API void
ptx_bad_shared (uint32_t offset)
{
    report (NULL, NULL, "a kernel uses shared memory that no variable has, at byte %u", offset);
}

enum { MOST_KERNELS = 256, MOST_PUSHES = 8 };
static struct kernel {
    const char *name;
    void (*body) (void *);
    const unsigned short *sizes;
    const void *stub;
} kernels[MOST_KERNELS];
static unsigned kernel_count, pushes;
static struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} pushed[MOST_PUSHES];

/* What nvcc's code calls, with the types that it expects. */
void **__cudaRegisterFatBinary (void *fat);
void __cudaRegisterFatBinaryEnd (void **handle);
void __cudaUnregisterFatBinary (void **handle);
void __cudaRegisterFunction (void **handle, const char *stub, char *device, const char *name, int limit, void *thread,
                             void *block, void *block_dim, void *grid_dim, int *warp);
unsigned __cudaPushCallConfiguration (dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration (dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel (void **kernel, const void *stub);
cudaError_t __cudaLaunchKernel (void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                cudaStream_t stream);

API void **
__cudaRegisterFatBinary (void *fat)
{
    static void *handle;
    (void) fat;
    return &handle;
}

API void
__cudaRegisterFatBinaryEnd (void **handle)
{
    (void) handle;
}

API void
__cudaUnregisterFatBinary (void **handle)
{
    (void) handle;
}

API void
__cudaRegisterFunction (void **handle, const char *stub, char *device, const char *name, int limit, void *thread,
                        void *block, void *block_dim, void *grid_dim, int *warp)
{
    (void) handle, (void) name, (void) limit, (void) thread, (void) block, (void) block_dim, (void) grid_dim;
    (void) warp;
    char symbol[600];
    if (kernel_count == MOST_KERNELS)
        abort ();
    struct kernel *kernel = &kernels[kernel_count++];
    kernel->stub = stub;
    kernel->name = device;
    snprintf (symbol, sizeof symbol, "ptx_%s", device);
    *(void **) &kernel->body = dlsym (RTLD_DEFAULT, symbol);
    snprintf (symbol, sizeof symbol, "ptx_%s_sizes", device);
    kernel->sizes = dlsym (RTLD_DEFAULT, symbol);
}

API unsigned
__cudaPushCallConfiguration (dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
    pushed[pushes].grid = grid;
    pushed[pushes].block = block;
    pushed[pushes].shared = shared;
    pushed[pushes++].stream = stream;
    return 0;
}

API cudaError_t
__cudaPopCallConfiguration (dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    pushes--;
    *grid = pushed[pushes].grid;
    *block = pushed[pushes].block;
    *shared = pushed[pushes].shared;
    *(cudaStream_t *) stream = pushed[pushes].stream;
    return cudaSuccess;
}

/* Parameters one after the other, each aligned to 16 bytes: what the generated code expects. */
static size_t
place_of (size_t size)
{
    return (size + 15) & ~(size_t) 15;
}

static bool
is_on_device (const void *address)
{
    pthread_mutex_lock (&standin_lock);
    bool found = block_of (address) != NULL;
    pthread_mutex_unlock (&standin_lock);
    return found;
}

/* Whether it is not compared with other streams, which use other parts of the same allocations. */
static bool
works_apart (const struct kernel *kernel)
{
    const char *words = getenv ("STANDIN_APART");
    return words && strstr (words, kernel->name);
}

API cudaError_t
cudaLaunchKernel (const void *stub, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    const struct kernel *kernel = NULL;
    size_t bytes = 0, at = 0;
    char closure[4096];
    (void) shared;
    for (unsigned i = 0; i < kernel_count; i++)
        if (kernels[i].stub == stub)
            kernel = &kernels[i];
    if (!kernel || !kernel->body || !kernel->sizes)
        return call_fail (cudaErrorInvalidDeviceFunction);
    if (!is_launched (grid, block))
        return call_fail (cudaErrorInvalidConfiguration);
    for (unsigned i = 0; kernel->sizes[i]; i++)
        bytes += place_of (kernel->sizes[i]);
    if (bytes > sizeof closure)
        return call_fail (cudaErrorInvalidValue);
    for (unsigned i = 0; kernel->sizes[i]; at += place_of (kernel->sizes[i]), i++) {
        void *pointer;
        memcpy (closure + at, arguments[i], kernel->sizes[i]);
        memcpy (&pointer, arguments[i], kernel->sizes[i] < sizeof pointer ? kernel->sizes[i] : sizeof pointer);
        if (kernel->sizes[i] == sizeof pointer && is_on_device (pointer) && !works_apart (kernel))
            /* only what is sure: it may only be read */
            standin_use (kernel->name, pointer, false, stream);
    }
    standin_enqueue (kernel->name, grid, block, stream, closure, bytes, kernel->body);
    return cudaSuccess;
}

API cudaError_t
__cudaGetKernel (void **kernel, const void *stub)
{
    *kernel = (void *) (uintptr_t) stub;
    return cudaSuccess;
}

API cudaError_t
__cudaLaunchKernel (void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    return cudaLaunchKernel (kernel, grid, block, arguments, shared, stream);
}
