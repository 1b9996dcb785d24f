/* SPDX-License-Identifier: Apache-2.0 */
/* What processes tell each other between accel_join_uneven_inputs() and its end. */
#include <config.h>

#include "lib/train/reducer/join_round.h"

#include "lib/base/error.h"

struct join {
    struct part part;
    bool joining;
    int64_t steps;
};

const struct part_kind part_join = { .size_bytes = sizeof (struct join) };

static struct join *
join_of (const struct accel *acc)
{
    return (struct join *) (void *) part_find (acc, &part_join);
}

int64_t *
join_steps (const struct accel *acc)
{
    struct join *join = join_of (acc);
    return join->joining ? &join->steps : NULL;
}

void
join_set (struct accel *acc, bool joining)
{
    join_of (acc)->joining = joining;
    join_of (acc)->steps = 0;
}

enum accel_status
join_meet (struct accel *acc, const struct comm_site *site, int64_t number, struct join_round *round,
           struct accel_error *err)
{
    int64_t sums[3] = { number != 0, number, number * number };
    enum accel_status status
        = comm_all_reduce (accel_world (acc), site, sums, sums, 3, ACCEL_INT64, ACCEL_SUM, err);
    if (status)
        return status;
    *round = (struct join_round){ sums[0], sums[0] ? sums[1] / sums[0] : 0 };
    if (sums[0] * sums[2] != sums[1] * sums[1]) /* all are the same: and all find out */
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_backward at %s:%d: the processes average different models at the same time",
                           site->file, site->line);
    return ACCEL_OK;
}

enum accel_status
join_announce (struct accel *acc, const struct comm_site *site, const struct accel_model *model,
               struct accel_error *err)
{
    struct join_round round;
    int64_t *steps = join_steps (acc);
    if (!steps || accel_num_processes (acc) == 1)
        return ACCEL_OK;
    ++*steps;
    return join_meet (acc, site, model->object.number, &round, err);
}

enum accel_status
join_find_root (struct accel *acc, const struct comm_site *site, bool live, int *root, struct accel_error *err)
{
    int64_t last = live ? accel_process_index (acc) : -1;
    *root = 0;
    if (!join_steps (acc))
        return ACCEL_OK;
    enum accel_status status
        = comm_all_reduce (accel_world (acc), site, &last, &last, 1, ACCEL_INT64, ACCEL_MAX, err);
    *root = (int) last;
    return status;
}
