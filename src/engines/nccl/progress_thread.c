/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that passes calls on while NCCL connects ranks and the program's threads are elsewhere.  It is made when it
 * is first needed, and sleeps otherwise. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <signal.h>
#include <unistd.h>

enum { PAUSE_US = 100 };

static pthread_t thread;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static bool is_there, must_end;

static bool
progress_all (void)
{
    bool done = true;
    for (struct communicator *comm = nccl_comms; comm; comm = comm->next)
        done = comm_progress (comm) && done;
    return done;
}

static void *
run (void *unused)
{
    DEVICE_GUARD;
    pthread_mutex_lock (&nccl_mutex);
    while (!must_end) {
        if (progress_all ()) {
            pthread_cond_wait (&wake, &nccl_mutex);
            continue;
        }
        pthread_mutex_unlock (&nccl_mutex);
        usleep (PAUSE_US);
        pthread_mutex_lock (&nccl_mutex);
    }
    pthread_mutex_unlock (&nccl_mutex);
    return unused;
}

/* Signals are for the program's threads.  Without a thread, the waiting threads pass calls on. */
void
progress_thread_wake (void)
{
    sigset_t every, before;
    if (!is_there) {
        sigfillset (&every);
        pthread_sigmask (SIG_SETMASK, &every, &before);
        must_end = false;
        is_there = !pthread_create (&thread, NULL, run, NULL);
        pthread_sigmask (SIG_SETMASK, &before, NULL);
    }
    pthread_cond_signal (&wake);
}

void
progress_thread_end (void)
{
    pthread_mutex_lock (&nccl_mutex);
    bool joins = is_there && !nccl_comms;
    must_end = must_end || joins;
    is_there = is_there && !joins;
    pthread_cond_signal (&wake);
    pthread_mutex_unlock (&nccl_mutex);
    if (joins)
        pthread_join (thread, NULL);
}
