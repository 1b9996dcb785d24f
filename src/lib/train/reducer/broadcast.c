/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's parameters, or its buffers, for all. */
#include <config.h>

#include "lib/base/tensor.h"
#include "lib/comm/coalesce.h"
#include "lib/train/model_object.h"
#include "lib/train/reducer/reducer_object.h"

#include <accel/precision.h>

/* As bytes: what is not trained may be of a type that we do not know.  Of what is, the masters. */
static enum accel_status
broadcast (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site, int root, bool buffers,
           struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    struct comm_site there = comm_site_on (site, model->device);
    struct comm_coalesced coalesced;
    comm_coalesce_begin (&coalesced, comm);
    for (size_t i = 0; !status && i < model->count; i++) {
        const DLTensor *data = model->trained[i].data;
        if (!buffers || !model_is_trained (model, i))
            status = comm_broadcast (comm, comm_coalesce_site (&coalesced, &there), data->data,
                                     accel_tensor_count (data) * tensor_element_bytes (data), ACCEL_UINT8, root, err);
    }
    return comm_coalesce_end (&coalesced, status, err);
}

enum accel_status
model_broadcast (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site, int root,
                 struct accel_error *err)
{
    masters_need (model);
    enum accel_status status = broadcast (model, comm, site, root, false, err);
    if (!status)
        accel_model_narrow (model);
    return status;
}

enum accel_status
model_broadcast_buffers (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site, int root,
                         struct accel_error *err)
{
    return broadcast (model, comm, site, root, true, err);
}
