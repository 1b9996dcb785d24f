/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a wait is in vain, and why; see watch_object.h. */
#include <config.h>

#include "lib/comm/watch/watch_object.h"

#include "lib/base/error.h"
#include "lib/comm/lock.h"
#include "lib/kernels/floats.h"
#include "lib/kernels/reduce.h"
#include "util/hash.h"

#include <stdio.h>

enum {
    SIGN_OF_LIFE_MS = 3000, /* waiting ranks give one each 50 ms, as far as they get a processor */
    NS = 1000000000,
};

static bool
is_pair (const struct accel_engine_call *call)
{
    return call->kind == ACCEL_ENGINE_SEND || call->kind == ACCEL_ENGINE_RECV;
}

/* Whether @rank has left in good order, or opened again: if its ledger no longer tells, it may have done its part long
 * ago. */
static bool
has_left (const struct watch *watch, int rank)
{
    const struct jobseg_slot *slot = watch_slot (watch, rank);
    return atomic_load (&slot->generation) != watch->generation || atomic_load (&slot->state) == JOBSEG_LEFT;
}

/* One whose works move on by themselves, like nccl, may say that it awaits all: it cannot see who has come. */
static bool
engine_knows (const struct accel_engine *engine)
{
    return !(engine->flags & ACCEL_ENGINE_ASYNC_PROGRESS);
}

static const struct accel_engine *
engine_of (const struct watch *watch, const struct accel_engine_call *call, void **transport)
{
    *transport = watch->transport;
    return watch->engine_of && call->device.device_type > kDLCPU ? watch->engine_of (watch, call->device, transport)
                                                                 : watch->engine;
}

/* Whether this rank's collective lacks something from @rank.  If the engine does not know, who has done its part and
 * left is not to blame. */
static bool
is_awaited (const struct watch *watch, const struct accel_engine_call *call, int rank)
{
    void *transport;
    const struct accel_engine *engine = engine_of (watch, call, &transport);
    struct watch_entry entry;
    bool found;
    if (rank == watch->rank)
        return false;
    bool left = has_left (watch, rank);
    if (engine && engine->awaits) {
        bool awaits = engine->awaits (transport, rank);
        if (!awaits || !left || engine_knows (engine))
            return awaits;
    }
    enum watch_where where = watch_find (watch, call, rank, &entry, &found);
    return where == WATCH_UNKNOWN ? !left : where != WATCH_PAST;
}

/* Append "rank 3 (computing after accel_gather at train.c:88 for 61 s)" to @text, which has @length bytes.
 * @return its new length; @size or more: not all of it */
static size_t
put_rank (const struct watch *watch, int rank, char *text, size_t size, size_t length)
{
    char did[160], since[32] = "";
    if (length >= size)
        return length;
    length += (size_t) snprintf (text + length, size - length, "%srank %d", length ? ", " : "",
                                 watch_world_rank (watch, rank));
    if (!watch->source || length >= size)
        return length;
    double elapsed = (double) jobseg_elapsed_ns (watch_slot (watch, rank)) / NS;
    jobseg_describe (watch_slot (watch, rank), did, sizeof did);
    if (elapsed >= 0)
        snprintf (since, sizeof since, elapsed < 10 ? " for %.1f s" : " for %.0f s", elapsed);
    return length + (size_t) snprintf (text + length, size - length, " (%s%s)", did, since);
}

/* Ranks that have arrived are compared before all are there, so that a disagreement is not hidden behind a third rank's
 * long computation. */
static enum accel_status
compare (const struct watch *watch, const struct accel_engine_call *call, struct accel_error *err)
{
    struct watch_entry entries[2];
    int first = -1;
    for (int rank = 0; rank < watch->size; rank++) {
        bool found;
        watch_find (watch, call, rank, &entries[first >= 0], &found);
        if (!found)
            continue;
        if (first < 0)
            first = rank;
        else if (!watch_agree (&entries[0].record, &entries[1].record))
            return watch_report_mismatch (watch, first, &entries[0], rank, &entries[1], err);
    }
    return ACCEL_OK;
}

/* Look at every rank that is missing, the dead before those that only gave_up because of them. */
static enum accel_status
look_for_dead (struct watch *watch, const struct accel_engine_call *call, struct accel_error *err)
{
    struct watch_source *source = watch->source;
    char why[ACCEL_ERROR_TEXT_SIZE], did[160], site[160];
    for (int gave_up = 0; gave_up < 2; gave_up++)
        for (int rank = 0; rank < watch->size; rank++) {
            int name = watch_world_rank (watch, rank);
            if (!is_awaited (watch, call, rank) || watch_source_has_failed (source, name) != gave_up
                || !watch_source_is_gone (source, name, why, sizeof why) || !is_awaited (watch, call, rank))
                continue;
            watch_describe_site (call->site, site, sizeof site);
            if (atomic_load (&watch_slot (watch, rank)->state) != JOBSEG_READY)
                return accel_fail (err, ACCEL_ERR_PEER, "rank %d %s; rank %d is waiting for it in %s", name, why,
                                   watch_world_rank (watch, watch->rank), site);
            jobseg_describe (watch_slot (watch, rank), did, sizeof did);
            return accel_fail (err, ACCEL_ERR_PEER, "rank %d %s, %s; rank %d is waiting for it in %s", name, why, did,
                               watch_world_rank (watch, watch->rank), site);
        }
    return ACCEL_OK;
}

/* ---- pairs ---- */

static enum accel_status
differ_in_message (const struct watch *watch, const struct accel_engine_call *call, struct accel_error *err)
{
    struct watch_entry entry;
    bool found;
    char there[160], here[160], what[80] = "something else";
    int partner = call->root;
    watch_find (watch, call, partner, &entry, &found);
    if (found)
        snprintf (what, sizeof what, "%s x %llu", accel_dtype_name (entry.record.dtype),
                  (unsigned long long) entry.record.count);
    jobseg_describe (watch_slot (watch, partner), there, sizeof there); /* it waits in its call, too */
    watch_describe_site (call->site, here, sizeof here);
    if (call->kind == ACCEL_ENGINE_SEND)
        return accel_fail (err, ACCEL_ERR_PEER, "rank %d sends %s x %llu in %s, but rank %d expects %s %s",
                           watch_world_rank (watch, watch->rank), accel_dtype_name (call->dtype),
                           (unsigned long long) call->count, here, watch_world_rank (watch, partner), what, there);
    return accel_fail (err, ACCEL_ERR_PEER, "rank %d sends %s %s, but rank %d expects %s x %llu in %s",
                       watch_world_rank (watch, partner), what, there, watch_world_rank (watch, watch->rank),
                       accel_dtype_name (call->dtype), (unsigned long long) call->count, here);
}

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

/* A ledger says that a rank is in a send; its message may already have been received, if that rank is only about to
 * return.  A rank that waits notes the time (looked_ns) each time after it has found its message still there.  So a
 * cycle is certain once each of its ranks has done so twice since the cycle was first seen, and is still in the same
 * send: between the two it found its message there again, and all the others were in their sends by then. */
static bool
is_cycle (struct watch *watch, int to)
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

/* A partner that is found elsewhere may have done its part before: the engine asks once more whether it has.  On a
 * device, where calls do not wait on the host, its messages may still be on their way while it is in a later call. */
static enum accel_status
look_at_partner (struct watch *watch, const struct accel_engine_call *call, struct accel_error *err)
{
    int partner = call->root, name = watch_world_rank (watch, partner), self = watch_world_rank (watch, watch->rank);
    char why[ACCEL_ERROR_TEXT_SIZE], site[160];
    const struct jobseg_slot *slot = watch_slot (watch, partner);
    struct watch_entry entry;
    struct jobseg_record latest;
    bool found;
    void *transport;
    const struct accel_engine *engine = engine_of (watch, call, &transport);
    watch_describe_site (call->site, site, sizeof site);
    if (watch_source_is_gone (watch->source, name, why, sizeof why))
        return accel_fail (err, ACCEL_ERR_PEER, "rank %d %s; rank %d is waiting for it in %s", name, why, self, site);
    watch_find (watch, call, partner, &entry, &found);
    if (call->kind == ACCEL_ENGINE_RECV && found
        && (entry.record.dtype != call->dtype || entry.record.count != call->count))
        return differ_in_message (watch, call, err);
    bool waits = !engine || engine_knows (engine);
    if (waits && watch_find_latest (watch, partner, false, &latest) && !latest.done
        && latest.number > *watch->calls) {
        jobseg_describe (slot, why, sizeof why);
        return accel_fail (err, ACCEL_ERR_PEER,
                           "rank %d is waiting for all ranks, %s, while rank %d is waiting for it in %s", name, why,
                           self, site);
    }
    if (call->kind == ACCEL_ENGINE_SEND && is_cycle (watch, partner)) {
        jobseg_describe (slot, why, sizeof why);
        return accel_fail (err, ACCEL_ERR_PEER,
                           "ranks are sending in a cycle and none is receiving: rank %d in %s to rank %d, which is %s",
                           self, site, name, why);
    }
    return ACCEL_OK;
}

/* ---- waits that take long, where no launcher says it ---- */

/* In this call, and alive: it waits for others itself. */
static bool
waits_too (const struct watch *watch, const struct accel_engine_call *call, int rank)
{
    struct watch_entry entry;
    bool found;
    uint64_t beat = atomic_load (&watch_slot (watch, rank)->heartbeat_ns);
    return watch_find (watch, call, rank, &entry, &found) == WATCH_IN
           && beat + UINT64_C (1000000) * SIGN_OF_LIFE_MS > jobseg_now_ns ();
}

/* Whether this rank waits for @rank, which has done nothing for as long as that is too long. */
static bool
is_held_up_by (const struct watch *watch, const struct accel_engine_call *call, int rank)
{
    const struct jobseg_slot *slot = watch_slot (watch, rank);
    uint64_t after_ns = UINT64_C (1000000) * watch->warning.after_ms, step_ns = atomic_load (&slot->progress.step_ns);
    int64_t elapsed_ns = jobseg_elapsed_ns (slot);
    if (is_pair (call) ? rank != call->root : !is_awaited (watch, call, rank) || waits_too (watch, call, rank))
        return false;
    return (elapsed_ns < 0 || (uint64_t) elapsed_ns >= after_ns) && step_ns + after_ns <= jobseg_now_ns ();
}

/* The same without ledgers, by what the engine sees of messages; for however long. */
static bool
is_away (const struct watch *watch, const struct accel_engine_call *call, int rank)
{
    void *transport;
    const struct accel_engine *engine = engine_of (watch, call, &transport);
    if (is_pair (call))
        return rank == call->root;
    return rank != watch->rank && engine && engine->awaits && engine_knows (engine) && engine->awaits (transport, rank);
}

static void
list_held_up_by (const struct watch *watch, const struct accel_engine_call *call, char *text, size_t size)
{
    size_t length = 0;
    for (int rank = 0; rank < watch->size; rank++)
        if (watch->source ? is_held_up_by (watch, call, rank) : is_away (watch, call, rank))
            length = put_rank (watch, rank, text, size, length);
}

/* The first one of those that wait speaks for all; without ledgers, where an engine does not know who waits, the first
 * two do, one of which waits.  Of a pair, the other one need not wait. */
static bool
is_spokesman (const struct watch *watch, const struct accel_engine_call *call)
{
    int others = 0;
    for (int rank = 0; rank < watch->rank && !is_pair (call); rank++)
        others += watch->source ? waits_too (watch, call, rank) : !is_away (watch, call, rank);
    void *transport;
    const struct accel_engine *engine = engine_of (watch, call, &transport);
    bool knows = watch->source || (engine && engine->awaits && engine_knows (engine));
    return others <= !knows;
}

/* A rank that was stopped meanwhile, or got no processor, begins anew. */
static void
warn (struct watch *watch, const struct accel_engine_call *call)
{
    char held_up_by[ACCEL_ERROR_TEXT_SIZE] = "", site[160], text[2 * ACCEL_ERROR_TEXT_SIZE];
    struct watch_wait *wait = &watch->waits[call->device.device_type > kDLCPU];
    int64_t now_ms = (int64_t) (jobseg_now_ns () / 1000000);
    bool is_same = call->sequence == wait->sequence && call->number == wait->number
                   && (int) call->kind == wait->kind && call->root == wait->root;
    bool is_new = !is_same || now_ms - wait->looked_ms > SIGN_OF_LIFE_MS;
    wait->looked_ms = now_ms;
    if (is_new) {
        wait->sequence = call->sequence;
        wait->number = call->number;
        wait->kind = (int) call->kind;
        wait->root = call->root;
        wait->since_ms = now_ms;
        wait->pause_ms = watch->warning.after_ms;
        wait->next_ms = now_ms + wait->pause_ms;
    }
    if (now_ms < wait->next_ms)
        return;
    list_held_up_by (watch, call, held_up_by, sizeof held_up_by);
    if (!*held_up_by && watch->source)
        return; /* whom it waits for makes progress elsewhere */
    wait->next_ms = now_ms + wait->pause_ms;
    wait->pause_ms *= 2;
    watch_describe_site (call->site, site, sizeof site);
    snprintf (text, sizeof text, "rank %d has been waiting for %lld s in %s, for %s",
              watch_world_rank (watch, watch->rank), (long long) (now_ms - wait->since_ms) / 1000, site,
              *held_up_by ? held_up_by : "other ranks");
    if (is_spokesman (watch, call))
        watch->warning.say (watch->warning.context, text);
}

/* ---- what engines call ---- */

/* A later call may have taken the place of the record. */
static void
note_look (struct jobseg_slot *own, const struct accel_engine_call *call)
{
    struct jobseg_record *record = &own->ledger[(call->sequence - 1) % JOBSEG_LEDGER];
    if (!call->sequence)
        return;
    work_lock ();
    if (record->sequence == call->sequence)
        record->looked_ns = jobseg_now_ns ();
    work_unlock ();
}

enum accel_status
watch_look (void *context, const struct accel_engine_call *call, struct accel_error *err)
{
    struct watch *watch = context;
    enum accel_status status = ACCEL_OK;
    if (watch->source) {
        jobseg_beat (watch->source->own);
        note_look (watch->source->own, call);
    }
    if (watch->source && is_pair (call))
        status = look_at_partner (watch, call, err);
    else if (watch->source) {
        status = compare (watch, call, err);
        status = status ? status : look_for_dead (watch, call, err);
    }
    if (!status && watch->warning.say)
        warn (watch, call);
    return status;
}

/* Those who have not come; if all have, those who have not left. */
static void
list_missing (const struct watch *watch, const struct accel_engine_call *call, char *text, size_t size)
{
    size_t length = 0;
    void *transport;
    const struct accel_engine *engine = engine_of (watch, call, &transport);
    for (int inside = 0; inside < 2 && !length; inside++)
        for (int rank = 0; rank < watch->size; rank++) {
            struct watch_entry entry;
            bool found;
            if (is_pair (call) ? rank != call->root : !is_awaited (watch, call, rank))
                continue;
            if (inside || is_pair (call) || (engine && engine->awaits)
                || watch_find (watch, call, rank, &entry, &found) != WATCH_IN)
                length = put_rank (watch, rank, text, size, length);
        }
}

enum accel_status
watch_timed_out (void *context, const struct accel_engine_call *call, struct accel_error *err)
{
    const struct watch *watch = context;
    char site[160], missing[ACCEL_ERROR_TEXT_SIZE] = "";
    (watch->source ? list_missing : list_held_up_by) (watch, call, missing, sizeof missing);
    watch_describe_site (call->site, site, sizeof site);
    return accel_fail (err, ACCEL_ERR_TIMEOUT, "rank %d timed out after %u ms in %s, waiting for %s",
                       watch_world_rank (watch, watch->rank), watch->timeout_ms, site,
                       *missing ? missing : "other ranks");
}

enum accel_status
watch_mismatch (void *context, const struct accel_engine_call *call, int a, int b, struct accel_error *err)
{
    const struct watch *watch = context;
    struct watch_entry entries[2];
    bool found_a = false, found_b = false;
    char site[160];
    if (watch->source && is_pair (call))
        return differ_in_message (watch, call, err);
    if (watch->source) {
        watch_find (watch, call, a, &entries[0], &found_a);
        watch_find (watch, call, b, &entries[1], &found_b);
    }
    if (found_a && found_b)
        return watch_report_mismatch (watch, a, &entries[0], b, &entries[1], err);
    watch_describe_site (call->site, site, sizeof site);
    return accel_fail (err, ACCEL_ERR_PEER, "ranks %d and %d do not call the same thing while rank %d is in %s",
                       watch_world_rank (watch, a), watch_world_rank (watch, b),
                       watch_world_rank (watch, watch->rank), site);
}

enum accel_status
watch_peer_failed (void *context, const struct accel_engine_call *call, int rank, struct accel_error *err)
{
    struct watch *watch = context;
    struct watch_source *source = watch->source;
    char why[ACCEL_ERROR_TEXT_SIZE] = "", site[160];
    int at = rank < 0 ? 0 : rank, end = rank < 0 ? watch->size : rank + 1;
    watch_describe_site (call->site, site, sizeof site);
    for (; source && at < end; at++) {
        int name = watch_world_rank (watch, at);
        if (watch_source_has_failed (source, name) && watch_source_is_gone (source, name, why, sizeof why))
            return accel_fail (err, ACCEL_ERR_PEER, "rank %d %s; meanwhile rank %d was in %s", name, why,
                               watch_world_rank (watch, watch->rank), site);
    }
    if (!source && rank >= 0)
        return accel_fail (err, ACCEL_ERR_PEER, "rank %d gave up; meanwhile rank %d was in %s",
                           watch_world_rank (watch, rank), watch_world_rank (watch, watch->rank), site);
    return accel_fail (err, ACCEL_ERR_PEER, "another rank gave up while rank %d was in %s",
                       watch_world_rank (watch, watch->rank), site);
}

static void
reduce (enum accel_dtype dtype, enum accel_op op, const void *const *sources, int count_of_sources, void *target,
        size_t count)
{
    struct reduction reduction = { .dtype = dtype, .op = op, .sources = count_of_sources, .targets = 1 };
    reduce_run (&reduction, sources, &target, count);
}

void
watch_init (struct watch *watch)
{
    watch->helpers = (struct accel_engine_helpers){
        .size = sizeof watch->helpers,
        .context = watch,
        .fail = accel_fail,
        .reduce = reduce,
        .widen = floats_widen,
        .narrow = floats_narrow,
        .look = watch_look,
        .timed_out = watch_timed_out,
        .mismatch = watch_mismatch,
        .peer_failed = watch_peer_failed,
    };
}
