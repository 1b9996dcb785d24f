/* SPDX-License-Identifier: Apache-2.0 */
/* Undoing accel_prepare() of a model. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_private.h"
#include "lib/train/model_device.h"
#include "lib/train/packed_gradients.h"
#include "lib/train/packed_collectives.h"
#include "lib/train/reducer/reducer_object.h"
#include "lib/train/sharding.h"
#include "lib/train/sharding_layers.h"
#include "lib/train/shared_parameters.h"

#include <stdlib.h>

void
model_release (struct accel_model *model)
{
    packed_end_gradients (model);
    for (size_t s = 0; s < model->span_count; s++) {
        const struct span *span = &model->spans[s];
        FOR_GRADIENTS_OF (model, s, i)
            if (span->allocated)
                model->parameters[i].grad->data = model->kept[i];
        if (span->is_private)
            model->memory->destroy (model->device, span->data);
        else if (span->allocated || span->scattered)
            model_free (model, span->data);
    }
    sharding_end (model);
    shared_end (model);
    reducer_destroy (model);
    free (model->spans);
    free (model->span_of);
    model->spans = NULL;
    model->span_of = NULL;
    model->span_count = 0;
    model->unsynced = 0;
    model->held = model->triggered = false;
}

/* Copies of the gradients in shared memory.  On failure, some. */
static enum accel_status
keep_gradients (struct accel_model *model, struct accel_error *err)
{
    for (size_t s = 0; s < model->span_count; s++) {
        if (!model->spans[s].allocated)
            continue;
        FOR_GRADIENTS_OF (model, s, i) {
            size_t bytes = model_grad_bytes (model, i);
            model->kept[i] = model_home (model)->create (model->device, bytes, model->sharding.grads != NULL);
            if (!model->kept[i])
                return memory_fail (model->device, err,
                                    "cannot allocate memory for the gradients of a model of %zu parameters",
                                    model->count);
            enum accel_status status = ACCEL_OK;
            if (model->sharding.grads)
                status = packed_keep_gradient (model, i, err);
            else if (model->placement)
                status = model->memory->read (model->device, model->kept[i], model->parameters[i].grad->data, bytes,
                                              err);
            else
                model->memory->copy (model->device, model->kept[i], model->parameters[i].grad->data, bytes);
            if (status)
                return status;
        }
    }
    return ACCEL_OK;
}

static void
drop_kept (struct accel_model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        model_home (model)->destroy (model->device, model->kept[i]);
        model->kept[i] = NULL;
    }
}

/* Divided gradients on a GPU: sums of a pass that was not averaged.  There is room for averages only. */
static bool
has_sums (const struct accel_model *model)
{
    bool found = false;
    for (size_t s = 0; model->sharding.grads && model->unstepped && s < model->span_count && !found; s++)
        found = model->spans[s].data != NULL;
    return found;
}

enum accel_status
accel_unwrap_model (struct accel *acc, struct accel_model *model, struct accel_error *err)
{
    if (acc && model && !model->object.owner)
        return ACCEL_OK;
    static const struct comm_site site = { .call = JOBSEG_CALL_SUMMON_FULL_PARAMS, .file = "accel_unwrap_model" };
    enum accel_status status = model_check_owner (__func__, acc, model, err);
    if (!status && model->reducer->open)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_unwrap_model: the model is in a backward pass");
    if (!status && has_sums (model))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_unwrap_model: divided gradients on a GPU that have not been averaged would be lost: "
                           "take a step, or call accel_optimizer_zero_grad, first");
    if (status)
        return status;
    if (model->sharding.packed)
        sharding_settle_layers (model);
    else /* the next accel_prepare() starts from the parameters of rank 0 */
        status = sharding_summon (model, &site, err);
    if (!status)
        status = keep_gradients (model, err);
    if (!status && model->placement)
        status = packed_fetch_whole (model, &site, err);
    if (!status && model->placement)
        status = model_fetch (model, err);
    if (status) {
        if (model->sharding.layers) /* the others do not have this model any longer */
            comm_give_up (accel_world (acc), "it could not unwrap a model");
        if (!model->sharding.packed)
            sharding_dismiss (model);
        drop_kept (model);
        return status;
    }
    model_release (model);
    prepared_remove (&model->object);
    model->object.owner = NULL;
    if (model->placement)
        model_go_home (model);
    return ACCEL_OK;
}

enum accel_status
model_unwrap (struct object *object, struct accel_error *err)
{
    return accel_unwrap_model (object->owner, (struct accel_model *) (void *) object, err);
}
