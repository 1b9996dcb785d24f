/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that a device counts. */
#include <config.h>

#include "lib/train/optimizer/optimizer_live.h"

#include "lib/base/error.h"
#include "lib/train/precision.h"

#include <stdlib.h>

static enum accel_status
create (struct accel_optimizer *optimizer, struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    struct optimizer_live *live = &optimizer->live;
    const struct rule_steps steps = { .count = optimizer->step };
    live->known = calloc (optimizer->group_count + 1, sizeof *live->known);
    size_t bytes = sizeof steps + optimizer->group_count * sizeof *live->known;
    live->steps = model->memory->create (model->device, bytes, true);
    if (!live->known || !live->steps) {
        enum accel_status status = memory_fail (model->device, err, "cannot allocate memory for an optimizer's steps");
        optimizer_live_drop (optimizer);
        return status;
    }
    model->memory->write (model->device, live->steps, &steps, sizeof steps);
    return ACCEL_OK;
}

enum accel_status
optimizer_live_begin (struct accel_optimizer *optimizer, bool *is_live, struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    enum accel_status status = ACCEL_OK;
    bool can_be = model->memory->live && !optimizer->custom.step && !model->sharding.states_at_home;
    optimizer->live.may_skip = can_be && precision_is_live (model->object.owner);
    *is_live = can_be && (optimizer->is_capturable || optimizer->live.may_skip);
    if (!*is_live)
        optimizer_live_end (optimizer);
    else if (!optimizer->live.steps)
        status = create (optimizer, err);
    if (*is_live && !status)
        optimizer_live_renew (optimizer);
    return status;
}

/* Where the device cannot take all parameters at once, the host reads what it has to know. */
static enum accel_status
run_one_by_one (struct accel_optimizer *optimizer, struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    struct rule_steps steps;
    enum accel_status status = model->memory->read (model->device, &steps, optimizer->live.steps, sizeof steps, err);
    if (status || steps.was_skipped)
        return status;
    for (size_t g = 0; !status && g < optimizer->group_count; g++)
        status = model->memory->read (model->device, &optimizer->groups[g].numbers,
                                      &optimizer_live_groups (optimizer)[g].numbers, sizeof (struct rule_numbers), err);
    if (!status)
        optimizer_run (optimizer);
    return status;
}

enum accel_status
optimizer_live_step (struct accel_optimizer *optimizer, const uint8_t *found, struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    struct optimizer_live *live = &optimizer->live;
    model->memory->live->begin_step (model->device, live->steps, optimizer_live_groups (optimizer),
                                     optimizer->group_count, found);
    for (size_t g = 0; g < optimizer->group_count; g++)
        optimizer->rules[g].numbers = &optimizer_live_groups (optimizer)[g].numbers;
    return optimizer_run_list (optimizer, live->steps) ? ACCEL_OK : run_one_by_one (optimizer, err);
}
