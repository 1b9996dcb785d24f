/* SPDX-License-Identifier: Apache-2.0 */
/* Offloading: states of optimizers and masters of a model on a GPU stay in host memory (staging.h); these, and divided
 * parameters of a model in host memory, are in files, of which this process's stretches have pages only while they are
 * used (util/memory_file.h). */
#ifndef LIB_TRAIN_SHARDING_OFFLOAD_H
#define LIB_TRAIN_SHARDING_OFFLOAD_H

#include "lib/train/optimizer/optimizer_object.h"

/** How many elements of each tensor a thread works on before it gives their pages back. */
enum { OFFLOAD_BLOCK = 1 << 18 };

/** In accel_prepare() of a model, before it is placed: whether states and masters of one that is to be on a GPU stay in
 *  host memory (staging.h), also if they move to files then.  Collective. */
enum accel_status offload_stay (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                                struct accel_error *err);

/** The same, once it is divided: whether this process's part of the parameters does (packed_home.h). */
enum accel_status offload_keep (struct accel_model *model, struct accel *acc, struct accel_error *err);

/** In accel_prepare() of a model, and of an optimizer if its model is prepared: what is to be offloaded, and is not
 *  yet, moves to files.  If that fails on any process, all have its error.  Collective. */
enum accel_status offload_begin (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                                 struct accel_error *err);

/** The parameters are in memory again.  Masters, and states of optimizers, stay in files as long as they are. */
void offload_end_parameters (struct accel_model *model);

/** The end of @p model's masters. */
void offload_forget (struct accel_model *model);

/** @return whether anything that @p optimizer changes is in a file */
static inline bool
offload_is_on (const struct accel_optimizer *optimizer)
{
    const struct model_sharding *sharding = &optimizer->model->sharding;
    return optimizer->state_file || sharding->masters_file || sharding->parameters_file;
}

/** Elements from to end - 1 of parameter @p index, and of what belongs to it, have been changed: begin to write them,
 *  or write them and give their pages back.  Any thread.  @{ */
void offload_write (const struct accel_optimizer *optimizer, size_t index, size_t from, size_t end);
void offload_release (const struct accel_optimizer *optimizer, size_t index, size_t from, size_t end);
/** @} */

/** Give back the pages of parameter @p index of @p model. */
void offload_release_parameter (const struct accel_model *model, size_t index);

/** @return ACCEL_ERR_SYSTEM if a file could not be written */
enum accel_status offload_check (const struct accel_optimizer *optimizer, struct accel_error *err);

#endif
