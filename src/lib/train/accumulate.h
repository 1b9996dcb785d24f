/* SPDX-License-Identifier: Apache-2.0 */
/* What gradient accumulation decides for the rest of training. */
#ifndef LIB_TRAIN_ACCUMULATE_H
#define LIB_TRAIN_ACCUMULATE_H

#include <accel/accumulate.h>

#include "lib/base/object.h"
#include "lib/state/part.h"
#include "lib/state/state_dict.h"

struct accel_loader;

/** What a step consists of: so many passes over so many samples of all processes. */
struct step_shape {
    uint64_t loader;  /* its number among those prepared, from 1; 0: none is running, and nothing known */
    uint64_t samples; /* of a pass */
    uint64_t passes;
};

struct accumulation {
    struct part part;
    struct accel_gradient_accumulation options;
    size_t total_batch_size;  /* that num_steps follows from; 0: it does not */
    size_t pass;              /* samples of a pass that it was divided by; 0: it was not yet */
    uint32_t given;           /* num_steps as the program or the environment gave it; 0: not given */
    uint32_t opened;          /* num_steps as accel_open() has found it, at least 1 */
    uint32_t overruled;       /* the same, which DeepSpeed's file has replaced, until it has been reported */
    bool accumulating;        /* gradients stay as they are in this step: Accelerate's `not sync_gradients` */
    uint64_t micro_step;      /* backward passes since the end of a loader */
    struct step_shape shape;  /* of the latest pass */
    bool loaded;              /* from a checkpoint, and no pass was made since */
    double gradient_clipping; /* 0: none */
    bool has_clipping;        /* a norm was given, also 0 */
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

/** @return what the steps over @p loader, which may be NULL, consist of. */
struct step_shape step_shape_of (const struct accel *acc, const struct accel_loader *loader);

/** What checkpoints have of it.  @{ */
void step_shape_save (const struct step_shape *shape, struct accel_state_dict *state);
enum accel_status step_shape_load (struct step_shape *shape, const struct accel_state_dict *state,
                                   struct accel_error *err);
/** @} */

#endif
