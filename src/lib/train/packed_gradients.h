/* SPDX-License-Identifier: Apache-2.0 */
/* Divided gradients on a GPU: this process's stretches of all averages are packed in one piece of memory.  A bucket has
 * memory for whole gradients, and their tensors an address, only from the layer of a backward pass that writes the
 * first one until it has been averaged; otherwise `data` is NULL. */
#ifndef LIB_TRAIN_PACKED_GRADIENTS_H
#define LIB_TRAIN_PACKED_GRADIENTS_H

#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/packed.h"

/** @return why gradients of @p model cannot be divided on a GPU; NULL: they can.  On the host, before accel_prepare()
 *  has given them memory. */
const char *packed_why_whole (const struct accel_model *model);

/** After model_make_spans(): memory for what is packed, if gradients are to be divided, and its end.  Both accept any
 *  model.  @{ */
enum accel_status packed_make_gradients (struct accel_model *model, struct accel_error *err);
void packed_end_gradients (struct accel_model *model);
/** @} */

/** Before accel_unwrap_model(): `kept` of parameter @p index gets what is packed of its gradient, and 0 elsewhere. */
enum accel_status packed_keep_gradient (struct accel_model *model, size_t index, struct accel_error *err);

/** A backward pass begins; in it, a layer: its buckets get memory.  Accept any model.  @{ */
enum accel_status packed_begin_pass (struct accel_model *model, struct accel_error *err);
enum accel_status packed_begin_gradients (struct accel_model *model, const size_t *parameters, size_t count,
                                          struct accel_error *err);
/** @} */

/** Average bucket @p s, behind what the program has queued.  The bucket before it gives its memory back, and groups
 *  average it between them. */
enum accel_status packed_start_bucket (struct accel_model *model, size_t s, struct accel_error *err);

/** After the last bucket has been started: do the same with that one.  Any model. */
enum accel_status packed_pass_on_last (struct accel_model *model, struct accel_error *err);

/** What the program queues from now on comes behind all averages, and buckets give their memory back.  Any model. */
enum accel_status packed_finish_buckets (struct accel_model *model, struct accel_error *err);

/** What is whole is forgotten, and goes back, and what is packed becomes 0; or that of an optimizer, if not @p all.
 *  @{ */
void packed_drop_gradients (struct accel_model *model);
void packed_zero_gradients (struct accel_optimizer *optimizer, bool all);
/** @} */

/** The norms of whole gradients in `host_norms`, as sharding_norms(): each process's parts of them, [2 * trained]. */
enum accel_status packed_norms (struct accel_model *model, double p, float *parts, struct accel_error *err);

#endif
