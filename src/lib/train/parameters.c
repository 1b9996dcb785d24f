/* SPDX-License-Identifier: Apache-2.0 */
/* What a model's parameters and gradients are like. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/train/model_object.h"

const char kind_of_model[] = "model";

bool
model_is_trained (const struct accel_model *model, size_t index)
{
    return model->parameters[index].grad != NULL;
}

static bool
have_common_elements (const DLTensor *a, const DLTensor *b)
{
    const char *begin = memory_data (a), *other = memory_data (b);
    return begin && other && begin < other + accel_tensor_count (b) * tensor_element_bytes (b)
           && other < begin + accel_tensor_count (a) * tensor_element_bytes (a);
}

bool
model_has_tied (const struct accel_model *model, const struct accel_parameter *parameters)
{
    for (size_t i = 0; i < model->count; i++)
        for (size_t j = 0; j < i && model_is_trained (model, i); j++)
            if (model_is_trained (model, j) && have_common_elements (parameters[i].data, parameters[j].data))
                return true;
    return false;
}

enum accel_dtype
model_grad_dtype (const struct accel_model *model, size_t index)
{
    return accel_dtype_from_dl (model->parameters[index].grad->dtype);
}

size_t
model_grad_bytes (const struct accel_model *model, size_t index)
{
    const DLTensor *grad = model->parameters[index].grad;
    return accel_tensor_count (grad) * tensor_element_bytes (grad);
}

enum accel_status
model_check_owner (const char *function, const struct accel *acc, const struct accel_model *model,
                   struct accel_error *err)
{
    if (!acc || !model)
        return accel_fail_null (err, function, acc ? "model" : "acc");
    if (model->object.owner != acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the model was not prepared with this struct accel", function);
    return ACCEL_OK;
}

static enum accel_status
check_tensor_place (const struct accel_model *model, size_t index, const DLTensor *tensor, const char *what,
                    struct accel_error *err)
{
    if (!tensor || memory_is_same (tensor->device, model->device))
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                       "%s '%s' is on %s:%d, but was on %s:%d when its model was created: another model with the same "
                       "tensor has been prepared or taken back since; prepare the first model before you create "
                       "those that share tensors with it, and destroy it last",
                       what, model->parameters[index].name, tensor_device_name (tensor->device),
                       (int) tensor->device.device_id, tensor_device_name (model->device),
                       (int) model->device.device_id);
}

enum accel_status
model_check_place (const struct accel_model *model, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < model->count && !status; i++) {
        status = check_tensor_place (model, i, model->parameters[i].data, "parameter", err);
        if (!status)
            status = check_tensor_place (model, i, model->parameters[i].grad, "the gradient of", err);
    }
    return status;
}

enum accel_status
model_check_gradients (const struct accel_model *model, struct accel_error *err)
{
    enum accel_status status = model_check_place (model, err);
    if (status)
        return status;
    for (size_t i = 0; i < model->count; i++)
        if (!model->sharding.grads && model_is_trained (model, i) && !model->parameters[i].grad->data
            && accel_tensor_count (model->parameters[i].grad))
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "the gradient of '%s' has no memory: call accel_prepare first, or set its grad->data",
                               model->parameters[i].name);
    return ACCEL_OK;
}

enum accel_status
model_alloc (const struct accel_model *model, struct accel *acc, void **memory, size_t bytes, struct accel_error *err)
{
    return comm_alloc (accel_world (acc), model->device, memory, bytes, err);
}

void
model_free (const struct accel_model *model, void *memory)
{
    if (memory)
        comm_free (accel_world (model->object.owner), model->device, memory);
}

bool
model_has_own_gradient (const struct accel_model *model, size_t index)
{
    const DLTensor *grad = model->parameters[index].grad;
    return grad && grad->data && grad->data != model->kept[index] && accel_tensor_count (grad);
}
