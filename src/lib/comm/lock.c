/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of the waist, and which of its processes this is. */
#include <config.h>

#include "lib/comm/lock.h"

pthread_mutex_t work_mutex = PTHREAD_MUTEX_INITIALIZER;

void
work_lock (void)
{
    pthread_mutex_lock (&work_mutex);
}

void
work_unlock (void)
{
    pthread_mutex_unlock (&work_mutex);
}

unsigned comm_forks;

static void
note_fork (void)
{
    comm_forks++;
    work_unlock ();
}

/* Static, like the rest of this file: handlers of forks get no argument. */
bool
comm_watch_forks (void)
{
    static bool watched;
    watched = watched || !pthread_atfork (work_lock, work_unlock, note_fork);
    return watched;
}

