/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer from the inside: a rule with its state per parameter. */
#ifndef LIB_TRAIN_OPTIMIZER_H
#define LIB_TRAIN_OPTIMIZER_H

#include "lib/object.h"
#include "lib/train/model.h"

enum { OPTIMIZER_STATES = 2 };

/** What one kind of optimizer does to one parameter in one step; state[] is zero before the first. */
typedef void (*optimizer_rule) (const struct accel_optimizer *optimizer, float *parameter, const float *grad,
                                float *const *state, size_t count);

struct accel_optimizer {
    struct object object;
    struct accel_model *model;
    optimizer_rule rule;
    int state_count;
    double lr;
    struct accel_sgd sgd;     /* of the kind that it is */
    struct accel_adamw adamw;
    uint64_t step;            /* 1 in the first step */
    bool step_was_skipped;    /* the last one: a scaler found infinite gradients */
    float *state_memory;
    size_t elements;          /* of all trained parameters */
};

/** @return where the momentum (of Adam and Lion: beta1) of @p optimizer stands, to be changed; NULL: it has none. */
double *optimizer_momentum (struct accel_optimizer *optimizer);

#endif
