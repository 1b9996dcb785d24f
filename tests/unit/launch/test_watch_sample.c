/* SPDX-License-Identifier: Apache-2.0 */
/* What one look at a job sees, who is awaited, and what follows from several looks; also of segments with garbage. */
#include <config.h>

#include "launch/process/process.h"
#include "launch/watch/history.h"
#include "tests/tap.h"
#include "util/procfs.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, FIRST = 8 };
#define SECOND UINT64_C (1000000000)

static struct watch_job
make_job (void)
{
    struct watch_job job = { .segment = JOBSEG_NONE, .rank_count = RANKS, .first_rank = FIRST, .holder = getpid () };
    if (jobseg_create (&job.segment, 2 * RANKS, RANKS, FIRST, "test", NULL))
        exit (1);
    for (int i = 0; i < RANKS; i++) {
        struct jobseg_slot *slot = jobseg_slot (&job.segment, i);
        atomic_store (&slot->state, JOBSEG_READY);
        atomic_store (&slot->pid, getpid ());
        atomic_store (&slot->pid_space, procfs_pid_space ());
    }
    return job;
}

/* Rank @i calls collective @number of @comm. */
static void
call (const struct watch_job *job, int i, uint64_t comm, uint32_t number, enum jobseg_call what, int root, bool done)
{
    struct jobseg_slot *slot = jobseg_slot (&job->segment, i);
    uint64_t sequence = atomic_load (&slot->ledger_count) + 1;
    slot->ledger[(sequence - 1) % JOBSEG_LEDGER] = (struct jobseg_record){
        .sequence = sequence, .comm = comm, .number = number, .call = (uint8_t) what, .root = (int16_t) root,
        .generation = atomic_load (&slot->generation), .done = done, .file = JOBSEG_FILES,
    };
    atomic_store (&slot->ledger_count, sequence);
}

/* @param wanted  a letter for each rank: 'a' is awaited; then whom each one waits for */
static void
check (const struct watch_job *job, const char *wanted, const int *wanted_awaits, const char *what)
{
    bool awaited[RANKS];
    int awaits[RANKS];
    char got[RANKS + 1] = "";
    sample_find_awaited (job, awaited, awaits);
    for (int i = 0; i < RANKS; i++)
        got[i] = awaited[i] ? 'a' : '-';
    ok (!strcmp (got, wanted) && !memcmp (awaits, wanted_awaits, sizeof awaits), "%s: %s, %d %d %d %d", what, got,
        awaits[0], awaits[1], awaits[2], awaits[3]);
}

static void
test_awaited (void)
{
    enum { NO = AWAITS_NONE };
    struct watch_job job = make_job ();
    check (&job, "----", (int[]){ NO, NO, NO, NO }, "nothing was called");
    for (int i = 0; i < 3; i++)
        call (&job, i, 0, 1, JOBSEG_CALL_ALL_REDUCE, -1, false);
    check (&job, "---a", (int[]){ FIRST + 3, FIRST + 3, FIRST + 3, NO }, "one has not come");
    call (&job, 3, 0, 1, JOBSEG_CALL_ALL_REDUCE, -1, false);
    check (&job, "----", (int[]){ NO, NO, NO, NO }, "all are there");
    call (&job, 0, 7, 1, JOBSEG_CALL_BARRIER, -1, true);
    call (&job, 1, 7, 1, JOBSEG_CALL_BARRIER, -1, true);
    call (&job, 0, 7, 2, JOBSEG_CALL_BARRIER, -1, false);
    check (&job, "-a--", (int[]){ FIRST + 1, NO, NO, NO }, "only members of a group are awaited");
    atomic_store (&jobseg_slot (&job.segment, 1)->state, JOBSEG_LEFT);
    check (&job, "----", (int[]){ NO, NO, NO, NO }, "not one that has left");
    atomic_store (&jobseg_slot (&job.segment, 1)->state, JOBSEG_READY);
    call (&job, 0, 0, 1, JOBSEG_CALL_SEND, FIRST + 2, false);
    call (&job, 2, 0, 2, JOBSEG_CALL_ALL_REDUCE, -1, true);
    check (&job, "--a-", (int[]){ FIRST + 2, NO, NO, NO }, "the partner of a message");
    call (&job, 2, 0, 99, JOBSEG_CALL_RECV, 0, true);
    call (&job, 1, 0, 3, JOBSEG_CALL_ALL_REDUCE, -1, false);
    check (&job, "a-aa", (int[]){ FIRST + 2, FIRST, NO, NO }, "messages have numbers of their own");
    call (&job, 1, 0, 3, JOBSEG_CALL_ALL_REDUCE, -1, true);
    call (&job, 0, 0, 1, JOBSEG_CALL_SEND, 0, false);
    check (&job, "----", (int[]){ AWAITS_OTHER_HOSTS, NO, NO, NO }, "a partner on another host");
    for (int i = 0; i < RANKS; i++)
        call (&job, i, 0, 100, JOBSEG_CALL_ALL_REDUCE, -1, true);
    for (int i = 0; i < RANKS; i++)
        atomic_fetch_add (&jobseg_slot (&job.segment, i)->generation, 1);
    for (int i = 0; i < 3; i++)
        call (&job, i, 0, 1, JOBSEG_CALL_ALL_REDUCE, -1, false);
    check (&job, "---a", (int[]){ FIRST + 3, FIRST + 3, FIRST + 3, NO }, "a call before the restart is not this one");
    jobseg_detach (&job.segment);
}

static void
test_sample (void)
{
    struct watch_job job = make_job ();
    struct sample sample;
    struct jobseg_slot *slot = jobseg_slot (&job.segment, 1);
    atomic_store (&slot->progress.step, 12);
    atomic_store (&slot->progress.step_ns, 99);
    slot->progress.value_count = 2;
    snprintf (slot->progress.values[1].name, JOBSEG_VALUE_NAME, "loss");
    slot->progress.values[1].value = 0.5;
    memset (slot->progress.values[0].name, 'x', JOBSEG_VALUE_NAME);
    call (&job, 1, 0, 1, JOBSEG_CALL_ALL_REDUCE, -1, false);
    jobseg_mark_exit (&job.segment, 2, 7 << 8);
    atomic_store (&jobseg_slot (&job.segment, 3)->pid, 0);
    ok (!sample_take (&sample, &job, NULL) && sample.count == RANKS && sample_count_alive (&sample) == RANKS - 1,
        "three of four are alive");
    const struct sample_rank *rank = &sample.ranks[1];
    ok (rank->rank == FIRST + 1 && rank->pid == getpid () && rank->step == 12 && rank->step_ns == 99 && rank->call == 1
        && rank->memory > 0 && rank->value_count == 2 && !strcmp (rank->values[1].name, "loss")
        && rank->values[1].value == 0.5 && strstr (rank->doing, "in accel_comm_all_reduce")
        && strlen (rank->values[0].name) == JOBSEG_VALUE_NAME - 1, "a rank: %s", rank->doing);
    ok (sample.ranks[2].has_ended && !sample.ranks[2].pid && !strcmp (sample.ranks[2].doing, "exited with status 7"),
        "one that has ended: %s", sample.ranks[2].doing);
    ok (!sample.ranks[3].pid && !sample.ranks[3].has_ended, "one whose process is not known");
    sample_release (&sample);
    atomic_fetch_add (&slot->progress.version, 1);
    ok (!sample_take (&sample, &job, NULL) && !sample.ranks[1].value_count, "values being written are left out");
    sample_release (&sample);
    jobseg_detach (&job.segment);
}

/* A stranger's segment, or one that a rank has damaged: nothing happens but that nonsense is shown. */
static void
test_garbage (void)
{
    struct watch_job job = make_job ();
    struct history history;
    struct history_rates rates;
    bool awaited[RANKS];
    int awaits[RANKS], taken = 0;
    float numbers[HISTORY_POINTS];
    srand (7);
    if (history_begin (&history, &job, NULL))
        exit (1);
    for (int round = 0; round < 300; round++) {
        struct sample sample;
        for (int i = 0; i < RANKS; i++) {
            unsigned char *bytes = (unsigned char *) jobseg_slot (&job.segment, i);
            for (size_t j = 0; j < sizeof (struct jobseg_slot); j++)
                bytes[j] = (unsigned char) (round % 2 ? rand () : 0xff);
            if (round % 3)
                atomic_store (&jobseg_slot (&job.segment, i)->state, JOBSEG_READY);
            if (round % 5)
                atomic_store (&jobseg_slot (&job.segment, i)->exited, 0);
            if (round % 7)
                atomic_store (&jobseg_slot (&job.segment, i)->progress.version, 0);
        }
        sample_find_awaited (&job, awaited, awaits);
        history_look (&history, awaited);
        taken += !sample_take (&sample, &job, NULL);
        history_add (&history, &sample);
        for (int i = 0; i < RANKS; i++) {
            history_rates (&history, &sample, i, &rates);
            taken += rates.waiting < 0 || rates.waiting > 1 || strlen (sample.ranks[i].doing) >= JOBSEG_DOING
                     || history_values (&history, i, 0, numbers, HISTORY_POINTS) > HISTORY_POINTS;
        }
        sample_release (&sample);
    }
    ok (taken == 300, "300 segments of garbage");
    history_release (&history);
    jobseg_detach (&job.segment);
}

static bool
is_near (double value, double wanted)
{
    return isnan (wanted) ? isnan (value) : fabs (value - wanted) < 0.005 * (1 + fabs (wanted));
}

static void
check_rates (const struct history *history, const struct sample *sample, struct history_rates wanted, const char *what)
{
    struct history_rates rates;
    history_rates (history, sample, 0, &rates);
    ok (is_near (rates.steps_per_second, wanted.steps_per_second) && is_near (rates.waiting, wanted.waiting)
        && is_near (rates.awaited, wanted.awaited) && is_near (rates.cpu, wanted.cpu),
        "%s: %g steps/s, waiting %g, awaited %g, CPU %g", what, rates.steps_per_second, rates.waiting, rates.awaited,
        rates.cpu);
}

/* A second later: @p steps more, the latest of them @p ago_ms ago. */
static void
pass_second (struct history *history, struct sample *sample, uint64_t steps, uint64_t ago_ms)
{
    struct sample_rank *rank = sample->ranks;
    sample->now_ns += SECOND;
    rank->now_ns = sample->now_ns;
    rank->step += steps;
    if (steps)
        rank->step_ns = sample->now_ns - ago_ms * 1000000;
    history_add (history, sample);
}

static void
test_history (void)
{
    struct watch_job job = { .rank_count = 1 };
    struct sample_rank rank = { .now_ns = 1000 * SECOND, .step = 1000 };
    struct sample sample = { .now_ns = 1000 * SECOND, .ranks = &rank, .count = 1 };
    struct history history;
    bool awaited = true, not_awaited = false;
    if (history_begin (&history, &job, NULL))
        exit (1);
    check_rates (&history, &sample, (struct history_rates){ NAN, NAN, NAN, NAN }, "no sample");
    pass_second (&history, &sample, 0, 0);
    check_rates (&history, &sample, (struct history_rates){ NAN, NAN, NAN, NAN }, "one sample without steps");
    rank.first_step = 1000, rank.first_ns = 991 * SECOND, rank.step = 1100, rank.step_ns = 1001 * SECOND;
    check_rates (&history, &sample, (struct history_rates){ 10, NAN, NAN, NAN }, "the average, from one sample");
    for (int i = 0; i < 20; i++) {
        rank.cpu_ns += SECOND * 3 / 2;
        rank.waited_ns += SECOND / 4;
        history_look (&history, i % 2 ? &awaited : &not_awaited);
        pass_second (&history, &sample, 2, 100);
    }
    check_rates (&history, &sample, (struct history_rates){ 2, 0.25, 0.5, 1.5 }, "twenty seconds");
    rank.call = 77;
    for (int i = 0; i < 11; i++)
        pass_second (&history, &sample, 0, 0);
    check_rates (&history, &sample, (struct history_rates){ 140 / 41.0, 1, 0.5, 0 }, "a call that does not end");
    for (int i = 0; i < 62; i++)
        pass_second (&history, &sample, 0, 0);
    check_rates (&history, &sample, (struct history_rates){ 0, 1, NAN, 0 }, "no step for a minute");
    rank.call = 0;
    rank.waited_ns += 73 * SECOND;
    pass_second (&history, &sample, 1, 0);
    rank.step = 5;
    pass_second (&history, &sample, 0, 0);
    history_rates (&history, &sample, 0, &(struct history_rates){ 0 });
    ok (true, "steps that go back");
    history_release (&history);
}

static void
test_values (void)
{
    struct watch_job job = { .rank_count = 1 };
    struct sample_rank rank = { .value_count = 1 };
    struct sample sample = { .ranks = &rank, .count = 1 };
    struct history history;
    float numbers[5];
    if (history_begin (&history, &job, NULL))
        exit (1);
    ok (history_values (&history, 0, 0, numbers, 5) == 0, "no values");
    for (int i = 0; i < 100; i++) {
        rank.values[0].value = i;
        history_add (&history, &sample);
        if (i == 1)
            ok (history_values (&history, 0, 0, numbers, 5) == 2 && numbers[1] == 1, "two values");
    }
    ok (history_values (&history, 0, 0, numbers, 5) == 5 && numbers[0] == 95 && numbers[4] == 99, "the latest five");
    ok (history_values (&history, 0, 1, numbers, 5) == 5 && isnan (numbers[4]), "a value that was not logged");
    history_release (&history);
}

static int
wait_to_be_killed (void *unused)
{
    (void) unused;
    (void) prctl (PR_SET_PDEATHSIG, SIGKILL); /* a test that is killed leaves none */
    pause ();
    return 0;
}

/* Their list is longer than what is read of it at a time.  They share our memory, so that they are cheap. */
static void
test_many_children (void)
{
    enum { MANY = 4000, STACK = 16 << 10 };
    static pid_t made[MANY];
    char *stacks = malloc ((size_t) MANY * STACK);
    pid_t *found = NULL;
    int count = 0;
    for (char *stack = stacks; stack && count < MANY; count++) {
        stack += STACK;
        made[count] = clone (wait_to_be_killed, stack, CLONE_VM | SIGCHLD, NULL);
        if (made[count] < 0)
            break;
    }
    size_t seen = process_children (getpid (), &found), right = 0;
    for (size_t i = 0; i < seen && i < MANY; i++)
        right += found[i] == made[i];
    for (int i = 0; i < count; i++)
        if (kill (made[i], SIGKILL) || waitpid (made[i], NULL, 0) != made[i])
            exit (1);
    if (count == MANY)
        ok (seen == MANY && right == MANY, "%zu of %d children, %zu of them right", seen, count, right);
    else
        skip ("children: this user may have only %d", count);
    free (found);
    free (stacks);
}

int
main (void)
{
    test_many_children ();
    test_awaited ();
    test_sample ();
    test_garbage ();
    test_history ();
    test_values ();
    return done_testing ();
}
