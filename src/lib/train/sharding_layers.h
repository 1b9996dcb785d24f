/* SPDX-License-Identifier: Apache-2.0 */
/* Divided parameters: each process keeps its chunks, and has those of the others while a layer uses them. */
#ifndef LIB_TRAIN_SHARDING_LAYERS_H
#define LIB_TRAIN_SHARDING_LAYERS_H

#include "lib/train/stretches.h"

/** At the end of accel_prepare(): nothing is done if parameters are not divided, or lie in memory of all processes.
 *  Collective. */
enum accel_status sharding_make_layers (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                                        struct accel_error *err);

/** Accepts a model without. */
void sharding_end_layers (struct accel_model *model);

/** @return whether the program has called accel_layer_begin(), so parameters are not whole */
bool sharding_has_layers (const struct accel_model *model);

/** Before a step, also one that is skipped: nothing is gathered ahead any more, and the order of layers begins anew. */
void sharding_close_order (struct accel_model *model);

/** After a step: layers in use get what has changed, others when they are used.  Collective. */
enum accel_status sharding_step_layers (struct accel_model *model, const struct comm_site *site,
                                        struct accel_error *err);

/** All parameters become whole, or need not be any longer.  The first is collective.  Accept any model.  @{ */
enum accel_status sharding_summon (struct accel_model *model, const struct comm_site *site, struct accel_error *err);
void sharding_dismiss (struct accel_model *model);
/** @} */

/** Whoever writes parameters, or reads chunks, waits first until nothing is gathered ahead.  On a GPU, parameter
 *  @p index has room for what is to be written to all of it.  Then: of @p index, or of all, only the own chunks are
 *  kept unless a layer uses it; on a GPU, they are what they were unless it was written.  Accept any model.  @{ */
void sharding_settle_layers (struct accel_model *model);
enum accel_status sharding_open_layer (struct accel_model *model, size_t index, struct accel_error *err);
void sharding_discard_layer (const struct accel_model *model, size_t index, bool is_written);
void sharding_discard_layers (const struct accel_model *model);
/** @} */

#endif
