/* SPDX-License-Identifier: Apache-2.0 */
/* One element's step of any rule. */
#ifndef CUDA_STEP_H
#define CUDA_STEP_H

#include "lib/kernels/rules_element.h"

/* @return the parameter after it */
template <enum rule RULE> __device__ static inline float
rule_step (const struct rule_numbers n, float value, float g, float *state0, float *state1, float *state2, size_t i)
{
#define RULE_CASE(NAME, name, states)                                                                                  \
    if (RULE == RULE_##NAME)                                                                                           \
        return RULE_CALL_##states (name, n, value, g, state0, state1, state2, i);
    RULES (RULE_CASE)
#undef RULE_CASE
    return value;
}

#endif
