/* SPDX-License-Identifier: Apache-2.0 */
/* What gradient accumulation decides for the rest of training. */
#ifndef LIB_TRAIN_ACCUMULATE_H
#define LIB_TRAIN_ACCUMULATE_H

#include <accel/accumulate.h>

#include "lib/base/object.h"
#include "lib/state/part.h"

struct accumulation {
    struct part part;
    struct accel_gradient_accumulation options;
    bool accumulating;        /* gradients stay as they are in this step: the original's `not sync_gradients` */
    uint64_t micro_step;      /* backward passes since the end of a loader */
    double gradient_clipping; /* 0: none */
};

extern const struct part_kind part_accumulation;

static inline struct accumulation *
accumulation_of (const struct accel *acc)
{
    return (struct accumulation *) (void *) part_find (acc, &part_accumulation);
}

/** @return whether @p object, an optimizer or a scheduler, has to wait for the last pass of this step. */
bool accumulate_waits (const struct object *object);

/** @return whether the backward pass of @p model that is under way averages; a trigger is used up by it. */
bool accumulate_reduces (struct accel_model *model);

/** What the program's loss has to be multiplied by. */
float accumulate_scale (const struct accel *acc);

#endif
