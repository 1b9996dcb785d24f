/* SPDX-License-Identifier: Apache-2.0 */
/* What has failed stays broken, and calls that are not in line; see execute.h. */
#include <config.h>

#include "lib/comm/execute.h"

#include "lib/base/error.h"
#include "lib/comm/lock.h"

#include <stdio.h>

/* A process that gives up in a group is not a member of the world any more either: what is broken above stays so.
 * Engines have locks, which a fork takes before this one. */
static void
break_off (struct accel_comm *comm, const struct accel_error *why, const char *reason)
{
    struct accel_comm *world = comm, *end = comm;
    while (world->parent)
        world = world->parent;
    work_lock ();
    bootstrap_leave (&world->bootstrap, JOBSEG_FAILED, reason);
    for (; end && !end->is_broken; end = end->parent) {
        end->broken = *why;
        atomic_store_explicit (&end->is_broken, true, memory_order_release);
    }
    work_unlock ();
    for (; comm != end; comm = comm->parent)
        comm_give_up_links (comm, reason);
}

enum accel_status
comm_fail_as_before (const struct accel_comm *comm, struct accel_error *err)
{
    if (err)
        *err = comm->broken;
    return comm->broken.code;
}

/* Only what stays true is remembered: a peer that failed, or time that ran out, not a want of memory. */
enum accel_status
comm_break (struct accel_comm *comm, const struct accel_error *why, struct accel_error *err)
{
    break_off (comm, why, why->text);
    return comm_fail_as_before (comm, err);
}

void
comm_give_up (struct accel_comm *comm, const char *reason)
{
    struct accel_error why;
    if (comm->is_broken || comm->forks != comm_forks)
        return;
    accel_fail (&why, ACCEL_ERR_PEER, "this process gave up: %s", reason);
    break_off (comm, &why, reason);
}

void
comm_defer_failure (struct accel_comm *comm, const void *owner, const char *reason)
{
    if (comm->deferred)
        return;
    comm->deferred = owner;
    snprintf (comm->deferred_text, sizeof comm->deferred_text, "%s", reason);
}

void
comm_clear_failure (struct accel_comm *comm, const void *owner)
{
    if (comm->deferred == owner)
        comm->deferred = NULL;
}

void
comm_raise_failure (struct accel_comm *comm, const void *owner)
{
    if (!owner || comm->deferred != owner)
        return;
    comm->deferred = NULL;
    comm_give_up (comm, comm->deferred_text);
}

uint64_t
comm_begin_shared (struct accel_comm *comm, const struct accel_engine_call *call)
{
    return ledger_begin_shared (comm->ledger, call->site, comm_entry_of (comm, call));
}

enum accel_status
comm_begin (struct accel_comm *comm, struct accel_engine_call *call, int64_t *begin_ns, struct accel_error *err)
{
    struct comm_observer *observer = NULL;
    enum accel_status status = comm_check_broken (comm, &observer, err);
    if (status)
        return status;
    comm_note_call (comm, call, comm_entry_of (comm, call));
    *begin_ns = observer ? clock_ns () : 0;
    return ACCEL_OK;
}

/* Whatever the engine says once it has given up, the first failure is the cause. */
enum accel_status
comm_conclude (struct accel_comm *comm, const struct accel_engine_call *call, int64_t begin_ns,
               enum accel_status status, const struct accel_error *why, struct accel_error *err)
{
    struct comm_observer *observer = NULL;
    struct accel_error first;
    enum accel_status before = comm_check_broken (comm, &observer, &first);
    if (observer)
        observer->note (observer, call, begin_ns);
    if (!status)
        ledger_end (comm->ledger, call->sequence);
    else if (before)
        *err = first;
    else
        comm_break (comm, why, err);
    return status && before ? before : status;
}

enum accel_status
comm_execute (struct accel_comm *comm, struct accel_engine_call *call, struct accel_error *err)
{
    struct accel_error why, ignored;
    int64_t begin_ns;
    enum accel_status status = comm_begin (comm, call, &begin_ns, err);
    if (status)
        return status;
    status = comm_is_for_host (engine_site (call)) ? comm->links->engine->run (comm->links->transport, call, &why)
                                                   : comm_run_link (comm, call, &why);
    return comm_conclude (comm, call, begin_ns, status, &why, err ? err : &ignored);
}
