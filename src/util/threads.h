/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library's own, and the processors that they can run on. */
#ifndef UTIL_THREADS_H
#define UTIL_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/** Start a thread that no signal is delivered to: signals are for the program's threads.
 *  @return 0 or the number of an error */
static inline int
thread_start (pthread_t *thread, void *(*run) (void *user), void *user)
{
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    int number = pthread_create (thread, NULL, run, user);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    return number;
}

/** @return how many processors this process may use, at least 1. */
static inline int
usable_processors (void)
{
    cpu_set_t set;
    if (!sched_getaffinity (0, sizeof set, &set))
        return CPU_COUNT (&set);
    long online = sysconf (_SC_NPROCESSORS_ONLN); /* there may be more than such a set holds */
    return online > 0 ? (int) online : 1;
}

#endif
