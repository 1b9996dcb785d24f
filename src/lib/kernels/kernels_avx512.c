/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for x86-64 processors with AVX512. */
#include <config.h>

#if defined __x86_64__
#ifdef __clang__
#define KERNEL_TARGET target ("avx512f,avx512bw,avx512vl,avx512dq,f16c,prfchw")
#else
#define KERNEL_TARGET target ("avx512f,avx512bw,avx512vl,avx512dq,f16c,prfchw,prefer-vector-width=512")
#endif
#define KERNEL_TABLE kernels_avx512
#define KERNEL_NAME "avx512"
#define KERNEL_F16C
#define KERNEL_FEW
#define KERNEL_OVERLAP
#define KERNEL_REST kernels_avx2
#include "lib/kernels/kernels_body.h"
#endif
