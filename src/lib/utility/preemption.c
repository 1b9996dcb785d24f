/* SPDX-License-Identifier: Apache-2.0 */
/* accel_should_save() and accel_should_stop(): each step has a round, in which each rank gives its vote, the requests
 * that it alone has seen.  A call returns what the votes of the round before come to, which nearly always have been
 * given by then: so no rank waits for one that is less than a round behind, and all ranks get the same answers.  In
 * programs that call both, accel_should_save() has the round: a second one in the same step would wait for this step's
 * votes, and so for the slowest rank.
 *
 * Ranks of one host vote in their slots of the job segment.  Those of several have a communicator of their own, on
 * which an all-reduce is in flight from one round to the next. */
#include <config.h>

#include "lib/utility/preemption.h"

#include <accel/group.h>
#include <accel/preemption.h>

#include "lib/base/error.h"
#include "lib/comm/execute.h"
#include "lib/comm/wait.h"
#include "lib/state/state_object.h"
#include "lib/utility/request_signals.h"
#include "util/clock.h"

#include <sched.h>

enum { REQUESTS = JOBSEG_SAVE | JOBSEG_STOP, SPINS = 200, YIELDS = 20, PAUSE_US = 100, LOOK_MS = 50 };

/* A vote, in one word, so that it is read at once: the rank's generation, the number of its latest round, and its
 * requests in the last four rounds, the latest in the lowest bits.  When a rank reads the votes of round n, those of
 * others are from n to n + 2. */
enum { VOTE_BITS = 2, HISTORY_BITS = 8, NUMBER_BITS = 40 };

struct preemption {
    struct part part;
    bool takes_signals;
    bool asks_to_save; /* the program calls accel_should_save() */
    bool has_round;    /* it has, since the latest accel_should_stop() */
    uint32_t pending;  /* what the ranks have agreed on, and a call has not yet passed on; a stop stays */
    uint64_t rounds;   /* begun */
    uint64_t history;  /* own votes */
    struct accel_comm *comm; /* of ranks on several hosts; NULL: there are none, or no round has begun */
    struct accel_work *work; /* of the latest round; NULL: none */
    uint8_t votes[VOTE_BITS]; /* what `work` reduces: a byte per request */
};

static struct preemption *
preemption_of (const struct accel *acc)
{
    return (struct preemption *) (void *) part_find (acc, &part_preemption);
}

static struct jobseg_slot *
slot_of (const struct accel *acc)
{
    return acc->segment.header ? jobseg_slot (&acc->segment, acc->identity.local_rank) : NULL;
}

static void
take_signals (struct preemption *its)
{
    if (!its->takes_signals)
        request_signals_take ();
    its->takes_signals = true;
}

static void
respect (const struct accel *acc, uint32_t requests)
{
    struct jobseg_slot *slot = slot_of (acc);
    if (slot && (atomic_load_explicit (&slot->respects, memory_order_relaxed) & requests) != requests)
        atomic_fetch_or (&slot->respects, requests);
}

/* For the launcher's report. */
static void
show_agreed (const struct accel *acc, uint32_t requests)
{
    struct jobseg_slot *slot = slot_of (acc);
    if (!slot)
        return;
    if (requests & JOBSEG_SAVE)
        atomic_store (&slot->asked_saves, atomic_load (&slot->saves));
    atomic_fetch_or (&slot->agreed, requests);
}

/* ---- votes ---- */

/* What this rank has been asked for, and, on local rank 0, the whole job. */
static uint32_t
take_requests (const struct accel *acc)
{
    struct jobseg_slot *slot = slot_of (acc);
    uint32_t found = request_signals_read ();
    if (slot && atomic_load_explicit (&slot->request, memory_order_relaxed))
        found |= atomic_exchange (&slot->request, 0);
    _Atomic uint32_t *of_job = slot && !acc->identity.local_rank ? &acc->segment.header->request : NULL;
    if (of_job && atomic_load_explicit (of_job, memory_order_relaxed) & REQUESTS)
        found |= atomic_fetch_and (of_job, ~(uint32_t) REQUESTS);
    return found & REQUESTS;
}

/* A round of ranks on one host. */
struct ballot {
    struct watch watch; /* the world's, but for whom it awaits */
    const struct accel_comm *world;
    uint64_t round; /* whose votes are read */
};

static uint64_t
vote_of (uint32_t generation, uint64_t number, uint64_t history)
{
    return (uint64_t) generation << (NUMBER_BITS + HISTORY_BITS) | number << HISTORY_BITS | history;
}

/* @return whether rank @rank has voted  @param[out] requests  its vote is added */
static bool
read_vote (const struct ballot *ballot, int rank, uint32_t *requests)
{
    const struct watch *watch = &ballot->world->watch;
    uint64_t word = atomic_load_explicit (&watch_slot (watch, rank)->votes, memory_order_acquire);
    uint64_t ahead = (word >> HISTORY_BITS) - (vote_of (watch->generation, ballot->round, 0) >> HISTORY_BITS);
    if (ahead >= HISTORY_BITS / VOTE_BITS)
        return false;
    *requests |= (uint32_t) (word >> ahead * VOTE_BITS) & REQUESTS;
    return true;
}

/* For the watch, to which a ballot is the transport of an engine. */
static bool
is_awaited (void *transport, int rank)
{
    uint32_t unused = 0;
    return !read_vote (transport, rank, &unused);
}

/* Until rank @rank has voted, or it is known that it never will. */
static enum accel_status
await (struct ballot *ballot, int rank, const struct accel_engine_call *call, struct accel_error *err)
{
    int64_t until_ms = clock_ms () + ballot->watch.timeout_ms, look_ms = 0;
    for (int i = 0; i < YIELDS && is_awaited (ballot, rank); i++)
        sched_yield ();
    while (is_awaited (ballot, rank)) {
        int64_t now_ms = clock_ms ();
        enum accel_status status = ACCEL_OK;
        if (now_ms >= until_ms)
            return watch_timed_out (&ballot->watch, call, err);
        if (now_ms >= look_ms) {
            status = watch_look (&ballot->watch, call, err);
            look_ms = now_ms + LOOK_MS;
        }
        if (status)
            return status;
        nanosleep (&(struct timespec){ .tv_nsec = PAUSE_US * 1000 }, NULL);
    }
    return ACCEL_OK;
}

/* No record of a ledger is one of this number, so the watch compares no calls. */
__attribute__ ((cold, noinline)) static enum accel_status
await_late (struct ballot *ballot, struct accel_comm *world, int rank, const struct comm_site *site,
            struct accel_error *err)
{
    static const struct accel_engine votes = { .name = "votes", .awaits = is_awaited };
    struct accel_error why;
    struct accel_engine_call call = { .kind = ACCEL_ENGINE_BARRIER, .root = -1, .site = site };
    ballot->watch = world->watch;
    ballot->watch.engine = &votes;
    ballot->watch.transport = ballot;
    ballot->watch.engine_of = NULL;
    ballot->watch.comm = UINT64_MAX;
    call.sequence = comm_note_begin (world, site, 0);
    enum accel_status status = await (ballot, rank, &call, &why);
    if (status)
        return comm_break (world, &why, err);
    comm_note_end (world, call.sequence);
    return ACCEL_OK;
}

/* A rank that is at work on another processor is nearly there. */
static bool
spin (const struct ballot *ballot, int rank, uint32_t *requests)
{
    for (int i = 0; i < SPINS; i++) {
        if (read_vote (ballot, rank, requests))
            return true;
        relax ();
    }
    return false;
}

static enum accel_status
vote_on_host (struct preemption *its, struct accel *acc, const struct comm_site *site, uint32_t *requests,
              struct accel_error *err)
{
    struct accel_comm *world = acc->world;
    struct ballot ballot = { .world = world, .round = its->rounds };
    enum accel_status status = ACCEL_OK;
    its->history = (its->history << VOTE_BITS | *requests) & ((1 << HISTORY_BITS) - 1);
    its->rounds++;
    atomic_store_explicit (&slot_of (acc)->votes, vote_of (world->watch.generation, its->rounds, its->history),
                           memory_order_release);
    *requests = 0;
    for (int rank = 0; !status && ballot.round && rank < world->size; rank++) {
        if (read_vote (&ballot, rank, requests) || spin (&ballot, rank, requests))
            continue;
        status = await_late (&ballot, world, rank, site, err);
        if (!status)
            read_vote (&ballot, rank, requests);
    }
    return status;
}

static enum accel_status
vote_by_reduction (struct preemption *its, struct accel *acc, const struct comm_site *site, uint32_t *requests,
                   struct accel_error *err)
{
    uint32_t own = *requests;
    enum accel_status status = ACCEL_OK;
    *requests = 0;
    if (!its->comm)
        status = accel_comm_split_at (site->file, site->line, &its->comm, acc->world, 0, 0, err);
    if (its->work)
        status = work_finish (its->work, err);
    for (int i = 0; its->work && i < VOTE_BITS; i++)
        *requests |= (uint32_t) its->votes[i] << i;
    its->work = NULL;
    if (status)
        return status;
    for (int i = 0; i < VOTE_BITS; i++)
        its->votes[i] = own >> i & 1;
    return comm_start_all_reduce (its->comm, site, its->votes, VOTE_BITS, ACCEL_UINT8, ACCEL_MAX, &its->work, err);
}

/* @return what is asked for and not passed on yet in `pending` */
static enum accel_status
run_round (struct accel *acc, const struct comm_site *site, uint32_t respected, struct accel_error *err)
{
    struct preemption *its = preemption_of (acc);
    struct accel_comm *world = acc->world;
    enum accel_status status = comm_check_process (world, site, err);
    if (!status && world->is_broken)
        status = comm_fail_as_before (world, err);
    if (status)
        return status;
    take_signals (its);
    respect (acc, respected);
    uint32_t requests = take_requests (acc);
    if (world->size > 1 && world->watch.source)
        status = vote_on_host (its, acc, site, &requests, err);
    else if (world->size > 1)
        status = vote_by_reduction (its, acc, site, &requests, err);
    if (status)
        return status;
    its->pending |= requests;
    if (requests)
        show_agreed (acc, requests);
    return ACCEL_OK;
}

/* ---- the calls ---- */

enum accel_status
accel_should_save_at (const char *file, int line, struct accel *acc, bool *save, struct accel_error *err)
{
    const struct comm_site *site = SITE (SHOULD_SAVE);
    if (!acc || !save)
        return comm_refuse (site, acc ? "save is NULL" : "the job is NULL", err);
    enum accel_status status = run_round (acc, site, JOBSEG_SAVE, err);
    if (status)
        return status;
    struct preemption *its = preemption_of (acc);
    its->asks_to_save = its->has_round = true;
    *save = its->pending & JOBSEG_SAVE;
    its->pending &= ~(uint32_t) JOBSEG_SAVE;
    return ACCEL_OK;
}

/* A request may become known in a round of this call, after accel_should_save() has said no: it waits for the next one,
 * so that what is asked for is saved before the end. */
enum accel_status
accel_should_stop_at (const char *file, int line, struct accel *acc, bool *stop, struct accel_error *err)
{
    const struct comm_site *site = SITE (SHOULD_STOP);
    if (!acc || !stop)
        return comm_refuse (site, acc ? "stop is NULL" : "the job is NULL", err);
    struct preemption *its = preemption_of (acc);
    enum accel_status status = its->has_round ? ACCEL_OK : run_round (acc, site, JOBSEG_STOP, err);
    if (status)
        return status;
    its->has_round = false;
    respect (acc, JOBSEG_STOP);
    *stop = its->pending & JOBSEG_STOP && !(its->asks_to_save && its->pending & JOBSEG_SAVE);
    return ACCEL_OK;
}

/* ---- the part ---- */

static enum accel_status
open_preemption (struct part *part, const struct accel_options *options, struct accel_error *err)
{
    (void) err;
    if (options && options->catch_signals)
        take_signals ((struct preemption *) (void *) part);
    return ACCEL_OK;
}

void
preemption_begin (struct accel *acc)
{
    struct jobseg_slot *slot = slot_of (acc);
    request_signals_follow (acc->segment.header);
    if (slot)
        atomic_store (&slot->agreed, 0);
    if (preemption_of (acc)->takes_signals)
        respect (acc, REQUESTS);
}

static void
close_preemption (struct part *part)
{
    struct preemption *its = (struct preemption *) (void *) part;
    struct jobseg_slot *slot = slot_of (part->acc);
    if (slot)
        atomic_store (&slot->respects, 0);
    if (its->takes_signals)
        request_signals_leave ();
    request_signals_follow (NULL);
    comm_close (its->comm);
}

const struct part_kind part_preemption = { .size_bytes = sizeof (struct preemption), .open = open_preemption,
                                           .close = close_preemption };
