/* SPDX-License-Identifier: Apache-2.0 */
/* One call on the engine, which comm.c has checked: its number, its record in the ledger, and what stays broken after a
 * failure. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/links.h"
#include "lib/comm/lock.h"
#include "util/clock.h"

#include <stdio.h>

/* A process that gives up in a group is no member of the world any more either. */
static void
break_off (struct accel_comm *comm, const struct accel_error *why, const char *reason)
{
    struct accel_comm *world = comm;
    while (world->parent)
        world = world->parent;
    work_lock ();
    bootstrap_leave (&world->bootstrap, JOBSEG_FAILED, reason);
    for (; comm; comm = comm->parent) {
        if (comm->is_broken)
            continue;
        comm->broken = *why;
        if (comm->engine->give_up)
            comm->engine->give_up (comm->transport, reason);
        comm_give_up_links (comm, reason);
        atomic_store_explicit (&comm->is_broken, true, memory_order_release);
    }
    work_unlock ();
}

void
comm_give_up (struct accel_comm *comm, const char *reason)
{
    struct accel_error why;
    if (comm->is_broken)
        return;
    accel_fail (&why, ACCEL_ERR_PEER, "this process gave up: %s", reason);
    break_off (comm, &why, reason);
}

void
comm_unsettle (struct accel_comm *comm, const void *owner, const char *reason)
{
    if (comm->unsettled)
        return;
    comm->unsettled = owner;
    snprintf (comm->unsettled_text, sizeof comm->unsettled_text, "%s", reason);
}

void
comm_settle (struct accel_comm *comm, const void *owner)
{
    if (comm->unsettled == owner)
        comm->unsettled = NULL;
}

void
comm_abandon (struct accel_comm *comm, const void *owner)
{
    if (!owner || comm->unsettled != owner)
        return;
    comm->unsettled = NULL;
    comm_give_up (comm, comm->unsettled_text);
}

/* The number by which other ranks' records of the same call are found. */
static uint32_t
count_call (struct accel_comm *comm, const struct accel_engine_call *call)
{
    switch (call->kind) {
    case ACCEL_ENGINE_SEND: return ++comm->messages[call->root];
    case ACCEL_ENGINE_RECV: return ++comm->messages[comm->size + call->root];
    default: return ++comm->calls;
    }
}

static inline struct comm_observer *
observer_of (const struct accel_comm *comm)
{
    while (comm->parent)
        comm = comm->parent;
    return comm->observer;
}

/* Number @call, note it in the ledger, and set what the engine gets beside the program's arguments. */
__attribute__ ((always_inline)) static inline void
begin (struct accel_comm *comm, struct accel_engine_call *call)
{
    const struct comm_site *site = engine_site (call);
    call->public_call = site->call;
    call->form = site->form ? comm_form_hash (site->form) : 0;
    call->helpers = &comm->watch.helpers;
    call->number = count_call (comm, call);
    struct ledger_entry entry = {
        .comm = comm->id, .number = call->number, .kind = call->kind,
        .count = call->count, .dtype = call->dtype, .op = call->op, .root = call->root, .form = call->form,
        .device = comm_is_for_host (site) ? 0 : site->device.device_type,
    };
    call->sequence = ledger_begin (comm->ledger, site, &entry);
    call->device = comm_is_for_host (site) ? (DLDevice){ .device_type = kDLCPU } : site->device;
    call->stream = NULL;
}

/* Only what stays true is remembered: a peer that failed, or time that ran out, not a want of memory. */
enum accel_status
comm_execute (struct accel_comm *comm, struct accel_engine_call *call, struct accel_error *err)
{
    struct accel_error mine;
    enum accel_status status = comm_check_broken (comm, err);
    if (status)
        return status;
    struct comm_observer *observer = observer_of (comm);
    begin (comm, call);
    int64_t begin_ns = observer ? clock_ns () : 0;
    status = call->device.device_type == kDLCPU ? comm->engine->run (comm->transport, call, &mine)
                                                : comm_run_link (comm, call, &mine);
    if (observer)
        observer->note (observer, call, begin_ns);
    if (!status) {
        ledger_end (comm->ledger, call->sequence);
        return ACCEL_OK;
    }
    break_off (comm, &mine, mine.text);
    if (err)
        *err = mine;
    return status;
}

enum accel_status
comm_begin (struct accel_comm *comm, struct accel_engine_call *call, int64_t *begin_ns, struct accel_error *err)
{
    enum accel_status status = comm_check_broken (comm, err);
    if (status)
        return status;
    begin (comm, call);
    *begin_ns = observer_of (comm) ? clock_ns () : 0;
    return ACCEL_OK;
}

/* Whatever the engine says once it has given up, the first failure is the cause. */
enum accel_status
comm_conclude (struct accel_comm *comm, const struct accel_engine_call *call, int64_t begin_ns,
               enum accel_status status, const struct accel_error *why, struct accel_error *err)
{
    struct comm_observer *observer = observer_of (comm);
    if (observer)
        observer->note (observer, call, begin_ns);
    if (!status) {
        ledger_end (comm->ledger, call->sequence);
        return ACCEL_OK;
    }
    enum accel_status before = comm_check_broken (comm, err);
    if (before)
        return before;
    break_off (comm, why, why->text);
    *err = *why;
    return status;
}
