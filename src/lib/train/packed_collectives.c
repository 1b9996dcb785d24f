/* SPDX-License-Identifier: Apache-2.0 */
/* What processes send each other of a model whose states and masters are packed; see packed_collectives.h. */
#include <config.h>

#include "lib/train/packed_collectives.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/comm/wait.h"
#include "lib/comm/work.h"
#include "lib/train/model_device.h"
#include "lib/train/packed_home.h"
#include "lib/train/packed_parameters.h"
#include "lib/train/tensor_parallel.h"

#include <accel/precision.h>

#include <stdlib.h>

/* A tensor that is whole now, and what it was before. */
struct packed_whole {
    struct packed_whole *next;
    DLTensor *tensor, before;
};

static const DLDevice host = { kDLCPU, 0 };

/* ---- accel_prepare() ---- */

/* What is packed becomes whole, as it is in the memory of rank 0. */
static enum accel_status
open_parameter (struct accel_model *model, size_t index, const struct accel_comm *comm, struct accel_error *err)
{
    const DLTensor *data = model->parameters[index].data;
    enum accel_status status = packed_open (model, packed_first (model, index), err);
    if (!status && !accel_comm_rank (comm))
        model->memory->write (model->device, data->data, model->sharding.packed->home[index],
                              accel_tensor_count (data) * tensor_element_bytes (data));
    return status;
}

/* @scratch has room for the whole master. */
static enum accel_status
broadcast_master (struct accel_model *model, size_t index, float *scratch, struct accel_comm *comm,
                  const struct comm_site *there, struct accel_error *err)
{
    const DLTensor *parameter = model->parameters[index].data;
    const struct memory *memory = model->memory;
    void *master = model->masters[index].tensor.data;
    bool stays = model->sharding.states_at_home;
    const void *home = !model->widened ? NULL : stays ? master : model_home_of (model, master);
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
    for (int s = 0; s < STRETCHES && !status; s++) {
        void *to = memory_at (master, packed_offset (model, index, own[s].from), sizeof *scratch);
        size_t bytes = (own[s].end - own[s].from) * sizeof *scratch;
        if (bytes && stays)
            status = memory->read (model->device, to, scratch + own[s].from, bytes, err);
        else if (bytes)
            memory->copy (model->device, to, scratch + own[s].from, bytes);
    }
    return status;
}

static bool
has_master (const struct accel_model *model, size_t index)
{
    return model->trained[index].data != model->parameters[index].data;
}

enum accel_status
packed_broadcast (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
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
        comm_give_up (accel_world (acc), "cannot allocate memory for a master");
        return memory_fail (model->device, err, "cannot allocate memory for a master of %zu elements", most);
    }
    for (size_t i = 0; i < model->count && !status; i++) {
        const DLTensor *data = model->parameters[i].data;
        struct accel_comm *comm = cut_comm (model, i, acc);
        size_t bytes = accel_tensor_count (data) * tensor_element_bytes (data), first = packed_first (model, i);
        if (first != SIZE_MAX)
            status = open_parameter (model, i, comm, err);
        if (!status && has_master (model, i))
            status = broadcast_master (model, i, scratch, comm, &there, err);
        else if (!status)
            status = comm_broadcast (comm, &there, data->data, bytes, ACCEL_UINT8, 0, err);
        if (first != SIZE_MAX && !status)
            packed_keep (model, first);
        if (first != SIZE_MAX)
            packed_close (model, first);
    }
    model->memory->destroy (model->device, scratch);
    model->widened = !status;
    return status;
}

/* ---- steps ---- */

/* Parameters of which this process has chunks of others to get, none in the memory of another one. */
struct gathering {
    struct accel_model *model;
    struct accel_comm *comm;
    const struct comm_site *site;
    size_t indices[PACKED_GATHERED_MOST], count;
};

/* Memory for those that are packed, and what this process has of them.
 * @param there  its stream: after which they can be gathered */
static enum accel_status
open_all (struct accel_model *model, const size_t *indices, size_t count, struct comm_site *there,
          struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    bool is_home = count && packed_is_home (model, indices[0]);
    for (size_t k = 0; k < count && !status; k++)
        if (packed_first (model, indices[k]) != SIZE_MAX) {
            status = packed_open (model, indices[k], err);
            if (!status && !is_home)
                packed_fill_rest (model, indices[k]);
        }
    if (!status && is_home)
        there->stream = packed_home_send (model, indices, count);
    return status;
}

static enum accel_status
start (struct accel_model *model, size_t index, struct accel_comm *comm, const struct comm_site *there,
       struct accel_error *err)
{
    const DLTensor *data = model->parameters[index].data;
    size_t chunk = sharding_chunk (model, index), before = chunk * (size_t) model->sharding.rank;
    const void *own = packed_is_home (model, index) ? memory_at (data->data, before, tensor_element_bytes (data))
                                                    : packed_element (model, index, before);
    return comm_all_gather (comm, there, own, data->data, chunk, accel_dtype_from_dl (data->dtype), err);
}

enum accel_status
packed_start (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site, const size_t *indices,
              size_t count, struct accel_work **works, struct accel_error *err)
{
    struct comm_site there = comm_site_on (site, model->device);
    enum accel_status status = open_all (model, indices, count, &there, err);
    work_group_begin (comm);
    for (size_t k = 0; k < count; k++) {
        there.work = &works[k];
        works[k] = NULL;
        if (!status)
            status = start (model, indices[k], comm, &there, err);
    }
    work_group_end (comm);
    if (status == ACCEL_ERR_NOMEM || status == ACCEL_ERR_SYSTEM) /* others are waiting */
        comm_give_up (comm, "it cannot gather parameters");
    if (status)
        packed_home_follow (model);
    return status;
}

enum accel_status
packed_join (const struct accel_model *model, struct accel_work *work, struct accel_error *err)
{
    enum accel_status status = work ? work_join (work, err) : ACCEL_OK;
    if (status)
        packed_home_follow (model);
    return status;
}

/* Those that were started are waited for also after one that could not be. */
static enum accel_status
gather (struct gathering *gathering, struct accel_error *err)
{
    struct accel_work *works[PACKED_GATHERED_MOST];
    enum accel_status status = packed_start (gathering->model, gathering->comm, gathering->site, gathering->indices,
                                             gathering->count, works, err);
    for (size_t k = 0; k < gathering->count; k++) {
        enum accel_status own = packed_join (gathering->model, works[k], status ? NULL : err);
        status = status ? status : own;
    }
    gathering->count = 0;
    return status;
}

/* One after the other: all of them need not have room on the device. */
static enum accel_status
fetch_whole (struct accel_model *model, size_t index, const struct comm_site *site, struct accel_error *err)
{
    const DLTensor *data = model->parameters[index].data;
    struct gathering gathering = { .model = model, .comm = sharding_comm (model, model->object.owner), .site = site,
                                   .indices = { index }, .count = 1 };
    enum accel_status status = gather (&gathering, err);
    if (!status)
        status = model->memory->read (model->device, model->sharding.packed->home[index], data->data,
                                      accel_tensor_count (data) * tensor_element_bytes (data), err);
    packed_close (model, index);
    return status;
}

enum accel_status
packed_fetch_whole (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < model->count && !status; i++)
        if (packed_first (model, i) == i)
            status = fetch_whole (model, i, site, err);
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
    struct accel_model *model = optimizer->model;
    struct gathering gathering = { .model = model, .comm = comm, .site = site };
    struct comm_site there = comm_site_on (site, model->device);
    if (model->memory->host || comm->has_group || !work_can_order (comm, &there)) /* blocking calls are refused */
        return false;
    *status = ACCEL_OK;
    for (size_t i = 0; i < model->count && !*status; i++) {
        if (!optimizer_group_at (optimizer, i) || !sharding_chunk (model, i))
            continue;
        if (gathering.count == PACKED_GATHERED_MOST || is_there (&gathering, model->parameters[i].data->data))
            *status = gather (&gathering, err);
        gathering.indices[gathering.count++] = i;
    }
    if (!*status && gathering.count)
        *status = gather (&gathering, err);
    return true;
}

/* ---- saves ---- */

/* Rank 0: fill @whole, of which it has its own stretches at @share on @device, where those of others come to. */
static enum accel_status
receive (struct accel_model *model, size_t index, DLDevice device, void *share, enum accel_dtype dtype, void *whole,
         const struct comm_site *site, struct accel_error *err)
{
    struct accel_comm *comm = sharding_comm (model, model->object.owner);
    struct comm_site there = comm_site_on (site, device);
    size_t chunk = sharding_chunk (model, index), each = accel_dtype_bytes (dtype), bytes = chunk * each;
    const struct memory *memory = memory_of (device);
    void *part = memory->create (device, bytes, false);
    if (!part)
        return memory_fail (device, err, "cannot allocate memory for a part of '%s' (%zu bytes)",
                            model->parameters[index].name, bytes);
    enum accel_status status = packed_copy (model, index, device, share, whole, each, true, err);
    for (int rank = 1; rank < model->sharding.size && !status; rank++) {
        status = comm_recv (comm, &there, part, chunk, dtype, rank, err);
        if (!status)
            status = memory->read (device, memory_at (whole, (size_t) rank, bytes), part, bytes, err);
    }
    memory->destroy (device, part);
    return status;
}

enum accel_status
packed_collect (struct accel_model *model, size_t index, DLTensor *tensor, const struct comm_site *site,
                struct accel_error *err)
{
    struct accel_comm *comm = sharding_comm (model, model->object.owner);
    size_t chunk = sharding_chunk (model, index), bytes = accel_tensor_count (tensor) * tensor_element_bytes (tensor);
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    bool is_parameter = tensor == model->parameters[index].data && packed_first (model, index) != SIZE_MAX;
    void *share = is_parameter ? model->sharding.packed->own[index] : tensor->data;
    DLDevice device = is_parameter ? packed_device (model, index) : model->device;
    struct comm_site there = comm_site_on (site, device);
    if (!chunk || !share || model->sharding.replica || (is_parameter && packed_first (model, index) != index))
        return ACCEL_OK;
    if (model->sharding.rank)
        return comm_send (comm, &there, share, chunk, dtype, 0, err);
    struct packed_whole *made = calloc (1, sizeof *made);
    void *whole = made ? memory_host.create_sparse (host, bytes) : NULL;
    enum accel_status status
        = whole ? receive (model, index, device, share, dtype, whole, site, err) : accel_fail_nomem (err);
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

DLDevice
packed_collected_on (const struct accel_model *model, size_t index, const DLTensor *tensor)
{
    bool is_packed = tensor == model->parameters[index].data ? packed_first (model, index) != SIZE_MAX
                                                             : packed_is_on (model) && sharding_chunk (model, index);
    return is_packed ? host : tensor->device;
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
