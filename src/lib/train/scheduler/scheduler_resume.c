/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints have of schedulers, and continuing from there with other settings: the options are the program's,
 * the number of steps done is the checkpoint's. */
#include <config.h>

#include "lib/train/scheduler/schedules.h"

#include "lib/base/error.h"
#include "lib/data/loader.h"
#include "lib/state/state_dict.h"
#include "util/cleanup.h"
#include "util/hash.h"

#include <stdlib.h>

enum { MOST_STEPS = 1000000000 }; /* that are made anew: more than any training has, and some seconds */

/* Two schedules of the same rates have the same hash.  0: no memory.  A function of the program has no part in it. */
static uint64_t
hash_options (const struct accel_scheduler *scheduler)
{
    struct noted_numbers numbers = { 0 };
    uint64_t hash = HASH_START;
    for (size_t p = 0; p < scheduler->part_count; p++)
        schedule_note (&scheduler->parts[p], NULL, &numbers);
    for (size_t p = 0; scheduler->milestones && p + 1 < scheduler->part_count; p++)
        hash = hash_word (hash, scheduler->milestones[p]);
    for (size_t i = 0; i < numbers.count; i++)
        hash = hash_bytes (hash, &numbers.numbers[i].value, sizeof numbers.numbers[i].value);
    free (numbers.numbers);
    return numbers.failed ? 0 : hash;
}

/* Record i is "i.step" and so on. */
void
scheduler_save (const struct object *object, struct accel_state_dict *state)
{
    const struct accel_scheduler *scheduler = (const struct accel_scheduler *) (const void *) object;
    size_t count = accel_scheduler_state_count (scheduler);
    state_dict_add_uint64 (state, "count", count);
    state_dict_add_uint64 (state, "options", hash_options (scheduler));
    if (scheduler->unit) {
        state_dict_add_uint64 (state, "steps_per_call", scheduler->unit);
        step_shape_save (&scheduler->shape, state);
    }
    for (size_t i = 0; i < count; i++) {
        struct accel_scheduler_state record = scheduler_record (scheduler, i);
        state_dict_set_uint64 (state, record.version, "%zu.version", i);
        state_dict_set_uint64 (state, record.schedule, "%zu.schedule", i);
        state_dict_set_uint64 (state, record.step, "%zu.last_epoch", i);
        state_dict_set_double (state, record.base_lr, "%zu.base_lr", i);
        state_dict_set_double (state, record.lr, "%zu.lr", i);
        state_dict_set_double (state, record.momentum, "%zu.momentum", i);
    }
}

static enum accel_status
read_record (const struct accel_state_dict *state, size_t number, struct accel_scheduler_state *record,
             struct accel_error *err)
{
    uint64_t version = 0, schedule = 0;
    enum accel_status status = state_dict_get_uint64 (state, &version, err, "%zu.version", number);
    if (!status)
        status = state_dict_get_uint64 (state, &schedule, err, "%zu.schedule", number);
    if (!status)
        status = state_dict_get_uint64 (state, &record->step, err, "%zu.last_epoch", number);
    if (!status)
        status = state_dict_get_double (state, &record->base_lr, err, "%zu.base_lr", number);
    if (!status)
        status = state_dict_get_double (state, &record->lr, err, "%zu.lr", number);
    if (!status)
        status = state_dict_get_double (state, &record->momentum, err, "%zu.momentum", number);
    record->version = version > UINT32_MAX ? 0 : (uint32_t) version;
    record->schedule = schedule > UINT32_MAX ? UINT32_MAX : (uint32_t) schedule;
    return status;
}

/* A scheduler that is called once for each step of the optimizer makes one step for each process: with the same total
 * batch, the same steps of the optimizer are another number of these. */
static enum accel_status
convert_steps (struct accel_scheduler *scheduler, const struct accel_state_dict *state, uint64_t *steps,
               struct accel_error *err)
{
    struct step_shape then, now;
    uint64_t unit, saved_unit;
    *steps = scheduler->step;
    scheduler->unit = 0;
    if (!accel_state_dict_has (state, "steps_per_call"))
        return ACCEL_OK;
    enum accel_status status = state_dict_read_uint64 (state, "steps_per_call", &saved_unit, err);
    if (!status)
        status = step_shape_load (&then, state, err);
    if (status)
        return status;
    const struct accel_loader *loader = loader_at (scheduler->object.owner, then.loader);
    now = step_shape_of (scheduler->object.owner, loader);
    bool same = then.loader && then.samples * then.passes == now.samples * now.passes;
    unit = same ? scheduler_unit (scheduler, loader) : saved_unit;
    scheduler->shape = same ? now : then;
    scheduler->unit = unit;
    if (!saved_unit || __builtin_mul_overflow (*steps, unit, steps))
        return accel_fail (err, ACCEL_ERR_FORMAT, "not a scheduler state, or from a different release");
    if (*steps % saved_unit)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the scheduler has made %llu steps, %llu in each call, but now makes %llu in each: resume "
                           "on %llu processes, or set split_batches",
                           (unsigned long long) scheduler->step, (unsigned long long) saved_unit,
                           (unsigned long long) unit, (unsigned long long) saved_unit);
    *steps /= saved_unit;
    return ACCEL_OK;
}

/* The rates that the program's options give after @p steps steps. */
static enum accel_status
replay (struct accel_scheduler *scheduler, uint64_t steps, struct accel_error *err)
{
    if (steps > MOST_STEPS)
        return accel_fail (err, ACCEL_ERR_FORMAT, "not a scheduler state: it has %llu steps",
                           (unsigned long long) steps);
    for (size_t p = 0; p < scheduler->part_count; p++)
        schedule_begin (&scheduler->parts[p], scheduler->group_count);
    enum accel_status status = scheduler_replay (scheduler, steps, err);
    if (!status && scheduler->step < steps)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the checkpoint has %llu steps of the scheduler, but its schedule ends after %llu: raise "
                           "total_steps", (unsigned long long) steps, (unsigned long long) scheduler->step);
    return status;
}

enum accel_status
scheduler_load (struct object *object, const struct accel_state_dict *state, struct accel_error *err)
{
    struct accel_scheduler *scheduler = (struct accel_scheduler *) (void *) object;
    size_t count = accel_scheduler_state_count (scheduler);
    uint64_t saved, options = 0, steps = 0;
    AUTO_FREE struct accel_scheduler_state *records = calloc (count + 1, sizeof *records);
    if (!records)
        return accel_fail_nomem (err);
    enum accel_status status = state_dict_read_uint64 (state, "count", &saved, err);
    if (!status && saved != count)
        return accel_fail (err, ACCEL_ERR_FORMAT,
                           "the scheduler has %zu states, for its groups and schedules, but %llu were saved", count,
                           (unsigned long long) saved);
    for (size_t i = 0; !status && i < count; i++)
        status = read_record (state, i, &records[i], err);
    if (!status && accel_state_dict_has (state, "options"))
        status = state_dict_read_uint64 (state, "options", &options, err);
    if (!status)
        status = accel_scheduler_set_state (scheduler, records, count, err);
    if (!status)
        status = convert_steps (scheduler, state, &steps, err);
    bool equal = !options || options == hash_options (scheduler);
    return status || (equal && steps == scheduler->step) ? status : replay (scheduler, steps, err);
}
