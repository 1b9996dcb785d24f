/* SPDX-License-Identifier: Apache-2.0 */
/* What optimizers do to a stretch of one parameter, compiled once per instruction set; see rules_body.h. */
#ifndef LIB_KERNELS_RULES_H
#define LIB_KERNELS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { RULE_STATES = 3 };

/** The numbers of one step, rounded to float32 as torch rounds them. */
struct rule_numbers {
    float sign;        /* of gradients: -1 to maximise */
    float decay;       /* times the parameter, to be added to the gradient */
    float keep;        /* of the parameter, before anything else */
    float minus_size;  /* the step's, times -1 */
    float beta1, weight1, beta2, weight2;
    float root, eps;   /* of divisors */
    float momentum, fresh; /* of a velocity, and of what is added to it */
    bool nesterov;
};

/** What some of them depend on with the number of the step: rule_begin() in rules_element.h. */
struct rule_pace {
    double lr, lr_decay;
    double beta1, beta2; /* of bias corrections; 0: none */
};

/** @return whether all of them are the same.  @{ */
static inline bool
rule_numbers_equal (const struct rule_numbers *a, const struct rule_numbers *b)
{
    return !memcmp (a, b, offsetof (struct rule_numbers, nesterov)) && a->nesterov == b->nesterov;
}

static inline bool
rule_pace_equal (const struct rule_pace *a, const struct rule_pace *b)
{
    return !memcmp (a, b, sizeof *a);
}
/** @} */

/** Where only a device knows how many steps there were, because some may have been skipped. */
struct rule_steps {
    uint64_t count;
    uint32_t was_skipped; /* the last one: not 0 */
    uint32_t unused;
};

/** What a group of parameters has there. */
struct rule_group {
    struct rule_numbers fixed; /* of all steps */
    struct rule_pace pace;
    struct rule_numbers numbers; /* of the last step that was not skipped */
};

/** Change parameter[count] by grad[count]; state[j] is [count]. */
typedef void rule_loop (const struct rule_numbers *numbers, float *parameter, const float *grad, float *const *state,
                        size_t count);

/** X (NAME, name, states): rule_name() in rules_element.h changes an element and so many states of it.  This list makes
 * the enumeration, the loops of each instruction set and the kernels of GPUs. */
#define RULES(X)                                                                                                       \
    X (SGD, sgd, 0)                                                                                                    \
    X (SGD_MOMENTUM, sgd_momentum, 1)                                                                                  \
    X (ADAM, adam, 2)                                                                                                  \
    X (AMSGRAD, amsgrad, 3)                                                                                            \
    X (LION, lion, 1)                                                                                                  \
    X (ADAGRAD, adagrad, 1)                                                                                            \
    X (RMSPROP, rmsprop, 1)                                                                                            \
    X (RMSPROP_MOMENTUM, rmsprop_momentum, 2)                                                                          \
    X (RMSPROP_CENTERED, rmsprop_centered, 2)                                                                          \
    X (RMSPROP_CENTERED_MOMENTUM, rmsprop_centered_momentum, 3)

#define RULE_CONSTANT(NAME, name, states) RULE_##NAME,
enum rule { RULES (RULE_CONSTANT) RULE_COUNT };
#undef RULE_CONSTANT

/** A call of rule_name() for element i of s0, s1 and s2, by the number of its states.  @{ */
#define RULE_CALL_0(name, n, value, g, s0, s1, s2, i) rule_##name (n, value, g)
#define RULE_CALL_1(name, n, value, g, s0, s1, s2, i) rule_##name (n, value, g, &(s0)[i])
#define RULE_CALL_2(name, n, value, g, s0, s1, s2, i) rule_##name (n, value, g, &(s0)[i], &(s1)[i])
#define RULE_CALL_3(name, n, value, g, s0, s1, s2, i) rule_##name (n, value, g, &(s0)[i], &(s1)[i], &(s2)[i])
/** @} */

struct rules {
    rule_loop *loops[RULE_COUNT];
};

extern const struct rules rules_base;
#if defined __x86_64__
extern const struct rules rules_avx2;
#endif

/** @return the fastest that this processor runs; all give the same bits. */
const struct rules *rules_best (void);

#endif
