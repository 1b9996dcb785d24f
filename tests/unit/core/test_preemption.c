/* SPDX-License-Identifier: Apache-2.0 */
/* accel_should_save() and accel_should_stop(): whoever is asked, and whenever, all ranks learn it at the same step. */
#include <config.h>

#include "tests/ranks.h"

#include <time.h>

enum { STEPS = 200, REQUESTS = 12 };

static struct accel_error err;

static void
pause_us (long us)
{
    nanosleep (&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

static bool
should_save (struct accel *acc)
{
    bool save = false;
    rank_must (accel_should_save (acc, &save, &err), &err);
    return save;
}

static bool
should_stop (struct accel *acc)
{
    bool stop = false;
    rank_must (accel_should_stop (acc, &stop, &err), &err);
    return stop;
}

static struct jobseg_slot *
slot_of (struct accel *acc, struct jobseg *segment)
{
    struct fail fail;
    right (!jobseg_attach (segment, getenv (ENV_JOB_SEGMENT), &fail), "%s", fail.text);
    return jobseg_slot (segment, accel_process_index (acc));
}

/* The same number on all ranks. */
static void
is_same (struct accel *acc, int64_t number, const char *what)
{
    int64_t least = number, most = number;
    rank_must (accel_comm_all_reduce (accel_world (acc), &number, &least, 1, ACCEL_INT64, ACCEL_MIN, &err), &err);
    rank_must (accel_comm_all_reduce (accel_world (acc), &number, &most, 1, ACCEL_INT64, ACCEL_MAX, &err), &err);
    right (least == most, "%s: %lld on one rank, %lld on another", what, (long long) least, (long long) most);
}

/* ---- one process ---- */

static volatile sig_atomic_t own_signals;

static void
count_signal (int number)
{
    (void) number;
    own_signals++;
}

static bool
is_default (int number)
{
    struct sigaction action;
    return !sigaction (number, NULL, &action) && action.sa_handler == SIG_DFL;
}

static bool
ask_save (struct accel *acc)
{
    bool save = false;
    return !accel_should_save (acc, &save, &err) && save;
}

static bool
ask_stop (struct accel *acc)
{
    bool stop = false;
    return !accel_should_stop (acc, &stop, &err) && stop;
}

static void
test_alone (void)
{
    struct accel *acc;
    bool answer = true;
    ok (!accel_open (&acc, &(struct accel_options){ .cpu = true }, &err) && is_default (SIGTERM), "a job alone");
    ok (!ask_save (acc) && !ask_stop (acc), "nothing was asked for");
    raise (SIGUSR1);
    ok (ask_save (acc) && !ask_save (acc) && !ask_stop (acc), "SIGUSR1 asks for one checkpoint");
    raise (SIGTERM);
    ok (!ask_stop (acc) && ask_save (acc) && ask_stop (acc) && ask_stop (acc) && !ask_save (acc),
        "SIGTERM asks for one more, and then for an end");
    ok (accel_should_save (acc, NULL, &err) == ACCEL_ERR_INVALID && strstr (err.text, "save is NULL"), "%s", err.text);
    ok (accel_should_stop (NULL, &answer, &err) == ACCEL_ERR_INVALID && strstr (err.text, "the job is NULL"), "%s",
        err.text);
    accel_close (acc);
    ok (is_default (SIGTERM) && is_default (SIGUSR1), "after accel_close(), signals are as before");

    signal (SIGTERM, count_signal);
    ok (!accel_open (&acc, &(struct accel_options){ .cpu = true, .catch_signals = 1 }, &err), "a job that catches");
    raise (SIGTERM);
    raise (SIGUSR1);
    ok (own_signals == 1, "the program's own handler stays");
    ok (ask_save (acc) && !ask_stop (acc), "a signal before the first call is not lost");
    accel_close (acc);
    signal (SIGTERM, SIG_DFL);

    ok (!accel_open (&acc, &(struct accel_options){ .cpu = true, .catch_signals = 1 }, &err), "a program that stops");
    raise (SIGTERM);
    ok (ask_stop (acc), "one that never asks whether to save stops at once");
    pid_t child = fork ();
    if (!child)
        raise (SIGTERM), _exit (0);
    int status = 0;
    waitpid (child, &status, 0);
    ok (WIFSIGNALED (status) && WTERMSIG (status) == SIGTERM, "SIGTERM ends a child of the program");
    accel_close (acc);
}

/* ---- several ---- */

/* Signals come to one rank only, at any moment; the ranks are at different places of a step. */
static void
test_signals (struct accel *acc)
{
    int rank = accel_process_index (acc), size = accel_num_processes (acc);
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    timer_t timer;
    right (!timer_create (CLOCK_MONOTONIC, &event, &timer), "timer_create");
    srand ((unsigned) (time (NULL) + rank));
    should_save (acc); /* takes the signals */
    for (int round = 0; round < REQUESTS; round++) {
        int64_t saved = -1;
        struct itimerspec when = { .it_value.tv_nsec = 1 + rand () % 4000000 };
        if (round % size == rank)
            timer_settime (timer, 0, &when, NULL);
        for (int step = 0; step < STEPS; step++) {
            pause_us (rand () % 50);
            if (!should_save (acc))
                continue;
            right (saved < 0, "round %d: saved at step %lld and %d", round, (long long) saved, step);
            saved = step;
        }
        right (saved >= 0, "round %d: no save", round);
        is_same (acc, saved, "the step of the save");
    }
}

/* Requests of the whole job, which the launcher writes, and of one rank. */
static void
test_segment (struct accel *acc)
{
    struct jobseg segment;
    struct jobseg_slot *slot = slot_of (acc, &segment);
    bool first = accel_process_index (acc) == 0, last = accel_process_index (acc) == accel_num_processes (acc) - 1;
    right (!atomic_load (&slot->respects), "respects before the first call");
    right (!should_save (acc) && !should_stop (acc), "nothing was asked for");
    right (atomic_load (&slot->respects) == (JOBSEG_SAVE | JOBSEG_STOP), "respects %u", atomic_load (&slot->respects));
    rank_must (accel_comm_barrier (accel_world (acc), &err), &err);
    if (first)
        atomic_fetch_or (&segment.header->request, JOBSEG_SAVE | JOBSEG_STOP);
    int64_t saved = -1, stopped = -1;
    for (int step = 0; step < 10 && stopped < 0; step++) {
        if (should_save (acc))
            saved = step;
        if (should_stop (acc))
            stopped = step;
        right (stopped < 0 || saved == stopped, "stopped in step %lld, saved in %lld", (long long) stopped,
               (long long) saved);
    }
    is_same (acc, saved, "the step of the save");
    right (saved >= 0 && saved <= 1, "saved in step %lld", (long long) saved);
    right (atomic_load (&slot->agreed) == (JOBSEG_SAVE | JOBSEG_STOP), "agreed %u", atomic_load (&slot->agreed));
    right (!atomic_load (&segment.header->request), "the request stays");
    if (last)
        atomic_fetch_or (&slot->request, JOBSEG_SAVE);
    bool saves = should_save (acc);
    right (should_save (acc) != saves, "a request of one rank counts once");
    jobseg_detach (&segment);
}

/* A request that comes between the two calls of a step is saved before the end. */
static void
test_order (struct accel *acc)
{
    bool saved = false;
    for (int step = 0; step < 20; step++) {
        saved |= should_save (acc);
        if (step == 5 && accel_process_index (acc) == 0)
            raise (SIGTERM);
        if (should_stop (acc)) {
            right (saved, "stopped before the save, in step %d", step);
            return;
        }
    }
    right (false, "not stopped");
}

/* No rank waits for one that is less than a step behind: each is a step ahead in its turn. */
static void
test_ahead (struct accel *acc)
{
    int rank = accel_process_index (acc);
    for (int turn = 0; turn < 10; turn++) {
        if (turn % 2 != rank % 2)
            rank_must (accel_comm_barrier (accel_world (acc), &err), &err);
        should_save (acc);
        should_stop (acc);
        if (turn % 2 == rank % 2)
            rank_must (accel_comm_barrier (accel_world (acc), &err), &err);
    }
}

static void
test_late (struct accel *acc)
{
    bool answer;
    should_save (acc);
    if (accel_process_index (acc) == 1) {
        pause_us (900000);
        return;
    }
    should_save (acc);
    enum accel_status status = accel_should_save (acc, &answer, &err);
    rank_fails (status, ACCEL_ERR_TIMEOUT, &err, "test_preemption.c:");
    right (strstr (err.text, "timed out after 200 ms in accel_should_save at ")
               && strstr (err.text, "waiting for rank 1 ("), "%s", err.text);
    rank_fails (accel_should_save (acc, &answer, &err), ACCEL_ERR_TIMEOUT, &err, "waiting for rank 1");
}

static void
test_dead (struct accel *acc)
{
    bool answer;
    should_save (acc);
    if (accel_process_index (acc) == 1) {
        accel_close (acc);
        _exit (0);
    }
    enum accel_status status = accel_should_stop (acc, &answer, &err); /* without a round */
    for (int i = 0; i < 2 && !status; i++)
        status = accel_should_stop (acc, &answer, &err);
    right (status == ACCEL_ERR_PEER && strstr (err.text, "rank 1 ") && strstr (err.text, "in accel_should_stop at "),
           "status %d: %s", (int) status, err.text);
}

/* The launcher ends ranks by SIGTERM where there is nothing to be saved any more. */
static void
test_end (void)
{
    struct jobseg segment = JOBSEG_NONE;
    struct fail fail;
    int status = -1;
    pid_t parent = getpid (), pid = jobseg_create (&segment, 1, 1, 0, "end", &fail) ? -1 : fork ();
    if (!pid) {
        struct accel *acc;
        ranks_become (&segment, parent, 0, 1);
        bool opened = !accel_open (&acc, &(struct accel_options){ .catch_signals = 1 }, &err);
        raise (SIGTERM);
        bool stops = opened && ask_stop (acc);
        atomic_fetch_or (&segment.header->request, JOBSEG_END);
        if (stops)
            raise (SIGTERM);
        _exit (1);
    }
    waitpid (pid, &status, 0);
    ok (WIFSIGNALED (status) && WTERMSIG (status) == SIGTERM, "SIGTERM ends ranks of a job that has failed: %x",
        (unsigned) status);
    jobseg_detach (&segment);
}

int
main (void)
{
    as_ranks (4, "signals to one rank", test_signals);
    as_ranks (2, "signals to one rank", test_signals);
    as_ranks (3, "requests in the job segment", test_segment);
    as_ranks (2, "a request between the calls of a step", test_order);
    ranks_options = &(struct accel_options){ .timeout_ms = 20000 };
    as_ranks (4, "a step ahead", test_ahead);
    as_ranks (3, "a rank that has left", test_dead);
    ranks_options = &(struct accel_options){ .timeout_ms = 200 };
    as_ranks (2, "a rank that is late", test_late);
    test_end ();
    test_alone ();
    return done_testing ();
}
