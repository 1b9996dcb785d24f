/* SPDX-License-Identifier: Apache-2.0 */
/* The waist of communication: every collective, public or the library's own, is checked, noted in the ledger and handed
 * to the engine here. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_object.h"
#include "lib/kernels/reduce.h"
#include "lib/utility/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ask each engine in turn; the reasons of those that refuse make the message when none is left. */
static enum accel_status
choose (const struct engine **chosen, const struct engine_job *job, struct accel_error *err)
{
    char reasons[ACCEL_ERROR_TEXT_SIZE] = "";
    size_t length = 0;
    bool known = false;
    for (int i = 0; engines[i]; i++) {
        const struct engine *engine = engines[i];
        struct accel_error why = { 0 };
        if (job->engine && strcmp (job->engine, engine->name))
            continue;
        known = true;
        if (engine->abi == ENGINE_ABI && engine->size == sizeof *engine && !engine->probe (job, &why)) {
            *chosen = engine;
            return ACCEL_OK;
        }
        if (length < sizeof reasons)
            length += (size_t) snprintf (reasons + length, sizeof reasons - length, "%s%s %s", length ? "; " : "",
                                         engine->name, why.text[0] ? why.text : "was built for a different libaccel "
                                                                                 "release");
    }
    if (!known)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_open: unknown engine '%.40s': this build has self and shm", job->engine);
    return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_open: no engine can connect this job: %s", reasons);
}

static enum accel_status
exchange (void *context, const void *mine, void *all, size_t bytes, struct accel_error *err)
{
    const struct watch *watch = context;
    return bootstrap_exchange (watch->bootstrap, mine, all, bytes, err);
}

/* All ranks are here before the engine connects them, and it has connected them before this one counts as a member. */
static enum accel_status
connect_job (struct accel_comm *comm, const struct engine *engine, struct engine_job *job, struct accel_error *err)
{
    enum accel_status status = engine->alone ? ACCEL_OK : bootstrap_open (&comm->bootstrap, job, err);
    if (status)
        return status;
    comm_watch (comm, NULL, job->timeout_ms);
    comm->watch.helpers.exchange = exchange;
    comm->watch.engine = engine;
    job->helpers = &comm->watch.helpers;
    status = engine->open (&comm->transport, job, err);
    if (status)
        return status;
    comm->engine = engine;
    comm->watch.transport = comm->transport;
    bootstrap_ready (&comm->bootstrap);
    return ACCEL_OK;
}

enum accel_status
comm_open (struct accel_comm **comm, struct engine_job *job, struct accel_error *err)
{
    *comm = NULL;
    const struct engine *engine = NULL;
    struct accel_error why;
    enum accel_status status = choose (&engine, job, err);
    if (status)
        return status;
    struct accel_comm *made = comm_create (NULL, job->identity.rank, job->identity.world_size);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    status = connect_job (made, engine, job, &why);
    if (status) {
        bootstrap_leave (&made->bootstrap, JOBSEG_FAILED, why.text);
        if (err)
            *err = why;
        goto error;
    }
    made->ledger = &made->own_ledger;
    ledger_open (made->ledger, job->segment.header ? jobseg_slot (&job->segment, job->identity.local_rank) : NULL);
    *comm = made;
    return ACCEL_OK;
error:
    comm_close (made);
    return status;
}

/* The object is the first member.  The parent may be gone: closing a group does not look at it. */
static void
end_comm (struct object *object)
{
    struct accel_comm *comm = (struct accel_comm *) (void *) object;
    comm_abandon (comm, comm->unsettled);
    bootstrap_leave (&comm->bootstrap, JOBSEG_LEFT, NULL);
    if (comm->engine)
        comm->engine->close (comm->transport);
    profile_destroy (comm->profile);
    comm->profile = NULL;
    free (comm->messages);
    free (comm->watch.members);
    bootstrap_close (&comm->bootstrap);
    if (comm->parent)
        object_let_go (&comm->parent->object);
}

struct accel_comm *
comm_create (struct accel_comm *parent, int rank, int size)
{
    struct accel_comm *comm = calloc (1, sizeof *comm);
    uint32_t *messages = calloc ((size_t) size, 2 * sizeof *messages);
    if (!comm || !messages) {
        free (comm);
        free (messages);
        return NULL;
    }
    comm->object = (struct object) OBJECT_INIT (OBJECT_COMM, end_comm);
    comm->parent = parent;
    comm->rank = rank;
    comm->size = size;
    comm->messages = messages;
    if (parent)
        object_hold (&parent->object);
    return comm;
}

bool
comm_watch (struct accel_comm *comm, const int *ranks, uint32_t timeout_ms)
{
    struct watch *watch = &comm->watch;
    watch_init (watch);
    watch->engine = comm->engine;
    watch->transport = comm->transport;
    watch->calls = &comm->calls;
    watch->comm = comm->id;
    watch->rank = comm->rank;
    watch->size = comm->size;
    watch->timeout_ms = timeout_ms;
    watch->source = comm->parent ? comm->parent->watch.source : comm->bootstrap.source;
    watch->generation = comm->parent ? comm->parent->watch.generation : comm->bootstrap.generation;
    watch->bootstrap = &comm->bootstrap;
    if (comm->parent) {
        watch->members = calloc ((size_t) comm->size, sizeof *watch->members);
        for (int i = 0; watch->members && i < comm->size; i++)
            watch->members[i] = watch_name (&comm->parent->watch, ranks[i]);
        return watch->members;
    }
    return true;
}

void
comm_close (struct accel_comm *comm)
{
    object_destroy (comm ? &comm->object : NULL);
}

/* A process that gives up in a group is no member of the world any more either. */
static void
break_off (struct accel_comm *comm, const struct accel_error *why, const char *reason)
{
    struct accel_comm *world = comm;
    while (world->parent)
        world = world->parent;
    bootstrap_leave (&world->bootstrap, JOBSEG_FAILED, reason);
    for (; comm; comm = comm->parent) {
        if (comm->broken.code)
            continue;
        comm->broken = *why;
        comm->engine->give_up (comm->transport, reason);
    }
}

void
comm_give_up (struct accel_comm *comm, const char *reason)
{
    struct accel_error why;
    if (comm->broken.code)
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

static _Thread_local bool reserved_for_me;

void
comm_reserve (struct accel_comm *comm, bool reserved)
{
    atomic_store_explicit (&comm->reserved, reserved, memory_order_relaxed);
}

void
comm_reserved_for_me (void)
{
    reserved_for_me = true;
}

static bool
is_reserved (const struct accel_comm *comm)
{
    return atomic_load_explicit (&comm->reserved, memory_order_relaxed) && !reserved_for_me;
}

struct jobseg_record *
comm_note_begin (struct accel_comm *comm, const struct comm_site *site, size_t count)
{
    if (is_reserved (comm))
        return NULL; /* another thread may be writing in the ledger */
    return ledger_begin (comm->ledger, site, &(struct ledger_entry){ .count = count, .root = -1 });
}

void
comm_note_end (struct jobseg_record *record)
{
    ledger_end (record);
}

enum accel_status
comm_check_reduction (const struct comm_site *site, enum accel_dtype dtype, enum accel_op op, double scale,
                      struct accel_error *err)
{
    if ((unsigned) op >= ACCEL_OP_COUNT)
        return comm_refuse (site, "invalid operation", err);
    if (!reduce_is_defined (dtype, op))
        return comm_fail (site, ACCEL_ERR_INVALID, err,
                          op == ACCEL_AVG ? "cannot average %s: use ACCEL_SUM, or a floating-point type"
                                          : "cannot reduce %s: convert to float32",
                          accel_dtype_name (dtype));
    if (scale != 1 && !reduce_is_defined (dtype, ACCEL_AVG))
        return comm_refuse (site, "only floating-point tensors can be scaled", err);
    return ACCEL_OK;
}

/* @buffers: whether the call has any, and so a count and an element type. */
static enum accel_status
check (const struct accel_comm *comm, const struct engine_call *call, bool buffers, struct accel_error *err)
{
    if (!comm)
        return comm_refuse (call->site, "the job, or its communicator, is NULL", err);
    if ((unsigned) call->dtype >= ACCEL_DTYPE_COUNT || (unsigned) call->op >= ACCEL_OP_COUNT)
        return comm_refuse (call->site, "invalid element type or operation", err);
    bool reads = call->kind != ENGINE_BROADCAST && call->kind != ENGINE_RECV, writes = call->kind != ENGINE_SEND;
    if (buffers && call->count && ((writes && !call->recv) || (reads && !call->send)))
        return comm_refuse (call->site, "a buffer is NULL", err);
    size_t bytes;
    if (__builtin_mul_overflow (call->count, call->element_bytes * (size_t) comm->size, &bytes)
        || bytes > PTRDIFF_MAX)
        return comm_refuse (call->site, "the count is too large: size overflows", err);
    bool reduces = call->kind == ENGINE_ALL_REDUCE || call->kind == ENGINE_REDUCE_SCATTER;
    if (reduces) {
        enum accel_status status = comm_check_reduction (call->site, call->dtype, call->op, 1, err);
        if (status)
            return status;
    }
    if (call->root >= comm->size)
        return comm_fail (call->site, ACCEL_ERR_INVALID, err, "no rank %d in a communicator of size %d", call->root,
                          comm->size);
    return ACCEL_OK;
}

/* The number by which other ranks' records of the same call are found. */
static uint32_t
count_call (struct accel_comm *comm, const struct engine_call *call)
{
    switch (call->kind) {
    case ENGINE_SEND: return ++comm->messages[call->root];
    case ENGINE_RECV: return ++comm->messages[comm->size + call->root];
    default: return ++comm->calls;
    }
}

/* Only what stays true is remembered: a peer that failed, or time that ran out, not a want of memory. */
static enum accel_status
run (struct accel_comm *comm, struct engine_call *call, bool buffers, struct accel_error *err)
{
    struct accel_error mine;
    call->element_bytes = accel_dtype_bytes (call->dtype);
    enum accel_status status = check (comm, call, buffers, err);
    if (status)
        return status;
    struct profile *profile = NULL;
    for (struct accel_comm *part = comm; part; part = part->parent) {
        if (object_is_gone (&part->object))
            return comm_refuse (call->site, part == comm ? "the group has been destroyed"
                                : part->parent ? "the parent of this group has been destroyed"
                                               : "the job of this group has been closed", err);
        if (part->unsettled)
            comm_abandon (part, part->unsettled);
        if (is_reserved (part))
            return comm_refuse (call->site,
                                "gradients of a backward pass are being averaged: wait for accel_backward to return",
                                err);
        if (part->broken.code) {
            if (err)
                *err = part->broken;
            return part->broken.code;
        }
        profile = part->profile;
    }
    call->form = call->site->form ? comm_form_hash (call->site->form) : 0;
    call->helpers = &comm->watch.helpers;
    call->number = count_call (comm, call);
    struct ledger_entry entry = {
        .comm = comm->id, .number = call->number, .kind = call->kind,
        .count = call->count, .dtype = call->dtype, .op = call->op, .root = call->root, .form = call->form,
    };
    struct jobseg_record *record = ledger_begin (comm->ledger, call->site, &entry);
    call->sequence = record ? comm->ledger->sequence : 0;
    uint64_t begin_ns = profile ? profile_now () : 0;
    status = comm->engine->run (comm->transport, call, &mine);
    if (profile)
        profile_note_call (profile, call, begin_ns);
    if (!status) {
        ledger_end (record);
        return ACCEL_OK;
    }
    break_off (comm, &mine, mine.text);
    if (err)
        *err = mine;
    return status;
}

enum accel_status
comm_barrier (struct accel_comm *comm, const struct comm_site *site, struct accel_error *err)
{
    struct engine_call call = { .site = site, .kind = ENGINE_BARRIER, .root = -1 };
    return run (comm, &call, false, err);
}

enum accel_status
comm_all_reduce (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv, size_t count,
                 enum accel_dtype dtype, enum accel_op op, struct accel_error *err)
{
    struct engine_call call = {
        .site = site, .kind = ENGINE_ALL_REDUCE, .send = send, .recv = recv, .count = count, .dtype = dtype, .op = op,
        .root = -1,
    };
    return run (comm, &call, true, err);
}

enum accel_status
comm_all_gather (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv, size_t count,
                 enum accel_dtype dtype, struct accel_error *err)
{
    struct engine_call call = {
        .site = site, .kind = ENGINE_ALL_GATHER, .send = send, .recv = recv, .count = count, .dtype = dtype,
        .root = -1,
    };
    return run (comm, &call, true, err);
}

enum accel_status
comm_broadcast (struct accel_comm *comm, const struct comm_site *site, void *buffer, size_t count,
                enum accel_dtype dtype, int root, struct accel_error *err)
{
    if (root < 0)
        return comm_refuse (site, "the root is negative", err);
    struct engine_call call = {
        .site = site, .kind = ENGINE_BROADCAST, .recv = buffer, .count = count, .dtype = dtype, .root = root,
    };
    return run (comm, &call, true, err);
}

enum accel_status
comm_reduce_scatter (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv,
                     size_t count, enum accel_dtype dtype, enum accel_op op, struct accel_error *err)
{
    struct engine_call call = {
        .site = site, .kind = ENGINE_REDUCE_SCATTER, .send = send, .recv = recv, .count = count, .dtype = dtype,
        .op = op, .root = -1,
    };
    return run (comm, &call, true, err);
}

enum accel_status
comm_all_to_all (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv, size_t count,
                 enum accel_dtype dtype, struct accel_error *err)
{
    struct engine_call call = {
        .site = site, .kind = ENGINE_ALL_TO_ALL, .send = send, .recv = recv, .count = count, .dtype = dtype,
        .root = -1,
    };
    if (count && send == recv)
        return comm_refuse (site, "the buffers are the same: this call does not work in place", err);
    return run (comm, &call, true, err);
}

/* @call has all but the site and the other rank. */
static enum accel_status
run_pair (struct accel_comm *comm, const struct comm_site *site, struct engine_call *call, int peer,
          struct accel_error *err)
{
    call->site = site;
    call->root = peer;
    if (peer < 0)
        return comm_refuse (site, "the rank is negative", err);
    if (comm && peer == comm->rank)
        return comm_refuse (site, "a rank cannot send to itself", err);
    return run (comm, call, true, err);
}

enum accel_status
comm_send (struct accel_comm *comm, const struct comm_site *site, const void *send, size_t count,
           enum accel_dtype dtype, int to, struct accel_error *err)
{
    struct engine_call call = { .kind = ENGINE_SEND, .send = send, .count = count, .dtype = dtype };
    return run_pair (comm, site, &call, to, err);
}

enum accel_status
comm_recv (struct accel_comm *comm, const struct comm_site *site, void *recv, size_t count, enum accel_dtype dtype,
           int from, struct accel_error *err)
{
    struct engine_call call = { .kind = ENGINE_RECV, .recv = recv, .count = count, .dtype = dtype };
    return run_pair (comm, site, &call, from, err);
}
