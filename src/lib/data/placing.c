/* SPDX-License-Identifier: Apache-2.0 */
/* The way of batches to a device; see placing.h.
 *
 * There is memory on the device for two batches: the program has one, and the next is copied into the other.  A copy
 * begins after what the program has queued when it asks for a batch, because that may still use the one before.
 * Batches that are read ahead are in pinned memory, and the reader keeps two of them as they are, so only the copy of
 * the batch before the last has to be over when another one is read. */
#include <config.h>

#include "lib/data/placing.h"

#include "lib/base/error.h"
#include "lib/memory/memory.h"
#include "lib/state/state_object.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = MEMORY_LANE_SLOTS };

/** A batch on the device. */
struct placed {
    enum { PLACED_NONE, PLACED_BATCH, PLACED_END, PLACED_FAILED } state;
    struct handed handed;
    const struct accel_batch *unsent; /* what was read, and could not be copied so far */
    struct accel_error failure;
    struct accel_batch batch; /* its fields own memory of the device, or none */
    size_t index_room;
};

struct placing {
    DLDevice device;
    const struct memory *memory;
    struct memory_lane *lane;
    struct placed slots[SLOTS];
    size_t next;       /* number of the batch that the program gets next */
    size_t field_count;
    bool ahead;        /* the next batch is obtained before one is given out */
    bool non_blocking; /* the program's stream waits for copies, and the host does not */
};

bool
placing_is_wanted (const struct accel_loader *loader, const struct accel *acc)
{
    if (!acc || acc->without_device_placement || loader->options.without_device_placement)
        return false;
    const struct memory *memory = memory_of (acc->device);
    return memory && memory->lanes;
}

static enum accel_status
make_fields (struct placing *placing, struct placed *placed, const struct accel_loader *loader,
             struct accel_error *err)
{
    placed->batch.fields = calloc (loader->field_count, sizeof *placed->batch.fields);
    placed->batch.room_bytes = calloc (loader->field_count, sizeof *placed->batch.room_bytes);
    placed->batch.descriptions = loader->fields;
    placed->batch.field_count = placing->field_count = loader->field_count;
    return placed->batch.fields && placed->batch.room_bytes
               ? ACCEL_OK
               : accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for batches on a device");
}

enum accel_status
placing_init (struct accel_loader *loader, struct accel *acc, struct accel_error *err)
{
    struct placing *placing = loader->placing = calloc (1, sizeof *placing);
    if (!placing)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for batches on a device");
    placing->device = acc->device;
    placing->memory = memory_of (acc->device);
    placing->ahead = !share_is_dispatched (loader, loader->share.processes);
    placing->non_blocking = placing->ahead && loader->options.non_blocking;
    enum accel_status status = ACCEL_OK;
    for (int i = 0; i < SLOTS && !status; i++)
        status = make_fields (placing, &placing->slots[i], loader, err);
    if (status)
        return status;
    placing->lane = placing->memory->lanes->open (placing->device);
    return placing->lane ? ACCEL_OK
                         : memory_fail (placing->device, err, "cannot allocate memory for batches on a device");
}

/* What is on its way arrives: the reader keeps no batch when it begins anew. */
static void
wait_for_all (struct placing *placing)
{
    for (unsigned i = 0; i < SLOTS && placing->lane; i++)
        placing->memory->lanes->wait (placing->lane, i);
}

void
placing_stop (struct accel_loader *loader)
{
    struct placing *placing = loader->placing;
    if (!placing)
        return;
    wait_for_all (placing);
    for (int i = 0; i < SLOTS; i++) {
        placing->slots[i].state = PLACED_NONE;
        placing->slots[i].unsent = NULL;
    }
    placing->next = 0;
}

void
placing_release (struct accel_loader *loader)
{
    struct placing *placing = loader->placing;
    if (!placing)
        return;
    if (placing->lane)
        placing->memory->lanes->close (placing->lane);
    for (int i = 0; i < SLOTS; i++) {
        struct accel_batch *batch = &placing->slots[i].batch;
        for (size_t f = 0; batch->fields && f < placing->field_count; f++)
            accel_tensor_release (&batch->fields[f]);
        free (batch->fields);
        free (batch->room_bytes);
        free (batch->indices);
    }
    free (placing);
    loader->placing = NULL;
}

/* Memory that grows does so by half, because a larger batch may come. */
static enum accel_status
make_room (struct placing *placing, struct accel_batch *batch, size_t field, size_t bytes, struct accel_error *err)
{
    struct accel_tensor *tensor = &batch->fields[field];
    if (tensor->dl.data && bytes <= batch->room_bytes[field])
        return ACCEL_OK;
    size_t room = tensor->dl.data && bytes < SIZE_MAX / 2 ? bytes + bytes / 2 : bytes;
    placing->memory->destroy (placing->device, tensor->dl.data);
    tensor->owned_bytes = batch->room_bytes[field] = 0;
    tensor->dl.data = placing->memory->create (placing->device, room + !room, false);
    if (!tensor->dl.data)
        return memory_fail (placing->device, err, "cannot allocate %zu bytes on the device for field '%s' of a batch",
                            room, batch->descriptions[field].name);
    tensor->owned_bytes = room + !room;
    batch->room_bytes[field] = room;
    return ACCEL_OK;
}

static enum accel_status
list_indices (struct placed *placed, const struct accel_batch *from, struct accel_error *err)
{
    struct accel_batch *batch = &placed->batch;
    if (!batch->indices || from->size > placed->index_room) {
        free (batch->indices);
        batch->indices = calloc (from->size + 1, sizeof *batch->indices);
        placed->index_room = batch->indices ? from->size : 0;
    }
    batch->size = from->size;
    batch->listed = batch->indices;
    if (!batch->indices)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the indices of a batch");
    memcpy (batch->indices, from->listed, from->size * sizeof *batch->indices);
    return ACCEL_OK;
}

/* Begin to copy batch @p from, which the host has. */
static enum accel_status
send (struct placing *placing, unsigned slot, const struct accel_batch *from, struct accel_error *err)
{
    struct placed *placed = &placing->slots[slot];
    const struct memory_lanes *lanes = placing->memory->lanes;
    enum accel_status status = list_indices (placed, from, err);
    lanes->begin (placing->lane);
    for (size_t f = 0; f < placing->field_count && !status; f++) {
        struct accel_tensor *to = &placed->batch.fields[f];
        const struct accel_tensor *field = &from->fields[f];
        size_t bytes = accel_tensor_count (&field->dl) * accel_dtype_bytes (from->descriptions[f].dtype);
        status = make_room (placing, &placed->batch, f, bytes, err);
        if (status)
            break;
        to->dl.device = placing->device;
        to->dl.dtype = field->dl.dtype;
        to->dl.ndim = field->dl.ndim;
        to->dl.shape = to->shape;
        memcpy (to->shape, field->shape, sizeof to->shape);
        lanes->copy (placing->lane, to->dl.data, field->dl.data, bytes);
    }
    lanes->end (placing->lane, slot);
    return status ? status : memory_check (placing->device, err);
}

/* Obtain batch @p number and begin to copy it; or keep what went wrong until the program asks for it. */
static void
fetch (struct accel_loader *loader, const struct comm_site *site, size_t number)
{
    struct placing *placing = loader->placing;
    unsigned slot = number % SLOTS;
    struct placed *placed = &placing->slots[slot];
    placing->memory->lanes->wait (placing->lane, slot); /* its memory on the host is read into again */
    accel_error_clear (&placed->failure);
    /* If that failed, the copy may still be on its way: nothing is read.  Where rank 0 reads for all, this rank takes
     * part in sending the batch, which is not in pinned memory. */
    enum accel_status status = placing->ahead ? memory_check (placing->device, &placed->failure) : ACCEL_OK;
    if (!status && !placed->unsent) {
        placed->handed = (struct handed){ .is_last = true };
        status = loader->source->next (loader, site, &placed->handed, &placed->failure);
        placed->unsent = status ? NULL : placed->handed.batch;
    }
    placed->state = status ? PLACED_FAILED : placed->unsent ? PLACED_BATCH : PLACED_END;
    if (placed->state != PLACED_BATCH)
        return;
    status = send (placing, slot, placed->unsent, &placed->failure);
    placed->handed.batch = &placed->batch;
    if (status)
        placed->state = PLACED_FAILED;
    else
        placed->unsent = NULL;
}

/* A failure is told once: the next call tries again. */
static enum accel_status
tell_failure (struct placing *placing, struct placed *placed, struct accel_error *err)
{
    wait_for_all (placing);
    placed->state = PLACED_NONE;
    if (err)
        *err = placed->failure;
    return placed->failure.code ? placed->failure.code : ACCEL_ERR_CALLBACK;
}

enum accel_status
placing_next (struct accel_loader *loader, const struct comm_site *site, struct handed *handed,
              struct accel_error *err)
{
    struct placing *placing = loader->placing;
    const struct memory_lanes *lanes = placing->memory->lanes;
    unsigned slot = placing->next % SLOTS;
    struct placed *placed = &placing->slots[slot];
    if (placed->state == PLACED_NONE)
        fetch (loader, site, placing->next);
    if (placed->state == PLACED_FAILED)
        return tell_failure (placing, placed, err);
    *handed = placed->handed;
    if (placed->state == PLACED_END)
        return ACCEL_OK;
    if (placing->ahead && !handed->is_last)
        fetch (loader, site, placing->next + 1);
    if (placing->non_blocking)
        lanes->follow (placing->lane, slot);
    else
        lanes->wait (placing->lane, slot);
    placing->next++;
    placed->state = PLACED_NONE;
    return memory_check (placing->device, err);
}
