/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of processes that have one model together, if there are several. */
#ifndef LIB_TRAIN_SHARDING_GROUPS_H
#define LIB_TRAIN_SHARDING_GROUPS_H

#include "lib/train/model_object.h"

struct group_plan {
    int size, rank, replica; /* as of struct model_sharding */
    const char *why_not;     /* there can be no such groups; NULL: there can */
};

/** Find out among which processes @p strategy divides a model.  Collective for hybrid strategies.
 *  @param[out] plan  the same size and `why_not` on all ranks */
enum accel_status sharding_plan_groups (const struct accel_model *model, enum accel_sharding strategy,
                                        struct accel *acc, const struct comm_site *site, struct group_plan *plan,
                                        struct accel_error *err);

/** Make the groups of a model that is divided.  Collective. */
enum accel_status sharding_make_groups (struct accel_model *model, struct accel *acc,
                                        const struct comm_site *site, struct accel_error *err);

/** Accepts a model without. */
void sharding_end_groups (struct accel_model *model);

#endif
