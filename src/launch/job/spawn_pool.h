/* SPDX-License-Identifier: Apache-2.0 */
/* Starting all ranks of a job, by several threads at once if there are many. */
#ifndef LAUNCH_JOB_SPAWN_POOL_H
#define LAUNCH_JOB_SPAWN_POOL_H

#include "launch/job/spawn.h"
#include "launch/job/supervisor.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { SPAWN_POOL_MOST = 8 };

struct spawn_thread {
    struct spawn_pool *all;
    pthread_t thread;
    struct fail fail;
    int failed; /* the rank that could not be started; -1: none */
};

/** Stays where it is until spawn_pool_release(): threads point to it. */
struct spawn_pool {
    struct spawn spawn;
    struct supervisor *supervisor;
    atomic_int next;   /* the rank to start next */
    sem_t done, leave; /* a thread has nothing to start any more; it may end */
    struct spawn_thread each[SPAWN_POOL_MOST]; /* the first one is the caller's own thread */
    int count;
};

/**
 * Start every rank of the supervisor's job, and have it watched.
 *
 * @param[out] spawn_pool release it, also after a failure, when all ranks have ended and not before: the kernel kills a
 * rank when the thread that started it ends
 * @return 0, or -1 with @p fail set, and perhaps some ranks started
 */
int spawn_pool_start (struct spawn_pool *spawn_pool, struct supervisor *supervisor, struct fail *fail);
void spawn_pool_release (struct spawn_pool *spawn_pool);

#endif
