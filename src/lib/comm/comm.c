/* SPDX-License-Identifier: Apache-2.0 */
/* The waist of communication: every collective, public or the library's own, is checked, noted in the ledger and handed
 * to the engine here. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/execute.h"
#include "lib/comm/links.h"
#include "lib/comm/lock.h"
#include "lib/comm/wait.h"
#include "lib/kernels/reduce.h"
#include "util/engine_files.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAVE_LOOK_NS = 1000000 }; /* between two looks at whether a thread has left */

/* Over the host's engine, which has connected the ranks already; no call is counted, nor noted. */
static enum accel_status
gather (struct accel_comm *comm, const void *mine, void *all, size_t bytes, struct accel_error *err)
{
    static const struct comm_site site = { .call = JOBSEG_CALL_OPEN, .file = "accel_open" };
    const struct comm_link before = { .engine = comm->watch.engine, .transport = comm->watch.transport };
    const struct accel_engine_call call = {
        .kind = ACCEL_ENGINE_ALL_GATHER,
        .dtype = ACCEL_UINT8,
        .element_bytes = 1,
        .count = bytes,
        .send = mine,
        .recv = all,
        .root = -1,
        .site = &site,
        .public_call = site.call,
        .helpers = &comm->watch.helpers,
        .device = { .device_type = kDLCPU },
    };
    comm_watch_link (comm, comm->links);
    enum accel_status status = comm->links->engine->run (comm->links->transport, &call, err);
    comm_watch_link (comm, &before);
    return status;
}

/* Ranks of one host have a segment for it. */
static enum accel_status
exchange (void *context, const void *mine, void *all, size_t bytes, struct accel_error *err)
{
    struct watch *watch = context;
    struct accel_comm *comm = comm_of_watch (watch);
    return comm->bootstrap.source || !comm->links->is_open
               ? bootstrap_exchange (watch->bootstrap, mine, all, bytes, err)
               : gather (comm, mine, all, bytes, err);
}

/* All ranks are here before the engine connects them, and it has connected them before this one counts as a member. */
static enum accel_status
connect_job (struct accel_comm *comm, const struct accel_engine *engine, struct engine_job *job,
             struct accel_error *err)
{
    bool alone = engine->flags & ACCEL_ENGINE_SINGLE_PROCESS;
    enum accel_status status = alone ? ACCEL_OK : bootstrap_open (&comm->bootstrap, job, err);
    if (status)
        return status;
    comm_watch (comm, NULL, job->base.timeout_ms);
    comm->watch.helpers.exchange = exchange;
    status = comm_choose_links (comm, engine, job, err);
    if (!status && comm->bootstrap.source)
        status = comm_compare_links (comm, err);
    if (!status)
        status = comm_open_link (comm, comm->links, job, err);
    if (!status && !comm->bootstrap.source)
        status = comm_compare_links (comm, err);
    if (!status)
        status = comm_open_links (comm, job, err);
    if (!status)
        bootstrap_ready (&comm->bootstrap);
    return status;
}

enum accel_status
comm_open (struct accel_comm **comm, struct engine_job *job, struct accel_error *err)
{
    *comm = NULL;
    const struct accel_engine *engine = NULL;
    struct accel_error why;
    struct accel_comm *made = comm_create (NULL, job->base.rank, job->base.world_size);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    made->device = job->base.device;
    watch_init (&made->watch);
    job->base.helpers = &made->watch.helpers;
    enum accel_status status = engine_check_names (job->engines, err);
    if (!status)
        status = engine_choose (&engine, job, kDLCPU, err);
    if (status)
        goto error;
    status = connect_job (made, engine, job, &why);
    if (status) {
        bootstrap_leave (&made->bootstrap, JOBSEG_FAILED, why.text);
        if (err)
            *err = why;
        goto error;
    }
    made->ledger = &made->own_ledger;
    ledger_open (made->ledger, job->segment.header ? jobseg_slot (&job->segment, job->base.local_rank) : NULL);
    if (made->ledger->slot)
        progress_open (made->ledger->slot);
    *comm = made;
    return ACCEL_OK;
error:
    comm_close (made);
    return status;
}

/* Another thread of the program may be in a call, which ends within its timeout, or soon after accel_comm_abort(). */
static void
await_leave (const struct accel_comm *comm)
{
    while (comm->forks == comm_forks && atomic_load_explicit (&comm->inside, memory_order_acquire))
        nanosleep (&(struct timespec){ .tv_nsec = LEAVE_LOOK_NS }, NULL);
}

/* The object is the first member.  The parent may be gone: closing a group does not look at it. */
static void
end_comm (struct object *object)
{
    struct accel_comm *comm = (struct accel_comm *) (void *) object;
    comm_raise_failure (comm, comm->deferred);
    await_leave (comm);
    work_end (comm);
    bootstrap_leave (&comm->bootstrap, JOBSEG_LEFT, NULL);
    comm_close_links (comm);
    if (comm->observer)
        comm->observer->end (comm->observer);
    comm->observer = NULL;
    free (comm->messages);
    free (comm->watch.members);
    bootstrap_close (&comm->bootstrap);
    if (comm->parent)
        object_let_go (&comm->parent->object);
}

static const struct object_kind kind_comm = { .name = "communicator", .end = end_comm };

struct accel_comm *
comm_create (struct accel_comm *parent, int rank, int size)
{
    struct accel_comm *comm = calloc (1, sizeof *comm);
    uint32_t *messages = calloc ((size_t) size, 2 * sizeof *messages);
    work_lock ();
    bool watched = comm_watch_forks ();
    work_unlock ();
    if (!comm || !messages || !watched) {
        free (comm);
        free (messages);
        return NULL;
    }
    comm->object = (struct object) OBJECT_INIT (&kind_comm);
    comm->parent = parent;
    comm->rank = rank;
    comm->size = size;
    comm->messages = messages;
    comm->forks = comm_forks;
    if (parent)
        object_hold (&parent->object);
    return comm;
}

bool
comm_watch (struct accel_comm *comm, const int *ranks, uint32_t timeout_ms)
{
    struct watch *watch = &comm->watch;
    watch_init (watch);
    comm_watch_link (comm, comm->links);
    watch->calls = &comm->calls;
    watch->comm = comm->id;
    watch->rank = comm->rank;
    watch->size = comm->size;
    watch->timeout_ms = timeout_ms;
    watch->source = comm->parent ? comm->parent->watch.source : comm->bootstrap.source;
    watch->generation = comm->parent ? comm->parent->watch.generation : comm->bootstrap.generation;
    watch->bootstrap = &comm->bootstrap;
    if (comm->parent)
        watch->warning = comm->parent->watch.warning;
    if (comm->parent) {
        watch->members = calloc ((size_t) comm->size, sizeof *watch->members);
        for (int i = 0; watch->members && i < comm->size; i++)
            watch->members[i] = watch_world_rank (&comm->parent->watch, ranks[i]);
        return watch->members;
    }
    return true;
}

void
comm_close (struct accel_comm *comm)
{
    object_destroy (comm ? &comm->object : NULL);
}

void
comm_reserve (struct accel_comm *comm, bool reserved)
{
    atomic_store_explicit (&comm->reserved, reserved, memory_order_relaxed);
}

static bool
is_reserved (const struct accel_comm *comm)
{
    return atomic_load_explicit (&comm->reserved, memory_order_relaxed);
}

/* The slot of the ledger is the rank's: what a child of fork() calls is not what the rank does. */
static void
stop_recording (struct accel_comm *comm)
{
    if (comm->forks != comm_forks)
        comm->ledger->slot = NULL;

}

uint64_t
comm_note_begin (struct accel_comm *comm, const struct comm_site *site, size_t count)
{
    stop_recording (comm);
    return ledger_begin (comm->ledger, site, (struct ledger_entry){ .count = count, .root = -1 });
}

void
comm_note_end (struct accel_comm *comm, uint64_t sequence)
{
    if (sequence && comm->forks == comm_forks)
        ledger_end (comm->ledger, sequence);
}

void
comm_note_failure (struct accel_comm *comm, unsigned failure, unsigned left, const char *text)
{
    stop_recording (comm);
    struct jobseg_slot *slot = comm->ledger->slot;
    if (!slot || atomic_load (&slot->failure) & JOBSEG_FAILURE_LOST)
        return;
    snprintf (slot->failure_text, sizeof slot->failure_text, "%s", text);
    atomic_store (&slot->failure_count, atomic_load (&slot->ledger_count) + left);
    atomic_store (&slot->failure, failure);
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

static inline bool
lacks_buffer (enum accel_engine_kind kind, const void *send, const void *recv)
{
    bool reads = kind != ACCEL_ENGINE_BROADCAST && kind != ACCEL_ENGINE_RECV, writes = kind != ACCEL_ENGINE_SEND;
    return (reads && !send) || (writes && !recv);
}

static inline bool
reduces (enum accel_engine_kind kind)
{
    return kind == ACCEL_ENGINE_ALL_REDUCE || kind == ACCEL_ENGINE_REDUCE_SCATTER;
}

static inline bool
overflows (const struct accel_comm *comm, size_t count, size_t element_bytes)
{
    size_t bytes;
    return __builtin_mul_overflow (count, element_bytes * (size_t) comm->size, &bytes) || bytes > PTRDIFF_MAX;
}

static enum accel_status
check (const struct accel_comm *comm, const struct accel_engine_call *call, struct accel_error *err)
{
    bool buffers = call->kind != ACCEL_ENGINE_BARRIER;
    if (!comm)
        return comm_refuse (call->site, "the job, or its communicator, is NULL", err);
    if ((unsigned) call->dtype >= ACCEL_DTYPE_COUNT || (unsigned) call->op >= ACCEL_OP_COUNT)
        return comm_refuse (call->site, "invalid element type or operation", err);
    if (buffers && call->count && lacks_buffer (call->kind, call->send, call->recv))
        return comm_refuse (call->site, "a buffer is NULL", err);
    if (overflows (comm, call->count, call->element_bytes))
        return comm_refuse (call->site, "the count is too large: size overflows", err);
    if (reduces (call->kind) && !reduce_is_defined (call->dtype, call->op))
        return comm_check_reduction (call->site, call->dtype, call->op, 1, err);
    if (call->root >= comm->size)
        return comm_fail (call->site, ACCEL_ERR_INVALID, err, "no rank %d in a communicator of size %d", call->root,
                          comm->size);
    return comm_check_engine (comm, call, err);
}

enum accel_status
comm_check_process (const struct accel_comm *comm, const struct comm_site *site, struct accel_error *err)
{
    if (comm->size == 1 || comm->forks == comm_forks)
        return ACCEL_OK;
    return comm_refuse (site, "this process is a fork of the one that uses this communicator", err);
}

/* A thread of the program begins a call.  Two at once would each get the other's data, or wait for ever: their calls
 * cannot be matched with those of other ranks.  @return false: another thread is in a call */
static inline bool
enter (struct accel_comm *comm, const struct comm_site *site)
{
    const char *none = NULL;
    if (comm->size > 1
        && !atomic_compare_exchange_strong_explicit (&comm->inside, &none, site->file ? site->file : "?",
                                                     memory_order_acquire, memory_order_relaxed))
        return false;
    atomic_store_explicit (&comm->inside_line, site->line, memory_order_relaxed);
    return true;
}

static inline void
leave (struct accel_comm *comm)
{
    atomic_store_explicit (&comm->inside, NULL, memory_order_release);
}

__attribute__ ((cold, noinline)) static enum accel_status
refuse_thread (const struct accel_comm *comm, const struct comm_site *site, struct accel_error *err)
{
    const char *file = atomic_load_explicit (&comm->inside, memory_order_relaxed);
    return comm_fail (site, ACCEL_ERR_INVALID, err,
                      "another thread of this process is in a call at %s:%d: one thread at a time may use a job",
                      file ? file : "?", atomic_load_explicit (&comm->inside_line, memory_order_relaxed));
}

const char *
comm_why_gone (const struct accel_comm *comm)
{
    const struct accel_comm *part = comm;
    while (part && !object_is_gone (&part->object))
        part = part->parent;
    return !part           ? NULL
           : part == comm  ? "the group has been destroyed"
           : part->parent  ? "the parent of this group has been destroyed"
                           : "the job of this group has been closed";
}

#define GROUP_IS_OPEN "a group of calls is open on this communicator: call accel_group_end() first"

/* Whether the program may call on @comm at all, now and at @site. */
static enum accel_status
admit (struct accel_comm *comm, const struct comm_site *site, struct accel_error *err)
{
    struct accel_comm *part = comm;
    const char *gone = comm_why_gone (comm);
    enum accel_status status = comm_check_process (comm, site, err);
    if (status)
        return status;
    if (gone)
        return comm_refuse (site, gone, err);
    do {
        if (part->deferred)
            comm_raise_failure (part, part->deferred);
        if (part == comm && is_reserved (part))
            return comm_refuse (site,
                                "gradients of a backward pass are being averaged: wait for accel_backward to return, "
                                "or use a group",
                                err);
        if (part == comm && part->has_group && !site->work)
            return comm_refuse (site, GROUP_IS_OPEN, err);
        part = part->parent;
    } while (part);
    struct comm_observer *observer;
    return comm_check_broken (comm, &observer, err);
}

/* Calls of work itself were admitted when it was started. */
__attribute__ ((noinline)) static enum accel_status
run_carefully (struct accel_comm *comm, struct accel_engine_call *call, struct accel_error *err)
{
    struct accel_work **work = engine_site (call)->work;
    call->element_bytes = accel_dtype_bytes (call->dtype);
    if (work)
        *work = NULL;
    enum accel_status status = check (comm, call, err);
    if (status)
        return status;
    stop_recording (comm);
    if (comm->queue && work_is_own_thread (comm))
        return comm_execute (comm, call, err);
    status = admit (comm, call->site, err);
    if (status)
        return status;
    if (work)
        return work_start (comm, call, work, err);
    if (!enter (comm, call->site))
        return refuse_thread (comm, call->site, err);
    uint64_t begin_ns = jobseg_now_ns ();
    if (work_can_order (comm, call->site))
        status = work_run (comm, call, err);
    else {
        work_wait_idle (comm);
        status = comm_execute (comm, call, err);
    }
    progress_note_wait (comm, begin_ns);
    leave (comm);
    return status;
}

/* What is asked for.  Nothing points to it, so in line most members are constants or in registers. */
struct request {
    const struct comm_site *site;
    const void *send;
    void *recv;
    size_t count;
    enum accel_engine_kind kind;
    enum accel_dtype dtype;
    enum accel_op op;
    int root;
};

/* Whether run_carefully() would find nothing: asked first, because that is nearly always so. */
__attribute__ ((always_inline)) static inline bool
is_plain (const struct accel_comm *comm, const struct request request)
{
    const struct accel_engine *engine = comm->links->engine;
    const struct accel_comm *part = comm;
    uintptr_t special = (uintptr_t) atomic_load_explicit (&comm->pending, memory_order_acquire)
                        | (uintptr_t) comm->has_group | (uintptr_t) request.site->work
                        | (uintptr_t) request.site->device.device_type | (uintptr_t) (comm->forks ^ comm_forks)
                        | (uintptr_t) is_reserved (comm);
    do {
        special |= (uintptr_t) part->deferred | (uintptr_t) part->observer | (uintptr_t) object_is_gone (&part->object)
                   | (uintptr_t) atomic_load_explicit (&part->is_broken, memory_order_acquire);
        part = part->parent;
    } while (part && !special); /* what holds a group that is gone may be no more */
    if (special || !(engine->kinds & ACCEL_ENGINE_BIT (request.kind)) || request.root >= comm->size)
        return false;
    if (request.kind == ACCEL_ENGINE_BARRIER)
        return true;
    if ((unsigned) request.dtype >= ACCEL_DTYPE_COUNT
        || overflows (comm, request.count, tensor_dtype_bytes (request.dtype))
        || (request.count && lacks_buffer (request.kind, request.send, request.recv)))
        return false;
    return !reduces (request.kind)
           || ((unsigned) request.op < ACCEL_OP_COUNT && reduce_is_defined (request.dtype, request.op)
               && (engine->reduces & ACCEL_ENGINE_BIT (request.dtype)));
}

/* Members of the call one by one: an initializer would clear the whole struct first, which takes longer than all the
 * rest.  What is not set here is set before the engine gets the call. */
__attribute__ ((always_inline)) static inline enum accel_status
run (struct accel_comm *comm, const struct request request, struct accel_error *err)
{
    struct accel_engine_call call;
    bool plain = comm && is_plain (comm, request);
    call.site = request.site;
    call.send = request.send;
    call.recv = request.recv;
    call.count = request.count;
    call.kind = request.kind;
    call.dtype = request.dtype;
    call.op = request.op;
    call.root = request.root;
    if (__builtin_expect (!plain, false))
        return run_carefully (comm, &call, err);
    call.element_bytes = tensor_dtype_bytes (request.dtype);
    const struct ledger_entry entry = {
        .comm = comm->id, .count = request.count, .root = (int16_t) request.root, .kind = (uint8_t) request.kind,
        .dtype = (uint8_t) request.dtype, .op = (uint8_t) request.op,
    };
    if (!enter (comm, request.site))
        return refuse_thread (comm, request.site, err);
    enum accel_status status = comm_run (comm, &call, entry, err);
    leave (comm);
    return status;
}

enum accel_status
comm_barrier (struct accel_comm *comm, const struct comm_site *site, struct accel_error *err)
{
    return run (comm, (struct request){ site, NULL, NULL, 0, ACCEL_ENGINE_BARRIER, ACCEL_FLOAT32, ACCEL_SUM, -1 }, err);
}

enum accel_status
comm_all_reduce (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv, size_t count,
                 enum accel_dtype dtype, enum accel_op op, struct accel_error *err)
{
    return run (comm, (struct request){ site, send, recv, count, ACCEL_ENGINE_ALL_REDUCE, dtype, op, -1 }, err);
}

enum accel_status
comm_start_all_reduce (struct accel_comm *comm, const struct comm_site *site, void *data, size_t count,
                       enum accel_dtype dtype, enum accel_op op, struct accel_work **work, struct accel_error *err)
{
    const struct accel_engine_call call = {
        .site = site, .send = data, .recv = data, .count = count, .element_bytes = accel_dtype_bytes (dtype),
        .kind = ACCEL_ENGINE_ALL_REDUCE, .dtype = dtype, .op = op, .root = -1,
    };
    *work = NULL;
    enum accel_status status = check (comm, &call, err);
    if (!status)
        status = comm_check_process (comm, site, err);
    if (!status && comm->has_group)
        status = comm_refuse (site, GROUP_IS_OPEN, err);
    if (status)
        return status;
    if (comm->deferred)
        comm_raise_failure (comm, comm->deferred);
    return work_start (comm, &call, work, err);
}

enum accel_status
comm_all_gather (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv, size_t count,
                 enum accel_dtype dtype, struct accel_error *err)
{
    return run (comm, (struct request){ site, send, recv, count, ACCEL_ENGINE_ALL_GATHER, dtype, ACCEL_SUM, -1 }, err);
}

enum accel_status
comm_broadcast (struct accel_comm *comm, const struct comm_site *site, void *buffer, size_t count,
                enum accel_dtype dtype, int root, struct accel_error *err)
{
    if (root < 0)
        return comm_refuse (site, "the root is negative", err);
    return run (comm, (struct request){ site, NULL, buffer, count, ACCEL_ENGINE_BROADCAST, dtype, ACCEL_SUM, root },
                err);
}

enum accel_status
comm_reduce_scatter (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv,
                     size_t count, enum accel_dtype dtype, enum accel_op op, struct accel_error *err)
{
    return run (comm, (struct request){ site, send, recv, count, ACCEL_ENGINE_REDUCE_SCATTER, dtype, op, -1 }, err);
}

enum accel_status
comm_all_to_all (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv, size_t count,
                 enum accel_dtype dtype, struct accel_error *err)
{
    if (count && send == recv)
        return comm_refuse (site, "the buffers are the same: this call does not work in place", err);
    return run (comm, (struct request){ site, send, recv, count, ACCEL_ENGINE_ALL_TO_ALL, dtype, ACCEL_SUM, -1 }, err);
}

static inline const char *
refuse_peer (const struct accel_comm *comm, int peer)
{
    return peer < 0 ? "the rank is negative" : comm && peer == comm->rank ? "a rank cannot send to itself" : NULL;
}

enum accel_status
comm_send (struct accel_comm *comm, const struct comm_site *site, const void *send, size_t count,
           enum accel_dtype dtype, int to, struct accel_error *err)
{
    const char *refusal = refuse_peer (comm, to);
    if (refusal)
        return comm_refuse (site, refusal, err);
    return run (comm, (struct request){ site, send, NULL, count, ACCEL_ENGINE_SEND, dtype, ACCEL_SUM, to }, err);
}

enum accel_status
comm_recv (struct accel_comm *comm, const struct comm_site *site, void *recv, size_t count, enum accel_dtype dtype,
           int from, struct accel_error *err)
{
    const char *refusal = refuse_peer (comm, from);
    if (refusal)
        return comm_refuse (site, refusal, err);
    return run (comm, (struct request){ site, NULL, recv, count, ACCEL_ENGINE_RECV, dtype, ACCEL_SUM, from }, err);
}
