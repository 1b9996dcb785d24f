/* SPDX-License-Identifier: Apache-2.0 */
/* What gradient accumulation decides for the rest of training. */
#ifndef LIB_TRAIN_ACCUMULATE_H
#define LIB_TRAIN_ACCUMULATE_H

#include <accel/accumulate.h>

#include "lib/base/object.h"

/** What accel_open() is told about accumulation, by the program and by the environment. */
enum accel_status accumulate_open (struct accel *acc, const struct accel_options *options, struct accel_error *err);

/** @return whether @p object, an optimizer or a scheduler, has to wait for the last pass of this step. */
bool accumulate_waits (const struct object *object);

/** @return whether the backward pass of @p model that is under way averages; a trigger is used up by it. */
bool accumulate_reduces (struct accel_model *model);

/** What the program's loss has to be multiplied by. */
float accumulate_scale (const struct accel *acc);

#endif
