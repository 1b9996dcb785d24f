/* SPDX-License-Identifier: Apache-2.0 */
/* One call on the engine, which comm.c has checked: its number, its record in the ledger, and what stays broken after a
 * failure.  What every call goes through is in line: a small collective takes few instructions. */
#ifndef LIB_COMM_EXECUTE_H
#define LIB_COMM_EXECUTE_H

#include "lib/comm/comm_object.h"
#include "lib/comm/links.h"
#include "lib/comm/progress.h"
#include "util/clock.h"

/** Fail with what was said when @p comm broke. */
__attribute__ ((cold)) enum accel_status comm_fail_as_before (const struct accel_comm *comm, struct accel_error *err);

/** A call on @p comm has failed: break it, and what it is a group of, and tell the peers.  The first failure counts: it
 *  may be that of another thread.  @return its code */
__attribute__ ((cold)) enum accel_status comm_break (struct accel_comm *comm, const struct accel_error *why,
                                                     struct accel_error *err);

/** Whether @p comm, or what it is a group of, is broken.
 *  @param[out] observer  the world's, if none is */
static inline enum accel_status
comm_check_broken (const struct accel_comm *comm, struct comm_observer **observer, struct accel_error *err)
{
    do {
        if (atomic_load_explicit (&comm->is_broken, memory_order_acquire))
            return comm_fail_as_before (comm, err);
        *observer = comm->observer;
        comm = comm->parent;
    } while (comm);
    return ACCEL_OK;
}

/** The number by which other ranks' records of the same call are found. */
static inline uint32_t
comm_count_call (struct accel_comm *comm, enum accel_engine_kind kind, int root)
{
    switch (kind) {
    case ACCEL_ENGINE_SEND: return ++comm->messages[root];
    case ACCEL_ENGINE_RECV: return ++comm->messages[comm->size + root];
    default: return ++comm->calls;
    }
}

static inline struct ledger_entry
comm_entry_of (const struct accel_comm *comm, const struct accel_engine_call *call)
{
    return (struct ledger_entry){
        .comm = comm->id, .number = call->number, .kind = (uint8_t) call->kind, .count = call->count,
        .dtype = (uint8_t) call->dtype, .op = (uint8_t) call->op, .root = (int16_t) call->root, .form = call->form,
    };
}

/** ledger_begin_shared() of @p call: out of line, or every call would have its entry in memory. */
__attribute__ ((cold)) uint64_t comm_begin_shared (struct accel_comm *comm, const struct accel_engine_call *call);

/** Number @p call, note it in the ledger, and set what the engine gets beside the program's arguments.
 *  @param entry  comm_entry_of() it, as far as that is known; by value, so that constants remain constants
 *  @return its record; NULL if there is none, or other threads write records, too */
__attribute__ ((always_inline)) static inline struct jobseg_record *
comm_note_call (struct accel_comm *comm, struct accel_engine_call *call, struct ledger_entry entry)
{
    const struct comm_site *site = engine_site (call);
    struct ledger *ledger = comm->ledger;
    struct jobseg_record *record = NULL;
    call->public_call = jobseg_call_that_blocks (site->call);
    call->form = entry.form = site->form ? comm_form_hash (site->form) : 0;
    call->helpers = &comm->watch.helpers;
    call->number = entry.number = comm_count_call (comm, (enum accel_engine_kind) entry.kind, entry.root);
    if (!ledger->slot)
        call->sequence = 0;
    else if (ledger_is_shared (ledger))
        call->sequence = comm_begin_shared (comm, call);
    else {
        record = ledger_write (ledger, site, entry);
        call->sequence = ledger->sequence;
    }
    call->device = (DLDevice){ .device_type = kDLCPU };
    call->stream = NULL;
    return record;
}

/** Run @p call, whose buffers are in host memory, on this thread and now; it is not observed. */
__attribute__ ((always_inline)) static inline enum accel_status
comm_run (struct accel_comm *comm, struct accel_engine_call *call, struct ledger_entry entry, struct accel_error *err)
{
    struct accel_error mine;
    struct jobseg_record *record = comm_note_call (comm, call, entry);
    const struct jobseg_slot *slot = comm->ledger->slot;
    uint64_t begin_ns = slot ? atomic_load_explicit (&slot->heartbeat_ns, memory_order_relaxed) : 0; /* just written */
    enum accel_status status = comm->links->engine->run (comm->links->transport, call, &mine);
    progress_note_wait (comm, begin_ns);
    if (__builtin_expect (status != ACCEL_OK, false))
        return comm_break (comm, &mine, err);
    if (record && !ledger_is_shared (comm->ledger))
        ledger_close (record, call->sequence);
    else
        ledger_end (comm->ledger, call->sequence);
    return ACCEL_OK;
}

#endif
