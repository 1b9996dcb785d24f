/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that passes calls on while NCCL connects ranks and the program's threads are elsewhere.  It is made when it
 * is first needed, and sleeps otherwise. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <signal.h>
#include <unistd.h>

enum { PAUSE_US = 100 };

static bool
progress_all (void)
{
    bool done = true;
    for (struct communicator *comm = engine.comms; comm; comm = comm->next)
        done = comm_progress (comm) && done;
    return done;
}

/* With the lock.  Another thread may have taken the place of this one, for a job that was opened since the last one was
 * closed: then this one ends all the same. */
static bool
is_current (void)
{
    return engine.progress.is_there && pthread_equal (engine.progress.thread, pthread_self ());
}

static void *
run (void *unused)
{
    DEVICE_GUARD;
    pthread_mutex_lock (&engine.lock);
    while (is_current ()) {
        if (progress_all ()) {
            pthread_cond_wait (&engine.progress.wake, &engine.lock);
            continue;
        }
        pthread_mutex_unlock (&engine.lock);
        usleep (PAUSE_US);
        pthread_mutex_lock (&engine.lock);
    }
    pthread_mutex_unlock (&engine.lock);
    return unused;
}

/* Signals are for the program's threads.  Without a thread, the waiting threads pass calls on. */
void
progress_thread_wake (void)
{
    sigset_t every, before;
    if (!engine.progress.is_there) {
        sigfillset (&every);
        pthread_sigmask (SIG_SETMASK, &every, &before);
        engine.progress.is_there = !pthread_create (&engine.progress.thread, NULL, run, NULL);
        pthread_sigmask (SIG_SETMASK, &before, NULL);
    }
    pthread_cond_signal (&engine.progress.wake);
}

void
progress_thread_end (void)
{
    pthread_mutex_lock (&engine.lock);
    bool joins = engine.progress.is_there && !engine.comms;
    pthread_t thread = engine.progress.thread;
    if (joins) {
        engine.progress.is_there = false;
        pthread_cond_signal (&engine.progress.wake);
    }
    pthread_mutex_unlock (&engine.lock);
    if (joins)
        pthread_join (thread, NULL);
}
