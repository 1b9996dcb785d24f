/* SPDX-License-Identifier: Apache-2.0 */
/* The way of batches to a device; see device_batches.h.
 *
 * There is memory on the device for two batches: the program has one, and the next is copied into the other.  A copy
 * begins after what the program has queued when it asks for a batch, because that may still use the one before.
 * Batches that are read ahead are in pinned memory, and the reader keeps two of them as they are, so only the copy of
 * the batch before the last has to be over when another one is read. */
#include <config.h>

#include "lib/data/device_batches.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/memory/memory.h"
#include "lib/state/state_object.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = MEMORY_COPY_STREAM_SLOTS };

/** A batch on the device. */
struct placed {
    enum { PLACED_NONE, PLACED_BATCH, PLACED_END, PLACED_FAILED } state;
    struct handed handed;
    const struct accel_batch *unsent; /* what was read, and could not be copied so far */
    struct accel_error failure;
    struct accel_batch batch; /* its fields own memory of the device, or none */
    size_t index_room;
};

struct device_batches {
    DLDevice device;
    const struct memory *memory;
    struct memory_copy_stream *copy_stream;
    struct placed slots[SLOTS];
    size_t next;       /* number of the batch that the program gets next */
    size_t field_count;
    bool ahead;        /* the next batch is obtained before one is given out */
    bool non_blocking; /* the program's stream waits for copies, and the host does not */
};

bool
device_batches_is_wanted (const struct accel_loader *loader, const struct accel *acc)
{
    if (!acc || !acc->device_placement || !flag_or (loader->options.device_placement, true))
        return false;
    const struct memory *memory = memory_of (acc->device);
    return memory && memory->copy_streams;
}

static enum accel_status
make_fields (struct device_batches *device_batches, struct placed *placed, const struct accel_loader *loader,
             struct accel_error *err)
{
    placed->batch.fields = calloc (loader->field_count, sizeof *placed->batch.fields);
    placed->batch.room_bytes = calloc (loader->field_count, sizeof *placed->batch.room_bytes);
    placed->batch.descriptions = loader->fields;
    placed->batch.field_count = device_batches->field_count = loader->field_count;
    return placed->batch.fields && placed->batch.room_bytes
               ? ACCEL_OK
               : accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for batches on a device");
}

enum accel_status
device_batches_init (struct accel_loader *loader, struct accel *acc, struct accel_error *err)
{
    struct device_batches *device_batches = loader->device_batches = calloc (1, sizeof *device_batches);
    if (!device_batches)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for batches on a device");
    device_batches->device = acc->device;
    device_batches->memory = memory_of (acc->device);
    device_batches->ahead = !share_is_dispatched (loader, loader->share.processes);
    device_batches->non_blocking = device_batches->ahead && loader->options.non_blocking;
    enum accel_status status = ACCEL_OK;
    for (int i = 0; i < SLOTS && !status; i++)
        status = make_fields (device_batches, &device_batches->slots[i], loader, err);
    if (status)
        return status;
    device_batches->copy_stream = device_batches->memory->copy_streams->open (device_batches->device);
    return device_batches->copy_stream ? ACCEL_OK
                         : memory_fail (device_batches->device, err, "cannot allocate memory for batches on a device");
}

/* What is on its way arrives: the reader keeps no batch when it begins anew. */
static void
wait_for_all (struct device_batches *device_batches)
{
    for (unsigned i = 0; i < SLOTS && device_batches->copy_stream; i++)
        device_batches->memory->copy_streams->wait (device_batches->copy_stream, i);
}

void
device_batches_stop (struct accel_loader *loader)
{
    struct device_batches *device_batches = loader->device_batches;
    if (!device_batches)
        return;
    wait_for_all (device_batches);
    for (int i = 0; i < SLOTS; i++) {
        device_batches->slots[i].state = PLACED_NONE;
        device_batches->slots[i].unsent = NULL;
    }
    device_batches->next = 0;
}

void
device_batches_release (struct accel_loader *loader)
{
    struct device_batches *device_batches = loader->device_batches;
    if (!device_batches)
        return;
    if (device_batches->copy_stream)
        device_batches->memory->copy_streams->close (device_batches->copy_stream);
    for (int i = 0; i < SLOTS; i++) {
        struct accel_batch *batch = &device_batches->slots[i].batch;
        for (size_t f = 0; batch->fields && f < device_batches->field_count; f++)
            accel_tensor_release (&batch->fields[f]);
        free (batch->fields);
        free (batch->room_bytes);
        free (batch->indices);
    }
    free (device_batches);
    loader->device_batches = NULL;
}

/* Memory that grows does so by half, because a larger batch may come. */
static enum accel_status
make_room (struct device_batches *device_batches, struct accel_batch *batch, size_t field, size_t bytes,
           struct accel_error *err)
{
    struct accel_tensor *tensor = &batch->fields[field];
    if (tensor->dl.data && bytes <= batch->room_bytes[field])
        return ACCEL_OK;
    size_t room = tensor->dl.data && bytes < SIZE_MAX / 2 ? bytes + bytes / 2 : bytes;
    device_batches->memory->destroy (device_batches->device, tensor->dl.data);
    tensor->owned_bytes = batch->room_bytes[field] = 0;
    tensor->dl.data = device_batches->memory->create (device_batches->device, room + !room, false);
    if (!tensor->dl.data)
        return memory_fail (device_batches->device, err,
                            "cannot allocate %zu bytes on the device for field '%s' of a batch",
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

/* Make the fields of @placed like those of @from.  Memory is made on the program's stream, before the copies begin. */
static enum accel_status
make_like (struct device_batches *device_batches, struct placed *placed, const struct accel_batch *from,
           struct accel_error *err)
{
    enum accel_status status = list_indices (placed, from, err);
    for (size_t f = 0; f < device_batches->field_count && !status; f++) {
        struct accel_tensor *to = &placed->batch.fields[f];
        const struct accel_tensor *field = &from->fields[f];
        size_t bytes = accel_tensor_count (&field->dl) * accel_dtype_bytes (from->descriptions[f].dtype);
        status = make_room (device_batches, &placed->batch, f, bytes, err);
        if (status)
            break;
        to->dl.device = device_batches->device;
        to->dl.dtype = field->dl.dtype;
        to->dl.ndim = field->dl.ndim;
        to->dl.shape = to->shape;
        memcpy (to->shape, field->shape, sizeof to->shape);
    }
    return status;
}

/* Begin to copy batch @p from, which the host has. */
static enum accel_status
send (struct device_batches *device_batches, unsigned slot, const struct accel_batch *from, struct accel_error *err)
{
    struct placed *placed = &device_batches->slots[slot];
    const struct memory_copy_streams *copy_streams = device_batches->memory->copy_streams;
    enum accel_status status = make_like (device_batches, placed, from, err);
    copy_streams->begin (device_batches->copy_stream);
    for (size_t f = 0; f < device_batches->field_count && !status; f++) {
        const DLTensor *field = &from->fields[f].dl;
        copy_streams->copy (device_batches->copy_stream, placed->batch.fields[f].dl.data, field->data,
                            accel_tensor_count (field) * accel_dtype_bytes (from->descriptions[f].dtype));
    }
    copy_streams->end (device_batches->copy_stream, slot);
    return status ? status : memory_check (device_batches->device, err);
}

/* Obtain batch @p number and begin to copy it; or keep what went wrong until the program asks for it. */
static void
fetch (struct accel_loader *loader, const struct comm_site *site, size_t number)
{
    struct device_batches *device_batches = loader->device_batches;
    unsigned slot = number % SLOTS;
    struct placed *placed = &device_batches->slots[slot];
    device_batches->memory->copy_streams->wait (device_batches->copy_stream,
                                                slot); /* its memory on the host is read into again */
    accel_error_clear (&placed->failure);
    /* If that failed, the copy may still be on its way: nothing is read.  Where rank 0 reads for all, this rank takes
     * part in sending the batch, which is not in pinned memory. */
    enum accel_status status = device_batches->ahead ? memory_check (device_batches->device,
                                                                     &placed->failure) : ACCEL_OK;
    if (!status && !placed->unsent) {
        placed->handed = (struct handed){ .is_last = true };
        status = loader->source->next (loader, site, &placed->handed, &placed->failure);
        placed->unsent = status ? NULL : placed->handed.batch;
    }
    placed->state = status ? PLACED_FAILED : placed->unsent ? PLACED_BATCH : PLACED_END;
    if (placed->state != PLACED_BATCH)
        return;
    status = send (device_batches, slot, placed->unsent, &placed->failure);
    placed->handed.batch = &placed->batch;
    if (status)
        placed->state = PLACED_FAILED;
    else
        placed->unsent = NULL;
}

/* A failure is reported once: the next call tries again. */
static enum accel_status
tell_failure (struct device_batches *device_batches, struct placed *placed, struct accel_error *err)
{
    wait_for_all (device_batches);
    placed->state = PLACED_NONE;
    if (err)
        *err = placed->failure;
    return placed->failure.code ? placed->failure.code : ACCEL_ERR_CALLBACK;
}

enum accel_status
device_batches_next (struct accel_loader *loader, const struct comm_site *site, struct handed *handed,
                     struct accel_error *err)
{
    struct device_batches *device_batches = loader->device_batches;
    const struct memory_copy_streams *copy_streams = device_batches->memory->copy_streams;
    unsigned slot = device_batches->next % SLOTS;
    struct placed *placed = &device_batches->slots[slot];
    if (placed->state == PLACED_NONE)
        fetch (loader, site, device_batches->next);
    if (placed->state == PLACED_FAILED)
        return tell_failure (device_batches, placed, err);
    *handed = placed->handed;
    if (placed->state == PLACED_END)
        return ACCEL_OK;
    if (device_batches->ahead && !handed->is_last)
        fetch (loader, site, device_batches->next + 1);
    if (device_batches->non_blocking)
        copy_streams->follow (device_batches->copy_stream, slot);
    else
        copy_streams->wait (device_batches->copy_stream, slot);
    device_batches->next++;
    placed->state = PLACED_NONE;
    return memory_check (device_batches->device, err);
}
