/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, and the calls that wait for NCCL or are on their stream. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_US = 50 };

int64_t
now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- failures ---- */

/* Kernels end when NCCL has been told; then no buffer is touched any more. */
static void
await_stream (const struct communicator *comm)
{
    cudaEvent_t event;
    int64_t end = now_ms () + CAUSE_MS;
    if (cudaEventCreateWithFlags (&event, cudaEventDisableTiming))
        return;
    cudaEventRecord (event, comm->stream); /* one that was not recorded counts as over */
    while (gpu_event_query (event) == cudaErrorNotReady && now_ms () < end)
        usleep (PAUSE_US);
    cudaEventDestroy (event);
}

/* Of a group that NCCL is still making, the communicator is NCCL's: it is ended once the parent has been told. */
static void
end_comm (struct communicator *comm)
{
    if (comm->nccl_comm && !comm->parent) {
        nccl.CommAbort (comm->nccl_comm);
        comm->nccl_comm = NULL;
    }
    await_stream (comm);
}

static void
end_operations (const struct communicator *comm)
{
    for (struct operation *operation = comm->operations; operation; operation = operation->next)
        operation->state = OPERATION_IS_OVER;
}

/* What NCCL was to make of @p comm after it, and of that. */
static void
fail_children (const struct communicator *comm)
{
    for (struct communicator *child = engine.comms; child; child = child->next)
        if (child->parent == comm) {
            child->parent = NULL;
            if (child->status)
                continue;
            child->status = comm->status;
            child->is_network_error = comm->is_network_error;
            memcpy (child->why, comm->why, sizeof child->why);
            end_operations (child);
            fail_children (child);
        }
}

void
comm_fail (struct communicator *comm, enum accel_status status, const char *format, ...)
{
    va_list args;
    if (comm->status)
        return;
    comm->status = status;
    va_start (args, format);
    vsnprintf (comm->why, sizeof comm->why, format, args);
    va_end (args);
    end_comm (comm);
    fail_children (comm);
    end_operations (comm);
}

void
comm_check (struct communicator *comm, ncclResult_t result, const char *call)
{
    if (!result || result == ncclInProgress)
        return;
    const char *words = nccl.GetLastError && comm->nccl_comm ? nccl.GetLastError (comm->nccl_comm) : "";
    comm->is_network_error = result == ncclRemoteError || result == ncclSystemError;
    comm_fail (comm, ACCEL_ERR_SYSTEM, "NCCL: %s: %s%s%.200s%s", call, nccl.GetErrorString (result), *words ? ": " : "",
               words, *words ? "" : " (NCCL_DEBUG=WARN says more)");
}

bool
comm_check_cuda (struct communicator *comm, cudaError_t error, const char *call)
{
    if (error)
        comm_fail (comm, error == cudaErrorMemoryAllocation ? ACCEL_ERR_NOMEM : ACCEL_ERR_SYSTEM,
                   "cuda:%d: %s: %s (%s)%s%s", engine.gpu, call, cudaGetErrorString (error),
                   cudaGetErrorName (error), OWN_WORDS);
    return !error;
}

/* ---- passing on ---- */

/* @return the first that NCCL has not queued yet */
static struct operation *
find_unqueued (const struct communicator *comm)
{
    struct operation *operation = comm->operations;
    while (operation && operation->state >= OPERATION_RUNS)
        operation = operation->next;
    return operation;
}

static void
unlist (const struct operation *operation)
{
    struct operation **at = &operation->comm->operations;
    while (*at != operation)
        at = &(*at)->next;
    *at = operation->next;
}

/* NCCL has put it on the stream. */
static void
note_posted (struct operation *operation)
{
    struct communicator *comm = operation->comm;
    if (operation->call) {
        operation->state = OPERATION_RUNS;
        if (comm_check_cuda (comm, cudaEventRecord (operation->done, comm->stream), "cudaEventRecord")) {
            engine.last.comm = comm;
            engine.last.done = operation->done;
        }
        return;
    }
    if (operation->child) {
        operation->child->parent = NULL;
        operation->child->is_nccl_busy = true;
    }
    operation_destroy (operation);
}

/* @return whether NCCL has finished its last call, or nothing is done any more */
static bool
ask (struct communicator *comm)
{
    ncclResult_t state = ncclInProgress;
    struct operation *posted;
    comm_check (comm, nccl.CommGetAsyncError (comm->nccl_comm, &state), "ncclCommGetAsyncError");
    if (comm->status)
        return true;
    if (state == ncclInProgress)
        return false;
    comm->is_nccl_busy = false;
    comm_check (comm, state, "asynchronous error");
    while ((posted = find_unqueued (comm)) && posted->state == OPERATION_IS_POSTED)
        note_posted (posted);
    return true;
}

/* Let the stream of @comm wait for what was queued last, unless that is there, too.  What was queued before it is over
 * by then.  A communicator that is gone has ended its kernels. */
static bool
follow_last (struct communicator *comm)
{
    if (!engine.last.comm || engine.last.comm == comm || engine.orders_launches)
        return true;
    return comm_check_cuda (comm, cudaStreamWaitEvent (comm->stream, engine.last.done, 0), "cudaStreamWaitEvent");
}

/* The first, and those that it joins. */
static void
post (struct operation *operation)
{
    struct communicator *comm = operation->comm;
    const char *name;
    bool joins = true;
    if (operation->call && !follow_last (comm))
        return;
    for (struct operation *each = operation; joins; each = each->next) {
        each->state = OPERATION_IS_POSTED;
        if (each->call
            && !comm_check_cuda (comm, cudaStreamWaitEvent (comm->stream, each->ready, 0), "cudaStreamWaitEvent"))
            return;
        joins = each->joins;
    }
    comm->is_nccl_busy = true;
    ncclResult_t result = operation_post (operation, &name);
    comm_check (comm, result, name);
}

/* The oldest of all communicators' that NCCL has not queued yet. */
static struct operation *
find_next (void)
{
    struct operation *next = NULL;
    for (const struct communicator *comm = engine.comms; comm; comm = comm->next) {
        struct operation *first = comm->status ? NULL : find_unqueued (comm);
        if (first && (!next || first->ticket < next->ticket))
            next = first;
    }
    return next;
}

static bool
is_held (const struct operation *operation)
{
    return operation->comm->is_coalescing && operation == operation->comm->group;
}

/* There may be no thread that waits for the one whose turn it is.  What NCCL has to make first, by a split, is older
 * than what is started on it; NCCL writes where a communicator will be before it says whether it could make it.
 * @return the communicator on which NCCL is still at work; NULL: nothing is left, but for what is being coalesced */
static const struct communicator *
pass_on (void)
{
    struct operation *next;
    while ((next = find_next ())) {
        struct communicator *comm = next->comm;
        if (comm->is_nccl_busy) {
            if (!ask (comm))
                return comm;
        } else if (is_held (next))
            break;
        else
            post (next);
    }
    return NULL;
}

bool
comm_progress (struct communicator *comm)
{
    const struct communicator *busy = pass_on ();
    if (!comm->status && comm->is_nccl_busy && comm != busy)
        ask (comm);
    const struct operation *first = comm->status ? NULL : find_unqueued (comm);
    return comm->status || (!comm->is_nccl_busy && (!first || is_held (first)));
}

bool
comm_await_nccl (struct communicator *comm, int64_t ms)
{
    int64_t end = now_ms () + ms;
    while (!comm->status && (!comm_progress (comm) || comm->parent)) {
        if (now_ms () >= end)
            return false;
        pthread_mutex_unlock (&engine.lock);
        usleep (PAUSE_US);
        pthread_mutex_lock (&engine.lock);
    }
    return !comm->status;
}

void
comm_await_look (const struct communicator *comm)
{
    while (comm->is_looked_at) {
        pthread_mutex_unlock (&engine.lock);
        usleep (PAUSE_US);
        pthread_mutex_lock (&engine.lock);
    }
}

/* ---- operations ---- */

static bool
make_events (struct operation *operation)
{
    struct communicator *comm = operation->comm;
    return comm_check_cuda (comm, cudaEventCreateWithFlags (&operation->ready, cudaEventDisableTiming),
                            "cudaEventCreateWithFlags")
           && comm_check_cuda (comm, cudaEventCreateWithFlags (&operation->done, cudaEventDisableTiming),
                               "cudaEventCreateWithFlags");
}

static void
free_operation (struct operation *operation)
{
    if (operation->ready)
        cudaEventDestroy (operation->ready);
    if (operation->done)
        cudaEventDestroy (operation->done);
    free (operation);
}

struct operation *
operation_create (struct communicator *comm, const struct accel_engine_call *call)
{
    struct operation *operation = comm->spare, **at = &comm->operations;
    if (comm->status)
        return NULL;
    if (operation) {
        comm->spare = operation->next;
    } else if (!(operation = calloc (1, sizeof *operation))) {
        comm_fail (comm, ACCEL_ERR_NOMEM, "out of memory");
        return NULL;
    }
    operation->comm = comm;
    operation->ticket = ++engine.tickets;
    operation->call = call;
    operation->next = NULL;
    operation->state = OPERATION_WAITS;
    operation->joins = false;
    operation->since_ms = 0;
    if (call && !operation->ready && !make_events (operation)) {
        free_operation (operation);
        return NULL;
    }
    while (*at)
        at = &(*at)->next;
    *at = operation;
    if (!comm->group) /* comm_coalesce_begin() has cleared it */
        comm->group = operation;
    return operation;
}

void
comm_coalesce_begin (struct communicator *comm)
{
    comm->is_coalescing = true;
    comm->group = NULL;
}

/* What has begun is at the end of the list; after a failure, nothing comes of it. */
void
comm_coalesce_end (struct communicator *comm)
{
    comm->is_coalescing = false;
    for (struct operation *each = comm->group; each; each = each->next)
        each->joins = each->next;
}

/* Its events may still be waited for; after a failure, nothing is created that would use them again. */
void
operation_destroy (struct operation *operation)
{
    struct communicator *comm = operation->comm;
    unlist (operation);
    operation->next = comm->spare;
    comm->spare = operation;
}

bool
operation_is_over (struct operation *operation)
{
    struct communicator *comm = operation->comm;
    comm_progress (comm);
    if (operation->state == OPERATION_RUNS) {
        cudaError_t error = gpu_event_query (operation->done);
        if (error != cudaErrorNotReady && comm_check_cuda (comm, error, "a collective"))
            operation->state = OPERATION_IS_OVER;
    }
    return operation->state == OPERATION_IS_OVER;
}

/* ---- communicators ---- */

enum accel_status
comm_create (struct communicator **made, const struct accel_engine_helpers *helpers, int rank,
             uint32_t timeout_ms, struct accel_error *err)
{
    struct communicator *comm = *made = calloc (1, sizeof *comm);
    if (!comm)
        return helpers->fail (err, ACCEL_ERR_NOMEM, "engine nccl: out of memory");
    cudaError_t error = cudaStreamCreateWithFlags (&comm->stream, cudaStreamNonBlocking);
    if (error) {
        free (comm);
        *made = NULL;
        return helpers->fail (err, error == cudaErrorMemoryAllocation ? ACCEL_ERR_NOMEM : ACCEL_ERR_SYSTEM,
                              "engine nccl: cuda:%d: cudaStreamCreateWithFlags: %s (%s)", engine.gpu,
                              cudaGetErrorString (error), cudaGetErrorName (error));
    }
    comm->helpers = helpers;
    comm->rank = rank;
    comm->timeout_ms = timeout_ms;
    comm->next = engine.comms;
    engine.comms = comm;
    return ACCEL_OK;
}

/* In good order, if other ranks let it. */
static void
leave (struct communicator *comm)
{
    if (!comm->nccl_comm || !comm_await_nccl (comm, CLOSE_MS))
        return;
    comm_check (comm, nccl.CommFinalize (comm->nccl_comm), "ncclCommFinalize");
    comm->is_nccl_busy = true;
    if (!comm_await_nccl (comm, CLOSE_MS))
        return;
    comm_check (comm, nccl.CommDestroy (comm->nccl_comm), "ncclCommDestroy");
    comm->nccl_comm = NULL;
}

static void
forget_buffers (struct communicator *comm)
{
    while (comm->buffers) {
        struct buffer *buffer = comm->buffers;
        comm->buffers = buffer->next;
        if (buffer->handle && comm_await_nccl (comm, CLOSE_MS))
            nccl.CommDeregister (comm->nccl_comm, buffer->handle);
        free (buffer);
    }
}

void
comm_destroy (struct communicator *comm)
{
    struct communicator **at = &engine.comms;
    comm_await_look (comm);
    forget_buffers (comm);
    leave (comm);
    if (comm->nccl_comm) /* no group looks at it any more */
        comm_fail (comm, ACCEL_ERR_PEER, "the job was closed while NCCL was busy");
    end_comm (comm);
    while (comm->operations) {
        struct operation *operation = comm->operations;
        comm->operations = operation->next;
        free_operation (operation);
    }
    while (comm->spare) {
        struct operation *operation = comm->spare;
        comm->spare = operation->next;
        free_operation (operation);
    }
    if (engine.last.comm == comm)
        engine.last.comm = NULL;
    cudaStreamDestroy (comm->stream);
    while (*at && *at != comm)
        at = &(*at)->next;
    if (*at)
        *at = comm->next;
    free (comm);
}
