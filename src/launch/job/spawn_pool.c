/* SPDX-License-Identifier: Apache-2.0 */
/* Starting ranks from several threads.  A thread is stopped from clone() until its child has called exec, which is
 * most of the time that a start takes; others can start theirs meanwhile.  See spawn.h. */
#include <config.h>

#include "launch/job/spawn.h"

#include "util/cleanup.h"

#include <sched.h>

enum { RANKS_PER_SPAWN_THREAD = 8, STACK_BYTES = 64 * 1024 };

/* More threads than processors would only wait for each other. */
static int
count_spawn_pool (int ranks)
{
    cpu_set_t cpus;
    int most = ranks / RANKS_PER_SPAWN_THREAD + 1;
    int usable = sched_getaffinity (0, sizeof cpus, &cpus) ? 1 : CPU_COUNT (&cpus);
    most = most < usable ? most : usable;
    return most < SPAWN_POOL_MOST ? most : SPAWN_POOL_MOST;
}

/* Starting thousands of ranks takes a while, during which events are not handled. */
static int
check_guardian (const struct spawn_pool *all, struct fail *fail)
{
    return guardian_lives (all->spawn.job->guardian) ? 0 : fail_set (fail, FAIL_GENERAL, "the launcher was killed");
}

/* A failure takes all remaining numbers, so that no thread starts another rank. */
static void
start_some (struct spawn_thread *spawn_thread)
{
    struct spawn_pool *all = spawn_thread->all;
    struct spawn_context context;
    int ranks = all->spawn.job->count;
    spawn_thread->failed = -1;
    if (spawn_context_init (&context, &all->spawn, &spawn_thread->fail)) {
        spawn_thread->failed = 0;
        atomic_store (&all->next, ranks);
        return;
    }
    for (int i; (i = atomic_fetch_add (&all->next, 1)) < ranks;)
        if (check_guardian (all, &spawn_thread->fail) || spawn_rank (&context, i, &spawn_thread->fail)
            || supervisor_add (all->supervisor, i, &spawn_thread->fail)) {
            spawn_thread->failed = i;
            atomic_store (&all->next, ranks);
        }
    spawn_context_release (&context);
}

static void *
run_spawn_thread (void *argument)
{
    struct spawn_thread *spawn_thread = argument;
    struct spawn_pool *all = spawn_thread->all;
    start_some (spawn_thread);
    sem_post (&all->done);
    while (sem_wait (&all->leave) && errno == EINTR)
        ;
    return NULL;
}

/* Without a thread the others have more to do. */
static void
begin (struct spawn_pool *spawn_pool, int wanted)
{
    pthread_attr_t attributes;
    pthread_attr_init (&attributes);
    pthread_attr_setstacksize (&attributes, STACK_BYTES);
    spawn_pool->each[0] = (struct spawn_thread){ .all = spawn_pool };
    for (spawn_pool->count = 1; spawn_pool->count < wanted; spawn_pool->count++) {
        struct spawn_thread *spawn_thread = &spawn_pool->each[spawn_pool->count];
        *spawn_thread = (struct spawn_thread){ .all = spawn_pool };
        if (pthread_create (&spawn_thread->thread, &attributes, run_spawn_thread, spawn_thread))
            break;
    }
    pthread_attr_destroy (&attributes);
}

int
spawn_pool_start (struct spawn_pool *spawn_pool, struct supervisor *supervisor, struct fail *fail)
{
    struct job *job = supervisor->job;
    spawn_pool->supervisor = supervisor;
    spawn_pool->count = 0;
    atomic_init (&spawn_pool->next, 0);
    if (spawn_init (&spawn_pool->spawn, job, fail))
        return -1;
    sem_init (&spawn_pool->done, 0, 0);
    sem_init (&spawn_pool->leave, 0, 0);
    begin (spawn_pool, count_spawn_pool (job->count));
    start_some (&spawn_pool->each[0]);
    for (int i = 1; i < spawn_pool->count; i++)
        while (sem_wait (&spawn_pool->done) && errno == EINTR)
            ;
    for (int i = 0; i < job->count; i++)
        job->alive += job->ranks[i].pid != 0;
    const struct spawn_thread *first = NULL; /* the failure of the lowest rank is reported */
    for (int i = 0; i < spawn_pool->count; i++)
        if (spawn_pool->each[i].failed >= 0 && (!first || spawn_pool->each[i].failed < first->failed))
            first = &spawn_pool->each[i];
    if (!first)
        return 0;
    *fail = first->fail;
    return -1;
}

void
spawn_pool_release (struct spawn_pool *spawn_pool)
{
    if (!spawn_pool->count)
        return;
    for (int i = 1; i < spawn_pool->count; i++)
        sem_post (&spawn_pool->leave);
    for (int i = 1; i < spawn_pool->count; i++)
        pthread_join (spawn_pool->each[i].thread, NULL);
    sem_destroy (&spawn_pool->done);
    sem_destroy (&spawn_pool->leave);
    spawn_release (&spawn_pool->spawn);
    spawn_pool->count = 0;
}
