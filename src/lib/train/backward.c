/* SPDX-License-Identifier: Apache-2.0 */
/* accel_backward(): the program's own backward pass, and the averages of its gradients. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/precision.h"
#include "lib/train/reducer/join_round.h"
#include "lib/train/reducer/reducer_object.h"
#include "lib/train/sharding_gradients.h"

/* What the host knows of the scale. */
static float
known_scale (const struct accel *acc)
{
    float share = 1.0F / (float) accel_gradient_accumulation_steps (acc);
    bool knows = precision_scales (acc) && !precision_is_live (acc);
    return share * (knows ? scaler_scale (precision_read_scaler (acc)) : 1);
}

float
accel_loss_scale (const struct accel *acc)
{
    float scale = known_scale (acc);
    return precision_is_live (acc) ? scale * scaler_scale (precision_read_scaler (acc)) : scale;
}

const float *
accel_loss_scale_on_device (const struct accel *acc)
{
    return precision_is_live (acc) ? &precision_of (acc)->live->scale : NULL;
}

static enum accel_status
check_model (const char *function, const struct accel *acc, const struct accel_model *model, struct accel_error *err)
{
    enum accel_status status = model_check_owner (function, acc, model, err);
    if (status)
        return status;
    if (model->reducer->open)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the model is already in a backward pass", function);
    return model_check_place (model, err);
}

/* A model that is prepared, as @backward may be told. */
static enum accel_status
run (struct accel *acc, struct accel_model *model, const struct comm_site *site, float loss,
     accel_backward_function backward, void *user, struct accel_error *err)
{
    struct accel_error cause = { 0 };
    enum accel_status status = precision_note_scale (acc, model, err);
    if (status)
        return status;
    reducer_begin (model, site, accumulate_reduces (model));
    bool has_begun = !model->reducer->error.code; /* else gradients may have no memory, and the end reports it */
    enum accel_status failure = has_begun ? backward (user, known_scale (acc), &cause) : ACCEL_OK;
    bool model_gone = object_is_gone (&model->object);
    if (!failure && (model_gone || object_is_gone (&acc->object)))
        failure = accel_fail (&cause, ACCEL_ERR_CALLBACK, "the function destroyed its own %s",
                              model_gone ? "model" : "job");
    status = reducer_end (model, failure != ACCEL_OK, err);
    if (status || !failure)
        return status;
    accel_fail (err, ACCEL_ERR_CALLBACK, "the backward pass failed on rank %d (loss %g): %s", accel_process_index (acc),
                (double) loss, *cause.text ? cause.text : accel_status_string (failure));
    comm_give_up (accel_world (acc), *cause.text ? cause.text : "its backward pass failed");
    return ACCEL_ERR_CALLBACK;
}

/* The program's function may destroy the model, or close the job: they end when this call does. */
enum accel_status
accel_backward_at (const char *file, int line, struct accel *acc, struct accel_model *model, float loss,
                   accel_backward_function backward, void *user, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_BACKWARD };
    enum accel_status status = check_model ("accel_backward", acc, model, err);
    if (status)
        return status;
    if (!backward)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_backward: backward is NULL");
    object_pin (&acc->object);
    object_pin (&model->object);
    status = run (acc, model, &site, loss, backward, user, err);
    object_unpin (&model->object);
    object_unpin (&acc->object);
    return status;
}

enum accel_status
accel_average_gradients_at (const char *file, int line, struct accel *acc, struct accel_model *model,
                            struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_AVERAGE_GRADIENTS };
    enum accel_status status = check_model ("accel_average_gradients", acc, model, err);
    if (status)
        return status;
    if (join_steps (acc)) /* a rank in accel_join_end() cannot know by which call the others average */
        site.call = JOBSEG_CALL_BACKWARD;
    status = precision_note_scale (acc, model, err);
    if (!status)
        status = sharding_renew_gradients (model, err);
    if (status)
        return status;
    reducer_begin (model, &site, accumulate_reduces (model));
    return reducer_end (model, false, err);
}
