/* SPDX-License-Identifier: Apache-2.0 */
/* Debugging: which gradient is infinite or NaN on which rank, before averages spread it to all of them. */
#include <config.h>

#include "lib/train/reducer/reducer_object.h"

#include "lib/base/error.h"
#include "lib/kernels/floats.h"
#include "lib/state/state_object.h"
#include "lib/train/packed.h"

#include <stdint.h>
#include <stdio.h>

/* Whether a gradient is infinite or NaN, in words. */
static bool
describe (const struct accel_model *model, size_t index, char *text, size_t size)
{
    float value = 0;
    const DLTensor *grad = model->parameters[index].grad;
    size_t element = SIZE_MAX;
    bool is_packed = !grad->data && model->sharding.grads; /* it is an average */
    const void *values = is_packed ? model->sharding.grads->own[index] : grad->data;
    if (values)
        element = model->memory->find_nonfinite (model->device, values, model_grad_dtype (model, index),
                                                 is_packed ? packed_room (model, index) : accel_tensor_count (grad),
                                                 &value);
    if (element == SIZE_MAX)
        return false;
    if (is_packed)
        element = packed_position (model, index, element);
    snprintf (text, size, "the gradient of '%.100s' is %s at element %zu on rank %d", model->parameters[index].name,
              nonfinite_name (value), element, accel_process_index (model->object.owner));
    return true;
}

bool
model_describe_nonfinite (const struct accel_model *model, char *text, size_t size)
{
    bool found = false;
    for (size_t i = 0; !found && i < model->count; i++)
        found = model_is_trained (model, i) && describe (model, i, text, size);
    return found;
}

enum accel_status
reducer_check_gradient (const struct accel_model *model, size_t index, struct accel_error *err)
{
    char text[ACCEL_ERROR_TEXT_SIZE];
    if (!describe (model, index, text, sizeof text))
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID, "%s, before averaging", text);
}

enum accel_status
reducer_check_gradients (const struct accel_model *model, struct accel_error *err)
{
    struct accel_error first = { 0 };
    size_t bad = 0, trained = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (!model_is_trained (model, i))
            continue;
        trained++;
        bad += reducer_check_gradient (model, i, bad ? NULL : &first) != ACCEL_OK;
    }
    if (!bad)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID, "%s (the first of %zu such gradients among %zu)", first.text, bad,
                       trained);
}
