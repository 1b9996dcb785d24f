/* SPDX-License-Identifier: Apache-2.0 */
/* accel_backward(): the program's own backward pass, then one average per bucket. */
#include <config.h>

#include "lib/comm/comm_private.h"
#include "lib/error.h"
#include "lib/train/model.h"

enum accel_status
model_average_gradients (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site,
                         struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < model->span_count && !status; i++) {
        struct span *span = &model->spans[i];
        status = comm_all_reduce (comm, site, span->data, span->data, span->count, ACCEL_FLOAT32, ACCEL_AVG, err);
    }
    return status;
}

enum accel_status
accel_backward_at (const char *file, int line, struct accel *acc, struct accel_model *model, float loss,
                   accel_backward_function backward, void *user, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_BACKWARD };
    if (!acc || !model || !backward)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_backward: %s is NULL",
                           !acc ? "acc" : !model ? "model" : "backward");
    struct accel_comm *comm = accel_world (acc);
    if (model->object.owner != acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "the model was not prepared with this struct accel");
    struct accel_error cause = { 0 };
    enum accel_status status = backward (user, 1.0F, &cause);
    if (status) {
        accel_fail (err, ACCEL_ERR_CALLBACK, "the backward pass failed on rank %d (loss %g): %s",
                    accel_process_index (acc), (double) loss,
                    *cause.text ? cause.text : accel_status_string (status));
        comm_give_up (comm, *cause.text ? cause.text : "its backward pass failed");
        return ACCEL_ERR_CALLBACK;
    }
    status = join_announce (acc, &site, model, err);
    return status ? status : model_average_gradients (model, comm, &site, err);
}
