/* SPDX-License-Identifier: Apache-2.0 */
/* Steps and logged numbers for those who watch; see progress.h. */
#include <config.h>

#include "lib/comm/progress.h"

#include "lib/comm/lock.h"

#include <string.h>

/* Of the process that opened: a fork must not speak for it. */
static struct jobseg_progress *
progress_of (const struct accel_comm *world)
{
    struct jobseg_slot *slot = world && world->forks == comm_forks ? world->ledger->slot : NULL;
    return slot ? &slot->progress : NULL;
}

void
progress_open (struct jobseg_slot *slot)
{
    struct jobseg_progress *its = &slot->progress;
    uint32_t version = atomic_load (&its->version) | 1; /* an earlier program may have been killed meanwhile */
    atomic_store (&its->version, version);
    jobseg_fence_writes ();
    its->value_count = 0;
    atomic_store (&its->step, 0);
    atomic_store (&its->step_ns, 0);
    atomic_store_explicit (&its->version, version + 1, memory_order_release);
}

static void
set_step (struct jobseg_progress *its, uint64_t step)
{
    uint64_t now = jobseg_now_ns (), before = atomic_load_explicit (&its->step, memory_order_relaxed);
    bool is_first = !atomic_load_explicit (&its->step_ns, memory_order_relaxed);
    if (before == step && !is_first)
        return;
    if (is_first || step < before) { /* an earlier state was loaded */
        atomic_store_explicit (&its->first_step, step, memory_order_relaxed);
        atomic_store_explicit (&its->first_ns, now, memory_order_relaxed);
    }
    atomic_store_explicit (&its->step, step, memory_order_relaxed);
    atomic_store_explicit (&its->step_ns, now, memory_order_relaxed);
}

/* Optimizers in turns, as of a generator and a discriminator, make one step together.  One that comes twice in a row
 * takes the place of one that is no longer used. */
static bool
is_counted (struct comm_progress *source, const void *optimizer)
{
    if (!source->counted || source->other == optimizer)
        source->counted = optimizer;
    source->other = source->counted == optimizer ? NULL : optimizer;
    return source->counted == optimizer;
}

void
progress_count_step (struct accel_comm *world, const void *optimizer, uint64_t steps)
{
    struct jobseg_progress *its = progress_of (world);
    if (!its || world->progress.is_logged || !is_counted (&world->progress, optimizer))
        return;
    set_step (its, steps ? steps : atomic_load_explicit (&its->step, memory_order_relaxed) + 1);
}

static void
put (struct jobseg_progress *its, const struct progress_value *value)
{
    uint32_t i = 0, count = its->value_count;
    while (i < count && i < JOBSEG_VALUES && strncmp (its->values[i].name, value->name, JOBSEG_VALUE_NAME - 1))
        i++;
    if (i == JOBSEG_VALUES)
        return;
    if (i == count) {
        snprintf (its->values[i].name, JOBSEG_VALUE_NAME, "%s", value->name);
        its->value_count = count + 1;
    }
    its->values[i].value = value->value;
}

/* A thread that finds another one at it leaves its values out. */
void
progress_log (struct accel_comm *world, const struct progress_value *values, size_t count, int64_t step)
{
    struct jobseg_progress *its = progress_of (world);
    uint32_t version = its ? atomic_load_explicit (&its->version, memory_order_relaxed) & ~1u : 0;
    if (!its)
        return;
    if (step >= 0) {
        if (!world->progress.is_logged)
            atomic_store_explicit (&its->step_ns, 0, memory_order_relaxed); /* other steps have been counted so far */
        world->progress.is_logged = true;
        set_step (its, (uint64_t) step);
    }
    if (!count || !atomic_compare_exchange_strong (&its->version, &version, version + 1))
        return;
    jobseg_fence_writes ();
    for (size_t i = 0; i < count; i++)
        put (its, &values[i]);
    atomic_store_explicit (&its->version, version + 2, memory_order_release);
}
