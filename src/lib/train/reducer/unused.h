/* SPDX-License-Identifier: Apache-2.0 */
/* What find_unused_parameters asks: which parameters any process has used; see unused.c. */
#ifndef LIB_TRAIN_UNUSED_H
#define LIB_TRAIN_UNUSED_H

#include "lib/train/model_object.h"

/** The reducer's marks, with find_unused_parameters.  @{ */
enum accel_status unused_make (struct accel_model *model, struct accel *acc, struct accel_error *err);
void unused_free (struct accel_model *model);
/** @} */

/** An average has ended: nothing is used since then, or, because passes that follow add to it, what any process has
 *  used.  @{ */
void unused_forget (struct accel_model *model);
void unused_keep (struct accel_model *model);
/** @} */

/** Let the host know what it is that unused_keep() keeps, for which it waits if that is on the device. */
enum accel_status unused_fetch (struct accel_model *model, struct accel_error *err);

/** Agree about bucket @p s, and zero what only others have used.  Collective, on the host. */
enum accel_status unused_agree (struct accel_model *model, size_t s, struct accel_error *err);

/**
 * In the order of the device's stream: before the buckets that may have unused gradients; after all buckets have been
 * started, which starts one more work; and when the stream has them all, or an error.
 * @{
 */
enum accel_status unused_set_aside (struct accel_model *model, struct accel_error *err);
enum accel_status unused_start (struct accel_model *model, struct accel_error *err);
void unused_end (struct accel_model *model, bool is_well);
/** @} */

#endif
