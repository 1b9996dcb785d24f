/* SPDX-License-Identifier: Apache-2.0 */
/* Values in PyTorch's files, for state dicts. */
#ifndef LIB_CHECKPOINT_PYTHON_VALUES_H
#define LIB_CHECKPOINT_PYTHON_VALUES_H

#include "files/torch_archive.h"
#include "lib/state/state_dict.h"

/** Add a tensor of @p archive to @p state. */
enum accel_status python_add_tensor (struct accel_state_dict *state, const char *name, struct torch_archive *archive,
                                     const struct pickle_value *value, struct accel_error *err);

/** @return whether @p value (nullable) is a number or a truth value. */
bool python_number (const struct pickle_value *value, double *number);

#endif
