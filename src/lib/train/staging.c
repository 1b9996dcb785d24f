/* SPDX-License-Identifier: Apache-2.0 */
/* What comes and goes while states are in host memory; see staging.h. */
#include <config.h>

#include "lib/train/staging.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"

#include <stdlib.h>

/* 8 MiB of float32 each of gradients and parameters: on PCIe a third of a millisecond, so that starting a copy, and
 * threads, does not show. */
enum { MOST_ELEMENTS = 2 << 20, ROOM = 2 * sizeof (float) };

static const DLDevice host = { kDLCPU, 0 };

enum accel_status
staging_create (struct accel_model *model, struct accel_error *err)
{
    const struct memory_copy_streams *copies = memory_of (model->target)->copy_streams;
    struct staging *made = model->sharding.staging = calloc (1, sizeof *made);
    size_t elements = 1;
    if (!made)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < model->count && elements < MOST_ELEMENTS; i++)
        elements += accel_tensor_count (model->parameters[i].data);
    *made = (struct staging){ .copies = copies, .device = model->target,
                              .elements = elements < MOST_ELEMENTS ? elements : MOST_ELEMENTS };
    size_t bytes = made->elements * ROOM;
    made->stream = copies->open (model->target);
    made->memory = made->stream ? copies->pin (model->target, STAGING_PIECES * bytes) : NULL;
    made->is_pinned = made->memory;
    if (made->stream && !made->memory) /* copies take longer */
        made->memory = memory_host.create (host, STAGING_PIECES * bytes, false);
    if (!made->memory)
        return memory_fail (model->target, err, "cannot allocate %zu bytes of host memory, through which offloaded "
                            "states are updated", STAGING_PIECES * bytes);
    for (int i = 0; i < STAGING_PIECES; i++)
        made->pieces[i] = made->memory + (size_t) i * bytes;
    return ACCEL_OK;
}

void
staging_end (struct accel_model *model)
{
    struct staging *staging = model->sharding.staging;
    if (!staging)
        return;
    staging->copies->close (staging->stream);
    if (staging->is_pinned)
        staging->copies->unpin (staging->device, staging->memory);
    else
        memory_host.destroy (host, staging->memory);
    free (staging);
    model->sharding.staging = NULL;
}

/* What the last step has copied to the GPU, from the same memory, is before what is read from there. */
void
staging_widen (const struct accel_model *model, float *master, const void *from, enum accel_dtype dtype, size_t count,
               float factor)
{
    const struct staging *staging = model->sharding.staging;
    size_t each = accel_dtype_bytes (dtype);
    for (size_t at = 0, some; at < count; at += some) {
        some = count - at < staging->elements ? count - at : staging->elements;
        if (model->memory->read (model->device, staging->memory, memory_at (from, at, each), some * each, NULL))
            return;
        memory_host.widen (host, master + at, staging->memory, dtype, some, factor);
    }
}

void
staging_narrow (const struct accel_model *model, void *to, enum accel_dtype dtype, const float *master, size_t count)
{
    const struct staging *staging = model->sharding.staging;
    size_t each = accel_dtype_bytes (dtype);
    staging->copies->wait (staging->stream, 0);
    for (size_t at = 0, some; at < count; at += some) {
        some = count - at < staging->elements ? count - at : staging->elements;
        memory_host.narrow (host, staging->memory, dtype, master + at, some);
        model->memory->write (model->device, memory_at (to, at, each), staging->memory, some * each);
    }
}
