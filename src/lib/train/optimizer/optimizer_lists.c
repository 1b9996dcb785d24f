/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's step over all parameters at once, on devices that can. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/train/optimizer/optimizer_object.h"

#include <stdlib.h>
#include <string.h>

enum accel_status
optimizer_lists_create (struct accel_optimizer *optimizer, struct accel_error *err)
{
    size_t count = optimizer->model->count;
    optimizer->rules = calloc (optimizer->group_count + 1, sizeof *optimizer->rules);
    if (!memory_list_create (&optimizer->zeroed, count) || !memory_list_create (&optimizer->stepped, count)
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

static struct memory_item
item_of (const struct accel_optimizer *optimizer, size_t group, size_t index)
{
    const struct accel_model *model = optimizer->model;
    struct memory_item item = {
        .data = model->trained[index].data->data,
        .dtype = ACCEL_FLOAT32,
        .count = accel_tensor_count (model->parameters[index].data),
        .grad = model->parameters[index].grad->data,
        .grad_dtype = model_grad_dtype (model, index),
        .narrow = master_target (model, index),
        .group = (unsigned) group,
    };
    if (item.narrow)
        item.narrow_dtype = accel_dtype_from_dl (model->parameters[index].data->dtype);
    optimizer_gather_states (optimizer, index, 0, item.state);
    return item;
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
            list->items[list->count++] = item_of (optimizer, g, group->indices[k]);
    }
    return model->memory->lists->update (model->device, list, optimizer->rules, model_pending (model), steps);
}
