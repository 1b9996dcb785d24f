/* SPDX-License-Identifier: Apache-2.0 */
/* accel_backward(): the program's own backward pass, and the averages of its gradients. */
#include <config.h>

#include "lib/error.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/reducer.h"
#include "lib/train/precision.h"

/* What the loss is to be multiplied by before its backward pass. */
static float
loss_scale (const struct accel *acc, struct accel_model *model)
{
    return accumulate_scale (acc) * precision_scale_loss (acc, model);
}

enum accel_status
accel_backward_at (const char *file, int line, struct accel *acc, struct accel_model *model, float loss,
                   accel_backward_function backward, void *user, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_BACKWARD };
    if (!acc || !model || !backward)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_backward: %s is NULL",
                           !acc ? "acc" : !model ? "model" : "backward");
    if (model->object.owner != acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "the model was not prepared with this struct accel");
    if (model->reducer->open)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_backward: the model is in a backward pass already");
    struct accel_error cause = { 0 };
    reducer_begin (model, &site, accumulate_reduces (model));
    enum accel_status failure = backward (user, loss_scale (acc, model), &cause);
    enum accel_status status = reducer_end (model, failure != ACCEL_OK, err);
    if (status || !failure)
        return status;
    accel_fail (err, ACCEL_ERR_CALLBACK, "the backward pass failed on rank %d (loss %g): %s", accel_process_index (acc),
                (double) loss, *cause.text ? cause.text : accel_status_string (failure));
    comm_give_up (accel_world (acc), *cause.text ? cause.text : "its backward pass failed");
    return ACCEL_ERR_CALLBACK;
}
