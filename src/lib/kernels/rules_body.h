/* SPDX-License-Identifier: Apache-2.0 */
/* Included by each rules_NAME.c, which defines
 *   RULE_TABLE   the table's name
 *   RULE         attributes of every loop (instruction set, optimisation)
 * rules_element.h says what becomes of each element. */
#include "lib/kernels/rules.h"
#include "lib/kernels/rules_element.h"

/* States that a rule does not have are never looked at. */
#define RULE_LOOP(NAME, name, states)                                                                                  \
    RULE static void name##_loop (const struct rule_numbers *numbers, float *restrict parameter,                       \
                                  const float *restrict grad, float *const *state, size_t count)                       \
    {                                                                                                                  \
        const struct rule_numbers n = *numbers;                                                                        \
        float *restrict s0 = (states) > 0 ? state[0] : NULL, *restrict s1 = (states) > 1 ? state[1] : NULL;            \
        float *restrict s2 = (states) > 2 ? state[2] : NULL;                                                           \
        (void) s0, (void) s1, (void) s2;                                                                               \
        for (size_t i = 0; i < count; i++)                                                                             \
            parameter[i] = RULE_CALL_##states (name, n, parameter[i], grad[i], s0, s1, s2, i);                         \
    }
RULES (RULE_LOOP)

#define RULE_ROW(NAME, name, states) [RULE_##NAME] = name##_loop,
const struct rules RULE_TABLE = { .loops = { RULES (RULE_ROW) } };
