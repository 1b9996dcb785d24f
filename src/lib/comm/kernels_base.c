/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for any processor of the architecture, and which variants this processor runs. */
#include <config.h>

#ifdef __clang__
#define KERNEL
#else
#define KERNEL __attribute__ ((optimize ("O3", "no-loop-unroll-and-jam")))
#endif
#define KERNEL_TABLE kernels_base
#define KERNEL_NAME "base"
#include "lib/comm/kernels_body.h"

const struct kernels *
kernels_at (int level)
{
    const struct kernels *usable[4] = { &kernels_base };
#if defined __x86_64__
    int count = 1;
    if (__builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("f16c"))
        usable[count++] = &kernels_avx2;
    if (__builtin_cpu_supports ("avx512f") && __builtin_cpu_supports ("avx512bw")
        && __builtin_cpu_supports ("avx512vl") && __builtin_cpu_supports ("avx512dq")
        && __builtin_cpu_supports ("f16c"))
        usable[count++] = &kernels_avx512;
#endif
    return usable[level];
}
