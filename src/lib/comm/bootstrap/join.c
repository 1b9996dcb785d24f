/* SPDX-License-Identifier: Apache-2.0 */
/* Joining: all local ranks meet in one generation.
 *
 * A generation is one round of accel_open().  A rank's script may run several programs one after the other; each joins
 * the generation after the one that was ready last, which is the same number for all, since no rank can have left a
 * generation that was never ready. */
#include <config.h>

#include "lib/comm/bootstrap/bootstrap_object.h"

#include "lib/base/error.h"
#include "util/clock.h"
#include "util/futex.h"
#include "util/procfs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static bool
has_joined (const struct bootstrap *bootstrap, int rank)
{
    const struct jobseg_slot *slot = jobseg_slot (&bootstrap->segment, rank);
    uint32_t state = atomic_load (&slot->state);
    return (state == JOBSEG_JOINING || state == JOBSEG_READY)
           && atomic_load (&slot->generation) == bootstrap->generation;
}

/* By this process: it has become this program by exec() without leaving, and its peers will hear that it has opened
 * again. */
bool
bootstrap_take_slot (struct bootstrap *bootstrap, struct jobseg_slot *slot, uint32_t generation)
{
    uint32_t state = atomic_load (&slot->state);
    pid_t pid = atomic_load (&slot->pid);
    bool active = state == JOBSEG_JOINING || state == JOBSEG_READY;
    if (active && pid != getpid () && atomic_load (&slot->pid_space) == procfs_pid_space () && !kill (pid, 0))
        return false;
    bootstrap->slot = slot;
    bootstrap->generation = generation;
    /* The old state goes first: with the new generation it would say that this rank has left that one. */
    atomic_store (&slot->state, JOBSEG_EMPTY);
    atomic_store (&slot->pid, getpid ());
    atomic_store (&slot->pid_space, procfs_pid_space ());
    if (atomic_load (&slot->failed_generation) == generation) /* it gave up before all had joined */
        atomic_store (&slot->failed_generation, 0);
    atomic_store (&slot->generation, generation);
    atomic_store (&slot->state, JOBSEG_JOINING);
    futex_wake (&slot->state);
    return true;
}

/* A slot in use by another living process is that of a second rank with the same number. */
static enum accel_status
take_own_slot (struct bootstrap *bootstrap, struct accel_error *err)
{
    struct jobseg_slot *slot = jobseg_slot (&bootstrap->segment, bootstrap->rank);
    if (bootstrap_take_slot (bootstrap, slot, atomic_load (&bootstrap->segment.header->ready_generation) + 1))
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID, "accel_open: processes %d and %d are both rank %d",
                       (int) atomic_load (&slot->pid), (int) getpid (), bootstrap->rank);
}

static enum accel_status
list_missing (const struct bootstrap *bootstrap, struct accel_error *err)
{
    char missing[ACCEL_ERROR_TEXT_SIZE] = "", did[160];
    size_t length = 0;
    for (int rank = 0; rank < bootstrap->size && length < sizeof missing; rank++)
        if (!has_joined (bootstrap, rank)) {
            jobseg_describe (jobseg_slot (&bootstrap->segment, rank), did, sizeof did);
            length += (size_t) snprintf (missing + length, sizeof missing - length, "%srank %d (%s)",
                                         length ? ", " : "", rank, did);
        }
    return accel_fail (err, ACCEL_ERR_TIMEOUT, "accel_open: rank %d timed out after %u ms, waiting for %s",
                       bootstrap->rank, bootstrap->timeout_ms, length ? missing : "rank 0 to let it in");
}

enum accel_status
bootstrap_look (struct bootstrap *bootstrap, struct accel_error *err)
{
    struct watch_source *source = bootstrap->source;
    char why[ACCEL_ERROR_TEXT_SIZE];
    for (int gave_up = 0; gave_up < 2; gave_up++)
        for (int rank = 0; rank < bootstrap->size; rank++) {
            if (watch_source_has_failed (source, rank) == gave_up
                && watch_source_is_gone (source, rank, why, sizeof why))

                return accel_fail (err, ACCEL_ERR_PEER, "accel_open: rank %d %s before all ranks had joined", rank,
                                   why);
        }
    return ACCEL_OK;
}

/* One wait of local rank 0: for a client of the rendezvous, or for the next slot to change. */
static enum accel_status
await_slot (struct bootstrap *bootstrap, const struct engine_job *job, int listener, int rank, struct accel_error *err)
{
    struct jobseg_slot *slot = jobseg_slot (&bootstrap->segment, rank);
    uint32_t state = atomic_load (&slot->state);
    if (listener >= 0)
        return bootstrap_serve (job, listener, 1, err);
    if (!has_joined (bootstrap, rank))
        futex_wait (&slot->state, state, BOOTSTRAP_SLICE_MS);
    return ACCEL_OK;
}

static enum accel_status
lead (struct bootstrap *bootstrap, const struct engine_job *job, int listener, struct accel_error *err)
{
    int64_t deadline = clock_ms () + bootstrap->timeout_ms;
    for (int rank = 0; rank < bootstrap->size;) {
        if (has_joined (bootstrap, rank)) {
            watch_source_follow (bootstrap->source, rank++);
            continue;
        }
        enum accel_status status = bootstrap_look (bootstrap, err);
        if (status)
            return status;
        if (clock_ms () >= deadline)
            return list_missing (bootstrap, err);
        jobseg_beat (bootstrap->slot);
        status = await_slot (bootstrap, job, listener, rank, err);
        if (status)
            return status;
    }
    atomic_store (&bootstrap->segment.header->ready_generation, bootstrap->generation);
    futex_wake (&bootstrap->segment.header->ready_generation);
    return ACCEL_OK;
}

static enum accel_status
follow (struct bootstrap *bootstrap, struct accel_error *err)
{
    _Atomic uint32_t *ready = &bootstrap->segment.header->ready_generation;
    int64_t deadline = clock_ms () + bootstrap->timeout_ms;
    uint32_t seen;
    while ((seen = atomic_load (ready)) != bootstrap->generation) {
        enum accel_status status = bootstrap_look (bootstrap, err);
        if (status)
            return atomic_load (ready) == bootstrap->generation ? ACCEL_OK : status;
        if (clock_ms () >= deadline)
            return list_missing (bootstrap, err);
        jobseg_beat (bootstrap->slot);
        futex_wait (ready, seen, BOOTSTRAP_SLICE_MS);
    }
    return ACCEL_OK;
}

enum accel_status
bootstrap_join (struct bootstrap *bootstrap, struct engine_job *job, int listener, struct accel_error *err)
{
    enum accel_status status = take_own_slot (bootstrap, err);
    if (status)
        return status;
    bootstrap->source
        = watch_source_create (&bootstrap->segment, bootstrap->rank, bootstrap->size, bootstrap->generation);
    if (!bootstrap->source)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    status = bootstrap->rank == 0 ? lead (bootstrap, job, listener, err) : follow (bootstrap, err);
    for (int rank = 0; rank < bootstrap->size; rank++)
        watch_source_follow (bootstrap->source, rank);
    return status;
}
