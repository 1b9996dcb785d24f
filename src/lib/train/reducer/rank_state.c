/* SPDX-License-Identifier: Apache-2.0 */
/* The state of each rank; see rank_state.h.  And the first of its two kinds: gradients that are being accumulated. */
#include <config.h>

#include "lib/train/reducer/rank_state.h"

#include "lib/base/error.h"
#include "lib/train/packed_gradients.h"
#include "lib/train/precision.h"
#include "lib/train/reducer/reducer_object.h"
#include "lib/train/reducer/unused.h"
#include "util/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t
rank_state_number (const struct accel_model *model)
{
    size_t number = 0;
    while ((model = model_next (model)))
        number++;
    return number;
}

/* ---- averages ---- */

/* Room on the device for one tensor: as it is in the file, and twice in float32. */
struct room {
    void *stored;
    float *wide, *sum;
};

static void
release_room (const struct accel_model *model, struct room *room)
{
    model->memory->destroy (model->device, room->stored);
    model->memory->destroy (model->device, room->wide);
    model->memory->destroy (model->device, room->sum);
}

/* In the order of the ranks, so that all get the same bits. */
static enum accel_status
add_up (const struct accel_model *model, const DLTensor *into, const struct accel_state_dict *states, size_t count,
        const char *name, const struct room *room, struct accel_error *err)
{
    const struct memory *memory = model->memory;
    enum accel_dtype dtype = accel_dtype_from_dl (into->dtype);
    size_t elements = accel_tensor_count (into);
    DLTensor piece = *into;
    piece.data = room->stored;
    piece.byte_offset = 0;
    piece.strides = NULL;
    for (size_t i = 0; i < count; i++) {
        enum accel_status status = accel_state_dict_get_tensor (&states[i], name, &piece, err);
        if (status)
            return status;
        memory->widen (model->device, room->wide, room->stored, dtype, elements, 1.0F / (float) count);
        memory->add (model->device, room->sum, room->wide, elements);
    }
    memory->narrow (model->device, memory_data (into), dtype, room->sum, elements);
    return ACCEL_OK;
}

enum accel_status
rank_state_read (const struct accel_model *model, DLTensor *into, const struct accel_state_dict *states, size_t count,
                 const char *name, struct accel_error *err)
{
    size_t elements = accel_tensor_count (into);
    if (count == 1)
        return accel_state_dict_get_tensor (&states[0], name, into, err);
    if (model->cuts)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "'%.100s' is of each process that divides tensors: it can only "
                           "be continued by the same number of processes", name);
    struct room room;
    room.stored = model->memory->create (
        model->device, (elements + 1) * accel_dtype_bytes (accel_dtype_from_dl (into->dtype)), false);
    room.wide = model->memory->create (model->device, (elements + 1) * sizeof *room.wide, false);
    room.sum = model->memory->create (model->device, (elements + 1) * sizeof *room.sum, true);
    enum accel_status status
        = room.stored && room.wide && room.sum
              ? add_up (model, into, states, count, name, &room, err)
              : memory_fail (model->device, err, "cannot allocate memory for the average of '%.100s'", name);
    release_room (model, &room);
    return status;
}

/* ---- gradients ---- */

static bool
is_saved (const struct accel_model *model, size_t index)
{
    return model_is_trained (model, index) && accel_tensor_count (model->parameters[index].grad);
}

static void
save_gradients (const struct part *part, struct accel_state_dict *state)
{
    for (struct accel_model *model = model_first (part->acc); model; model = model_next (model)) {
        size_t number = rank_state_number (model);
        char used[64];
        if (!model->unstepped)
            continue;
        for (size_t i = 0; i < model->count; i++)
            if (is_saved (model, i))
                state_dict_set_tensor (state, model->parameters[i].grad, "gradient.%zu.%s", number,
                                       model->parameters[i].name);
        precision_save_model (model, state, number);
        snprintf (used, sizeof used, "used.%zu", number);
        unused_fetch (model, NULL); /* an error is the gradients', too */
        if (model->reducer->mask)
            accel_state_dict_set_bytes (state, used, model->reducer->used, model->count);
    }
}

static enum accel_status
load_gradient (struct accel_model *model, size_t index, const struct accel_state_dict *states, size_t count,
               struct accel_error *err)
{
    AUTO_FREE char *name = NULL;
    if (asprintf (&name, "gradient.%zu.%s", rank_state_number (model), model->parameters[index].name) < 0) {
        name = NULL;
        return accel_fail_nomem (err);
    }
    return rank_state_read (model, model->parameters[index].grad, states, count, name, err);
}

/* Used by any of the ranks that saved: all ranks have a share of its gradient now. */
static enum accel_status
load_used (struct accel_model *model, const struct accel_state_dict *states, size_t count, struct accel_error *err)
{
    char name[64];
    AUTO_FREE unsigned char *used = calloc (model->count + 1, 1);
    enum accel_status status = used ? ACCEL_OK : accel_fail_nomem (err);
    snprintf (name, sizeof name, "used.%zu", rank_state_number (model));
    if (!status && !accel_state_dict_has (&states[0], name)) { /* it was saved without find_unused_parameters */
        memset (model->reducer->used, 1, model->count);
        return ACCEL_OK;
    }
    for (size_t i = 0; !status && i < count; i++) {
        status = accel_state_dict_get_bytes (&states[i], name, used, model->count, err);
        for (size_t j = 0; !status && j < model->count; j++)
            model->reducer->used[j] |= used[j];
    }
    return status;
}

static enum accel_status
load_model_gradients (struct accel_model *model, const struct accel_state_dict *states, size_t count,
                      struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    char first[32];
    bool found = false;
    snprintf (first, sizeof first, "gradient.%zu.", rank_state_number (model));
    for (size_t i = 0; count && !found && i < states[0].header.count; i++)
        found = !strncmp (states[0].header.tensors[i].name, first, strlen (first));
    model->unstepped = found;
    model->sharding.reduced = false; /* what each process has read is whole */
    if (model->sharding.grads && found)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "the checkpoint has gradients that wait for a step: on a GPU, they cannot be divided");
    if (model->sharding.grads) {
        packed_drop_gradients (model);
        return ACCEL_OK;
    }
    unused_forget (model);
    for (size_t i = 0; !status && i < model->count; i++)
        if (is_saved (model, i) && found)
            status = load_gradient (model, i, states, count, err);
        else if (is_saved (model, i)) /* those of a run that is given up must not be added to */
            model->memory->zero (model->device, memory_data (model->parameters[i].grad), model_grad_bytes (model, i));
    if (!status && found)
        status = precision_load_model (model, &states[0], rank_state_number (model), err);
    return !status && found && model->reducer->mask ? load_used (model, states, count, err) : status;
}

static enum accel_status
reshard_gradients (struct part *part, const struct accel_state_dict *states, size_t count, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (struct accel_model *model = model_first (part->acc); !status && model; model = model_next (model))
        status = load_model_gradients (model, states, count, err);
    return status;
}

static enum accel_status
load_gradients (struct part *part, const struct accel_state_dict *state, struct accel_error *err)
{
    return reshard_gradients (part, state, state != NULL, err);
}

const struct part_kind part_gradients
    = { .size_bytes = sizeof (struct part), .save = save_gradients,
        .load = load_gradients, .reshard = reshard_gradients, .file = "gradients", .of_each_rank = true };
