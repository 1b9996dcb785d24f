/* SPDX-License-Identifier: Apache-2.0 */
/* One element's step of any rule. */
#ifndef CUDA_STEP_H
#define CUDA_STEP_H

#include "lib/kernels/rules_element.h"

/* @return the parameter after it */
template <enum rule RULE> __device__ static inline float
rule_step (const struct rule_numbers n, bool from_mean, float value, float g, float *state0, float *state1,
           float *state2, size_t i)
{
    if (RULE == RULE_SGD)
        return rule_sgd (n, value, g);
    if (RULE == RULE_SGD_MOMENTUM)
        return rule_sgd_momentum (n, value, g, &state0[i]);
    if (RULE == RULE_ADAM)
        return rule_adam (n, from_mean, value, g, &state0[i], &state1[i]);
    if (RULE == RULE_AMSGRAD)
        return rule_amsgrad (n, from_mean, value, g, &state0[i], &state1[i], &state2[i]);
    return rule_lion (n, value, g, &state0[i]);
}

#endif
