/* SPDX-License-Identifier: Apache-2.0 */
/* The readable state of schedulers: rates, momenta and steps, and what has to be the same on all ranks.  What
 * checkpoints have of them is in scheduler_resume.c. */
#include <config.h>

#include "lib/base/option.h"
#include "lib/train/scheduler/schedules.h"

#include "lib/base/error.h"
#include "lib/state/state_dict.h"
#include "lib/state/state_object.h"
#include "lib/train/optimizer/optimizer_live.h"
#include "util/cleanup.h"

#include <math.h>
#include <string.h>

/* Of a sequence's or a product's own records, after the kinds of schedules. */
enum { STATE_VERSION = 1, COMPOSED = 64 };

enum accel_status
scheduler_check (const char *function, const struct accel_scheduler *scheduler, struct accel_error *err)
{
    if (!scheduler)
        return accel_fail_null (err, function, "scheduler");
    if (object_is_gone (&scheduler->optimizer->object))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the scheduler's optimizer has been destroyed", function);
    return ACCEL_OK;
}

double
accel_scheduler_lr (const struct accel_scheduler *scheduler)
{
    return scheduler && scheduler->part_count ? *scheduler->lr : 0;
}

size_t
accel_scheduler_state_count (const struct accel_scheduler *scheduler)
{
    if (!scheduler)
        return 0;
    return scheduler->group_count * (scheduler->composition == COMPOSED_OF_ONE ? 1 : scheduler->part_count + 1);
}

/* Record @p number: those of the whole come first, one for each group, then those of each part. */
struct accel_scheduler_state
scheduler_record (const struct accel_scheduler *scheduler, size_t number)
{
    size_t place = number % scheduler->group_count, part = number / scheduler->group_count;
    bool whole = scheduler->composition != COMPOSED_OF_ONE && part-- == 0;
    const struct schedule *schedule = &scheduler->parts[whole ? 0 : part];
    return (struct accel_scheduler_state){
        .version = STATE_VERSION,
        .schedule = whole ? COMPOSED + (uint32_t) scheduler->composition : (uint32_t) schedule->options.schedule,
        .step = whole ? scheduler->step : schedule->step,
        .base_lr = schedule->base_lr[place],
        .lr = whole ? scheduler->lr[place] : schedule->lr[place],
        .momentum = scheduler->momentum[place],
    };
}

void
accel_scheduler_get_state (const struct accel_scheduler *scheduler, struct accel_scheduler_state *states)
{
    for (size_t i = 0; states && i < accel_scheduler_state_count (scheduler); i++)
        states[i] = scheduler_record (scheduler, i);
}

static const char *
record_name (uint32_t schedule)
{
    if (schedule > COMPOSED)
        return schedule == COMPOSED + COMPOSED_IN_SEQUENCE ? "a sequence of schedules" : "a chain of schedules";
    return schedule < ACCEL_SCHEDULE_KINDS ? schedule_name ((enum accel_schedule) schedule) : "an unknown schedule";
}

static enum accel_status
check_record (const struct accel_scheduler *scheduler, const struct accel_scheduler_state *state, size_t number,
              struct accel_error *err)
{
    uint32_t wanted = scheduler_record (scheduler, number).schedule;
    if (state->version != STATE_VERSION || !isfinite (state->lr) || !isfinite (state->base_lr)
        || !isfinite (state->momentum))
        return accel_fail (err, ACCEL_ERR_FORMAT, "not a scheduler state, or from a different release");
    if (state->schedule != wanted)
        return accel_fail (err, ACCEL_ERR_FORMAT, "the state is that of %s, but the scheduler has %s",
                           record_name (state->schedule), record_name (wanted));
    return ACCEL_OK;
}

static void
take_record (struct accel_scheduler *scheduler, const struct accel_scheduler_state *state, size_t number)
{
    size_t place = number % scheduler->group_count, part = number / scheduler->group_count;
    bool single = scheduler->composition == COMPOSED_OF_ONE, whole = !single && part-- == 0;
    if (!whole) {
        scheduler->parts[part].step = state->step;
        scheduler->parts[part].base_lr[place] = state->base_lr;
        scheduler->parts[part].lr[place] = state->lr;
    }
    if (!whole && !single)
        return;
    double *momentum = optimizer_momentum (scheduler->optimizer, scheduler->groups[place]);
    scheduler->step = state->step;
    scheduler->lr[place] = *optimizer_lr_of (scheduler->optimizer, scheduler->groups[place]) = state->lr;
    if (scheduler->moves_momentum && momentum)
        scheduler->momentum[place] = *momentum = state->momentum;
}

enum accel_status
accel_scheduler_set_state (struct accel_scheduler *scheduler, const struct accel_scheduler_state *states, size_t count,
                           struct accel_error *err)
{
    if (!scheduler || !states)
        return accel_fail_null (err, __func__, scheduler ? "states" : "scheduler");
    enum accel_status status = scheduler_check (__func__, scheduler, err);
    if (!status && count != accel_scheduler_state_count (scheduler))
        return accel_fail (err, ACCEL_ERR_FORMAT, "the scheduler has %zu states, for its groups and schedules, not %zu",
                           accel_scheduler_state_count (scheduler), count);
    for (size_t i = 0; !status && i < count; i++)
        status = check_record (scheduler, &states[i], i, err);
    for (size_t i = 0; !status && i < count; i++)
        take_record (scheduler, &states[i], i);
    if (!status)
        optimizer_live_renew (scheduler->optimizer);
    return status;
}

void
schedule_note (const struct schedule *part, const char *kind, struct noted_numbers *numbers)
{
    const struct accel_scheduler_options *options = &part->options;
    const struct {
        const char *name;
        double value;
    } values[] = {
        { "the kind", options->schedule },
        { "warmup_steps", (double) options->warmup_steps },
        { "warmup_from_one", options->warmup_from_one },
        { "total_steps", (double) options->total_steps },
        { "stable_steps", (double) options->stable_steps },
        { "decay_steps", (double) options->decay_steps },
        { "warmup_shape", options->warmup_shape },
        { "decay_shape", options->decay_shape },
        { "final_fraction", options->final_fraction },
        { "cycles", options->cycles },
        { "step_size", (double) options->step_size },
        { "gamma", options->gamma },
        { "power", options->power },
        { "max_lr", options->max_lr },
        { "pct_start", options->pct_start },
        { "div_factor", options->div_factor },
        { "final_div_factor", options->final_div_factor },
        { "linear", options->linear },
        { "three_phase", options->three_phase },
        { "cycle_momentum", flag_or (options->cycle_momentum, true) },
        { "base_momentum", options->base_momentum },
        { "max_momentum", options->max_momentum },
        { "step_with_optimizer", flag_or (options->step_with_optimizer, true) },
        { "split_batches", options->split_batches },
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        numbers_add (numbers, values[i].name, kind, schedule_name (options->schedule), values[i].value);
}

static void
note_part (const struct accel_scheduler *scheduler, const struct schedule *part, struct noted_numbers *numbers)
{
    const char *kind = scheduler->composition == COMPOSED_OF_ONE ? NULL : "part";
    const char *name = schedule_name (part->options.schedule);
    numbers_add (numbers, "the number of steps done", kind, name, (double) part->step);
    schedule_note (part, kind, numbers);
    for (size_t i = 0; i < scheduler->group_count; i++)
        numbers_add (numbers, "the first learning rate", kind, name, part->base_lr[i]);
}

static void
note (const struct object *object, struct noted_numbers *numbers)
{
    const struct accel_scheduler *scheduler = (const struct accel_scheduler *) (const void *) object;
    const struct accel_optimizer *optimizer = scheduler->optimizer;
    numbers->what = record_name (scheduler_record (scheduler, 0).schedule);
    numbers->sizes[0] = (struct noted_size){ "the number of schedules", scheduler->part_count };
    numbers->sizes[1] = (struct noted_size){ "the number of groups", scheduler->group_count };
    numbers_add (numbers, "the position of its optimizer in accel_prepare", NULL, NULL,
                 (double) optimizer->object.number);
    numbers_add (numbers, "the number of steps done", NULL, NULL, (double) scheduler->step);
    for (size_t i = 0; i < scheduler->group_count; i++)
        numbers_add (numbers, "the group", NULL, NULL, (double) scheduler->groups[i]);
    for (size_t i = 0; scheduler->milestones && i + 1 < scheduler->part_count; i++)
        numbers_add (numbers, "a milestone", NULL, NULL, (double) scheduler->milestones[i]);
    for (size_t p = 0; p < scheduler->part_count; p++)
        note_part (scheduler, &scheduler->parts[p], numbers);
    for (size_t i = 0; i < scheduler->group_count; i++)
        numbers_add (numbers, "lr", optimizer->group_count > 1 ? "group" : NULL,
                     optimizer->groups[scheduler->groups[i]].name, scheduler->lr[i]);
}

enum accel_status
scheduler_prepare (struct object *object, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    return compare_numbers (site, acc, object, note, err);
}
