/* SPDX-License-Identifier: Apache-2.0 */
/* Which variants of the kernels this processor runs. */
#include <config.h>

#include "lib/kernels/kernels.h"
#include "util/envnames.h"

#include <stdlib.h>
#include <string.h>
#if defined __x86_64__
#include <cpuid.h>
#endif

#if defined __x86_64__
/* clang 14 does not know the name in __builtin_cpu_supports(): leaf 1, bit 29 of ECX. */
static bool
has_f16c (void)
{
    unsigned a, b, c, d;
    return __get_cpuid (1, &a, &b, &c, &d) && (c >> 29 & 1);
}
#endif

const struct kernels *
kernels_at (int level)
{
    const struct kernels *usable[4] = { &kernels_base };
#if defined __x86_64__
    int count = 1;
    if (__builtin_cpu_supports ("avx2") && has_f16c ())
        usable[count++] = &kernels_avx2;
    if (__builtin_cpu_supports ("avx512f") && __builtin_cpu_supports ("avx512bw")
        && __builtin_cpu_supports ("avx512vl") && __builtin_cpu_supports ("avx512dq")
        && has_f16c ())
        usable[count++] = &kernels_avx512;
#endif
    const char *newest = getenv (ENV_INSTRUCTIONS);
    if (newest && level > 0 && usable[level - 1] && !strcmp (usable[level - 1]->name, newest))
        return NULL;
    return usable[level];
}

_Atomic (const struct kernels *) kernels_chosen;

/* Threads that choose at the same time choose the same. */
const struct kernels *
kernels_choose (void)
{
    const struct kernels *best = &kernels_base;
    for (int level = 0; kernels_at (level); level++)
        best = kernels_at (level);
    atomic_store_explicit (&kernels_chosen, best, memory_order_relaxed);
    return best;
}
