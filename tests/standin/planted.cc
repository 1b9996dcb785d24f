/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and kernels with a mistake each, which the stand-in or a sanitizer has to find.  usage: planted MISTAKE
 * [ROUNDS], or "none" for the same without; prints "right" or "wrong" of the result. */
#include "cuda/portable.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each block's sum of a number for each thread. */
template <int MISTAKE> __global__ void
sum_kernel (const unsigned *__restrict__ numbers, unsigned *__restrict__ sums)
{
    SHARED (unsigned, parts, [CUDA_BLOCK]);
    if (MISTAKE == 1 && threadIdx.x == 77) /* leaves the others at the barrier */
        return;
    unsigned place = MISTAKE == 2 ? threadIdx.x + 1 : MISTAKE == 3 ? threadIdx.x & ~1U : threadIdx.x;
    if (MISTAKE != 3 || threadIdx.x % 2 == 0) /* 3: odd ones are never written */
        parts[place] = numbers[blockIdx.x * blockDim.x + threadIdx.x + (MISTAKE == 4)];
    for (unsigned half = CUDA_BLOCK / 2; half; half /= 2) {
        if (MISTAKE != 5)
            __syncthreads ();
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    if (threadIdx.x == 0 && MISTAKE == 6)
        sums[0] += parts[0] > 4; /* all blocks, without an atomic operation */
    else if (threadIdx.x == 0)
        sums[blockIdx.x] = parts[0] > 4 ? parts[0] : 0;
}

/* What -fmad=false forbids: rounded once instead of twice, 1 + 2^-12 squared less 1 + 2^-11 is 2^-24 and not 0. */
__global__ void
fuse_kernel (const unsigned *__restrict__ numbers, unsigned *__restrict__ sums)
{
    float x = (float) numbers[0] + (float) numbers[0] / 4096;
    float difference = x * x - (1 + 1.0F / 2048);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = difference == 0 ? CUDA_BLOCK : 0;
}

enum { BLOCKS = 3, COUNT = BLOCKS * CUDA_BLOCK };

static void
must (cudaError_t error)
{
    if (error) {
        printf ("error %d: %s\n", (int) error, cudaGetErrorString (error));
        exit (2);
    }
}

static bool
is (const char *mistake, const char *name)
{
    return !strcmp (mistake, name);
}

static void
launch (const char *mistake, const unsigned *numbers, unsigned *sums, cudaStream_t stream)
{
    if (is (mistake, "divergent"))
        LAUNCH (sum_kernel<1>, BLOCKS, stream, numbers, sums);
    else if (is (mistake, "beyond-shared"))
        LAUNCH (sum_kernel<2>, BLOCKS, stream, numbers, sums);
    else if (is (mistake, "unwritten"))
        LAUNCH (sum_kernel<3>, BLOCKS, stream, numbers, sums);
    else if (is (mistake, "beyond-global"))
        LAUNCH (sum_kernel<4>, BLOCKS, stream, numbers, sums);
    else if (is (mistake, "no-barrier"))
        LAUNCH (sum_kernel<5>, BLOCKS, stream, numbers, sums);
    else if (is (mistake, "no-atomic"))
        LAUNCH (sum_kernel<6>, BLOCKS, stream, numbers, sums);
    else if (is (mistake, "fused"))
        LAUNCH (fuse_kernel, BLOCKS, stream, numbers, sums);
    else
        LAUNCH (sum_kernel<0>, BLOCKS, stream, numbers, sums);
}

/* The numbers are copied on one stream and added up on another.  @return whether the sums are right */
static bool
run (const char *mistake)
{
    unsigned *from, *back, *numbers, *sums, pageable[COUNT];
    cudaStream_t first, second;
    cudaEvent_t event;
    bool right = true;
    must (cudaStreamCreateWithFlags (&first, cudaStreamNonBlocking));
    must (cudaStreamCreateWithFlags (&second, cudaStreamNonBlocking));
    must (cudaEventCreateWithFlags (&event, cudaEventDisableTiming));
    must (cudaHostAlloc ((void **) &from, COUNT * sizeof *from, cudaHostAllocDefault));
    must (cudaHostAlloc ((void **) &back, BLOCKS * sizeof *back, cudaHostAllocDefault));
    must (cudaSetDevice (is (mistake, "other-device")));
    must (cudaMalloc ((void **) &numbers, COUNT * sizeof *numbers));
    must (cudaSetDevice (0));
    must (cudaMalloc ((void **) &sums, BLOCKS * sizeof *sums));
    for (unsigned i = 0; i < COUNT; i++)
        from[i] = 1;
    size_t copied = (COUNT + is (mistake, "copy-beyond")) * sizeof *from;
    unsigned *to = is (mistake, "host-as-device") ? from : numbers;
    must (cudaMemcpyAsync (to, from, copied, cudaMemcpyHostToDevice, first));
    must (cudaEventRecord (event, first));
    if (is (mistake, "reuse")) /* the copy has not been waited for */
        memset (from, 0, COUNT * sizeof *from);
    if (!is (mistake, "no-event"))
        must (cudaStreamWaitEvent (second, event, 0));
    if (is (mistake, "freed"))
        must (cudaFree (numbers));
    launch (mistake, is (mistake, "host-pointer") ? pageable : numbers, sums, second);
    must (cudaGetLastError ());
    if (is (mistake, "overwritten")) /* while the kernel reads */
        must (cudaMemsetAsync (numbers, 0, COUNT * sizeof *numbers, first));
    if (is (mistake, "touched"))
        right = *(volatile unsigned *) sums == CUDA_BLOCK;
    if (is (mistake, "changed"))
        *(volatile unsigned *) numbers = 0;
    must (cudaMemcpyAsync (back, sums, BLOCKS * sizeof *back, cudaMemcpyDeviceToHost, second));
    if (!is (mistake, "no-wait"))
        must (cudaStreamSynchronize (second));
    for (int i = 0; i < BLOCKS; i++)
        right = right && back[i] == CUDA_BLOCK;
    must (cudaDeviceSynchronize ());
    must (cudaStreamDestroy (first));
    if (is (mistake, "destroyed"))
        must (cudaStreamSynchronize (first));
    must (cudaStreamDestroy (second));
    must (cudaEventDestroy (event));
    if (is (mistake, "event-destroyed"))
        must (cudaEventSynchronize (event));
    if (!is (mistake, "freed"))
        must (cudaFree (numbers));
    if (is (mistake, "freed-twice"))
        must (cudaFree (numbers));
    must (cudaFree (sums));
    must (cudaFreeHost (from));
    must (cudaFreeHost (back));
    return right;
}

int
main (int argc, char **argv)
{
    const char *mistake = argc > 1 ? argv[1] : "none";
    bool right = true;
    long rounds = argc > 2 ? strtol (argv[2], NULL, 10) : 20; /* streams are late by chance */
    for (long round = 0; right && round < rounds; round++)
        right = run (mistake);
    printf ("%s: %s\n", mistake, right ? "right" : "wrong");
    return !right;
}
