/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own optimizer: its functions see one parameter after the other. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/train/optimizer/optimizer_object.h"

#include <limits.h>
#include <math.h>

const struct optimizer_kind optimizer_custom = {
    .name = "a custom optimizer", .has = UINT_MAX, .defaults = { [GROUP_LR] = NAN },
};

/* What parameter @index is to be changed by, for callbacks. */
static struct accel_update
update_of (const struct accel_optimizer *optimizer, size_t index)
{
    return (struct accel_update){
        .index = index,
        .parameter = &optimizer->model->trained[index],
        .states = optimizer->state_tensors + index * optimizer->state_count,
        .grad_scale = model_grad_dtype (optimizer->model, index) == ACCEL_FLOAT32 ? 1 : optimizer->model->scale.pending,
        .lr = optimizer_group_at (optimizer, index)->own.number[GROUP_LR],
        .step = optimizer->step,
        .group = &optimizer_group_at (optimizer, index)->shown,
    };
}

enum accel_status
optimizer_for_each (const struct accel_optimizer *optimizer, const char *what, update_callback *callback,
                    struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    for (size_t i = 0; i < optimizer->group_count; i++)
        optimizer->groups[i].shown = optimizer_show_group (&optimizer->groups[i]);
    for (size_t i = 0; callback && i < model->count; i++) {
        if (!optimizer_group_at (optimizer, i))
            continue;
        struct accel_error cause = { 0 };
        struct accel_update update = update_of (optimizer, i);
        enum accel_status status = callback (optimizer->custom.user, &update, &cause);
        bool model_gone = object_is_gone (&model->object);
        if (!status && (model_gone || object_is_gone (&optimizer->object)))
            status = accel_fail (&cause, ACCEL_ERR_CALLBACK, "the function destroyed its own %s",
                                 model_gone ? "model" : "optimizer");
        if (status)
            return accel_fail (err, ACCEL_ERR_CALLBACK, "%s of '%.100s': %s", what, model->parameters[i].name,
                               *cause.text ? cause.text : accel_status_string (status));
    }
    return ACCEL_OK;
}
