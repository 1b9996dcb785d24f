/* SPDX-License-Identifier: Apache-2.0 */
/* Starting ranks: one, with errors of exec reported before it counts as started; and all (spawn_pool.c), by several
 * threads at once if there are many. */
#ifndef LAUNCH_JOB_SPAWN_H
#define LAUNCH_JOB_SPAWN_H

#include "launch/job/job.h"
#include "launch/job/supervisor.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/resource.h>

/** Our limit of open files was raised, and ranks are to get the one that was given to us. */
struct limits {
    bool is_raised;
    struct rlimit given;
};

/** What ranks of a job have in common; made once, then only read. */
struct spawn {
    struct job *job;
    const char **common; /* variables after a rank's own: ours, then the launcher's environment; NULL ends them */
    size_t common_count;
    char *segment;      /* ACCEL_JOB_SEGMENT=... */
    char *id;           /* ACCEL_JOB_ID=... */
    char *memory;       /* ACCEL_MEMORY=...; NULL: the ranks get none */
    char signal[32];    /* ACCEL_STACK_SIGNAL=... */
    int null;           /* /dev/null */
    bool has_input;     /* the first rank reads our stdin */
    bool terminal;      /* that is one: this rank is in the guardian's process group */
    bool may_ask;       /* a user, or a program, may answer there */
    struct limits limits;
    pid_t launcher;
};

/** What a thread needs to start ranks, one after the other. */
struct spawn_context {
    const struct spawn *spawn;
    const char **envp; /* room for a rank's own variables, then `file`, then the common ones */
    char file[32];     /* ACCEL_STACK_FD=..., as its process finds the number */
    void *stack;       /* of the child until it has called exec */
};

int spawn_init (struct spawn *spawn, struct job *job, struct fail *fail);
void spawn_release (struct spawn *spawn);
int spawn_context_init (struct spawn_context *context, const struct spawn *spawn, struct fail *fail);
void spawn_context_release (struct spawn_context *context);

/**
 * Start the process of local rank @p index.  Threads may do so at the same time, each with its own context.  The kernel
 * kills the process when the calling thread ends, however that comes.
 *
 * @return 0, or -1 with @p fail set and nothing started
 */
int spawn_rank (struct spawn_context *context, int index, struct fail *fail);

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
