/* SPDX-License-Identifier: Apache-2.0 */
/* Divided parameters that are offloaded from a GPU; see packed_home.h. */
#include <config.h>

#include "lib/train/packed_home.h"

#include "lib/base/error.h"
#include "util/memory.h"

enum { PIECE = 4096, SLOT = 0 };

static const DLDevice host = { kDLCPU, 0 };

/* ---- beginning and end ---- */

bool
packed_home_create (struct packed_parameters *packed, const struct memory *memory, DLDevice device, bool in_file)
{
    const struct memory_copy_streams *copies = packed->copies = memory->copy_streams;
    packed->stream = copies->open (device);
    if (!packed->stream)
        return false;
    if (memory->side_stream && memory->side_stream (device, &packed->side, NULL))
        return false;
    packed->memory = in_file ? NULL : copies->pin (device, packed->bytes);
    packed->is_pinned = packed->memory;
    if (packed->is_pinned)
        memory_host.zero (host, packed->memory, packed->bytes);
    else /* copies take longer */
        packed->memory = memory_host.create_sparse (host, packed->bytes);
    if (packed->memory && in_file)
        memory_use_small_pages (packed->memory, packed->bytes);
    return packed->memory;
}

void
packed_home_end (struct packed_parameters *packed, DLDevice device)
{
    if (!packed->copies)
        return;
    packed->copies->close (packed->stream);
    if (packed->is_pinned)
        packed->copies->unpin (device, packed->memory);
    else
        memory_host.destroy (host, packed->memory);
}

void
packed_home_wait (const struct accel_model *model)
{
    const struct packed_parameters *packed = model->sharding.packed;
    if (packed && packed->copies)
        packed->copies->wait (packed->stream, SLOT);
}

/* ---- whole parameters ---- */

void *
packed_home_send (const struct accel_model *model, const size_t *indices, size_t count)
{
    const struct packed_parameters *packed = model->sharding.packed;
    packed->copies->begin (packed->stream);
    for (size_t k = 0; k < count; k++) {
        const DLTensor *data = model->parameters[indices[k]].data;
        size_t each = tensor_element_bytes (data);
        struct stretch own[STRETCHES];
        sharding_stretches (model, indices[k], own);
        for (int s = 0; s < STRETCHES; s++)
            packed->copies->copy (packed->stream, memory_at (data->data, own[s].from, each),
                                  packed_element (model, indices[k], own[s].from), (own[s].end - own[s].from) * each);
    }
    packed->copies->end (packed->stream, SLOT);
    /* The program's stream does not wait: it computes with the layer before. */
    if (packed->side)
        model->memory->use_side_stream (model->device, true);
    packed->copies->follow (packed->stream, SLOT);
    if (packed->side)
        model->memory->use_side_stream (model->device, false);
    return packed->side;
}

void
packed_home_follow (const struct accel_model *model)
{
    const struct packed_parameters *packed = model->sharding.packed;
    if (packed && packed->copies)
        packed->copies->follow (packed->stream, SLOT);
}

/* ---- steps ---- */

static void
point (struct packed_parameters *packed, size_t count, char *from, char *to)
{
    for (size_t i = 0; i < count; i++)
        if (packed->own[i])
            packed->own[i] = to + ((char *) packed->own[i] - from);
}

enum accel_status
packed_home_lend (struct accel_model *model, struct accel_error *err)
{
    struct packed_parameters *packed = model->sharding.packed;
    if (!packed || !packed->copies || model->sharding.states_at_home)
        return ACCEL_OK;
    packed->lent = model->memory->create (model->device, packed->bytes, false);
    if (!packed->lent)
        return memory_fail (model->device, err, "cannot allocate memory for a step with offloaded parameters (%zu "
                            "bytes)", packed->bytes);
    packed->copies->begin (packed->stream);
    packed->copies->copy (packed->stream, packed->lent, packed->memory, packed->bytes);
    packed->copies->end (packed->stream, SLOT);
    packed->copies->follow (packed->stream, SLOT);
    point (packed, model->count, packed->memory, packed->lent);
    return ACCEL_OK;
}

void
packed_home_take_back (struct accel_model *model)
{
    struct packed_parameters *packed = model->sharding.packed;
    if (!packed || !packed->lent)
        return;
    point (packed, model->count, packed->lent, packed->memory);
    packed->copies->begin (packed->stream);
    packed->copies->fetch (packed->stream, packed->memory, packed->lent, packed->bytes);
    packed->copies->end (packed->stream, SLOT);
    packed->copies->follow (packed->stream, SLOT);
    model->memory->destroy (model->device, packed->lent);
    packed->lent = NULL;
    packed_home_wait (model);
}

void
packed_home_widen (const struct accel_model *model, float *master, const void *from, enum accel_dtype dtype,
                   size_t count, float factor)
{
    float piece[PIECE];
    for (size_t at = 0, some; at < count; at += some) {
        some = count - at < PIECE ? count - at : PIECE;
        memory_host.widen (host, piece, memory_at (from, at, accel_dtype_bytes (dtype)), dtype, some, factor);
        model->memory->write (model->device, master + at, piece, some * sizeof *piece);
    }
}
