/* SPDX-License-Identifier: Apache-2.0 */
/* Values in PyTorch's files, and the states of its optimizers and schedulers, as state_dict() gives them. */
#ifndef LIB_CHECKPOINT_PYTHON_OPTIMIZER_H
#define LIB_CHECKPOINT_PYTHON_OPTIMIZER_H

#include "files/torch_archive.h"
#include "lib/checkpoint/items.h"

/** Restore an optimizer, or a scheduler, from the file of its state.  @{ */
enum accel_status python_load_optimizer (struct torch_archive *archive, const struct checkpoint_item *item,
                                         struct accel_error *err);
enum accel_status python_load_scheduler (struct torch_archive *archive, const struct checkpoint_item *item,
                                         struct accel_error *err);
/** @} */

/** Add a tensor of @p archive to @p state. */
enum accel_status python_add_tensor (struct accel_state_dict *state, const char *name, struct torch_archive *archive,
                                     const struct pickle_value *value, struct accel_error *err);

/** @return whether @p value (nullable) is a number or a truth value. */
bool python_number (const struct pickle_value *value, double *number);

#endif
