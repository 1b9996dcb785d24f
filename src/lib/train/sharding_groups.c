/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of processes that divide a model; see sharding_groups.h. */
#include <config.h>

#include "lib/train/sharding_groups.h"

#include "lib/collectives/parallel.h"
#include "lib/state/state_object.h"

#include <accel/group.h>

enum accel_status
sharding_plan_groups (const struct accel_model *model, enum accel_sharding strategy, struct accel *acc,
                      const struct comm_site *site, struct group_plan *plan, struct accel_error *err)
{
    int size = parallel_data_size (acc), rank = parallel_data_rank (acc), local = accel_local_num_processes (acc);
    int columns = accel_num_processes (acc) / size; /* of the grid; those that have the same are replicas, too */
    int column = model->cuts ? 0 : accel_process_index (acc) % columns;
    bool has_rows = local % columns == 0;
    uint64_t asked = model->sharding.group_size;
    *plan = (struct group_plan){ .size = size, .rank = rank, .replica = column };
    if (strategy < ACCEL_SHARDING_HYBRID_SHARD || size == 1)
        return ACCEL_OK;
    int each = size + 1;
    if (asked ? asked <= (uint64_t) size : has_rows)
        each = asked ? (int) asked : local / columns;
    bool fits = size % each == 0
                && (asked || accel_process_index (acc) % local == accel_local_process_index (acc));
    int64_t agreed[] = { fits, each, -each, has_rows };
    enum accel_status status
        = comm_all_reduce (accel_world (acc), site, agreed, agreed, 4, ACCEL_INT64, ACCEL_MIN, err);
    if (!status && asked && !agreed[0])
        plan->why_not = columns > 1 ? "group_size does not divide the number of rows of the grid"
                                    : "group_size does not divide the number of processes";
    else if (!status && !asked && !agreed[3])
        plan->why_not = "hosts do not have whole rows of the grid: set group_size";
    else if (!status && (!agreed[0] || agreed[1] != -agreed[2]))
        plan->why_not = "hosts have different numbers of processes, or ranks that are not consecutive: set group_size";
    else
        *plan = (struct group_plan){ .size = each, .rank = rank % each,
                                     .replica = rank / each * columns + column };
    return status;
}

enum accel_status
sharding_make_groups (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                      struct accel_error *err)
{
    struct model_sharding *sharding = &model->sharding;
    struct accel_comm *comm = parallel_data_comm (acc);
    if (sharding->size == parallel_data_size (acc))
        return ACCEL_OK;
    enum accel_status status
        = accel_comm_split_at (site->file, site->line, &sharding->shards, comm, sharding->replica, 0, err);
    if (!status)
        status = accel_comm_split_at (site->file, site->line, &sharding->replicas, comm, sharding->rank, 0, err);
    if (status == ACCEL_ERR_NOMEM) /* others may be in the next split */
        comm_give_up (comm, "cannot allocate memory for a group of processes");
    return status;
}

void
sharding_end_groups (struct accel_model *model)
{
    accel_comm_destroy (model->sharding.shards);
    accel_comm_destroy (model->sharding.replicas);
    model->sharding.shards = model->sharding.replicas = NULL;
}
