/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizers' loops for any processor of the architecture, and which variant this processor runs. */
#include <config.h>

#include "lib/kernels/arithmetic.h"

#define RULE VECTORISED
#define RULE_TABLE rules_base
#include "lib/kernels/rules_body.h"

const struct rules *
rules_best (void)
{
#if defined __x86_64__
    if (__builtin_cpu_supports ("avx2"))
        return &rules_avx2;
#endif
    return &rules_base;
}
