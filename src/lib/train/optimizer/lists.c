/* SPDX-License-Identifier: Apache-2.0 */
/* A model's tensors as lists, which a device treats at once. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/kernels/dtypes.h"
#include "lib/train/optimizer/optimizer_live.h"
#include "lib/train/packed.h"

enum accel_status
model_lists_create (struct accel_model *model, struct accel_error *err)
{
    bool good = true;
    for (int kind = 0; good && kind < LISTS; kind++)
        good = memory_list_create (&model->lists[kind], (kind == LIST_GRADIENTS ? STRETCHES : 1) * model->count);
    return good ? ACCEL_OK
                : accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a model of %zu parameters",
                              model->count);
}

void
model_lists_destroy (struct accel_model *model)
{
    for (int kind = 0; kind < LISTS; kind++)
        memory_list_destroy (&model->lists[kind], model->memory, model->device);
}

void
model_lists_forget (struct accel_model *model)
{
    for (int kind = 0; kind < LISTS; kind++)
        memory_list_forget (&model->lists[kind], model->memory, model->device);
    for (struct accel_optimizer *optimizer = model->optimizers; optimizer; optimizer = optimizer->beside) {
        memory_list_forget (&optimizer->zeroed, model->memory, model->device);
        memory_list_forget (&optimizer->stepped, model->memory, model->device);
        optimizer_live_end (optimizer);
    }
}

static void
add_stretches (struct memory_list *list, const struct accel_model *model, size_t index)
{
    struct stretch own[STRETCHES];
    enum accel_dtype dtype = model_grad_dtype (model, index);
    sharding_gradient_stretches (model, index, own);
    for (int s = 0; s < STRETCHES; s++)
        if (own[s].from < own[s].end)
            list->items[list->count++] = (struct memory_item){
                .data = packed_gradient (model, index, own[s].from),
                .count = own[s].end - own[s].from, .dtype = dtype
            };
}

struct memory_list *
model_gradients (struct accel_model *model)
{
    struct memory_list *list = &model->lists[LIST_GRADIENTS];
    bool is_divided = model->sharding.reduced || model->sharding.grads; /* else each process has sums of its own */
    list->count = 0;
    for (size_t i = 0; i < model->count; i++)
        if (model_is_trained (model, i) && is_divided) {
            add_stretches (list, model, i);
        } else if (model_is_trained (model, i)) {
            /* The other fields are 0 for good: with thousands of small parameters, to write them again would show. */
            const DLTensor *grad = model->parameters[i].grad;
            struct memory_item *item = &list->items[list->count++];
            item->data = grad->data;
            item->count = accel_tensor_count (grad);
            item->dtype = accel_dtype_from_dl (grad->dtype);
        }
    return list;
}

/* Of those that have masters: 16-bit parameters, or 8-bit ones. */
struct memory_list *
model_narrowed (struct accel_model *model, bool is_scaled)
{
    struct memory_list *list = &model->lists[is_scaled ? LIST_SCALED : LIST_NARROWED];
    list->count = 0;
    for (size_t i = 0; i < model->count; i++) {
        const DLTensor *parameter = model->parameters[i].data, *master = model->trained[i].data;
        enum accel_dtype dtype = accel_dtype_from_dl (parameter->dtype);
        if (master == parameter || dtype_is_scaled (dtype) != is_scaled)
            continue;
        list->items[list->count++]
            = (struct memory_item){ .data = master->data, .dtype = ACCEL_FLOAT32, .narrow = parameter->data,
                                    .narrow_dtype = dtype, .count = accel_tensor_count (master) };
    }
    return list;
}
