/* SPDX-License-Identifier: Apache-2.0 */
/* Divided gradients: each process gets the average of its chunks, and what is left of the others' is given back as soon
 * as a bucket was reduced.  Addresses stay: backward passes write whole gradients, whose pages are there while they
 * do. */
#ifndef LIB_TRAIN_SHARDING_GRADIENTS_H
#define LIB_TRAIN_SHARDING_GRADIENTS_H

#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/stretches.h"

/** Average bucket @p s, of which this process keeps its stretches; the rest becomes 0, without pages.  Collective. */
enum accel_status sharding_reduce (struct accel_model *model, size_t s, struct accel_error *err);

/** The gradient of parameter @p index has been written: get pages for the one that is likely to be next. */
void sharding_expect_gradient (struct accel_model *model, size_t index);

/** Before a backward pass: if it adds to averages, let these count as much as what all processes add.  Collective then
 *  for float16 gradients. */
void sharding_open_gradients (struct accel_model *model, const struct comm_site *site, struct accel_error *err);

/** Or the program has written its gradients already, which it cannot add to averages. */
enum accel_status sharding_renew_gradients (struct accel_model *model, struct accel_error *err);

/** The norms of whole gradients in `host_norms`, in the order of trained parameters.  Collective. */
enum accel_status sharding_norms (struct accel_model *model, const struct comm_site *site, double p,
                                  struct accel_error *err);

/** accel_optimizer_zero_grad() */
void sharding_zero_gradients (struct accel_optimizer *optimizer);

/** After accel_prepare(): the library's memory needs no room for others' chunks. */
void sharding_drop_gradients (const struct accel_model *model);

/** Before a save: all processes get whole averages.  Collective.  Then: they keep theirs.  @{ */
enum accel_status sharding_complete_gradients (struct accel_model *model, const struct comm_site *site,
                                               struct accel_error *err);
void sharding_divide_gradients (struct accel_model *model);
/** @} */

#endif
