/* SPDX-License-Identifier: Apache-2.0 */
/* Membership of a job, and what ranks tell each other while they open; see bootstrap.h. */
#include <config.h>

#include "lib/comm/bootstrap/bootstrap_object.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/futex.h"

#include <string.h>

/* The process that is a member of a job: a rank is one member, whatever launched it.  So it is not of a job, but
 * static; and the id of the process, because what a fork inherits is not its own. */

static _Atomic pid_t member;

/* Ranks of several hosts meet in their engine.  Their launchers pass on why one of them gave up, so that the head can
 * tell causes from consequences.  A second program of the job, such as a child of the rank, leaves the slot to
 * the first. */
static void
take_slot_of_launcher (struct bootstrap *bootstrap, const struct engine_job *job)
{
    if (!job->segment.header)
        return;
    struct jobseg_slot *slot = jobseg_slot (&job->segment, job->base.local_rank);
    bootstrap_take_slot (bootstrap, slot, atomic_load (&slot->generation) + 1);
}

enum accel_status
bootstrap_open (struct bootstrap *bootstrap, struct engine_job *job, struct accel_error *err)
{
    AUTO_CLOSE int listener = -1;
    const struct accel_engine_job *base = &job->base;
    *bootstrap = (struct bootstrap){ .segment = JOBSEG_NONE };
    if (atomic_exchange (&member, getpid ()) == getpid ())
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_open: this process has already joined its job");
    bootstrap->member = true;
    bootstrap->pid = getpid ();
    if (base->local_world_size != base->world_size) {
        take_slot_of_launcher (bootstrap, job);
        return ACCEL_OK;
    }
    bootstrap->rank = base->local_rank;
    bootstrap->size = base->local_world_size;
    bootstrap->timeout_ms = base->timeout_ms;
    enum accel_status status = job->segment.header ? ACCEL_OK : bootstrap_rendezvous (job, &listener, err);
    if (status)
        return status;
    bootstrap->segment = job->segment;
    status = bootstrap_join (bootstrap, job, listener, err);
    job->generation = bootstrap->generation;
    return status;
}

void
bootstrap_ready (struct bootstrap *bootstrap)
{
    if (bootstrap->slot)
        atomic_store (&bootstrap->slot->state, JOBSEG_READY);
}

/* A rank's latest round, whichever program of it: later ones count as having been here. */
static bool
has_come (const struct bootstrap *bootstrap, int rank)
{
    uint64_t wanted = (uint64_t) bootstrap->generation << 32 | bootstrap->round;
    return atomic_load (&jobseg_slot (&bootstrap->segment, rank)->exchanged) >= wanted;
}

static enum accel_status
await (struct bootstrap *bootstrap, int rank, int64_t deadline_ms, struct accel_error *err)
{
    struct jobseg_slot *slot = jobseg_slot (&bootstrap->segment, rank);
    char did[160];
    while (!has_come (bootstrap, rank)) {
        uint32_t seen = atomic_load (&slot->exchange_bell);
        enum accel_status status = bootstrap_look (bootstrap, err);
        if (has_come (bootstrap, rank))
            return ACCEL_OK;
        if (status)
            return status;
        if (clock_ms () >= deadline_ms) {
            jobseg_describe (slot, did, sizeof did);
            return accel_fail (err, ACCEL_ERR_TIMEOUT,
                               "accel_open: rank %d timed out after %u ms, waiting for rank %d (%s)", bootstrap->rank,
                               bootstrap->timeout_ms, rank, did);
        }
        jobseg_beat (bootstrap->slot);
        futex_wait (&slot->exchange_bell, seen, BOOTSTRAP_SLICE_MS);
    }
    return ACCEL_OK;
}

/* A rank can be one round ahead of another but never two, because the second needs the other's first: so two blobs
 * suffice, used in turn. */
enum accel_status
bootstrap_exchange (struct bootstrap *bootstrap, const void *mine, void *all, size_t bytes, struct accel_error *err)
{
    if (!bootstrap->source)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_open: processes can exchange data while they open only if all are on one host");
    if (bytes > JOBSEG_BLOB)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_open: an engine exchanges %zu bytes, but at most %d are "
                           "possible", bytes, JOBSEG_BLOB);
    struct jobseg_slot *own = bootstrap->slot;
    int64_t deadline_ms = clock_ms () + bootstrap->timeout_ms;
    size_t turn = ++bootstrap->round & 1;
    memcpy (own->blobs[turn], mine, bytes);
    atomic_store (&own->exchanged, (uint64_t) bootstrap->generation << 32 | bootstrap->round);
    atomic_fetch_add (&own->exchange_bell, 1);
    futex_wake (&own->exchange_bell);
    for (int rank = 0; rank < bootstrap->size; rank++) {
        enum accel_status status = await (bootstrap, rank, deadline_ms, err);
        if (status)
            return status;
        memcpy ((char *) all + (size_t) rank * bytes, jobseg_slot (&bootstrap->segment, rank)->blobs[turn], bytes);
    }
    return ACCEL_OK;
}

void
bootstrap_leave (struct bootstrap *bootstrap, enum jobseg_state state, const char *reason)
{
    struct jobseg_slot *slot = bootstrap->slot;
    if (!slot || getpid () != bootstrap->pid)
        return;
    /* Its first reason stays, be it of a group or of the world. */
    if (atomic_load (&slot->state) == JOBSEG_FAILED)
        return;
    if (reason) {
        atomic_store (&slot->failed_generation, 0);
        snprintf (slot->reason, sizeof slot->reason, "%s", reason);
    }
    if (state == JOBSEG_FAILED)
        atomic_store (&slot->failed_generation, bootstrap->generation);
    atomic_store (&slot->state, state);
}

void
bootstrap_close (struct bootstrap *bootstrap)
{
    watch_source_destroy (bootstrap->source);
    bootstrap->source = NULL;
    bootstrap->slot = NULL; /* the segment is detached next */
    if (bootstrap->member && getpid () == bootstrap->pid)
        atomic_store (&member, 0);
    bootstrap->member = false;
}
