/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of processes that divide a model; see sharding_groups.h. */
#include <config.h>

#include "lib/train/sharding_groups.h"

#include "lib/state/state_object.h"

#include <accel/group.h>

enum accel_status
sharding_plan_groups (const struct accel_model *model, enum accel_sharding strategy, struct accel *acc,
                      const struct comm_site *site, struct group_plan *plan, struct accel_error *err)
{
    int size = accel_num_processes (acc), rank = accel_process_index (acc);
    uint64_t asked = model->sharding.group_size;
    *plan = (struct group_plan){ .size = size, .rank = rank };
    if (strategy < ACCEL_SHARDING_HYBRID_SHARD || size == 1)
        return ACCEL_OK;
    int each = !asked ? accel_local_num_processes (acc) : asked <= (uint64_t) size ? (int) asked : size + 1;
    bool fits = size % each == 0 && (asked || rank % each == accel_local_process_index (acc));
    int64_t agreed[] = { fits, each, -each };
    enum accel_status status
        = comm_all_reduce (accel_world (acc), site, agreed, agreed, 3, ACCEL_INT64, ACCEL_MIN, err);
    if (!status && asked && !agreed[0])
        plan->why_not = "group_size does not divide the number of processes";
    else if (!status && (!agreed[0] || agreed[1] != -agreed[2]))
        plan->why_not = "hosts have different numbers of processes, or ranks that are not consecutive: set group_size";
    else
        *plan = (struct group_plan){ .size = each, .rank = rank % each, .replica = rank / each };
    return status;
}

enum accel_status
sharding_make_groups (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                      struct accel_error *err)
{
    struct model_sharding *sharding = &model->sharding;
    struct accel_comm *world = accel_world (acc);
    if (sharding->size == accel_num_processes (acc))
        return ACCEL_OK;
    enum accel_status status
        = accel_comm_split_at (site->file, site->line, &sharding->shards, world, sharding->replica, 0, err);
    return status ? status
                  : accel_comm_split_at (site->file, site->line, &sharding->replicas, world, sharding->rank, 0, err);
}

void
sharding_end_groups (struct accel_model *model)
{
    accel_comm_destroy (model->sharding.shards);
    accel_comm_destroy (model->sharding.replicas);
    model->sharding.shards = model->sharding.replicas = NULL;
}
