/* SPDX-License-Identifier: Apache-2.0 */
/* Included by each rules_NAME.c, which defines
 *   RULE_TABLE   the table's name
 *   RULE         attributes of every loop (instruction set, optimisation)
 * rules_element.h says what becomes of each element. */
#include "lib/kernels/rules.h"
#include "lib/kernels/rules_element.h"

RULE static void
sgd_loop (const struct rule_numbers *numbers, float *restrict parameter, const float *restrict grad,
          float *const *state, size_t count)
{
    (void) state;
    const struct rule_numbers n = *numbers;
    for (size_t i = 0; i < count; i++)
        parameter[i] = rule_sgd (n, parameter[i], grad[i]);
}

RULE static void
sgd_momentum_loop (const struct rule_numbers *numbers, float *restrict parameter, const float *restrict grad,
                   float *const *state, size_t count)
{
    const struct rule_numbers n = *numbers;
    float *restrict velocity = state[0];
    for (size_t i = 0; i < count; i++)
        parameter[i] = rule_sgd_momentum (n, parameter[i], grad[i], &velocity[i]);
}

RULE static void
adam_loop (const struct rule_numbers *numbers, float *restrict parameter, const float *restrict grad,
           float *const *state, size_t count)
{
    const struct rule_numbers n = *numbers;
    bool from_mean = rule_is_from_mean (n);
    float *restrict mean = state[0], *restrict square = state[1];
    for (size_t i = 0; i < count; i++)
        parameter[i] = rule_adam (n, from_mean, parameter[i], grad[i], &mean[i], &square[i]);
}

RULE static void
amsgrad_loop (const struct rule_numbers *numbers, float *restrict parameter, const float *restrict grad,
              float *const *state, size_t count)
{
    const struct rule_numbers n = *numbers;
    bool from_mean = rule_is_from_mean (n);
    float *restrict mean = state[0], *restrict square = state[1], *restrict most = state[2];
    for (size_t i = 0; i < count; i++)
        parameter[i] = rule_amsgrad (n, from_mean, parameter[i], grad[i], &mean[i], &square[i], &most[i]);
}

RULE static void
lion_loop (const struct rule_numbers *numbers, float *restrict parameter, const float *restrict grad,
           float *const *state, size_t count)
{
    const struct rule_numbers n = *numbers;
    float *restrict mean = state[0];
    for (size_t i = 0; i < count; i++)
        parameter[i] = rule_lion (n, parameter[i], grad[i], &mean[i]);
}

const struct rules RULE_TABLE = {
    .loops = {
        [RULE_SGD] = sgd_loop,
        [RULE_SGD_MOMENTUM] = sgd_momentum_loop,
        [RULE_ADAM] = adam_loop,
        [RULE_AMSGRAD] = amsgrad_loop,
        [RULE_LION] = lion_loop,
    },
};
