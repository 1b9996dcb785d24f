/* SPDX-License-Identifier: Apache-2.0 */
/* Teams, and the calls that wait for NCCL or are on their stream. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_US = 50 };

pthread_mutex_t nccl_mutex = PTHREAD_MUTEX_INITIALIZER;
struct team *nccl_teams;

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
await_stream (const struct team *team)
{
    cudaEvent_t event;
    int64_t end = now_ms () + BLAME_MS;
    if (cudaEventCreateWithFlags (&event, cudaEventDisableTiming))
        return;
    if (!cudaEventRecord (event, team->stream))
        while (cudaEventQuery (event) == cudaErrorNotReady && now_ms () < end)
            usleep (PAUSE_US);
    cudaGetLastError ();
    cudaEventDestroy (event);
}

/* Of a group that NCCL is still making, the communicator is NCCL's: it is ended once the parent has been told. */
static void
end_comm (struct team *team)
{
    if (team->comm && !team->parent) {
        nccl.CommAbort (team->comm);
        team->comm = NULL;
    }
    team->is_settling = false;
    await_stream (team);
}

static void
end_flights (const struct team *team)
{
    for (struct flight *flight = team->flights; flight; flight = flight->next)
        flight->state = FLIGHT_IS_OVER;
}

/* What NCCL was to make of @p team after it, and of that. */
static void
fail_children (const struct team *team)
{
    for (struct team *child = nccl_teams; child; child = child->next)
        if (child->parent == team) {
            child->parent = NULL;
            if (child->status)
                continue;
            child->status = team->status;
            child->is_of_network = team->is_of_network;
            memcpy (child->why, team->why, sizeof child->why);
            end_flights (child);
            fail_children (child);
        }
}

void
team_fail (struct team *team, enum accel_status status, const char *format, ...)
{
    va_list args;
    if (team->status)
        return;
    team->status = status;
    va_start (args, format);
    vsnprintf (team->why, sizeof team->why, format, args);
    va_end (args);
    end_comm (team);
    fail_children (team);
    end_flights (team);
}

bool
team_check (struct team *team, ncclResult_t result, const char *call)
{
    if (!result || result == ncclInProgress)
        return true;
    const char *words = nccl.GetLastError && team->comm ? nccl.GetLastError (team->comm) : "";
    if (!team->status)
        team->is_of_network = result == ncclRemoteError || result == ncclSystemError;
    team_fail (team, ACCEL_ERR_SYSTEM, "NCCL: %s: %s%s%.200s%s", call, nccl.GetErrorString (result), *words ? ": " : "",
               words, *words ? "" : " (NCCL_DEBUG=WARN says more)");
    return false;
}

bool
team_check_cuda (struct team *team, cudaError_t error, const char *call)
{
    if (error)
        team_fail (team, error == cudaErrorMemoryAllocation ? ACCEL_ERR_NOMEM : ACCEL_ERR_SYSTEM,
                   "cuda:%d: %s: %s (%s)", gpu_device (), call, cudaGetErrorString (error), cudaGetErrorName (error));
    return !error;
}

/* ---- passing on ---- */

static struct flight *
find_first (const struct team *team, enum flight_state state)
{
    struct flight *flight = team->flights;
    while (flight && flight->state != state)
        flight = flight->next;
    return flight;
}

static void
unlist (const struct flight *flight)
{
    struct flight **at = &flight->team->flights;
    while (*at && *at != flight)
        at = &(*at)->next;
    if (*at)
        *at = flight->next;
}

/* NCCL has put it on the stream. */
static void
note_posted (struct flight *flight)
{
    struct team *team = flight->team;
    if (flight->call) {
        flight->state = FLIGHT_FLIES;
        team_check_cuda (team, cudaEventRecord (flight->done, team->stream), "cudaEventRecord");
        return;
    }
    if (flight->child) {
        flight->child->parent = NULL;
        flight->child->is_settling = true;
    }
    unlist (flight);
    flight_destroy (flight);
}

/* @return whether NCCL has finished its last call, or nothing is done any more */
static bool
ask (struct team *team)
{
    ncclResult_t state = ncclInProgress;
    ncclResult_t result = nccl.CommGetAsyncError (team->comm, &state);
    if (!team_check (team, result, "ncclCommGetAsyncError"))
        return true;
    if (state == ncclInProgress)
        return false;
    team->is_settling = false;
    struct flight *posted = find_first (team, FLIGHT_IS_POSTED);
    if (team_check (team, state, "asynchronous error") && posted)
        note_posted (posted);
    return true;
}

static void
post (struct flight *flight)
{
    struct team *team = flight->team;
    const char *name;
    flight->state = FLIGHT_IS_POSTED;
    if (flight->call
        && !team_check_cuda (team, cudaStreamWaitEvent (team->stream, flight->ready, 0), "cudaStreamWaitEvent"))
        return;
    team->is_settling = true;
    ncclResult_t result = flight_post (flight, &name);
    team_check (team, result, name);
}

/* NCCL writes where a communicator will be before it says whether it could make it. */
static bool
is_born (const struct team *team)
{
    return !team->parent && team->comm;
}

bool
team_pump (struct team *team)
{
    while (!team->status) {
        if (team->is_settling && !ask (team))
            return false;
        struct flight *flight = team->status ? NULL : find_first (team, FLIGHT_WAITS);
        if (!flight)
            return true;
        if (!is_born (team))
            return false;
        post (flight);
    }
    return true;
}

bool
team_settle (struct team *team, int64_t ms)
{
    int64_t end = now_ms () + ms;
    while (!team->status && (!team_pump (team) || !is_born (team))) {
        if (now_ms () >= end)
            return false;
        pthread_mutex_unlock (&nccl_mutex);
        usleep (PAUSE_US);
        pthread_mutex_lock (&nccl_mutex);
    }
    return !team->status;
}

/* ---- flights ---- */

static bool
make_events (struct flight *flight)
{
    struct team *team = flight->team;
    return team_check_cuda (team, cudaEventCreateWithFlags (&flight->ready, cudaEventDisableTiming),
                            "cudaEventCreateWithFlags")
           && team_check_cuda (team, cudaEventCreateWithFlags (&flight->done, cudaEventDisableTiming),
                               "cudaEventCreateWithFlags");
}

static void
free_flight (struct flight *flight)
{
    if (flight->ready)
        cudaEventDestroy (flight->ready);
    if (flight->done)
        cudaEventDestroy (flight->done);
    free (flight);
}

struct flight *
flight_create (struct team *team, const struct accel_engine_call *call)
{
    struct flight *flight = call ? team->spare : NULL, **at = &team->flights;
    if (team->status)
        return NULL;
    if (flight) {
        team->spare = flight->next;
    } else if (!(flight = calloc (1, sizeof *flight))) {
        team_fail (team, ACCEL_ERR_NOMEM, "out of memory");
        return NULL;
    }
    flight->team = team;
    flight->call = call;
    flight->next = NULL;
    flight->state = FLIGHT_WAITS;
    flight->since_ms = 0;
    if (call && !flight->ready && !make_events (flight)) {
        free_flight (flight);
        return NULL;
    }
    while (*at)
        at = &(*at)->next;
    *at = flight;
    return flight;
}

/* Events that may still be waited for, after a failure, are not used again. */
void
flight_destroy (struct flight *flight)
{
    struct team *team = flight->team;
    unlist (flight);
    if (!flight->call || team->status) {
        free_flight (flight);
        return;
    }
    flight->next = team->spare;
    team->spare = flight;
}

bool
flight_is_over (struct flight *flight)
{
    struct team *team = flight->team;
    team_pump (team);
    if (flight->state == FLIGHT_FLIES) {
        cudaError_t error = cudaEventQuery (flight->done);
        if (error == cudaErrorNotReady)
            cudaGetLastError ();
        else if (team_check_cuda (team, error, "a collective"))
            flight->state = FLIGHT_IS_OVER;
    }
    return flight->state == FLIGHT_IS_OVER;
}

/* ---- teams ---- */

enum accel_status
team_create (struct team **made, const struct accel_engine_helpers *helpers, int size, int rank, uint32_t timeout_ms,
             struct accel_error *err)
{
    struct team *team = *made = calloc (1, sizeof *team);
    if (!team)
        return helpers->fail (err, ACCEL_ERR_NOMEM, "engine nccl: out of memory");
    cudaError_t error = cudaStreamCreateWithFlags (&team->stream, cudaStreamNonBlocking);
    if (error) {
        cudaGetLastError ();
        free (team);
        *made = NULL;
        return helpers->fail (err, error == cudaErrorMemoryAllocation ? ACCEL_ERR_NOMEM : ACCEL_ERR_SYSTEM,
                              "engine nccl: cuda:%d: cudaStreamCreateWithFlags: %s (%s)", gpu_device (),
                              cudaGetErrorString (error), cudaGetErrorName (error));
    }
    team->helpers = helpers;
    team->size = size;
    team->rank = rank;
    team->timeout_ms = timeout_ms;
    team->next = nccl_teams;
    nccl_teams = team;
    return ACCEL_OK;
}

/* In good order, if other ranks let it. */
static void
leave (struct team *team)
{
    if (team->status || !team->comm)
        return;
    if (!team_settle (team, CLOSE_MS) || !team_check (team, nccl.CommFinalize (team->comm), "ncclCommFinalize"))
        return;
    team->is_settling = true;
    if (!team_settle (team, CLOSE_MS) || !team_check (team, nccl.CommDestroy (team->comm), "ncclCommDestroy"))
        return;
    team->comm = NULL;
}

static void
forget_buffers (struct team *team)
{
    while (team->buffers) {
        struct buffer *buffer = team->buffers;
        team->buffers = buffer->next;
        if (buffer->handle && team->comm && team_settle (team, CLOSE_MS))
            nccl.CommDeregister (team->comm, buffer->handle);
        free (buffer);
    }
}

void
team_destroy (struct team *team)
{
    struct team **at = &nccl_teams;
    forget_buffers (team);
    leave (team);
    if (team->comm) /* no group looks at it any more */
        team_fail (team, ACCEL_ERR_PEER, "the job was closed while NCCL was busy");
    end_comm (team);
    while (team->flights) {
        struct flight *flight = team->flights;
        team->flights = flight->next;
        free_flight (flight);
    }
    while (team->spare) {
        struct flight *flight = team->spare;
        team->spare = flight->next;
        free_flight (flight);
    }
    cudaStreamDestroy (team->stream);
    while (*at && *at != team)
        at = &(*at)->next;
    if (*at)
        *at = team->next;
    free (team);
}
