/* SPDX-License-Identifier: Apache-2.0 */
/* Divided parameters on a GPU; see packed_parameters.h. */
#include <config.h>

#include "lib/train/packed_parameters.h"

#include "lib/train/packed_home.h"
#include "lib/train/sharding_asked.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "util/memory.h"

#include <stdlib.h>

static size_t
element_bytes (const struct accel_model *model, size_t index)
{
    return tensor_element_bytes (model->parameters[index].data);
}

static size_t
whole_bytes (const struct accel_model *model, size_t index)
{
    return accel_tensor_count (model->parameters[index].data) * element_bytes (model, index);
}

static void
point (const struct accel_model *model, size_t first, void *memory)
{
    for (size_t i = 0; i < model->count; i++)
        if (packed_first (model, i) == first)
            model->parameters[i].data->data = memory;
}

/* ---- to the device ---- */

enum accel_status
packed_make_parameters (struct accel_model *model, struct accel_error *err)
{
    if (!sharding_has_parameters (model))
        return ACCEL_OK;
    struct packed_parameters *made = calloc (1, sizeof *made);
    size_t *firsts = calloc (model->count + 1, sizeof *firsts);
    void **places = calloc (2 * model->count + 1, sizeof *places);
    if (!made || !firsts || !places) {
        free (made);
        free (firsts);
        free (places);
        return accel_fail_nomem (err);
    }
    *made = (struct packed_parameters){ .first = firsts, .home = places, .own = places + model->count };
    for (size_t i = 0; i < model->count; i++) {
        firsts[i] = sharding_find_first (model, i);
        places[i] = model->parameters[i].data->data;
        if (firsts[i] == i)
            made->bytes += (packed_room (model, i) * element_bytes (model, i) + MEMORY_ALIGNMENT - 1)
                           / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    }
    model->sharding.packed = made;
    return ACCEL_OK;
}

size_t
packed_parameter_bytes (const struct accel_model *model)
{
    return model->sharding.packed ? model->sharding.packed->bytes : 0;
}

bool
packed_allocate_parameters (struct accel_model *model, const struct memory *memory, DLDevice device)
{
    struct packed_parameters *packed = model->sharding.packed;
    if (!packed)
        return true;
    if (!model->sharding.params_at_home)
        packed->memory = memory->create (device, packed->bytes, true);
    else if (!packed_home_create (packed, memory, device, offload_of_parameters (model) == ACCEL_OFFLOAD_NVME))
        return false;
    char *at = packed->memory;
    for (size_t i = 0; at && i < model->count; i++)
        if (packed->first[i] == i) {
            packed->own[i] = at;
            at += (packed_room (model, i) * element_bytes (model, i) + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT
                  * MEMORY_ALIGNMENT;
        } else if (packed->first[i] != SIZE_MAX)
            packed->own[i] = packed->own[packed->first[i]];
    return at;
}

void
packed_place_parameters (struct accel_model *model)
{
    for (size_t i = 0; i < model->count; i++)
        if (packed_first (model, i) == i)
            point (model, i, NULL);
}

void
packed_settle_parameters (const struct accel_model *model)
{
    for (size_t i = 0; i < model->count; i++)
        if (packed_first (model, i) == i && (model->owned[i] || model->array))
            memory_discard (model->sharding.packed->home[i], whole_bytes (model, i));
}

/* ---- back ---- */

enum accel_status
packed_fetch_own (struct accel_model *model, struct accel_error *err)
{
    struct packed_parameters *packed = model->sharding.packed;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < model->count && !status; i++)
        if (packed_first (model, i) == i)
            status = packed_copy (model, i, packed_device (model, i), packed->own[i], packed->home[i],
                                  element_bytes (model, i), true, err);
    model->sharding.is_partial = packed;
    return status;
}

void
packed_end_parameters (struct accel_model *model, const struct memory *memory, DLDevice device)
{
    struct packed_parameters *packed = model->sharding.packed;
    if (!packed)
        return;
    for (size_t i = 0; i < model->count; i++)
        if (packed->first[i] == i)
            point (model, i, packed->home[i]);
    if (packed->copies)
        packed_home_end (packed, device);
    else
        memory->destroy (device, packed->memory);
    free (packed->first);
    free (packed->home);
    free (packed);
    model->sharding.packed = NULL;
    model->sharding.params_at_home = false;
}

/* ---- whole parameters ---- */

enum accel_status
packed_open (struct accel_model *model, size_t first, struct accel_error *err)
{
    size_t bytes = whole_bytes (model, first);
    if (model->parameters[first].data->data)
        return ACCEL_OK;
    void *memory = model->memory->create (model->device, bytes, false);
    if (!memory)
        return memory_fail (model->device, err, "cannot allocate memory for '%s' (%zu bytes)",
                            model->parameters[first].name, bytes);
    point (model, first, memory);
    return ACCEL_OK;
}

void
packed_close (const struct accel_model *model, size_t first)
{
    model->memory->destroy (model->device, model->parameters[first].data->data);
    point (model, first, NULL);
}

/* Of the stretches from @begin on. */
static void
copy_stretches (const struct accel_model *model, size_t first, int begin, bool back)
{
    struct stretch own[STRETCHES];
    size_t each = element_bytes (model, first);
    bool is_home = packed_is_home (model, first);
    if (is_home)
        packed_home_wait (model);
    sharding_stretches (model, first, own);
    for (int s = begin; s < STRETCHES; s++) {
        void *whole = memory_at (model->parameters[first].data->data, own[s].from, each);
        void *packed = packed_element (model, first, own[s].from);
        size_t bytes = (own[s].end - own[s].from) * each;
        if (bytes && is_home) /* what fails is an error of the device from then on */
            (void) model->memory->read (model->device, packed, whole, bytes, NULL);
        else if (bytes)
            model->memory->copy (model->device, back ? packed : whole, back ? whole : packed, bytes);
    }
}

void
packed_keep (const struct accel_model *model, size_t first)
{
    copy_stretches (model, first, 0, true);
}

void
packed_fill_rest (const struct accel_model *model, size_t first)
{
    copy_stretches (model, first, 1, false);
}

void
packed_note_written (const struct accel_model *model)
{
    for (size_t i = 0; model->sharding.packed && model->sharding.packed->summoned && i < model->count; i++)
        if (packed_first (model, i) == i && model->parameters[i].data->data) /* it is not if it is at home already */
            packed_keep (model, i);
}
