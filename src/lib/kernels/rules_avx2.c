/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizers' loops for x86-64 processors with AVX2. */
#include <config.h>

#if defined __x86_64__
#include "lib/kernels/arithmetic.h"

#define RULE VECTORISED __attribute__ ((target ("avx2")))
#define RULE_TABLE rules_avx2
#include "lib/kernels/rules_body.h"
#endif
