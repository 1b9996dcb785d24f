/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers whose count of steps is on the device. */
#include <config.h>

#include "lib/train/optimizer/optimizer_live.h"

#include <stdlib.h>

/* Numbers of the groups that differ are written. */
void
optimizer_live_renew (struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    for (size_t g = 0; optimizer->live.steps && g < optimizer->group_count; g++) {
        struct optimizer_group *group = &optimizer->groups[g];
        struct rule_group *known = &optimizer->live.known[g];
        group->rule = optimizer->kind->begin (group);
        if (rule_numbers_equal (&group->numbers, &known->fixed) && rule_pace_equal (&group->pace, &known->pace))
            continue;
        known->fixed = group->numbers;
        known->pace = group->pace;
        model->memory->write (model->device, &optimizer_live_groups (optimizer)[g], known,
                              offsetof (struct rule_group, numbers));
    }
}

void
optimizer_live_end (struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    struct optimizer_live *live = &optimizer->live;
    if (live->steps && live->known)
        optimizer->step = optimizer_steps (optimizer);
    model->memory->destroy (model->device, live->steps);
    free (live->known);
    *live = (struct optimizer_live){ .steps = NULL };
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
capture_permit (const struct accel_model *model)
{
    struct capture_permit permit = { .live = NULL };
    for (const struct accel_optimizer *of = model ? model->optimizers : NULL; of; of = of->beside)
        if (of->is_capturable && model->memory->live)
            permit = (struct capture_permit){ model->memory->live, model->device };
    if (permit.live)
        permit.live->permit_capture (permit.device, true);
    return permit;
}

void
capture_forbid (struct capture_permit *permit)
{
    if (permit->live)
        permit->live->permit_capture (permit->device, false);
}
