/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints have of a model: its parameters and buffers by their names, and the scales of 8-bit parameters.
 * The masters of small parameters are saved with the optimizer that changes them. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/state/state_dict.h"
#include "lib/train/packed_parameters.h"
#include "lib/train/sharding_layers.h"
#include "lib/train/tensor_parallel.h"

#include <accel/precision.h>

#include <string.h>

static bool
same_memory (const struct accel_model *model, size_t i, size_t j)
{
    const DLTensor *a = model->parameters[i].data, *b = model->parameters[j].data;
    if (packed_first (model, i) != SIZE_MAX || packed_first (model, j) != SIZE_MAX) /* it may have no address now */
        return packed_first (model, i) == packed_first (model, j);
    return memory_data (a) == memory_data (b) && tensor_same_dtype (a, b)
           && accel_tensor_count (a) == accel_tensor_count (b);
}

/* @return whether parameter @index shares the memory of an earlier one, which is saved for both: tied weights. */
static bool
is_alias (const struct accel_model *model, size_t index)
{
    const DLTensor *tensor = model->parameters[index].data;
    bool found = false;
    for (size_t i = 0; !found && i < index && accel_tensor_count (tensor); i++)
        found = same_memory (model, index, i);
    return found;
}

static void
save_parameter (const struct accel_model *model, size_t index, struct accel_state_dict *state)
{
    const struct accel_parameter *parameter = &model->parameters[index];
    bool is_trained = model_is_trained (model, index);
    struct stretch own[STRETCHES];
    int count = 1;
    if (state->in_shares)
        count = sharding_saved (model, index, is_trained, accel_tensor_count (parameter->data), own);
    for (int i = 0; i < count; i++) {
        const DLTensor *whole = parameter->data;
        DLTensor placed = *whole;
        if (state->in_shares && packed_first (model, index) != SIZE_MAX) {
            placed.device = packed_device (model, index);
            placed.data = (void *) ((uintptr_t) packed_element (model, index, own[i].from)
                                    - own[i].from * tensor_element_bytes (&placed));
        }
        if (state->in_shares)
            state_dict_add_stretch (state, parameter->name, &placed, own[i].from, own[i].end);
        else
            state_dict_add_tensor (state, parameter->name, parameter->data);
        if (is_trained)
            state_dict_mark_trained (state);
    }
}

void
model_save (const struct object *object, struct accel_state_dict *state)
{
    const struct accel_model *model = (const struct accel_model *) (const void *) object;
    for (size_t i = 0; i < model->count; i++) {
        if (is_alias (model, i))
            continue;
        save_parameter (model, i, state);
        float scale = accel_model_scale (model, i);
        if (scale != 1)
            state_dict_set_double (state, (double) scale, "scale.%s", model->parameters[i].name);
    }
}

/* A name more or a name less, another shape: nothing is loaded then. */
static enum accel_status
check (const struct accel_model *model, const struct accel_state_dict *state, struct accel_error *err)
{
    size_t found = 0;
    struct whole whole;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < model->count; i++) {
        if (is_alias (model, i) && !accel_state_dict_has (state, model->parameters[i].name))
            continue;
        whole_describe (&whole, model, i, model->parameters[i].data);
        status = state_dict_check (state, model->parameters[i].name, &whole.tensor, err);
        found++;
    }
    for (size_t s = 0; !status && found < state->header.count && s < state->header.count; s++) {
        const char *name = state->header.tensors[s].name;
        size_t i = 0;
        while (i < model->count && strcmp (model->parameters[i].name, name))
            i++;
        if (i == model->count)
            return accel_fail (err, ACCEL_ERR_FORMAT, "unexpected tensor '%.100s': the model has no such parameter",
                               name);
    }
    return status;
}

enum accel_status
model_load (struct object *object, const struct accel_state_dict *state, struct accel_error *err)
{
    struct accel_model *model = (struct accel_model *) (void *) object;
    enum accel_status status = check (model, state, err);
    sharding_settle_layers (model);
    for (size_t i = 0; !status && i < model->count; i++) {
        const struct accel_parameter *parameter = &model->parameters[i];
        double scale = 1;
        if (is_alias (model, i) && !accel_state_dict_has (state, parameter->name))
            continue;
        struct whole whole;
        status = sharding_open_layer (model, i, err);
        if (status)
            break;
        status = whole_begin (&whole, model, i, parameter->data, err);
        if (!status)
            status = accel_state_dict_get_tensor (state, parameter->name, &whole.tensor, err);
        status = whole_end (&whole, status, err);
        if (!status && state_dict_get_double (state, &scale, NULL, "scale.%s", parameter->name))
            scale = 1;
        model->masters[i].scale = (float) scale;
        sharding_discard_layer (model, i, !status);
    }
    model->widened = false;
    model->scales_read = true;
    model_forget_scale (model);
    return status;
}
