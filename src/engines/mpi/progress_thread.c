/* SPDX-License-Identifier: Apache-2.0 */
/* What was started moves on while the program computes: on a thread of this module, made by the first start, which
 * calls MPI while no thread of the program waits here.  In between it naps, the longer the longer nothing comes,
 * because the processor is the program's.  Only those who wait find out why nothing comes; this thread only moves data.
 *
 * There is none if MPI allows one thread only, and if the program, which calls MPI as well, might call it at the
 * same time although MPI does not allow that. */
#include <config.h>

#include "engines/mpi/communicators.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { NAP_LEAST_NS = 20000, NAP_MOST_NS = 1000000 };

static bool
is_needed (void)
{
    bool any = false;
    for (const struct communicator *comm = mpi.world.comms; comm && !any; comm = comm->next)
        any = comm_oldest (comm);
    return any && !mpi.world.waiters && !*mpi.world.error;
}

static void
enter (void)
{
    pthread_mutex_lock (&mpi.world.lock);
    atomic_store (&mpi.progress.is_inside, true);
}

static void
leave (void)
{
    atomic_store (&mpi.progress.is_inside, false);
    pthread_mutex_unlock (&mpi.world.lock);
}

static void
sleep_until_called (void)
{
    mpi.progress.sleeps = true;
    atomic_store (&mpi.progress.is_inside, false);
    pthread_cond_wait (&mpi.progress.wake, &mpi.world.lock);
    atomic_store (&mpi.progress.is_inside, true);
    mpi.progress.sleeps = false;
}

static void *
move (void *user)
{
    (void) user;
    enter ();
    for (int64_t since = now_ns (); !atomic_load (&mpi.progress.must_end) && !atomic_load (&mpi.world.is_over);) {
        if (!is_needed ()) {
            sleep_until_called ();
            since = now_ns ();
            continue;
        }
        bool moved = comm_poll_all ();
        int64_t now = now_ns (), nap = (now - since) / 8;
        nap = nap < NAP_LEAST_NS ? NAP_LEAST_NS : nap > NAP_MOST_NS ? NAP_MOST_NS : nap;
        leave ();
        if (moved)
            since = now;
        else
            nanosleep (&(struct timespec){ .tv_nsec = (long) nap }, NULL);
        enter ();
    }
    leave ();
    return NULL;
}

/* A child has no such thread, which must not have had the lock when the child was made. */
static void
lock_for_fork (void)
{
    pthread_mutex_lock (&mpi.world.lock);
}

static void
unlock_after_fork (void)
{
    pthread_mutex_unlock (&mpi.world.lock);
}

/* Without the thread, work moves on in calls alone. */
static void
make (void)
{
    struct progress_thread *progress = &mpi.progress;
    if (!progress->watches_forks)
        progress->watches_forks = !pthread_atfork (lock_for_fork, unlock_after_fork, unlock_after_fork);
    if (progress->watches_forks && world_watch_end () && world_start_thread (&progress->thread, move))
        progress->pid = getpid ();
}

void
progress_thread_wake (void)
{
    if (!world_may_have_threads () || !is_needed ())
        return;
    if (!mpi.progress.pid)
        make ();
    else if (mpi.progress.sleeps)
        pthread_cond_signal (&mpi.progress.wake);
}

bool
progress_thread_is_inside (void)
{
    return atomic_load (&mpi.progress.is_inside);
}

void
progress_thread_end (void)
{
    if (mpi.progress.pid != getpid ())
        return;
    atomic_store (&mpi.progress.must_end, true);
    pthread_cond_signal (&mpi.progress.wake);
    pthread_mutex_unlock (&mpi.world.lock);
    pthread_join (mpi.progress.thread, NULL);
    pthread_mutex_lock (&mpi.world.lock);
    atomic_store (&mpi.progress.must_end, false);
    mpi.progress.pid = 0;
}
