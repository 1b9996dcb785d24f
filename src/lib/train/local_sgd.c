/* SPDX-License-Identifier: Apache-2.0 */
/* Local SGD: Accelerate's (local_sgd.py), which is parameters averaged every so many steps in place of gradients. */
#include <config.h>

#include <accel/accumulate.h>

#include "lib/base/error.h"
#include "lib/collectives/parallel.h"
#include "lib/comm/coalesce.h"
#include "lib/state/state_object.h"
#include "lib/train/precision.h"
#include "lib/train/sharding.h"

#include <stdlib.h>

struct accel_local_sgd {
    struct accel *acc;
    struct accel_model *model;
    bool idle; /* there is nothing to do */
    uint32_t every, steps;     /* steps since parameters were averaged */
};

/* The end of our own accel_no_sync(), unless the program has ended it already. */
static void
release (struct accel_model *model)
{
    model->unsynced -= model->unsynced > 0;
}

enum accel_status
accel_local_sgd_begin (struct accel_local_sgd **local_sgd, struct accel *acc, struct accel_model *model,
                       uint32_t local_sgd_steps, bool enabled, struct accel_error *err)
{
    if (!local_sgd)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: local_sgd is NULL", __func__);
    *local_sgd = NULL;
    if (!local_sgd_steps)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: local_sgd_steps is 0", __func__);
    if (model && sharding_is_on (model))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "%s: processes of a sharded model cannot take steps by themselves%s", __func__,
                           sharding_hint (model));
    struct accel_local_sgd *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for local SGD");
    enum accel_status status = accel_no_sync (acc, model, err);
    if (status) {
        free (made);
        return status;
    }
    *made = (struct accel_local_sgd){ .acc = acc, .model = model, .every = local_sgd_steps };
    object_hold (&acc->object);
    object_hold (&model->object);
    made->idle = !enabled || accel_num_processes (acc) == 1;
    if (made->idle)
        release (model);
    *local_sgd = made;
    return ACCEL_OK;
}

/* What is not trained is the same on all ranks, or each one's own affair. */
static enum accel_status
average (const struct accel_local_sgd *local_sgd, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    struct comm_coalesced coalesced;
    struct accel_comm *world = parallel_data_comm (local_sgd->acc);
    struct accel_model *model = local_sgd->model;
    bool model_gone = object_is_gone (&model->object);
    if (model_gone || object_is_gone (&local_sgd->acc->object))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the %s", jobseg_call_name (site->call),
                           model_gone ? "model has been destroyed" : "job has been closed");
    masters_need (model);
    comm_coalesce_begin (&coalesced, world);
    for (size_t i = 0; i < model->count && !status; i++) {
        const DLTensor *data = model->trained[i].data;
        struct comm_site there = comm_site_on (site, data->device);
        if (model_is_trained (model, i))
            status = comm_all_reduce (world, comm_coalesce_site (&coalesced, &there), data->data, data->data,
                                      accel_tensor_count (data), accel_dtype_from_dl (data->dtype), ACCEL_AVG, err);
    }
    status = comm_coalesce_end (&coalesced, status, err);
    accel_model_narrow (model);
    return status;
}

enum accel_status
accel_local_sgd_step_at (const char *file, int line, struct accel_local_sgd *local_sgd, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_LOCAL_SGD_STEP };
    if (!local_sgd)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_local_sgd_step: local_sgd is NULL");
    if (local_sgd->idle || ++local_sgd->steps < local_sgd->every)
        return ACCEL_OK;
    local_sgd->steps = 0;
    return average (local_sgd, &site, err);
}

enum accel_status
accel_local_sgd_end_at (const char *file, int line, struct accel_local_sgd *local_sgd, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_LOCAL_SGD_END };
    enum accel_status status = ACCEL_OK;
    if (!local_sgd)
        return ACCEL_OK;
    if (!local_sgd->idle) {
        status = average (local_sgd, &site, err);
        release (local_sgd->model);
    }
    object_let_go (&local_sgd->model->object);
    object_let_go (&local_sgd->acc->object);
    free (local_sgd);
    return status;
}
