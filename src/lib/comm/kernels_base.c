/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for any processor of the architecture, and the choice among the variants. */
#include <config.h>

#ifdef __clang__
#define KERNEL
#else
#define KERNEL __attribute__ ((optimize ("O3")))
#endif
#define KERNEL_TABLE kernels_base
#define KERNEL_NAME "base"
#include "lib/comm/kernels_body.h"

const struct kernels *
kernels_choose (void)
{
#if defined __x86_64__
    if (__builtin_cpu_supports ("avx512f") && __builtin_cpu_supports ("avx512bw")
        && __builtin_cpu_supports ("avx512vl") && __builtin_cpu_supports ("avx512dq")
        && __builtin_cpu_supports ("f16c"))
        return &kernels_avx512;
    if (__builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("f16c"))
        return &kernels_avx2;
#endif
    return &kernels_base;
}
