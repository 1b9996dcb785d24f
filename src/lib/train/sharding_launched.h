/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers ask of sharding, by variables of the environment and DeepSpeed's configuration file. */
#ifndef LIB_TRAIN_SHARDING_LAUNCHED_H
#define LIB_TRAIN_SHARDING_LAUNCHED_H

#include "lib/train/model_object.h"

/** The part of accel_model_create() that reads what the launcher was asked for: later changes have no effect. */
__attribute__ ((cold)) enum accel_status sharding_read_launched (struct accel_model *model, struct accel_error *err);

/** Free it. */
void sharding_forget_launched (struct accel_model *model);

#endif
