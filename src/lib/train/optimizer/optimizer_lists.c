/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's step over all parameters at once, on devices that can. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/packed.h"

#include <stdlib.h>
#include <string.h>

enum accel_status
optimizer_lists_create (struct accel_optimizer *optimizer, struct accel_error *err)
{
    size_t count = optimizer->model->count;
    optimizer->rules = calloc (optimizer->group_count + 1, sizeof *optimizer->rules);
    if (!memory_list_create (&optimizer->zeroed, count) || !memory_list_create (&optimizer->stepped, STRETCHES * count)
        || !optimizer->rules)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an optimizer");
    return ACCEL_OK;
}

void
optimizer_lists_destroy (struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    memory_list_destroy (&optimizer->zeroed, model->memory, model->device);
    memory_list_destroy (&optimizer->stepped, model->memory, model->device);
    free (optimizer->rules);
    optimizer->rules = NULL;
}

struct memory_list *
optimizer_gradients (struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    struct memory_list *list = &optimizer->zeroed;
    list->count = 0;
    for (size_t i = 0; i < model->count; i++) {
        const DLTensor *grad = model->parameters[i].grad;
        if (optimizer_group_at (optimizer, i) && grad->data)
            list->items[list->count++]
                = (struct memory_item){ .data = grad->data, .dtype = accel_dtype_from_dl (grad->dtype),
                                        .count = accel_tensor_count (grad) };
    }
    return list;
}

float *
optimizer_gather_states (const struct accel_optimizer *optimizer, size_t index, size_t from, float *data[RULE_STATES])
{
    const struct accel_model *model = optimizer->model;
    DLTensor *const *tensors = optimizer->state_tensors + index * optimizer->state_count;
    size_t at = packed_offset (model, index, from);
    bool has_master = model->trained[index].data != model->parameters[index].data;
    for (size_t i = 0, used = 0; i < optimizer->state_count; i++)
        if (tensors[i])
            data[used++] = memory_at (tensors[i]->data, at, sizeof (float));
    return has_master ? memory_at (model->trained[index].data->data, at, sizeof (float))
                      : packed_element (model, index, from);
}

/* What this process changes of a parameter: without sharding, all. */
static void
add_items (struct memory_list *list, const struct accel_optimizer *optimizer, size_t group, size_t index)
{
    const struct accel_model *model = optimizer->model;
    enum accel_dtype grad_dtype = model_grad_dtype (model, index);
    enum accel_dtype dtype = accel_dtype_from_dl (model->parameters[index].data->dtype);
    struct stretch own[STRETCHES];
    sharding_stretches (model, index, own);
    for (int s = 0; s < STRETCHES; s++) {
        size_t from = own[s].from;
        if (s && from == own[s].end)
            continue;
        struct memory_item *item = &list->items[list->count++];
        *item = (struct memory_item){
            .dtype = ACCEL_FLOAT32,
            .count = own[s].end - from,
            .grad = packed_gradient (model, index, from),
            .grad_dtype = grad_dtype,
            .group = (unsigned) group,
        };
        item->narrow = master_target (model, index, from);
        if (item->narrow)
            item->narrow_dtype = dtype;
        item->data = optimizer_gather_states (optimizer, index, from, item->state);
    }
}

bool
optimizer_run_list (struct accel_optimizer *optimizer, const struct rule_steps *steps)
{
    const struct accel_model *model = optimizer->model;
    struct memory_list *list = &optimizer->stepped;
    if (!model->memory->lists)
        return false;
    list->count = 0;
    for (size_t g = 0; g < optimizer->group_count; g++) {
        const struct optimizer_group *group = &optimizer->groups[g];
        optimizer->rules[g].rule = group->rule;
        if (!steps)
            optimizer->rules[g].numbers = &group->numbers;
        for (size_t k = 0; !group->skip && k < group->count; k++)
            add_items (list, optimizer, g, group->indices[k]);
    }
    return model->memory->lists->update (model->device, list, optimizer->rules, model_pending (model), steps);
}
