/* SPDX-License-Identifier: Apache-2.0 */
/* What processes send each other of a model whose states and masters are packed; see packed_collectives.h. */
#include <config.h>

#include "lib/train/packed_collectives.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/comm/wait.h"
#include "lib/comm/work.h"
#include "lib/train/model_device.h"
#include "lib/train/packed.h"

#include <accel/precision.h>

#include <stdlib.h>

enum { GATHERED_MOST = 64 };

/* A tensor that is whole now, and what it was before. */
struct packed_whole {
    struct packed_whole *next;
    DLTensor *tensor, before;
};

static const DLDevice host = { kDLCPU, 0 };

/* ---- accel_prepare() ---- */

/* @scratch has room for the whole master. */
static enum accel_status
broadcast_master (struct accel_model *model, size_t index, float *scratch, struct accel_comm *comm,
                  const struct comm_site *there, struct accel_error *err)
{
    const DLTensor *parameter = model->parameters[index].data;
    const struct memory *memory = model->memory;
    void *master = model->masters[index].tensor.data;
    const void *home = model->widened ? model_home_of (model, master) : NULL;
    enum accel_dtype dtype = accel_dtype_from_dl (parameter->dtype);
    size_t count = accel_tensor_count (parameter);
    struct stretch own[STRETCHES];
    if (home && !accel_comm_rank (comm))
        memory->write (model->device, scratch, home, count * sizeof *scratch);
    else if (!accel_comm_rank (comm))
        memory->widen (model->device, scratch, parameter->data, dtype, count, 1);
    enum accel_status status = comm_broadcast (comm, there, scratch, count, ACCEL_FLOAT32, 0, err);
    if (status)
        return status;
    memory->narrow (model->device, parameter->data, dtype, scratch, count);
    sharding_stretches (model, index, own);
    for (int s = 0; s < STRETCHES; s++)
        if (own[s].from < own[s].end)
            memory->copy (model->device,
                          memory_at (master, packed_offset (model, index, own[s].from), sizeof *scratch),
                          scratch + own[s].from, (own[s].end - own[s].from) * sizeof *scratch);
    return ACCEL_OK;
}

static bool
has_master (const struct accel_model *model, size_t index)
{
    return model->trained[index].data != model->parameters[index].data;
}

enum accel_status
packed_broadcast (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site,
                  struct accel_error *err)
{
    struct comm_site there = comm_site_on (site, model->device);
    enum accel_status status = ACCEL_OK;
    size_t most = 0;
    for (size_t i = 0; i < model->count; i++) {
        size_t count = has_master (model, i) ? accel_tensor_count (model->parameters[i].data) : 0;
        most = count > most ? count : most;
    }
    float *scratch = most ? model->memory->create (model->device, most * sizeof *scratch, false) : NULL;
    if (most && !scratch) {
        comm_give_up (comm, "cannot allocate memory for a master");
        return memory_fail (model->device, err, "cannot allocate memory for a master of %zu elements", most);
    }
    for (size_t i = 0; i < model->count && !status; i++) {
        const DLTensor *data = model->parameters[i].data;
        size_t bytes = accel_tensor_count (data) * tensor_element_bytes (data);
        status = has_master (model, i) ? broadcast_master (model, i, scratch, comm, &there, err)
                                       : comm_broadcast (comm, &there, data->data, bytes, ACCEL_UINT8, 0, err);
    }
    model->memory->destroy (model->device, scratch);
    model->widened = !status;
    return status;
}

/* ---- steps ---- */

/* Parameters of which this process has chunks of others to get, none in the memory of another one. */
struct gathering {
    const struct accel_model *model;
    struct accel_comm *comm;
    const struct comm_site *site;
    size_t indices[GATHERED_MOST], count;
};

/* Those that were started are waited for also after one that could not be. */
static enum accel_status
gather (struct gathering *gathering, struct accel_error *err)
{
    const struct accel_model *model = gathering->model;
    struct accel_work *works[GATHERED_MOST] = { NULL };
    enum accel_status status = ACCEL_OK;
    work_group_begin (gathering->comm);
    for (size_t k = 0; k < gathering->count && !status; k++) {
        size_t index = gathering->indices[k], chunk = sharding_chunk (model, index);
        const DLTensor *data = model->parameters[index].data;
        const void *own = memory_at (data->data, chunk * (size_t) model->sharding.rank, tensor_element_bytes (data));
        struct comm_site there = comm_site_on (gathering->site, model->device);
        there.work = &works[k];
        status = comm_all_gather (gathering->comm, &there, own, data->data, chunk, accel_dtype_from_dl (data->dtype),
                                  err);
    }
    work_group_end (gathering->comm);
    if (status == ACCEL_ERR_NOMEM || status == ACCEL_ERR_SYSTEM) /* others are waiting */
        comm_give_up (gathering->comm, "it cannot gather the parameters of a step");
    for (size_t k = 0; k < gathering->count; k++) {
        enum accel_status own = works[k] ? work_finish (works[k], status ? NULL : err) : ACCEL_OK;
        status = status ? status : own;
    }
    gathering->count = 0;
    return status;
}

static bool
is_there (const struct gathering *gathering, const void *data)
{
    bool found = false;
    for (size_t k = 0; k < gathering->count && !found; k++)
        found = gathering->model->parameters[gathering->indices[k]].data->data == data;
    return found;
}

bool
packed_gather (const struct accel_optimizer *optimizer, struct accel_comm *comm, const struct comm_site *site,
               enum accel_status *status, struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    struct gathering gathering = { .model = model, .comm = comm, .site = site };
    struct comm_site there = comm_site_on (site, model->device);
    if (!packed_is_on (model) || comm->has_group || !work_can_order (comm, &there)) /* blocking calls are refused */
        return false;
    *status = ACCEL_OK;
    for (size_t i = 0; i < model->count && !*status; i++) {
        if (!optimizer_group_at (optimizer, i) || !sharding_chunk (model, i))
            continue;
        if (gathering.count == GATHERED_MOST || is_there (&gathering, model->parameters[i].data->data))
            *status = gather (&gathering, err);
        gathering.indices[gathering.count++] = i;
    }
    if (!*status && gathering.count)
        *status = gather (&gathering, err);
    return true;
}

/* ---- saves ---- */

/* Rank 0: fill the whole of @tensor, of which it has its own stretches. */
static enum accel_status
receive (const struct accel_model *model, size_t index, const DLTensor *tensor, float *whole, struct accel_comm *comm,
         const struct comm_site *there, struct accel_error *err)
{
    size_t chunk = sharding_chunk (model, index), bytes = chunk * sizeof *whole;
    void *part = model->memory->create (model->device, bytes, false);
    if (!part)
        return memory_fail (model->device, err, "cannot allocate memory for a part of '%s' (%zu bytes)",
                            model->parameters[index].name, bytes);
    enum accel_status status = packed_copy (model, index, model->device, tensor->data, whole, true, err);
    for (int rank = 1; rank < model->sharding.size && !status; rank++) {
        status = comm_recv (comm, there, part, chunk, ACCEL_FLOAT32, rank, err);
        if (!status)
            status = model->memory->read (model->device, whole + (size_t) rank * chunk, part, bytes, err);
    }
    model->memory->destroy (model->device, part);
    return status;
}

enum accel_status
packed_collect (struct accel_model *model, size_t index, DLTensor *tensor, const struct comm_site *site,
                struct accel_error *err)
{
    struct accel_comm *comm = sharding_comm (model, model->object.owner);
    struct comm_site there = comm_site_on (site, model->device);
    size_t chunk = sharding_chunk (model, index);
    if (!chunk || !tensor->data)
        return ACCEL_OK;
    if (model->sharding.rank)
        return comm_send (comm, &there, tensor->data, chunk, ACCEL_FLOAT32, 0, err);
    struct packed_whole *made = calloc (1, sizeof *made);
    float *whole = made ? memory_host.create_sparse (host, accel_tensor_count (tensor) * sizeof *whole) : NULL;
    enum accel_status status
        = whole ? receive (model, index, tensor, whole, comm, &there, err) : accel_fail_nomem (err);
    if (status) {
        comm_give_up (comm, "it cannot collect what is divided");
        memory_host.destroy (host, whole);
        free (made);
        return status;
    }
    *made = (struct packed_whole){ .next = model->sharding.wholes, .tensor = tensor, .before = *tensor };
    model->sharding.wholes = made;
    tensor->data = whole;
    tensor->device = host;
    return ACCEL_OK;
}

void
packed_end_collect (struct accel_model *model)
{
    while (model->sharding.wholes) {
        struct packed_whole *last = model->sharding.wholes;
        model->sharding.wholes = last->next;
        memory_host.destroy (host, last->tensor->data);
        *last->tensor = last->before;
        free (last);
    }
}
