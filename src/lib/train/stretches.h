/* SPDX-License-Identifier: Apache-2.0 */
/* Which elements of a parameter this process has the states of. */
#ifndef LIB_TRAIN_STRETCHES_H
#define LIB_TRAIN_STRETCHES_H

#include "lib/collectives/parallel.h"
#include "lib/train/model_object.h"

/** Elements from to end - 1 of a parameter. */
struct stretch {
    size_t from, end;
};

/** A process has at most two stretches of a parameter: its chunk, and what is behind the last process's chunk. */
enum { STRETCHES = 2 };

static inline bool
sharding_is_on (const struct accel_model *model)
{
    return model->sharding.size > 1;
}

/** @return whether parameters are in memory of all processes (shared_parameters.h). */
static inline bool
shared_is_on (const struct accel_model *model)
{
    return model->shared.memory && !model->shared.is_alone;
}

/** @return whether parameters are divided, too. */
static inline bool
sharding_has_parameters (const struct accel_model *model)
{
    return sharding_is_on (model)
           && (model->sharding.strategy == ACCEL_SHARDING_FULL_SHARD
               || model->sharding.strategy == ACCEL_SHARDING_HYBRID_SHARD);
}

/** @return the processes that have one model together, of @p acc: with tensor parallelism, the same parts of it. */
static inline struct accel_comm *
sharding_comm (const struct accel_model *model, struct accel *acc)
{
    return model->sharding.shards ? model->sharding.shards : parallel_data_comm (acc);
}

/** @return the elements of each process's chunk of parameter @p index; 0: all have all of it */
size_t sharding_chunk (const struct accel_model *model, size_t index);

/** The elements of parameter @p index whose states this process has; without sharding, all are in the first stretch. */
void sharding_stretches (const struct accel_model *model, size_t index, struct stretch stretches[STRETCHES]);

/**
 * What this process writes of a tensor with @p count elements if each writes its share: its chunk; rank 0 also what all
 * have.
 *
 * @param is_divided  the tensor is one of what is divided with parameter @p index
 * @return how many stretches: none to STRETCHES
 */
int sharding_saved (const struct accel_model *model, size_t index, bool is_divided, size_t count,
                    struct stretch stretches[STRETCHES]);

/** @return the first trained parameter that lies where parameter @p index does; SIZE_MAX: it is not divided. */
size_t sharding_find_first (const struct accel_model *model, size_t index);

/** @return whether gradients are divided, too; on a GPU, whether they are packed. */
static inline bool
sharding_has_gradients (const struct accel_model *model)
{
    return model->memory->host ? sharding_is_on (model) && model->sharding.strategy >= ACCEL_SHARDING_SHARD_GRAD_OP
                               : model->sharding.grads != NULL;
}

/** Give back the pages of @p data that have others' chunks of parameter @p index, or of what is divided with it. */
void sharding_discard_others (const struct accel_model *model, size_t index, void *data, size_t element_bytes);

/** Others' chunks of @p data, between stretches @p own, get huge pages, which are given back and filled as a whole; the
 *  pages of the others stay small.  @{ */
void sharding_use_pages (const struct stretch own[STRETCHES], void *data, size_t element_bytes);
void sharding_use_gradient_pages (const struct accel_model *model, size_t index, void *data);
/** Before they are written: get those that are small. */
void sharding_populate_others (const struct stretch own[STRETCHES], void *data, size_t element_bytes);
/** @} */

/** The elements of gradient @p index that this process has after an average: its chunk, and what all have. */
void sharding_gradient_stretches (const struct accel_model *model, size_t index, struct stretch stretches[STRETCHES]);

#endif
