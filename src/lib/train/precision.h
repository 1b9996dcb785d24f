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
    struct scaler scaler; /* if it is on a device: as of the last time that the host has read it */
    bool scaling;      /* the precision scales losses, and the scaler is not disabled */
    bool wants_device; /* the program wants the scaler on the device */
    struct scaler_values *live; /* there, since accel_prepare(); NULL: it is on the host */
    DLDevice device;
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

/** @return whether @p acc, which may be NULL, scales losses on its device, and the host does not know by what. */
bool precision_is_live (const struct accel *acc);

/** The scaler, up to date; if it is on a device, the host waits.  precision_write_scaler() changes it. @{ */
const struct scaler *precision_read_scaler (const struct accel *acc);
void precision_write_scaler (const struct accel *acc, const struct scaler *scaler);
/** @} */

/** What the gradients of @p model are scaled by; where that is on the device, the host waits. */
float precision_scale_of (const struct accel_model *model);

/** What checkpoints have of gradients that are scaled.  @{ */
void precision_save_model (const struct accel_model *model, struct accel_state_dict *state, size_t number);
enum accel_status precision_load_model (struct accel_model *model, const struct accel_state_dict *state, size_t number,
                                        struct accel_error *err);
/** @} */

/** Note what the scaler multiplies the loss of @p model by, whose gradients come now. */
enum accel_status precision_note_scale (const struct accel *acc, struct accel_model *model, struct accel_error *err);

/** Take over the scaler of rank @p root, if there are scalers.  Collective. */
enum accel_status precision_broadcast (struct accel *acc, const struct comm_site *site, int root,
                                       struct accel_error *err);

/**
 * Unscale the gradients of @p model if it was prepared under fp16, they are complete, and it has not been done.
 * Collective if it does something.
 */
enum accel_status precision_unscale (struct accel_model *model, const struct comm_site *site, struct accel_error *err);

/**
 * Whether one of the gradients that have been unscaled, on any process, is infinite or NaN.
 *
 * @param is_asked    the host has to know: it waits
 * @param[out] skip   the answer; false if it is on the device
 * @param[out] found  where it is on the device; NULL: the host has it
 */
enum accel_status precision_found (struct accel_model *model, bool is_asked, bool *skip, const uint8_t **found,
                                   struct accel_error *err);

/**
 * Before the step of an optimizer that has stepped last by the gradients of unscaling @p stepped_by: if another
 * optimizer of the same model has since, these gradients are unscaled already.
 */
void precision_share (struct accel_model *model, uint64_t stepped_by);

/** After an optimizer's step over @p model, or a skipped one: change the scale, if there is one. */
void precision_update (struct accel_model *model);

#endif
