/* SPDX-License-Identifier: Apache-2.0 */
/* Starting ranks from several threads.  A thread is stopped from clone() until its child has called exec, which is
 * most of the time that a start takes; others can start theirs meanwhile.  See starters.h. */
#include <config.h>

#include "launch/starters.h"

#include "util/cleanup.h"

#include <sched.h>

enum { RANKS_PER_STARTER = 8, STACK_BYTES = 64 * 1024 };

/* More threads than processors would only wait for each other. */
static int
count_starters (int ranks)
{
    cpu_set_t cpus;
    int most = ranks / RANKS_PER_STARTER + 1;
    int usable = sched_getaffinity (0, sizeof cpus, &cpus) ? 1 : CPU_COUNT (&cpus);
    most = most < usable ? most : usable;
    return most < STARTERS_MOST ? most : STARTERS_MOST;
}

/* Starting thousands of ranks takes a while, during which events are not handled. */
static int
check_keeper (const struct starters *all, struct fail *fail)
{
    return keeper_lives (all->spawn.job->keeper) ? 0 : fail_set (fail, FAIL_GENERAL, "the launcher was killed");
}

/* A failure takes all remaining numbers, so that no thread starts another rank. */
static void
start_some (struct starter *starter)
{
    struct starters *all = starter->all;
    struct spawn_hand hand;
    int ranks = all->spawn.job->count;
    starter->failed = -1;
    if (spawn_hand_init (&hand, &all->spawn, &starter->fail)) {
        starter->failed = 0;
        atomic_store (&all->next, ranks);
        return;
    }
    for (int i; (i = atomic_fetch_add (&all->next, 1)) < ranks;)
        if (check_keeper (all, &starter->fail) || spawn_rank (&hand, i, &starter->fail)
            || supervisor_add (all->supervisor, i, &starter->fail)) {
            starter->failed = i;
            atomic_store (&all->next, ranks);
        }
    spawn_hand_release (&hand);
}

static void *
run_starter (void *argument)
{
    struct starter *starter = argument;
    struct starters *all = starter->all;
    start_some (starter);
    sem_post (&all->done);
    while (sem_wait (&all->leave) && errno == EINTR)
        ;
    return NULL;
}

/* Without a thread the others have more to do. */
static void
begin (struct starters *starters, int wanted)
{
    pthread_attr_t attributes;
    pthread_attr_init (&attributes);
    pthread_attr_setstacksize (&attributes, STACK_BYTES);
    starters->each[0] = (struct starter){ .all = starters };
    for (starters->count = 1; starters->count < wanted; starters->count++) {
        struct starter *starter = &starters->each[starters->count];
        *starter = (struct starter){ .all = starters };
        if (pthread_create (&starter->thread, &attributes, run_starter, starter))
            break;
    }
    pthread_attr_destroy (&attributes);
}

int
starters_start (struct starters *starters, struct supervisor *supervisor, struct fail *fail)
{
    struct job *job = supervisor->job;
    starters->supervisor = supervisor;
    starters->count = 0;
    atomic_init (&starters->next, 0);
    if (spawn_init (&starters->spawn, job, fail))
        return -1;
    sem_init (&starters->done, 0, 0);
    sem_init (&starters->leave, 0, 0);
    begin (starters, count_starters (job->count));
    start_some (&starters->each[0]);
    for (int i = 1; i < starters->count; i++)
        while (sem_wait (&starters->done) && errno == EINTR)
            ;
    for (int i = 0; i < job->count; i++)
        job->alive += job->ranks[i].pid != 0;
    const struct starter *first = NULL; /* the failure of the lowest rank is reported */
    for (int i = 0; i < starters->count; i++)
        if (starters->each[i].failed >= 0 && (!first || starters->each[i].failed < first->failed))
            first = &starters->each[i];
    if (!first)
        return 0;
    *fail = first->fail;
    return -1;
}

void
starters_release (struct starters *starters)
{
    if (!starters->count)
        return;
    for (int i = 1; i < starters->count; i++)
        sem_post (&starters->leave);
    for (int i = 1; i < starters->count; i++)
        pthread_join (starters->each[i].thread, NULL);
    sem_destroy (&starters->done);
    sem_destroy (&starters->leave);
    spawn_release (&starters->spawn);
    starters->count = 0;
}
