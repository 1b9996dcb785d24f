/* SPDX-License-Identifier: Apache-2.0 */
/* The states of PyTorch's optimizers and schedulers, as state_dict() gives them. */
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

#endif
