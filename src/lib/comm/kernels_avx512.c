/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for x86-64 processors with AVX512. */
#include <config.h>

#if defined __x86_64__
#ifdef __clang__
#define KERNEL __attribute__ ((target ("avx512f,avx512bw,avx512vl,avx512dq,f16c")))
#else
#define KERNEL                                                                                                       \
    __attribute__ ((optimize ("O3", "no-loop-unroll-and-jam"),                                                       \
                    target ("avx512f,avx512bw,avx512vl,avx512dq,f16c,prefer-vector-width=512")))
#endif
#define KERNEL_TABLE kernels_avx512
#define KERNEL_NAME "avx512"
#define KERNEL_F16C
#include "lib/comm/kernels_body.h"
#endif
