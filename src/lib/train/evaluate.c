/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation during training: at its end, everything that a pass over a loader changes is put back. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/generator.h"
#include "lib/data/loader_backup.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/precision.h"

#include <errno.h>
#include <stdlib.h>

/* Which backward passes of one model average. */
struct model_backup {
    struct accel_model *model;
    unsigned unsynced;
    bool held, triggered;
};

struct accel_evaluation {
    struct accel *acc;                /* NULL: none */
    struct loader_backup *loader;     /* NULL: none */
    struct accel_generator generator; /* the default one */
    struct scaler scaler;
    bool autocast_off, accumulating;
    uint32_t num_steps;
    uint64_t micro_step;
    struct model_backup *models; /* [model_count] */
    size_t model_count;
};

static enum accel_status
remember_models (struct accel_evaluation *evaluation, struct accel_error *err)
{
    size_t count = 0;
    for (const struct accel_model *model = model_first (evaluation->acc); model; model = model_next (model))
        count++;
    evaluation->models = calloc (count + 1, sizeof *evaluation->models);
    if (!evaluation->models)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to save the state of %zu models", count);
    for (struct accel_model *model = model_first (evaluation->acc); model; model = model_next (model)) {
        evaluation->models[evaluation->model_count++] = (struct model_backup){
            .model = model, .unsynced = model->unsynced, .held = model->held, .triggered = model->triggered
        };
        object_hold (&model->object);
    }
    return ACCEL_OK;
}

static enum accel_status
remember_job (struct accel_evaluation *evaluation, struct accel *acc, struct accel_error *err)
{
    evaluation->acc = acc;
    enum accel_status status = remember_models (evaluation, err);
    if (status)
        return status;
    object_hold (&acc->object);
    const struct precision *precision = precision_of (acc);
    const struct accumulation *accumulation = accumulation_of (acc);
    evaluation->scaler = *precision_read_scaler (acc);
    evaluation->autocast_off = precision->autocast_off;
    evaluation->accumulating = accumulation->accumulating;
    evaluation->num_steps = accumulation->options.num_steps;
    evaluation->micro_step = accumulation->micro_step;
    return ACCEL_OK;
}

enum accel_status
accel_evaluate_begin (struct accel_evaluation **evaluation, struct accel *acc, struct accel_loader *loader,
                      struct accel_error *err)
{
    if (!evaluation)
        return accel_fail_null (err, __func__, "evaluation");
    *evaluation = NULL;
    struct accel_evaluation *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an evaluation");
    made->generator = *accel_default_generator ();
    enum accel_status status = loader ? loader_back_up (&made->loader, loader, err) : ACCEL_OK;
    if (!status && acc)
        status = remember_job (made, acc, err);
    if (!status) {
        *evaluation = made;
        return ACCEL_OK;
    }
    loader_restore (made->loader);
    free (made);
    return status;
}

static void
restore_job (const struct accel_evaluation *evaluation)
{
    struct accel *acc = evaluation->acc;
    struct precision *precision = precision_of (acc);
    struct accumulation *accumulation = accumulation_of (acc);
    precision_write_scaler (acc, &evaluation->scaler);
    precision->autocast_off = evaluation->autocast_off;
    accumulation->accumulating = evaluation->accumulating;
    accumulation->options.num_steps = evaluation->num_steps;
    accumulation->micro_step = evaluation->micro_step;
    for (size_t i = 0; i < evaluation->model_count; i++) {
        const struct model_backup *backup = &evaluation->models[i];
        if (backup->model->object.owner != acc) /* it has been destroyed, or released */
            continue;
        backup->model->unsynced = backup->unsynced;
        backup->model->held = backup->held;
        backup->model->triggered = backup->triggered;
    }
}

void
accel_evaluate_end (struct accel_evaluation *evaluation)
{
    int saved = errno;
    if (!evaluation)
        return;
    loader_restore (evaluation->loader);
    *accel_default_generator () = evaluation->generator;
    if (evaluation->acc && !object_is_gone (&evaluation->acc->object))
        restore_job (evaluation);
    for (size_t i = 0; i < evaluation->model_count; i++)
        object_let_go (&evaluation->models[i].model->object);
    if (evaluation->acc)
        object_let_go (&evaluation->acc->object);
    free (evaluation->models);
    free (evaluation);
    errno = saved;
}
