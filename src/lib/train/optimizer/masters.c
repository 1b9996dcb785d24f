/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of 16 and 8 bits: the float32 masters that optimizers change, and the way from one to the other.
 * 16-bit parameters are written right after the step of each stretch of the master, which is in the cache then.
 * 8-bit ones wait for the largest magnitude of the whole tensor, which decides their scale. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/kernels/dtypes.h"
#include "lib/train/packed_home.h"
#include "lib/train/packed_parameters.h"
#include "lib/train/staging.h"

#include <accel/precision.h>

#include <stdint.h>
#include <stdlib.h>

static enum accel_dtype
dtype_of (const struct accel_model *model, size_t index)
{
    return accel_dtype_from_dl (model->parameters[index].data->dtype);
}

static bool
has_master (const struct accel_model *model, size_t index)
{
    return index < model->count && model->trained[index].data != model->parameters[index].data;
}

enum accel_status
masters_create (struct accel_model *model, struct accel_error *err)
{
    model->trained = calloc (model->count, sizeof *model->trained);
    model->masters = calloc (model->count, sizeof *model->masters);
    if (!model->trained || !model->masters)
        goto error;
    for (size_t i = 0; i < model->count; i++) {
        struct master *master = &model->masters[i];
        size_t bytes;
        model->trained[i] = model->parameters[i];
        master->scale = 1;
        if (!model_is_trained (model, i) || dtype_of (model, i) == ACCEL_FLOAT32)
            continue;
        master->tensor = *model->parameters[i].data;
        master->tensor.dtype = accel_dtype_to_dl (ACCEL_FLOAT32);
        master->tensor.strides = NULL;
        if (__builtin_mul_overflow (accel_tensor_count (&master->tensor), sizeof (float), &bytes))
            goto error;
        master->tensor.data = model->memory->create (model->device, bytes, false);
        if (!master->tensor.data)
            goto error;
        model->trained[i].data = &master->tensor;
    }
    model->scales_read = true;
    if (!model->memory->lists || !model_narrowed (model, true)->count)
        return ACCEL_OK;
    model->scales = model->memory->create (model->device, model->count * sizeof *model->scales, false);
    if (model->scales)
        return ACCEL_OK;
error:
    return memory_fail (model->device, err,
                        "cannot allocate memory for the float32 masters of a model of %zu parameters", model->count);
}

void
masters_destroy (struct accel_model *model)
{
    for (size_t i = 0; model->masters && i < model->count; i++)
        model_state_memory (model)->destroy (model_state_device (model), model->masters[i].tensor.data);
    model->memory->destroy (model->device, model->scales);
    free (model->masters);
    free (model->trained);
}

/* From a device, where each step has new ones, when they are asked for.  A failure is returned by what follows. */
static void
read_scales (struct accel_model *model)
{
    size_t count = model_narrowed (model, true)->count, next = 0;
    float *scales = model->host_norms;
    if (model->scales_read)
        return;
    model->scales_read = true;
    if (model->memory->read (model->device, scales, model->scales, count * sizeof *scales, NULL))
        return;
    for (size_t i = 0; i < model->count; i++)
        if (has_master (model, i) && dtype_is_scaled (dtype_of (model, i)))
            model->masters[i].scale = scales[next++];
}

static void
widen (const struct accel_model *model, size_t index, struct stretch stretch, float scale)
{
    enum accel_dtype dtype = dtype_of (model, index);
    const void *from = packed_element (model, index, stretch.from);
    float *to = memory_at (model->masters[index].tensor.data, packed_offset (model, index, stretch.from), sizeof *to);
    bool is_home = packed_is_home (model, index);
    if (stretch.from == stretch.end)
        return;
    if (is_home && model->sharding.states_at_home)
        memory_host.widen (model_state_device (model), to, from, dtype, stretch.end - stretch.from, scale);
    else if (is_home)
        packed_home_widen (model, to, from, dtype, stretch.end - stretch.from, scale);
    else if (model->sharding.states_at_home)
        staging_widen (model, to, from, dtype, stretch.end - stretch.from, scale);
    else
        model->memory->widen (model->device, to, from, dtype, stretch.end - stretch.from, scale);
}

void
accel_model_widen (struct accel_model *model)
{
    if (!model)
        return;
    read_scales (model);
    packed_note_written (model);
    for (size_t i = 0; i < model->count; i++)
        if (has_master (model, i)) {
            const struct master *master = &model->masters[i];
            struct stretch own[STRETCHES];
            sharding_stretches (model, i, own);
            for (int s = 0; s < STRETCHES; s++)
                widen (model, i, own[s], master->scale);
        }
    model->widened = true;
}

void
masters_need (struct accel_model *model)
{
    if (!model->widened)
        accel_model_widen (model);
}

void *
master_target (const struct accel_model *model, size_t index, size_t element)
{
    return has_master (model, index) && !dtype_is_scaled (dtype_of (model, index))
               ? packed_element (model, index, element)
               : NULL;
}

void
masters_narrow_scaled (struct accel_model *model)
{
    struct memory_list *list = model->scales ? model_narrowed (model, true) : NULL;
    if (list && model->memory->lists->narrow_scaled (model->device, list, model->scales)) {
        model->scales_read = false;
        return;
    }
    model->scales_read = true;
    for (size_t i = 0; i < model->count; i++)
        if (has_master (model, i) && dtype_is_scaled (dtype_of (model, i)))
            model->masters[i].scale = model->memory->narrow_scaled (
                model->device, model->parameters[i].data->data, dtype_of (model, i), model->masters[i].tensor.data,
                accel_tensor_count (&model->masters[i].tensor));
}

void
accel_model_narrow (struct accel_model *model)
{
    if (!model)
        return;
    if (sharding_is_on (model)) { /* no process has all masters: they begin anew from the parameters */
        model->widened = false;
        return;
    }
    masters_need (model);
    const struct memory_list *list = model_narrowed (model, false);
    for (size_t i = 0; model->sharding.states_at_home && i < list->count; i++)
        staging_narrow (model, list->items[i].narrow, list->items[i].narrow_dtype, list->items[i].data,
                        list->items[i].count);
    if (!model->sharding.states_at_home)
        memory_list_narrow (model_narrowed (model, false), model->memory, model->device);
    masters_narrow_scaled (model);
}

DLTensor *
accel_model_master (struct accel_model *model, size_t index)
{
    if (!model || index >= model->count || !model_is_trained (model, index)
        || (has_master (model, index) && sharding_is_on (model)))
        return NULL;
    masters_need (model);
    return model->trained[index].data;
}

float
accel_model_scale (const struct accel_model *model, size_t index)
{
    if (!model || index >= model->count)
        return 1;
    read_scales ((struct accel_model *) (uintptr_t) model);
    return model->masters[index].scale;
}

enum accel_status
model_fetch_scale (struct accel_model *model, struct accel_error *err)
{
    struct model_scale *scale = &model->scale;
    struct model_live live;
    if (!scale->is_live && !scale->stepped_live)
        return ACCEL_OK;
    enum accel_status status = model->memory->read (model->device, &live, model->live, sizeof live, err);
    if (!status && scale->is_live) {
        scale->scaled_by = live.scaled_by;
        scale->pending = scale->unscaled ? live.pending : 1;
        scale->found_inf = scale->unscaled && live.found;
        scale->is_live = false;
    }
    if (!status && scale->stepped_live) {
        scale->stepped_pending = live.pending;
        scale->stepped_inf = live.found;
        scale->stepped_live = false;
    }
    return status;
}

void
model_forget_scale (struct accel_model *model)
{
    model->scale.unscaled = model->scale.found_inf = false;
    model->scale.is_live = false;
    model->scale.scaled_by = 0;
    model->scale.pending = 1;
}
