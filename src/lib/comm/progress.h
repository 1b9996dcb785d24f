/* SPDX-License-Identifier: Apache-2.0 */
/* What this rank shows of its training in the job segment, for those who watch: steps, numbers, time spent waiting. */
#ifndef LIB_COMM_PROGRESS_H
#define LIB_COMM_PROGRESS_H

#include "lib/comm/comm_object.h"

/** A number that the program has logged. */
struct progress_value {
    const char *name;
    double value;
};

/** Begin anew in @p slot, which an earlier program of this rank may have used. */
void progress_open (struct jobseg_slot *slot);

/** An optimizer has changed parameters.  Of several that take turns, the first one counts.
 *  @param steps  its own count; 0: not known, as it is on a device */
void progress_count_step (struct accel_comm *world, const void *optimizer, uint64_t steps);

/** The program has logged @p values (at most JOBSEG_VALUES are shown, the latest of each name), at @p step; if that is
 *  not negative, optimizers no longer count. */
void progress_log (struct accel_comm *world, const struct progress_value *values, size_t count, int64_t step);

/**
 * The program's thread has waited for other ranks since @p begin_ns of jobseg_now_ns().  That clock has ticks of a few
 * milliseconds: a shorter wait counts as one tick or as none, as often as its length makes it likely, so sums are
 * right.
 */
static inline void
progress_note_wait (const struct accel_comm *comm, uint64_t begin_ns)
{
    struct jobseg_slot *slot = comm->ledger->slot;
    if (!slot)
        return;
    uint64_t now = jobseg_now_ns ();
    if (now != begin_ns)
        atomic_fetch_add_explicit (&slot->progress.waited_ns, now - begin_ns, memory_order_relaxed);
}

#endif
