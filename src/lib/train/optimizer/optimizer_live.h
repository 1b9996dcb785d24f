/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers whose count of steps is on the device: with `capturable`, so that a step can become part of a CUDA graph;
 * and where the scaler is there, because the host does not know which steps were skipped. */
#ifndef LIB_TRAIN_OPTIMIZER_LIVE_H
#define LIB_TRAIN_OPTIMIZER_LIVE_H

#include "lib/train/optimizer/optimizer_object.h"

/** @return [group_count] on the device: they are behind the steps. */
static inline struct rule_group *
optimizer_live_groups (const struct accel_optimizer *optimizer)
{
    return (struct rule_group *) (void *) (optimizer->live.steps + 1);
}

/** Put the numbers of the next step on the device, if that optimizer and its device want it.
 *  @param[out] is_live  whether they are there */
enum accel_status optimizer_live_begin (struct accel_optimizer *optimizer, bool *is_live, struct accel_error *err);

/** Count the step, unless @p found says that it is skipped; and change the parameters. */
enum accel_status optimizer_live_step (struct accel_optimizer *optimizer, const uint8_t *found,
                                       struct accel_error *err);

/** The program has changed numbers of groups: replays of a graph go by them from now on. */
void optimizer_live_renew (struct accel_optimizer *optimizer);

/** From now on, the host counts; drop: the optimizer ends. @{ */
void optimizer_live_end (struct accel_optimizer *optimizer);
void optimizer_live_drop (struct accel_optimizer *optimizer);
/** @} */

/** For the rest of a function: what this thread queues for a model may be captured into a CUDA graph. */
struct capture_permit {
    const struct memory_live *live; /* NULL: it may not */
    struct accel_model *model;
    struct model_scale before;
    bool is_capturing;
};
struct capture_permit capture_permit (struct accel_model *model, bool is_capturable);
void capture_forbid (struct capture_permit *permit);
#define MAY_BE_CAPTURED(model, is_capturable)                          \
    __attribute__ ((cleanup (capture_forbid))) struct capture_permit permit \
        = capture_permit (model, is_capturable)

/** What of that is refused has not been done: the model is as before.  @return @p status */
enum accel_status capture_result (const struct capture_permit *permit, enum accel_status status);

/** Whether one of its optimizers is. */
bool model_is_capturable (const struct accel_model *model);

#endif
