/* SPDX-License-Identifier: Apache-2.0 */
/* Models that accel_prepare() has put on the job's GPU: a model is on it from accel_prepare() until
 * accel_unwrap_model(), accel_free_memory() or accel_close(), unless the program placed it itself.  The program's
 * tensors say where the data is; its memory stays its own, and gets the values when the model goes back. */
#ifndef LIB_TRAIN_MODEL_DEVICE_H
#define LIB_TRAIN_MODEL_DEVICE_H

#include "lib/train/model_object.h"

/** @return where accel_prepare() with @p acc is to have @p model: where it is, or on the job's GPU. */
DLDevice model_target (const struct accel_model *model, const struct accel *acc);

/**
 * Copy @p model, which is in host memory, to @p device, with its masters and the states of its optimizers; all of its
 * tensors point there then.  Call model_settle() or model_go_home() next.
 *
 * @retval ACCEL_ERR_UNSUPPORTED  another model that has been placed uses the same memory
 */
enum accel_status model_place (struct accel_model *model, const struct accel *acc, DLDevice device,
                               struct accel_error *err);

/** The model stays there: free the memory at home that is ours and not needed any more. */
void model_settle (struct accel_model *model);

/** Copy everything to where it came from, but for packed parameters.  Call model_go_home() next; on failure, the model
 *  stays on the device, and what it came from may have some of the values. */
enum accel_status model_fetch (struct accel_model *model, struct accel_error *err);

/** The tensors point to where they came from, with the values of model_fetch(), or of before model_place(). */
void model_go_home (struct accel_model *model);

/** @return where the master at @p there came from, until model_settle(); NULL: nowhere. */
const void *model_home_of (const struct accel_model *model, const void *there);

/** The program gets its memory back, with values if possible: a part of accel_model_destroy(). */
void model_end_placement (struct accel_model *model);

#endif
