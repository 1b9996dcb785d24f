/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding by ranges: the states of optimizers and the masters have room for all elements in the address space of each
 * process, but only the pages of its own elements are touched.  So no code needs to know where a chunk is stored. */
#ifndef LIB_TRAIN_SHARDING_H
#define LIB_TRAIN_SHARDING_H

#include <accel/sharding.h>

#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/sharding_asked.h"

/** accel_prepare() of a model, after it was compared: whether it is divided from now on.  Collective.
 *  @retval ACCEL_ERR_UNSUPPORTED  it cannot be
 *  @retval ACCEL_ERR_INVALID      it has been, among other processes */
enum accel_status sharding_begin (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                                  struct accel_error *err);

/** Copy the parameters of rank 0 to all; masters keep this process's elements.  Collective. */
enum accel_status sharding_broadcast (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                                      struct accel_error *err);

/** Free what sharding_begin() and sharding_make_layers() made; the model stays divided. */
void sharding_end (struct accel_model *model);

/** Give back the memory of others' elements: of one parameter's states and master, or of all.  @{ */
void sharding_discard_parameter (struct accel_optimizer *optimizer, size_t index);
void sharding_discard (struct accel_model *model);
/** @} */

/** Before a step: whether @p optimizer can take it.  Collective if parameters are shared. */
enum accel_status sharding_begin_step (const struct accel_optimizer *optimizer, const struct comm_site *site,
                                       struct accel_error *err);

/** After a step: get the parameters that others have changed.  Collective. */
enum accel_status sharding_gather (struct accel_optimizer *optimizer, const struct comm_site *site,
                                   struct accel_error *err);

/** @return a sharded model of @p acc; NULL: there is none */
struct accel_model *sharding_first (const struct accel *acc);

/** @return whether processes have divided averages of gradients, which wait for a step */
bool sharding_has_averages (const struct accel *acc);

/** Before a save: rank 0 gets all states and masters.  Collective.  Then: it gives them back.  @{ */
enum accel_status sharding_collect (struct accel *acc, const struct comm_site *site, struct accel_error *err);
/** Instead, if each process saves its share: what each process saves by itself is complete. */
enum accel_status sharding_complete (struct accel *acc, const struct comm_site *site, struct accel_error *err);
void sharding_end_collect (struct accel *acc);
/** @} */

/** The same of one model's parameters that are not whole, or of its masters.  @{ */
enum accel_status sharding_collect_parameters (struct accel_model *model, const struct comm_site *site,
                                               struct accel_error *err);
enum accel_status sharding_collect_masters (struct accel_model *model, const struct comm_site *site,
                                            struct accel_error *err);
void sharding_end_collect_masters (struct accel_model *model);
/** @} */

#endif
