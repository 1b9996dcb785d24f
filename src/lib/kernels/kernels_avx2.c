/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for x86-64 processors with AVX2. */
#include <config.h>

#if defined __x86_64__
#define KERNEL_TARGET target ("avx2,f16c")
#define KERNEL_TABLE kernels_avx2
#define KERNEL_NAME "avx2"
#define KERNEL_F16C
#define KERNEL_REST kernels_base
#include "lib/kernels/kernels_body.h"
#endif
