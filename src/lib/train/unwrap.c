/* SPDX-License-Identifier: Apache-2.0 */
/* Undoing accel_prepare(): accel_unwrap_model() and accel_free_memory(). */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/loader.h"
#include "lib/state/state_object.h"
#include "lib/train/reducer.h"
#include "util/memory.h"

#include <stdlib.h>

/* Copies of the gradients in shared memory, all or none. */
static enum accel_status
keep_gradients (struct accel_model *model, struct accel_error *err)
{
    for (size_t s = 0; s < model->span_count; s++) {
        if (!model->spans[s].allocated)
            continue;
        FOR_GRADIENTS_OF (model, s, i) {
            size_t bytes = model_grad_bytes (model, i);
            model->kept[i] = malloc (bytes);
            if (!model->kept[i])
                goto error;
            memory_copy (model->kept[i], model->parameters[i].grad->data, bytes);
        }
    }
    return ACCEL_OK;
error:
    for (size_t i = 0; i < model->count; i++) {
        free (model->kept[i]);
        model->kept[i] = NULL;
    }
    return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the gradients of a model of %zu parameters",
                       model->count);
}

enum accel_status
accel_unwrap_model (struct accel *acc, struct accel_model *model, struct accel_error *err)
{
    if (!acc || !model)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_unwrap_model: %s is NULL", acc ? "model" : "acc");
    if (!model->object.owner)
        return ACCEL_OK;
    if (model->object.owner != acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "the model was not prepared with this struct accel");
    if (model->reducer->open)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_unwrap_model: the model is in a backward pass");
    enum accel_status status = keep_gradients (model, err);
    if (status)
        return status;
    model_release (model);
    state_remove_prepared (&model->object);
    model->object.owner = NULL;
    return ACCEL_OK;
}

void
state_let_go (struct accel *acc)
{
    while (acc->prepared) {
        struct object *object = acc->prepared;
        uint64_t kind = object->magic ^ OBJECT_MAGIC;
        if (kind == OBJECT_MODEL)
            model_release ((struct accel_model *) (void *) object);
        state_remove_prepared (object);
        if (kind == OBJECT_LOADER)
            (void) loader_release ((struct accel_loader *) (void *) object, NULL);
        object->owner = NULL;
    }
}

enum accel_status
accel_free_memory (struct accel *acc, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_free_memory: acc is NULL");
    acc->micro_step = 0;
    while (acc->prepared && !status) {
        struct object *object = acc->prepared;
        uint64_t kind = object->magic ^ OBJECT_MAGIC;
        /* The object is the first member of each of these. */
        if (kind == OBJECT_MODEL) {
            status = accel_unwrap_model (acc, (struct accel_model *) (void *) object, err);
            continue;
        }
        state_remove_prepared (object);
        if (kind == OBJECT_LOADER)
            status = loader_release ((struct accel_loader *) (void *) object, err);
        object->owner = NULL;
    }
    return status;
}
