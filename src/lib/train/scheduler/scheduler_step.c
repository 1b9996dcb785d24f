/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of schedulers: rates of one schedule, of a sequence or a product of several. */
#include <config.h>

#include "lib/train/scheduler/schedules.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/collectives/parallel.h"
#include "lib/data/active.h"
#include "lib/data/loader.h"
#include "lib/kernels/arithmetic.h"
#include "lib/state/prepared.h"
#include "lib/state/state_object.h"
#include "lib/train/optimizer/optimizer_live.h"

/* The part of a sequence whose turn it is in step @step. */
static size_t
part_at (const struct accel_scheduler *scheduler, uint64_t step)
{
    size_t part = 0;
    while (scheduler->milestones && part + 1 < scheduler->part_count && step >= scheduler->milestones[part])
        part++;
    return part;
}

/* The rates of a single schedule, or of the one whose turn it is. */
static void
set_from_one (struct accel_scheduler *scheduler, struct schedule *part)
{
    double factor = schedule_factor (part);
    bool moves_momentum = schedule_moves_momentum (&part->options);
    for (size_t i = 0; i < scheduler->group_count; i++) {
        double *lr = optimizer_lr_of (scheduler->optimizer, scheduler->groups[i]);
        double *momentum = optimizer_momentum (scheduler->optimizer, scheduler->groups[i]);
        /* A part that begins starts from its base, not from the last rate of the part before it. */
        double before = part->step || scheduler->composition == COMPOSED_OF_ONE ? *lr : part->base_lr[i];
        scheduler->lr[i] = part->lr[i] = *lr = schedule_rate (part, i, before, factor);
        if (moves_momentum && momentum)
            scheduler->momentum[i] = *momentum = schedule_kind_of (&part->options)->momentum (part);
    }
}

/* Recursive schedules continue from one rate, as in torch's ChainedScheduler.  It is the optimizer's, so that the
 * program can change it.  If factors of other schedules multiply it, the first part keeps it instead. */
UNFUSED static void
set_from_product (struct accel_scheduler *scheduler)
{
    double factor = 1;
    bool factors = false;
    for (size_t p = 0; p < scheduler->part_count; p++) {
        factors = factors || !schedule_is_recursive (&scheduler->parts[p]);
        factor *= schedule_factor (&scheduler->parts[p]);
    }
    for (size_t i = 0; i < scheduler->group_count; i++) {
        double *lr = optimizer_lr_of (scheduler->optimizer, scheduler->groups[i]);
        double rate = scheduler->step && !factors ? *lr : scheduler->parts->lr[i];
        for (size_t p = 0; p < scheduler->part_count; p++)
            if (schedule_is_recursive (&scheduler->parts[p]))
                rate = schedule_rate (&scheduler->parts[p], i, rate, 1);
        scheduler->parts->lr[i] = rate;
        scheduler->lr[i] = *lr = rate * factor;
    }
}

/* The program's function may destroy the scheduler or its optimizer, which then end with the call. */
enum accel_status
scheduler_apply (struct accel_scheduler *scheduler, struct accel_error *err)
{
    struct object *optimizer = &scheduler->optimizer->object;
    object_pin (optimizer);
    object_pin (&scheduler->object);
    if (scheduler->composition == COMPOSED_AS_PRODUCT)
        set_from_product (scheduler);
    else
        set_from_one (scheduler, &scheduler->parts[part_at (scheduler, scheduler->step)]);
    if (!object_is_gone (optimizer))
        optimizer_live_renew (scheduler->optimizer);
    const char *gone = object_is_gone (&scheduler->object) ? "scheduler" : NULL;
    gone = object_is_gone (optimizer) ? "optimizer" : gone;
    object_unpin (&scheduler->object);
    object_unpin (optimizer);
    return gone ? accel_fail (err, ACCEL_ERR_CALLBACK, "the schedule's function destroyed its own %s", gone)
                : ACCEL_OK;
}

/* The part that the next step belongs to, if that part has no more steps; NULL otherwise. */
static const struct schedule *
find_end (const struct accel_scheduler *scheduler)
{
    size_t next = part_at (scheduler, scheduler->step + 1);
    const struct schedule *part = &scheduler->parts[next];
    bool begins = next != part_at (scheduler, scheduler->step);
    return !begins && schedule_is_at_end (part) ? part : NULL;
}

/* Count one more step, for all parts or for the one whose turn it is. */
static void
count_step (struct accel_scheduler *scheduler)
{
    size_t before = part_at (scheduler, scheduler->step);
    size_t now = part_at (scheduler, ++scheduler->step);
    for (size_t p = 0; p < scheduler->part_count; p++)
        if (scheduler->composition != COMPOSED_IN_SEQUENCE || (p == now && now == before))
            scheduler->parts[p].step++;
}

static enum accel_status
step_once (struct accel_scheduler *scheduler, struct accel_error *err)
{
    const struct schedule *ended = find_end (scheduler);
    if (ended)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_scheduler_step: all %llu steps of %s are done",
                           (unsigned long long) ended->options.total_steps, schedule_name (ended->options.schedule));
    count_step (scheduler);
    return scheduler_apply (scheduler, err);
}

/* A rate that does not follow from the one before needs no rates between. */
enum accel_status
scheduler_replay (struct accel_scheduler *scheduler, uint64_t steps, struct accel_error *err)
{
    bool recursive = false;
    scheduler->step = 0;
    for (size_t p = 0; p < scheduler->part_count; p++) {
        struct schedule *part = &scheduler->parts[p];
        recursive = recursive || schedule_is_recursive (part);
        part->step = 0;
        for (size_t i = 0; i < scheduler->group_count; i++)
            part->lr[i] = part->base_lr[i];
    }
    for (size_t i = 0; i < scheduler->group_count; i++)
        *optimizer_lr_of (scheduler->optimizer, scheduler->groups[i]) = scheduler->parts->base_lr[i];
    enum accel_status status = recursive ? scheduler_apply (scheduler, err) : ACCEL_OK;
    while (!status && scheduler->step < steps && !find_end (scheduler)) {
        count_step (scheduler);
        status = recursive ? scheduler_apply (scheduler, err) : ACCEL_OK;
    }
    return status || recursive ? status : scheduler_apply (scheduler, err);
}

/* As the scheduler's options say, or as the running loader divides its batches.  If none is running, any that
 * was prepared: Accelerate says it once for all loaders. */
static bool
splits_batches (const struct accel *acc, const struct accel_scheduler *scheduler, const struct accel_loader *running)
{
    if (scheduler->parts->options.split_batches)
        return true;
    if (running)
        return loader_splits_batches (running);
    for (struct object *object = prepared_first (acc, kind_of_loader); object;
         object = prepared_next (object, kind_of_loader))
        if (loader_splits_batches ((const struct accel_loader *) (const void *) object))
            return true;
    return false;
}

static bool
steps_once (const struct accel_scheduler *scheduler, const struct accel_loader *loader)
{
    const struct accel *acc = scheduler->object.owner;
    return !acc || !flag_or (scheduler->parts->options.step_with_optimizer, true)
           || splits_batches (acc, scheduler, loader);
}

uint64_t
scheduler_unit (const struct accel_scheduler *scheduler, const struct accel_loader *loader)
{
    return steps_once (scheduler, loader) ? 1 : (uint64_t) parallel_data_size (scheduler->object.owner);
}

enum accel_status
accel_scheduler_step (struct accel_scheduler *scheduler, struct accel_error *err)
{
    enum accel_status status = scheduler_check (__func__, scheduler, err);
    if (status)
        return status;
    const struct accel *acc = scheduler->object.owner;
    bool waits = acc && flag_or (scheduler->parts->options.step_with_optimizer, true);
    if (waits && (accumulate_waits (&scheduler->object) || optimizer_skipped (scheduler->optimizer)))
        return ACCEL_OK;
    scheduler->unit = scheduler_unit (scheduler, loader_active (acc));
    scheduler->shape = step_shape_of (acc, loader_active (acc));
    if (steps_once (scheduler, loader_active (acc)))
        return step_once (scheduler, err);
    for (uint64_t i = 0; !status && i < scheduler->unit && !find_end (scheduler); i++)
        status = step_once (scheduler, err);
    return status;
}
