/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers whose count of steps is on the device. */
#include <config.h>

#include "lib/train/optimizer/optimizer_live.h"

#include <stdlib.h>

/* If some differ, all are written, at once, because the host may have to wait for a second write.  What a step made of
 * them, it makes anew. */
void
optimizer_live_renew (struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    bool is_new = false;
    for (size_t g = 0; optimizer->live.steps && g < optimizer->group_count; g++) {
        struct optimizer_group *group = &optimizer->groups[g];
        struct rule_group *known = &optimizer->live.known[g];
        group->rule = optimizer->kind->begin (group);
        if (rule_numbers_equal (&group->numbers, &known->fixed) && rule_pace_equal (&group->pace, &known->pace))
            continue;
        known->fixed = group->numbers;
        known->pace = group->pace;
        is_new = true;
    }
    if (is_new)
        model->memory->write (model->device, optimizer_live_groups (optimizer), optimizer->live.known,
                              optimizer->group_count * sizeof *optimizer->live.known);
}

/* ---- what the host asks for, and waits for ---- */

static struct rule_steps
read_steps (const struct accel_optimizer *optimizer)
{
    struct rule_steps steps = { .count = optimizer->step, .was_skipped = optimizer->step_was_skipped };
    if (optimizer->live.steps)
        (void) !optimizer->model->memory->read (optimizer->model->device, &steps, optimizer->live.steps, sizeof steps,
                                               NULL);
    return steps;
}

void
optimizer_live_drop (struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    model->memory->destroy (model->device, optimizer->live.steps);
    free (optimizer->live.known);
    optimizer->live = (struct optimizer_live){ .steps = NULL };
}

void
optimizer_live_end (struct accel_optimizer *optimizer)
{
    if (!optimizer->live.steps)
        return;
    const struct rule_steps steps = read_steps (optimizer);
    optimizer->step = steps.count;
    optimizer->step_was_skipped = optimizer->step_was_skipped || (optimizer->live.may_skip && steps.was_skipped);
    optimizer_live_drop (optimizer);
}

uint64_t
optimizer_steps (const struct accel_optimizer *optimizer)
{
    return read_steps (optimizer).count;
}

void
optimizer_set_steps (struct accel_optimizer *optimizer, uint64_t count)
{
    const struct rule_steps steps = { .count = count, .was_skipped = optimizer_skipped (optimizer) };
    optimizer->step = count;
    if (optimizer->live.steps)
        optimizer->model->memory->write (optimizer->model->device, optimizer->live.steps, &steps, sizeof steps);
}

bool
optimizer_skipped (const struct accel_optimizer *optimizer)
{
    return optimizer->step_was_skipped || (optimizer->live.may_skip && read_steps (optimizer).was_skipped);
}

/* ---- CUDA graphs ---- */

struct capture_permit
capture_permit (struct accel_model *model, bool is_capturable)
{
    struct capture_permit permit = { .model = model };
    if (!model || !is_capturable || !model->memory->live)
        return permit;
    permit.live = model->memory->live;
    permit.is_capturing = permit.live->permit_capture (model->device, true);
    permit.before = model->scale;
    return permit;
}

enum accel_status
capture_result (const struct capture_permit *permit, enum accel_status status)
{
    if (status && permit->is_capturing)
        permit->model->scale = permit->before;
    return status;
}

void
capture_forbid (struct capture_permit *permit)
{
    if (permit->live)
        permit->live->permit_capture (permit->model->device, false);
}

bool
model_is_capturable (const struct accel_model *model)
{
    for (const struct accel_optimizer *of = model ? model->optimizers : NULL; of; of = of->beside)
        if (of->is_capturable)
            return true;
    return false;
}
