/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's parameters, or its buffers, for all. */
#include <config.h>

#include "files/checksum.h"
#include "lib/base/tensor.h"
#include "lib/collectives/verify.h"
#include "lib/comm/coalesce.h"
#include "lib/state/state_object.h"
#include "lib/train/model_object.h"
#include "lib/train/reducer/reducer_object.h"
#include "util/memory.h"

#include <accel/precision.h>

/* As bytes: what is not trained may be of a type that we do not know.  Of what is, the masters. */
static enum accel_status
broadcast (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site, int root, bool buffers,
           struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    struct comm_coalesced coalesced;
    comm_coalesce_begin (&coalesced, comm);
    for (size_t i = 0; !status && i < model->count; i++) {
        const DLTensor *data = model->trained[i].data;
        struct comm_site there = comm_site_on (site, data->device);
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

/* Whether all ranks have the same values, as far as checksums say: a seed, or a file, often has given them. */
static enum accel_status
compare (const struct accel_model *model, struct accel_comm *comm, const struct comm_site *site, bool *are_equal,
         struct accel_error *err)
{
    struct checksum sum;
    size_t difference = 0;
    int rank;
    checksum_begin (&sum);
    for (size_t i = 0; i < model->count; i++) {
        const DLTensor *data = model->trained[i].data;
        size_t bytes = accel_tensor_count (data) * tensor_element_bytes (data);
        if (model->owned[i] || model->array || data != model->parameters[i].data)
            memory_use_huge_pages (data->data, bytes); /* ours: what has not been touched, as before a load */
        else if (model_is_trained (model, i))
            memory_populate (data->data, bytes); /* a load, or the first step, writes it */
        checksum_add (&sum, data->data, bytes);
    }
    const int64_t mine = (int64_t) checksum_end (&sum);
    enum accel_status status = comm_find_difference (comm, site, &mine, 1, &difference, &rank, err);
    *are_equal = difference == 1;
    return status;
}

/* Between hosts, to send them takes longer than to read them. */
enum accel_status
model_make_equal (struct accel_model *model, const struct accel *acc, struct accel_comm *comm,
                  const struct comm_site *site, struct accel_error *err)
{
    bool are_equal = false;
    const struct identity *identity = &acc->identity;
    enum accel_status status = ACCEL_OK;
    masters_need (model);
    if (model->memory->host && identity->local_world_size < identity->world_size)
        status = compare (model, comm, site, &are_equal, err);
    if (status || !are_equal)
        return status ? status : model_broadcast (model, comm, site, 0, err);
    accel_model_narrow (model);
    return ACCEL_OK;
}

enum accel_status
model_broadcast_buffers (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site, int root,
                         struct accel_error *err)
{
    return broadcast (model, comm, site, root, true, err);
}
