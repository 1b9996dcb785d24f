/* SPDX-License-Identifier: Apache-2.0 */
/* What a struct accel's precision means for a step of training. */
#ifndef LIB_TRAIN_PRECISION_H
#define LIB_TRAIN_PRECISION_H

#include <accel/precision.h>

#include "lib/comm/comm_private.h"
#include "lib/state/part.h"
#include "lib/train/model_object.h"
#include "lib/train/scaler.h"

struct precision {
    struct part part;
    struct scaler scaler;
    bool scaling;      /* the precision scales losses, and the scaler is not disabled */
    bool autocast_off; /* accel_autocast_enable() */
};

extern const struct part_kind part_precision;

static inline struct precision *
precision_of (const struct accel *acc)
{
    return (struct precision *) (void *) part_find (acc, &part_precision);
}

/** @return whether @p acc, which may be NULL, scales losses. */
static inline bool
precision_scales (const struct accel *acc)
{
    return acc && precision_of (acc)->scaling;
}

/** Note what the scaler multiplies the loss of @p model by, whose gradients come now. */
void precision_note_scale (const struct accel *acc, struct accel_model *model);

/** Take over the scaler of rank @p root, if there are scalers.  Collective. */
enum accel_status precision_broadcast (struct accel *acc, const struct comm_site *site, int root,
                                       struct accel_error *err);

/**
 * Unscale the gradients of @p model if it was prepared under fp16, they are complete, and it has not been done.
 * Collective if it does something.
 *
 * @param[out] skip  whether one of them, on any process, is infinite or NaN; may be NULL
 */
enum accel_status precision_unscale (struct accel_model *model, const struct comm_site *site, bool *skip,
                                     struct accel_error *err);

/**
 * Before the step of an optimizer that has stepped last by the gradients of unscaling @p stepped_by: if another
 * optimizer of the same model has since, these gradients are unscaled already.
 */
void precision_share (struct accel_model *model, uint64_t stepped_by);

/** After an optimizer's step over @p model, or a skipped one: change the scale, if there is one. */
void precision_update (struct accel_model *model);

#endif
