/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that only takes time: one thread, so what runs beside it has the rest of the GPU.  The clock is the GPU's
 * timer, whose steps are about a microsecond on some GPUs. */
#include "bench/gpu/spin.h"

__device__ static unsigned long long
now (void)
{
    unsigned long long ns;
    asm volatile ("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__global__ void
spin_kernel (unsigned long long ns)
{
    unsigned long long begin = now ();
    while (now () - begin < ns)
        ;
}

void
spin (cudaStream_t stream, int64_t ns)
{
    spin_kernel<<<1, 1, 0, stream>>> ((unsigned long long) ns);
}
