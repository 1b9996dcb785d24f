/* SPDX-License-Identifier: Apache-2.0 */
/* accel_join_uneven_inputs(): processes that have no data left shadow the others' steps.  The idea is that of torch's
 * Join (torch/distributed/algorithms/join.py): before each average all say whether they are still at work. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_private.h"
#include "lib/data/loader.h"
#include "lib/state/state_private.h"
#include "lib/train/precision.h"
#include "lib/train/reducer.h"

static bool
is_kind (const struct object *object, enum object_kind kind)
{
    return (object->magic ^ OBJECT_MAGIC) == (uint64_t) kind;
}

/* The object is the first member of each of these. */
static void
set_loaders (struct accel *acc, enum accel_join_even even)
{
    for (struct object *object = state_prepared (acc); object; object = object->next)
        if (is_kind (object, OBJECT_LOADER))
            loader_set_join ((struct accel_loader *) (void *) object, even);
}

enum accel_status
accel_join_uneven_inputs (struct accel *acc, enum accel_join_even even, struct accel_error *err)
{
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: acc is NULL", __func__);
    if ((unsigned) even > ACCEL_JOIN_UNEVEN)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: invalid value for 'even'", __func__);
    if (state_join_steps (acc))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s has already been called: end it with accel_join_end", __func__);
    state_set_joining (acc, true);
    set_loaders (acc, even);
    return ACCEL_OK;
}

/* Who is at work, and with which model; the same for all, for all take the same steps. */
struct round {
    int64_t live;
    int64_t number;
};

static enum accel_status
meet (struct accel *acc, const struct comm_site *site, int64_t number, struct round *round, struct accel_error *err)
{
    int64_t sums[3] = { number != 0, number, number * number };
    enum accel_status status
        = comm_all_reduce (accel_world (acc), site, sums, sums, 3, ACCEL_INT64, ACCEL_SUM, err);
    if (status)
        return status;
    *round = (struct round){ sums[0], sums[0] ? sums[1] / sums[0] : 0 };
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
    struct round round;
    int64_t *steps = state_join_steps (acc);
    if (!steps || accel_num_processes (acc) == 1)
        return ACCEL_OK;
    ++*steps;
    return meet (acc, site, model->object.number, &round, err);
}

enum accel_status
join_find_root (struct accel *acc, const struct comm_site *site, bool live, int *root, struct accel_error *err)
{
    int64_t last = live ? accel_process_index (acc) : -1;
    *root = 0;
    if (!state_join_steps (acc))
        return ACCEL_OK;
    enum accel_status status
        = comm_all_reduce (accel_world (acc), site, &last, &last, 1, ACCEL_INT64, ACCEL_MAX, err);
    *root = (int) last;
    return status;
}

static struct accel_model *
find_model (const struct accel *acc, int64_t number)
{
    for (struct object *object = state_prepared (acc); object; object = object->next)
        if (object->number == number && is_kind (object, OBJECT_MODEL))
            return (struct accel_model *) (void *) object;
    return NULL;
}

/* One step of the others, with gradients of zero. */
static enum accel_status
shadow (struct accel *acc, const struct comm_site *site, int64_t number, struct accel_error *err)
{
    struct accel_model *model = find_model (acc, number);
    if (!model) {
        comm_give_up (accel_world (acc), "it no longer has this model");
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_join_end: the other ranks average a model that has been destroyed on this rank");
    }
    return reducer_shadow (model, site, err);
}

/* The parameters of whoever made the most steps; of several the highest rank, as torch has it. */
static enum accel_status
agree (struct accel *acc, const struct comm_site *site, int64_t steps, struct accel_error *err)
{
    struct accel_comm *comm = accel_world (acc);
    int64_t size = accel_num_processes (acc), last = steps * size + accel_process_index (acc);
    enum accel_status status = comm_all_reduce (comm, site, &last, &last, 1, ACCEL_INT64, ACCEL_MAX, err);
    for (struct object *object = state_prepared (acc); object && !status; object = object->next)
        if (is_kind (object, OBJECT_MODEL))
            status = model_broadcast ((struct accel_model *) (void *) object, comm, site, (int) (last % size), err);
    return status ? status : precision_broadcast (acc, site, (int) (last % size), err);
}

enum accel_status
accel_join_end_at (const char *file, int line, struct accel *acc, struct accel_error *err)
{
    /* The others are in accel_backward(): what is done with them is part of that call. */
    struct comm_site site = { file, line, JOBSEG_CALL_JOIN_END }, theirs = { file, line, JOBSEG_CALL_BACKWARD };
    int64_t *steps = acc ? state_join_steps (acc) : NULL;
    enum accel_status status = ACCEL_OK;
    if (!steps)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_join_end: accel_join_uneven_inputs has not been called");
    if (accel_num_processes (acc) > 1) {
        struct round round = { 1, 0 };
        while (!status && round.live) {
            status = meet (acc, &theirs, 0, &round, err);
            if (!status && round.live)
                status = shadow (acc, &theirs, round.number, err);
        }
        if (!status)
            status = agree (acc, &site, *steps, err);
    }
    set_loaders (acc, ACCEL_JOIN_AS_IS);
    state_set_joining (acc, false);
    return status;
}
