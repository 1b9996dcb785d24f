/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that send to each other in a cycle, and none of which receives.
 *
 * A ledger says that a rank is in a send; its message may already have been received, if that rank is only about to
 * return.  A rank that waits notes the time (looked_ns) each time after it has found its message still there.  So a
 * cycle is certain once each of its ranks has done so twice since the cycle was first seen, and is still in the same
 * send: between the two it found its message there again, and all the others were in their sends by then. */
#include <config.h>

#include "lib/comm/watch/watch_object.h"

#include "util/hash.h"

/* Whether messages lead from @from back to this rank.  @trace identifies them; @oldest is when the one that has not
 * looked for longest did. */
static bool
leads_back (const struct watch *watch, int from, uint64_t *trace, uint64_t *oldest)
{
    struct jobseg_record record;
    *trace = HASH_START;
    *oldest = UINT64_MAX;
    for (int i = 0; i < watch->size; i++) {
        if (!watch_find_latest (watch, from, true, &record) || record.done || record.root < 0
            || record.root >= watch->size)
            return false;
        *trace = hash_word (hash_word (*trace, record.sequence), (uint64_t) from);
        *oldest = record.looked_ns < *oldest ? record.looked_ns : *oldest;
        from = record.root;
        if (from == watch->rank)
            return true;
    }
    return false;
}

bool
watch_is_cycle (struct watch *watch, int to)
{
    uint64_t trace, oldest;
    if (!leads_back (watch, to, &trace, &oldest)) {
        watch->cycle.trace = 0;
        return false;
    }
    if (trace != watch->cycle.trace) {
        watch->cycle.trace = trace;
        watch->cycle.since_ns = jobseg_now_ns ();
        watch->cycle.rounds = 0;
        return false;
    }
    if (oldest > watch->cycle.since_ns) {
        watch->cycle.since_ns = jobseg_now_ns ();
        watch->cycle.rounds++;
    }
    return watch->cycle.rounds >= 2;
}
