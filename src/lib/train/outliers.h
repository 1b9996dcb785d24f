/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and norms of gradients that jump; see accel_outlier_watch(). */
#ifndef LIB_TRAIN_OUTLIERS_H
#define LIB_TRAIN_OUTLIERS_H

#include "lib/state/part.h"
#include "lib/train/optimizer/optimizer_object.h"

extern const struct part_kind part_outliers;

/** @return whether norms are watched for @p acc, which may be NULL. */
bool outliers_want_norm (const struct accel *acc);

/** A step's norm of gradients is known; the same on all ranks.  @param whence  if it is not finite: from where */
void outliers_note_norm (struct accel *acc, double norm, const char *whence);

/** @return whether the step that @p optimizer is about to take is to be skipped. */
bool outliers_skip (struct accel_optimizer *optimizer);

/** @p optimizer is prepared with @p acc: outliers before that are not its own. */
void outliers_prepare (struct accel_optimizer *optimizer, const struct accel *acc);

#endif
