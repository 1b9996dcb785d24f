/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of tensors in checkpoints: rank 0 gets whole ones for as long as a save takes; see tensor_parallel.h.  What is
 * saved sees nothing of it, as tensors describe what is whole meanwhile. */
#include <config.h>

#include "lib/train/tensor_parallel.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/collectives/parallel.h"
#include "lib/state/state_object.h"
#include "lib/train/optimizer/optimizer_object.h"

#include <stdlib.h>

/* A tensor that is whole now, and what it was before. */
struct collected_whole {
    struct collected_whole *next;
    DLTensor *tensor, before;
    struct whole whole;
};

/* Rank 0: fill the whole of a tensor. */
static enum accel_status
receive (const struct whole *whole, struct accel_comm *comm, const struct comm_site *site, struct accel_error *err)
{
    const struct accel_model *model = whole->model;
    size_t bytes = accel_tensor_count (whole->part) * tensor_element_bytes (whole->part);
    enum accel_status status = ACCEL_OK;
    void *part = model->memory->create (model->device, bytes, false);
    if (!part)
        return memory_fail (model->device, err, "cannot allocate memory for a part of '%s' (%zu bytes)",
                            model->parameters[whole->index].name, bytes);
    cut_copy (model, whole->index, whole->part->dtype, whole->memory, memory_data (whole->part), 0, true);
    for (int rank = 1; rank < model->tp_size && !status; rank++) {
        status = comm_recv (comm, site, part, bytes, ACCEL_UINT8, rank, err);
        if (!status)
            cut_copy (model, whole->index, whole->part->dtype, whole->memory, part, rank, true);
    }
    if (!status)
        status = memory_check (model->device, err); /* before the memory goes */
    model->memory->destroy (model->device, part);
    return status;
}

/* One tensor that is cut as parameter @index, on all processes of the first row of the grid. */
static enum accel_status
collect (struct accel_model *model, size_t index, DLTensor *tensor, struct accel_comm *comm,
         const struct comm_site *site, struct accel_error *err)
{
    struct comm_site there = comm_site_on (site, model->device);
    size_t bytes = accel_tensor_count (tensor) * tensor_element_bytes (tensor);
    if (!cut_has (model, index) || !tensor->data)
        return ACCEL_OK;
    if (model->tp_rank)
        return comm_send (comm, &there, memory_data (tensor), bytes, ACCEL_UINT8, 0, err);
    struct collected_whole *made = calloc (1, sizeof *made);
    enum accel_status status = made ? whole_begin (&made->whole, model, index, tensor, err) : accel_fail_nomem (err);
    if (!status)
        status = receive (&made->whole, comm, &there, err);
    if (status) {
        comm_give_up (comm, "it cannot collect a tensor");
        if (made)
            model->memory->destroy (model->device, made->whole.memory);
        free (made);
        return status;
    }
    made->tensor = tensor;
    made->before = *tensor;
    made->next = model->collected;
    model->collected = made;
    *tensor = made->whole.tensor;
    return ACCEL_OK;
}

/* @return those who take part; NULL: this process does not, or nothing is cut */
static struct accel_comm *
collectors (const struct accel_model *model, struct accel *acc)
{
    return model->cuts && !parallel_data_rank (acc) ? parallel_tensor_comm (acc) : NULL;
}

enum accel_status
cut_collect_model (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    struct accel_comm *comm = collectors (model, acc);
    enum accel_status status = cut_check (model, acc, err);
    if (model->cuts)
        masters_need (model);
    for (size_t i = 0; comm && i < model->count && !status; i++) {
        status = collect (model, i, model->parameters[i].data, comm, site, err);
        if (!status && model->trained[i].data != model->parameters[i].data)
            status = collect (model, i, model->trained[i].data, comm, site, err);
    }
    return status;
}

static enum accel_status
collect_optimizer (const struct accel_optimizer *optimizer, struct accel_comm *comm, const struct comm_site *site,
                   struct accel_error *err)
{
    struct accel_model *model = optimizer->model;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; comm && i < model->count; i++)
        for (size_t j = 0; j < optimizer->state_count && !status; j++)
            if (optimizer->state_tensors[i * optimizer->state_count + j])
                status = collect (model, i, &optimizer_state_at (optimizer, i, j)->tensor, comm, site, err);
    return status;
}

enum accel_status
cut_collect (struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (struct accel_model *model = model_first (acc); model && !status; model = model_next (model)) {
        status = cut_collect_model (model, acc, site, err);
        for (struct accel_optimizer *of = model->optimizers; of && !status; of = of->beside)
            if (of->object.owner == acc)
                status = collect_optimizer (of, collectors (model, acc), site, err);
    }
    return status;
}

void
cut_end_collect_model (struct accel_model *model)
{
    while (model->collected) {
        struct collected_whole *last = model->collected;
        model->collected = last->next;
        *last->tensor = last->before;
        model->memory->destroy (model->device, last->whole.memory);
        free (last);
    }
}

void
cut_end_collect (struct accel *acc)
{
    for (struct accel_model *model = model_first (acc); model; model = model_next (model))
        cut_end_collect_model (model);
}
