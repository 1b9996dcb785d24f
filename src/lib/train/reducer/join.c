/* SPDX-License-Identifier: Apache-2.0 */
/* accel_join_uneven_inputs(): processes that have no data left shadow the others' steps; see join_round.h. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/collectives/parallel.h"
#include "lib/comm/comm_private.h"
#include "lib/data/loader.h"
#include "lib/train/precision.h"
#include "lib/train/reducer/join_round.h"
#include "lib/train/reducer/reducer_object.h"
#include "lib/train/sharding.h"

static void
set_loaders (struct accel *acc, enum accel_flag even_batches)
{
    for (struct object *object = prepared_first (acc, kind_of_loader); object;
         object = prepared_next (object, kind_of_loader))
        loader_set_join ((struct accel_loader *) (void *) object, even_batches);
}

enum accel_status
accel_join_uneven_inputs (struct accel *acc, enum accel_flag even_batches, struct accel_error *err)
{
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: acc is NULL", __func__);
    enum accel_status status = flag_check (even_batches, "even_batches", err);
    if (status)
        return status;
    if (join_steps (acc))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s has already been called: end it with accel_join_end", __func__);
    if (sharding_first (acc))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: steps of sharded models need all processes%s", __func__,
                           sharding_hint (sharding_first (acc)));
    if (accel_device_mesh (acc))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: processes that divide tensors take the same steps",
                           __func__);
    join_set (acc, true);
    set_loaders (acc, even_batches);
    return ACCEL_OK;
}

static struct accel_model *
find_model (const struct accel *acc, int64_t number)
{
    struct accel_model *model = model_first (acc);
    while (model && model->object.number != number)
        model = model_next (model);
    return model;
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

/* The parameters of the rank that made the most steps; of several the highest rank, like torch. */
static enum accel_status
agree (struct accel *acc, const struct comm_site *site, int64_t steps, struct accel_error *err)
{
    struct accel_comm *comm = accel_world (acc);
    int64_t size = accel_num_processes (acc), last = steps * size + accel_process_index (acc);
    enum accel_status status = comm_all_reduce (comm, site, &last, &last, 1, ACCEL_INT64, ACCEL_MAX, err);
    for (struct accel_model *model = model_first (acc); model && !status; model = model_next (model))
        status = model_broadcast (model, comm, site, (int) (last % size), err);
    return status ? status : precision_broadcast (acc, site, (int) (last % size), err);
}

enum accel_status
accel_join_end_at (const char *file, int line, struct accel *acc, struct accel_error *err)
{
    /* The others are in accel_backward(): what is done with them is part of that call. */
    struct comm_site site = { file, line, JOBSEG_CALL_JOIN_END }, theirs = { file, line, JOBSEG_CALL_BACKWARD };
    int64_t *steps = acc ? join_steps (acc) : NULL;
    enum accel_status status = ACCEL_OK;
    if (!steps)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_join_end: accel_join_uneven_inputs has not been called");
    if (accel_num_processes (acc) > 1) {
        struct join_round round = { 1, 0 };
        while (!status && round.live) {
            status = join_meet (acc, &theirs, 0, &round, err);
            if (!status && round.live)
                status = shadow (acc, &theirs, round.number, err);
        }
        if (!status)
            status = agree (acc, &site, *steps, err);
    }
    set_loaders (acc, ACCEL_DEFAULT);
    join_set (acc, false);
    return status;
}
