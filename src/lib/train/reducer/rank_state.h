/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints have of training that differs from rank to rank: gradients that are being accumulated, and what
 * PowerSGD remembers.  Both are added to the gradients that are averaged next, so if another number of processes loads
 * them, each gets the average over the ranks that saved: the next average is the same but for rounding. */
#ifndef LIB_TRAIN_RANK_STATE_H
#define LIB_TRAIN_RANK_STATE_H

#include "lib/state/part.h"
#include "lib/state/state_dict.h"
#include "lib/train/model_object.h"

extern const struct part_kind part_gradients, part_power_sgd;

/** @return the place of @p model among those of its job, in the order in which they were prepared. */
size_t rank_state_number (const struct accel_model *model);

/**
 * Read the tensor NUMBER.WHAT: as it is from one state, or the average over several.
 *
 * @param into    float32, float16 or bfloat16
 * @param states  [count], one or more
 */
enum accel_status rank_state_read (const struct accel_model *model, DLTensor *into,
                                   const struct accel_state_dict *states, size_t count, const char *name,
                                   struct accel_error *err);

#endif
