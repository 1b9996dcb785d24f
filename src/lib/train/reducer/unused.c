/* SPDX-License-Identifier: Apache-2.0 */
/* find_unused_parameters: a gradient that no process has used since the last average stays as it is; one that others
 * have used counts as zero on a process that has not.
 *
 * In host memory, processes agree about each bucket before they average what they have used of it.  On a device that
 * orders buckets, the host never learns what others have used: buckets are averaged whole, with zeros for what this
 * process has not used, which is set aside before.  After the last bucket, marks are reduced on the device, like
 * torch's map of used parameters, and kernels that look at them put back what no process has used. */
#include <config.h>

#include "lib/train/reducer/unused.h"

#include "lib/base/error.h"
#include "lib/train/reducer/reducer_object.h"
#include "util/memory.h"

#include <stdlib.h>
#include <string.h>

enum accel_status
unused_make (struct accel_model *model, struct accel *acc, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    void *marks = NULL;
    if (!model->ddp.find_unused_parameters)
        return ACCEL_OK;
    reducer->mask = calloc (model->count, 1);
    if (!reducer->mask)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for marks of %zu gradients", model->count);
    if (model->memory->host || reducer->size == 1)
        return ACCEL_OK;
    enum accel_status status = model_alloc (model, acc, &marks, 2 * model->count, err);
    reducer->marks = marks;
    if (status)
        return status;
    memset (reducer->mask, 1, model->count);
    model->memory->write (model->device, reducer->marks + model->count, reducer->mask, model->count);
    return ACCEL_OK;
}

void
unused_free (struct accel_model *model)
{
    struct reducer *reducer = model->reducer;
    model->memory->destroy (model->device, reducer->aside);
    model_free (model, reducer->marks);
    free (reducer->mask);
}

void
unused_forget (struct accel_model *model)
{
    memset (model->reducer->used, 0, model->count);
    model->reducer->has_marks = false;
}

void
unused_keep (struct accel_model *model)
{
    struct reducer *reducer = model->reducer;
    if (!reducer->is_ordered)
        memcpy (reducer->used, reducer->mask, model->count);
    reducer->has_marks = reducer->is_ordered;
}

enum accel_status
unused_fetch (struct accel_model *model, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    if (!reducer->has_marks)
        return ACCEL_OK;
    enum accel_status status = model->memory->read (model->device, reducer->mask, reducer->marks, model->count, err);
    for (size_t i = 0; !status && i < model->count; i++)
        reducer->used[i] |= reducer->mask[i];
    reducer->has_marks = status;
    return status;
}

/* ---- in host memory ---- */

enum accel_status
unused_agree (struct accel_model *model, size_t s, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    const struct span *span = &model->spans[s];
    size_t length = span->end - span->begin;
    unsigned char *mask = reducer->mask + span->begin;
    /* In between may be gradients of other buckets: what was agreed about them stays, the others' turn comes. */
    FOR_GRADIENTS_OF (model, s, i)
        reducer->mask[i] = reducer->used[i];
    enum accel_status status
        = comm_all_reduce (reducer->comm, reducer->site, mask, mask, length, ACCEL_UINT8, ACCEL_MAX, err);
    if (status)
        return status;
    FOR_GRADIENTS_OF (model, s, i)
        if (!reducer->used[i] && reducer->mask[i])
            model->memory->zero (model->device, model->parameters[i].grad->data, model_grad_bytes (model, i));
    return ACCEL_OK;
}

/* ---- in the order of a device ---- */

#define FOR_UNUSED(model, i)                       \
    for (size_t i = 0; i < (model)->count; i++)    \
        if ((model)->span_of[i] != NO_SPAN && !(model)->reducer->used[i])

/* What an average of gradient @index changes: part 0 is the gradient, and others are what PowerSGD remembers of it.
 * @return NULL: there are no more */
static void *
part_of (const struct accel_model *model, size_t index, unsigned part, size_t *bytes)
{
    *bytes = model_grad_bytes (model, index);
    return part ? power_sgd_memory (model, index, part - 1, bytes) : model->parameters[index].grad->data;
}

/* Where the next part of @bytes begins. */
static size_t
room_for (size_t bytes)
{
    return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

#define FOR_PARTS(model, i, data, bytes) \
    for (unsigned part = 0; ((data) = part_of (model, i, part, &(bytes))); part++)

/* A gradient that others have used in an earlier pass of the step, as only the marks know, stays: it is the average. */
enum accel_status
unused_set_aside (struct accel_model *model, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    const struct memory *memory = model->memory;
    size_t bytes = 0, each;
    void *data;
    FOR_UNUSED (model, i)
        FOR_PARTS (model, i, data, each)
            bytes += room_for (each);
    if (!bytes)
        return ACCEL_OK;
    char *at = reducer->aside = memory->create (model->device, bytes, false);
    if (!at)
        return memory_fail (model->device, err, "cannot allocate %zu bytes for gradients that are not used", bytes);
    enum accel_status status = power_sgd_follow (model, err);
    FOR_UNUSED (model, i)
        FOR_PARTS (model, i, data, each) {
            if (part)
                power_sgd_copy (model, at, data, each);
            else
                memory->copy (model->device, at, data, each);
            if (!part && reducer->has_marks)
                memory->copy_unless (model->device, data, NULL, each, &reducer->marks[i]);
            else if (!part)
                memory->zero (model->device, data, each);
            at += room_for (each);
        }
    return status;
}

/* Ones are copied from the device: what comes from the host waits for a place. */
enum accel_status
unused_start (struct accel_model *model, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    const struct memory *memory = model->memory;
    uint8_t *marks = reducer->marks;
    if (!reducer->has_marks)
        memory->zero (model->device, marks, model->count);
    for (size_t i = 0, end; i < model->count; i = end + 1) {
        for (end = i; end < model->count && reducer->used[end];)
            end++;
        if (end > i)
            memory->copy (model->device, marks + i, marks + model->count + i, end - i);
    }
    return comm_start_all_reduce (reducer->comm, &reducer->there, marks, model->count, ACCEL_UINT8, ACCEL_MAX,
                                  &reducer->started[model->span_count], err);
}

void
unused_end (struct accel_model *model, bool is_well)
{
    struct reducer *reducer = model->reducer;
    const char *at = reducer->aside;
    size_t each;
    void *data;
    if (at && is_well)
        FOR_UNUSED (model, i)
            FOR_PARTS (model, i, data, each) {
                model->memory->copy_unless (model->device, data, at, each, &reducer->marks[i]);
                at += room_for (each);
            }
    model->memory->destroy (model->device, reducer->aside);
    reducer->aside = NULL;
}
