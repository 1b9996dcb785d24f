/* SPDX-License-Identifier: Apache-2.0 */
/* States and masters that are packed on a GPU; see packed.h. */
#include <config.h>

#include "lib/train/packed.h"

#include "lib/base/tensor.h"
#include "util/memory.h"

/* ---- where an element is ---- */

size_t
packed_room (const struct accel_model *model, size_t index)
{
    size_t count = accel_tensor_count (model->parameters[index].data);
    return count - sharding_chunk (model, index) * (size_t) (model->sharding.size - 1);
}

/* Of what is packed. */
static size_t
offset_of (const struct accel_model *model, size_t index, size_t element)
{
    size_t chunk = sharding_chunk (model, index), rest = chunk * (size_t) model->sharding.size;
    return element < rest ? element - chunk * (size_t) model->sharding.rank : element - rest + chunk;
}

size_t
packed_offset (const struct accel_model *model, size_t index, size_t element)
{
    return packed_is_on (model) ? offset_of (model, index, element) : element;
}

void *
packed_element (const struct accel_model *model, size_t index, size_t element)
{
    const DLTensor *data = model->parameters[index].data;
    bool is_packed = packed_first (model, index) != SIZE_MAX;
    return memory_at (is_packed ? model->sharding.packed->own[index] : data->data,
                      is_packed ? offset_of (model, index, element) : element, tensor_element_bytes (data));
}

size_t
packed_position (const struct accel_model *model, size_t index, size_t offset)
{
    size_t chunk = sharding_chunk (model, index), others = chunk * (size_t) (model->sharding.size - 1);
    return offset < chunk ? offset + chunk * (size_t) model->sharding.rank : offset + others;
}

void *
packed_gradient (const struct accel_model *model, size_t index, size_t element)
{
    const struct packed_gradients *grads = model->sharding.grads;
    return memory_at (grads ? grads->own[index] : model->parameters[index].grad->data,
                      grads ? offset_of (model, index, element) : element,
                      accel_dtype_bytes (model_grad_dtype (model, index)));
}

DLTensor
packed_tensor (const struct accel_model *model, size_t index, const DLTensor *tensor, size_t from)
{
    DLTensor moved = *tensor;
    size_t before = from - packed_offset (model, index, from);
    moved.data = (void *) ((uintptr_t) tensor->data - before * tensor_element_bytes (tensor));
    return moved;
}

/* ---- from and to the device ---- */

enum accel_status
packed_copy (const struct accel_model *model, size_t index, DLDevice device, void *there, void *home, size_t each,
             bool back, struct accel_error *err)
{
    struct stretch own[STRETCHES];
    const struct memory *memory = memory_of (device);
    char *at = there;
    enum accel_status status = ACCEL_OK;
    sharding_stretches (model, index, own);
    for (int s = 0; s < STRETCHES && !status; s++) {
        size_t bytes = (own[s].end - own[s].from) * each;
        if (bytes && back)
            status = memory->read (device, memory_at (home, own[s].from, each), at, bytes, err);
        else if (bytes)
            memory->write (device, at, memory_at (home, own[s].from, each), bytes);
        at += bytes;
    }
    return status;
}

/* ---- states ---- */

/* @return the bytes of state @k, whole cache lines.  Those of custom optimizers have any shape, and are whole. */
static size_t
room_of (const struct accel_optimizer *optimizer, size_t k, bool is_packed)
{
    size_t line = MEMORY_ALIGNMENT / sizeof (float);
    size_t count = is_packed && !optimizer->custom.step ? packed_room (optimizer->model, k / optimizer->state_count)
                                                        : accel_tensor_count (optimizer->state_tensors[k]);
    return (count + line - 1) / line * MEMORY_ALIGNMENT;
}

static size_t
count_states (const struct accel_optimizer *optimizer)
{
    return optimizer->model->count * optimizer->state_count;
}

size_t
packed_state_bytes (const struct accel_optimizer *optimizer)
{
    size_t bytes = 0;
    for (size_t k = 0; k < count_states (optimizer); k++)
        if (optimizer->state_tensors[k])
            bytes += room_of (optimizer, k, true);
    return bytes;
}

enum accel_status
packed_copy_states (const struct accel_optimizer *optimizer, DLDevice device, char *to, bool back,
                    struct accel_error *err)
{
    const struct memory *memory = memory_of (device);
    enum accel_status status = ACCEL_OK;
    for (size_t k = 0; k < count_states (optimizer) && !status; k++) {
        const DLTensor *state = optimizer->state_tensors[k];
        void *there = back && state ? state->data : to, *home = back || !state ? to : state->data;
        if (!state)
            continue;
        if (!optimizer->custom.step)
            status = packed_copy (optimizer->model, k / optimizer->state_count, device, there, home, sizeof (float),
                                  back, err);
        else if (back)
            status = memory->read (device, home, there, room_of (optimizer, k, false), err);
        else
            memory->write (device, there, home, room_of (optimizer, k, false));
        to += room_of (optimizer, k, !back);
    }
    return status;
}

void
packed_place_states (const struct accel_optimizer *optimizer, char *memory, bool is_packed)
{
    for (size_t k = 0; k < count_states (optimizer); k++)
        if (optimizer->state_tensors[k]) {
            optimizer->state_tensors[k]->data = memory;
            memory += room_of (optimizer, k, is_packed);
        }
}
