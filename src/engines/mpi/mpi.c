/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "mpi": its table of functions; protocol.h says how it works. */
#include <config.h>

#include "engines/mpi/communicators.h"
#include "engines/mpi/topology.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SPIN_NS = 30000, YIELD_NS = 150000, NAP_LEAST_NS = 20000, NAP_MOST_NS = 1000000, POLLS = 6 };

static void
lock (void)
{
    pthread_mutex_lock (&mpi.world.lock);
}

static void
unlock (void)
{
    pthread_mutex_unlock (&mpi.world.lock);
}

static enum accel_status
fail_without_memory (const struct accel_engine_helpers *helpers, struct accel_error *err)
{
    return helpers->fail (err, ACCEL_ERR_NOMEM, "engine mpi: out of memory");
}

/* ---- calls ---- */

static enum accel_status
check (const struct accel_engine_call *call, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = call->helpers;
    if ((unsigned) call->kind >= ACCEL_ENGINE_KIND_COUNT)
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "engine mpi: unknown kind %d", (int) call->kind);
    if (!mpi.world.session || world_may_call ())
        return ACCEL_OK;
    return helpers->fail (err, ACCEL_ERR_UNSUPPORTED,
                          "engine mpi: MPI was initialized with %s, so only the thread that called accel_open() may "
                          "communicate: call MPI_Init_thread() with MPI_THREAD_SERIALIZED",
                          world_level_name (mpi.world.level));
}

static enum accel_status
start (struct communicator *comm, const struct accel_engine_call *call, bool moves_on, struct operation **work,
       struct accel_error *err)
{
    enum accel_status status = check (call, err);
    if (status)
        return status;
    lock ();
    world_suspend_yield (true);
    struct operation *operation = operation_create (comm, call);
    if (operation)
        comm_start (comm, operation);
    if (operation && moves_on)
        progress_thread_wake ();
    world_suspend_yield (false);
    unlock ();
    *work = operation;
    return operation ? ACCEL_OK : fail_without_memory (call->helpers, err);
}

static enum accel_status
engine_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    struct operation *operation = NULL;
    enum accel_status status = start (transport, call, true, &operation, err);
    *work = operation;
    return status;
}

static bool
engine_test (void *transport, void *work)
{
    (void) transport;
    const struct operation *operation = work;
    lock ();
    comm_progress_all ();
    bool over = operation->over;
    unlock ();
    return over;
}

/* MPI wakes no rank.  A rank that is late is left the processor, longer and longer; soon if there are more ranks than
 * processors, but not before it has been asked some times: what comes from another processor is there by then. */
static void
back_off (int64_t *since, unsigned polls)
{
    if (mpi.world.is_crowded && polls % POLLS)
        return;
    int64_t now = now_ns (), idle_ns = *since ? now - *since : 0, nap_ns = idle_ns / 8;
    nap_ns = nap_ns < NAP_LEAST_NS ? NAP_LEAST_NS : nap_ns > NAP_MOST_NS ? NAP_MOST_NS : nap_ns;
    if (!*since)
        *since = now;
    if (idle_ns < SPIN_NS && !mpi.world.is_crowded)
        return;
    world_suspend_yield (false); /* other threads of the program may be in MPI */
    unlock ();
    if (idle_ns < YIELD_NS)
        sched_yield ();
    else
        nanosleep (&(struct timespec){ .tv_nsec = (long) nap_ns }, NULL);
    lock ();
    world_suspend_yield (true);
}

static void
wait_until_over (const struct operation *operation)
{
    int64_t since = 0; /* nothing has moved; 0: not known yet */
    for (unsigned polls = 1; !operation->over; polls++)
        if (comm_progress_all ())
            since = 0;
        else if (!operation->over)
            back_off (&since, polls);
}

static enum accel_status
engine_wait (void *transport, void *work, struct accel_error *err)
{
    struct communicator *comm = transport;
    struct operation *operation = work, **at = &comm->first;
    struct accel_error why;
    lock ();
    world_suspend_yield (true);
    enum accel_status status = operation->over ? ACCEL_OK : check (operation->call, &why);
    if (status)
        comm_fail (comm, status, &why);
    mpi.world.waiters++;
    wait_until_over (operation);
    mpi.world.waiters--;
    progress_thread_wake ();
    while (*at != operation)
        at = &(*at)->next;
    *at = operation->next;
    if (comm->oldest == operation)
        comm->oldest = NULL; /* the next call may have its memory */
    status = operation->status;
    if (status && err)
        *err = operation->error;
    operation_destroy (operation);
    world_suspend_yield (false);
    unlock ();
    return status;
}

static enum accel_status
engine_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    struct operation *work;
    enum accel_status status = start (transport, call, false, &work, err);
    return status ? status : engine_wait (transport, work, err);
}

/* Called by the helpers, which are called with the lock. */
static bool
engine_awaits (void *transport, int rank)
{
    const struct operation *oldest = comm_oldest (transport);
    return oldest && operation_awaits (oldest, rank);
}

/* A thread in the engine sees it at the next look; libaccel has locks of its own here.  If no thread is, the other
 * ranks hear of it now: the program may not call again. */
static void
engine_give_up (void *transport, const char *reason)
{
    struct communicator *comm = transport;
    if (atomic_load (&comm->gave_up))
        return;
    snprintf (comm->reason, sizeof comm->reason, "%s", reason);
    atomic_store (&comm->gave_up, true);
    while (pthread_mutex_trylock (&mpi.world.lock))
        if (!progress_thread_is_inside ())
            return;
    if (world_may_call ())
        comm_send_gave_up (comm);
    unlock ();
}

static bool
engine_has_one_thread (void *transport)
{
    const struct communicator *comm = transport;
    return comm->size > 1 && mpi.world.level < MPI_THREAD_SERIALIZED;
}

/* ---- jobs and groups ---- */

static int
count_processors (void)
{
    cpu_set_t set;
    return sched_getaffinity (0, sizeof set, &set) ? INT_MAX : CPU_COUNT (&set);
}

static enum accel_status
engine_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    lock ();
    mpi.world.helpers = job->helpers;
    struct communicator *comm = comm_create (job->world_size, job->rank, 0, job->timeout_ms);
    enum accel_status status = ACCEL_OK;
    if (!comm)
        status = fail_without_memory (job->helpers, err);
    else if (job->world_size > 1)
        status = world_open (job, comm->peers, err);
    if (!status && job->world_size > 1 && !ring_open ()) {
        status = world_fail (job->helpers, err);
        mpi.world.session = 0;
    }
    if (!status) {
        mpi.world.rank = job->rank;
        comm->topology = mpi.host.counters ? mpi.host.topology : NULL;
        mpi.world.is_crowded = job->local_world_size > count_processors () || world_yields_when_idle ();
        comm_add (comm);
    } else {
        host_close ();
        if (comm)
            comm_destroy (comm);
    }
    unlock ();
    if (!status && job->world_size > 1)
        failure_detector_begin ();
    *transport = status ? NULL : comm;
    return status;
}

/* The world is closed last; groups that are destroyed after it have no memory of the hosts any more. */
static void
engine_close (void *transport)
{
    struct communicator *comm = transport;
    bool is_world = !comm->group && comm->size > 1;
    if (is_world)
        failure_detector_end ();
    lock ();
    if (is_world)
        progress_thread_end ();
    comm_destroy (comm);
    if (is_world) {
        ring_close ();
        comm_forget_unexpected ();
        for (struct communicator *group = mpi.world.comms; group; group = group->next)
            group_memory_abandon (group);
        group_memory_forget ();
        host_close ();
        mpi.world.session = 0;
    }
    unlock ();
}

/* A number that no other group of the job has. */
static enum accel_status
engine_make_group (void *transport, int size, int64_t *group_id, struct accel_error *err)
{
    (void) transport, (void) size, (void) err;
    lock ();
    *group_id = (int64_t) (mpi.world.rank + 1) << 32 | ++mpi.world.groups;
    unlock ();
    return ACCEL_OK;
}

/* @return whether there was memory */
static bool
place_group (struct communicator *comm)
{
    int *labels = mpi.host.counters ? calloc ((size_t) comm->size, sizeof *labels) : NULL;
    for (int i = 0; labels && i < comm->size; i++)
        labels[i] = mpi.host.processes[comm->peers[i]].host;
    comm->topology = labels ? topology_create (labels, comm->size, comm->rank) : NULL;
    free (labels);
    if (!comm->topology)
        return !mpi.host.counters;
    if (!topology_shares_any (comm->topology)) {
        topology_destroy (comm->topology);
        comm->topology = NULL;
    }
    return true;
}

static enum accel_status
engine_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                   struct accel_error *err)
{
    const struct communicator *parent = transport;
    struct communicator *comm = comm_create (size, rank, group_id, parent->timeout_ms);
    *group = NULL;
    if (!comm)
        return fail_without_memory (mpi.world.helpers, err);
    for (int i = 0; i < size; i++)
        comm->peers[i] = parent->peers[ranks[i]];
    lock ();
    bool good = place_group (comm);
    if (good)
        comm_add (comm);
    else
        comm_destroy (comm);
    unlock ();
    *group = good ? comm : NULL;
    return good ? ACCEL_OK : fail_without_memory (mpi.world.helpers, err);
}

static void
engine_set_timeout (void *transport, uint32_t timeout_ms)
{
    struct communicator *comm = transport;
    comm->timeout_ms = timeout_ms;
}

ACCEL_API const struct accel_engine accel_engine = {
    .abi = ACCEL_ENGINE_ABI,
    .size = sizeof (struct accel_engine),
    .name = "mpi",
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_KIND_COUNT),
    .reduces = ACCEL_ENGINE_BITS (ACCEL_DTYPE_COUNT),
    .devices = ACCEL_ENGINE_BIT (kDLCPU) | ACCEL_ENGINE_BIT (kDLCUDAHost) | ACCEL_ENGINE_BIT (kDLROCMHost),
    .flags = ACCEL_ENGINE_MULTI_HOST,
    .probe = world_probe,
    .open = engine_open,
    .close = engine_close,
    .give_up = engine_give_up,
    .alloc = arena_alloc,
    .free = arena_free,
    .make_group = engine_make_group,
    .join_group = engine_join_group,
    .run = engine_run,
    .awaits = engine_awaits,
    .start = engine_start,
    .test = engine_test,
    .wait = engine_wait,
    .has_one_thread = engine_has_one_thread,
    .set_timeout = engine_set_timeout,
};
