/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for any processor of the architecture. */
#include <config.h>

#define KERNEL_TARGET /* none */
#if defined __x86_64__
#define KERNEL_RARE
#endif
#define KERNEL_TABLE kernels_base
#define KERNEL_NAME "base"
#include "lib/kernels/kernels_body.h"
