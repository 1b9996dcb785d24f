/* SPDX-License-Identifier: Apache-2.0 */
/* What optimizers do to a stretch of one parameter, compiled once per instruction set; see rules_body.h. */
#ifndef LIB_KERNELS_RULES_H
#define LIB_KERNELS_RULES_H

#include <stdbool.h>
#include <stddef.h>

enum { RULE_STATES = 3 };

/** The numbers of one step, rounded to float32 as torch rounds them. */
struct rule_numbers {
    float sign;        /* of gradients: -1 to maximise */
    float decay;       /* times the parameter, to be added to the gradient */
    float keep;        /* of the parameter, before anything else */
    float minus_size;  /* the step's, times -1 */
    float beta1, weight1, beta2, weight2;
    float root, eps;   /* Adam's divisor */
    float momentum, fresh; /* SGD's */
    bool nesterov;
};

/** Change parameter[count] by grad[count]; state[j] is [count]. */
typedef void rule_loop (const struct rule_numbers *numbers, float *parameter, const float *grad, float *const *state,
                        size_t count);

enum rule { RULE_SGD, RULE_SGD_MOMENTUM, RULE_ADAM, RULE_AMSGRAD, RULE_LION, RULE_COUNT };

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
