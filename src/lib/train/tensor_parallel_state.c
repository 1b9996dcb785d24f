/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of tensors in checkpoints: rank 0 gets whole ones for as long as a save takes; see tensor_parallel.h.  What is
 * saved sees nothing of it, as tensors describe what is whole meanwhile. */
#include <config.h>

#include "lib/train/tensor_parallel.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/collectives/parallel.h"
#include "lib/state/state_object.h"
#include "lib/train/packed.h"
#include "lib/train/packed_collectives.h"

#include <stdlib.h>

/* A tensor that is going to be whole, or is, and what it was before. */
struct collected_whole {
    struct collected_whole *next;
    DLTensor *tensor, before;
    struct whole whole;
    bool is_whole;
};

struct cut_collection {
    struct collected_whole *first, **end; /* in the order in which parts are sent */
    struct {
        DLDevice device;
        void *memory;
        size_t bytes;
    } rooms[2]; /* for the largest of the parts that come: on a GPU, and in host memory */
};

struct collecting {
    struct accel_comm *comm;
    struct comm_site site;
    struct collected_whole *next; /* rank 0: which tensor comes next */
};

typedef enum accel_status visit_cut (struct accel_model *model, size_t index, DLTensor *tensor,
                                     struct collecting *collecting, struct accel_error *err);

/* Whether parameter @index has a master that is saved: a state has those that optimizers of @owner change, as
 * sharding_collect() does. */
static bool
saves_master (const struct accel_model *model, size_t index, const struct accel *owner, enum cut_extent extent)
{
    bool found = extent == CUT_MASTERS && model->trained[index].data != model->parameters[index].data;
    const struct accel_optimizer *of = extent == CUT_STATES ? model->optimizers : NULL;
    for (; of && !found; of = of->beside)
        found = of->object.owner == owner && optimizer_master_at (of, index);
    return found;
}

/* Every tensor that is cut, of @model and of @owner's optimizers. */
static enum accel_status
for_each_cut (struct accel_model *model, const struct accel *owner, enum cut_extent extent, visit_cut *visit,
              struct collecting *collecting, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < model->count && !status; i++) {
        DLTensor *data = model->parameters[i].data, *trained = model->trained[i].data;
        bool is_cut = cut_has (model, i);
        if (is_cut && (data->data || packed_first (model, i) != SIZE_MAX))
            status = visit (model, i, data, collecting, err);
        if (!status && is_cut && trained->data && saves_master (model, i, owner, extent))
            status = visit (model, i, trained, collecting, err);
    }
    for (struct accel_optimizer *of = extent == CUT_STATES ? model->optimizers : NULL; of && !status; of = of->beside)
        for (size_t k = 0; of->object.owner == owner && k < model->count * of->state_count && !status; k++) {
            size_t index = k / of->state_count;
            if (!of->state_tensors[k] || !cut_has (model, index))
                continue;
            DLTensor *state = &optimizer_state_at (of, index, k % of->state_count)->tensor;
            if (state->data)
                status = visit (model, index, state, collecting, err);
        }
    return status;
}

/* @return those who take part; NULL: this process does not, or nothing is cut */
static struct accel_comm *
collectors (const struct accel_model *model, struct accel *acc)
{
    return model->cuts && !parallel_data_rank (acc) ? parallel_tensor_comm (acc) : NULL;
}

static enum accel_status
reserve (struct accel_model *model, size_t index, DLTensor *tensor, struct collecting *collecting,
         struct accel_error *err)
{
    (void) collecting;
    struct cut_collection *collection = model->collection;
    size_t bytes = accel_tensor_count (tensor) * tensor_element_bytes (tensor);
    struct collected_whole *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail_nomem (err);
    *collection->end = made;
    collection->end = &made->next;
    made->tensor = tensor;
    DLTensor there = *tensor;
    there.device = packed_collected_on (model, index, tensor);
    int is_home = memory_of (there.device)->host;
    collection->rooms[is_home].device = there.device;
    if (bytes > collection->rooms[is_home].bytes)
        collection->rooms[is_home].bytes = bytes;
    enum accel_status status = whole_begin (&made->whole, model, index, &there, err);
    made->whole.part = tensor;
    return status;
}

static enum accel_status
reserve_rooms (struct cut_collection *collection, struct accel_error *err)
{
    for (int i = 0; i < 2; i++) {
        DLDevice device = collection->rooms[i].device;
        size_t bytes = collection->rooms[i].bytes;
        if (bytes && !(collection->rooms[i].memory = memory_of (device)->create (device, bytes, false)))
            return memory_fail (device, err, "cannot allocate %zu bytes for parts of tensors", bytes);
    }
    return ACCEL_OK;
}

enum accel_status
cut_reserve_model (struct accel_model *model, struct accel *acc, enum cut_extent extent, struct accel_error *err)
{
    enum accel_status status = cut_check (model, acc, err);
    if (!model->cuts || status)
        return status;
    if (extent != CUT_PARAMETERS)
        masters_need (model);
    if (!collectors (model, acc) || model->tp_rank)
        return ACCEL_OK;
    struct cut_collection *collection = model->collection = calloc (1, sizeof *collection);
    if (!collection)
        return accel_fail_nomem (err);
    collection->end = &collection->first;
    status = for_each_cut (model, acc, extent, reserve, NULL, err);
    return status ? status : reserve_rooms (collection, err);
}

enum accel_status
cut_reserve (struct accel *acc, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (struct accel_model *model = model_first (acc); model && !status; model = model_next (model))
        status = cut_reserve_model (model, acc, CUT_STATES, err);
    return status;
}

/* Rank 0: fill the whole of a tensor. */
static enum accel_status
receive (const struct whole *whole, struct collecting *collecting, struct accel_error *err)
{
    const struct accel_model *model = whole->model;
    const DLTensor *part = whole->part;
    void *room = model->collection->rooms[memory_of (part->device)->host].memory;
    struct comm_site there = comm_site_on (&collecting->site, part->device);
    size_t bytes = accel_tensor_count (part) * tensor_element_bytes (part);
    enum accel_status status = ACCEL_OK;
    cut_copy (model, whole->index, part, whole->memory, memory_data (part), 0, true);
    for (int rank = 1; rank < model->tp_size && !status; rank++) {
        status = comm_recv (collecting->comm, &there, room, bytes, ACCEL_UINT8, rank, err);
        if (!status)
            cut_copy (model, whole->index, part, whole->memory, room, rank, true);
    }
    return status ? status : memory_check (part->device, err); /* before the memory goes */
}

static void
set_whole (struct collected_whole *made)
{
    made->before = *made->tensor;
    made->is_whole = true;
    *made->tensor = made->whole.tensor;
}

void
cut_show_reserved (const struct accel *acc)
{
    for (const struct accel_model *model = model_first (acc); model; model = model_next (model)) {
        struct collected_whole *made = model->collection ? model->collection->first : NULL;
        for (; made; made = made->next)
            set_whole (made);
    }
}

/* On all processes of the first row of the grid. */
static enum accel_status
collect (struct accel_model *model, size_t index, DLTensor *tensor, struct collecting *collecting,
         struct accel_error *err)
{
    (void) index;
    struct collected_whole *made = collecting->next;
    struct comm_site there = comm_site_on (&collecting->site, tensor->device);
    if (model->tp_rank)
        return comm_send (collecting->comm, &there, memory_data (tensor),
                          accel_tensor_count (tensor) * tensor_element_bytes (tensor), ACCEL_UINT8, 0, err);
    enum accel_status status = receive (&made->whole, collecting, err);
    if (status) {
        comm_give_up (collecting->comm, "it cannot collect a tensor"); /* does nothing if a peer failed */
        return status;
    }
    collecting->next = made->next;
    set_whole (made);
    return ACCEL_OK;
}

enum accel_status
cut_collect_model (struct accel_model *model, struct accel *acc, enum cut_extent extent, const struct comm_site *site,
                   struct accel_error *err)
{
    struct collecting collecting = { .comm = collectors (model, acc), .site = *site,
                                     .next = model->collection ? model->collection->first : NULL };
    return collecting.comm ? for_each_cut (model, acc, extent, collect, &collecting, err) : ACCEL_OK;
}

enum accel_status
cut_collect (struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (struct accel_model *model = model_first (acc); model && !status; model = model_next (model))
        status = cut_collect_model (model, acc, CUT_STATES, site, err);
    return status;
}

void
cut_end_collect_model (struct accel_model *model)
{
    struct cut_collection *collection = model->collection;
    if (!collection)
        return;
    while (collection->first) {
        struct collected_whole *made = collection->first;
        collection->first = made->next;
        if (made->is_whole)
            *made->tensor = made->before;
        whole_destroy (&made->whole);
        free (made);
    }
    for (int i = 0; i < 2; i++)
        if (collection->rooms[i].memory)
            memory_of (collection->rooms[i].device)->destroy (collection->rooms[i].device, collection->rooms[i].memory);
    free (collection);
    model->collection = NULL;
}

void
cut_end_collect (struct accel *acc)
{
    for (struct accel_model *model = model_first (acc); model; model = model_next (model))
        cut_end_collect_model (model);
}
