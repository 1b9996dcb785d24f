/* SPDX-License-Identifier: Apache-2.0 */
/* How a job ends, who is signalled when, and what becomes of the output: the supervisor in a made-up world, in which
 * everything happens at the millisecond that a test wants. */
#include <config.h>

#include "tests/unit/launch/supervise_world.h"

/* How the job should have ended. */
static void
check (const char *name, enum job_end end, int number, int64_t end_ms, const char *said)
{
    int got = the_job.end == JOB_FAILED ? the_job.first_failed : the_job.end == JOB_STOPPED ? the_job.signal : 0;
    ok (the_job.end == end && got == number && now_ms () == end_ms, "%s: end %d of %d after %lld ms", name,
        (int) the_job.end, got, (long long) now_ms ());
    if (said)
        is_text (world.said.text, said, name);
}

static void
test_shutdown (void)
{
    make_world ();
    for (int i = 0; i < RANKS; i++)
        at (10 * (i + 1), END, i, 0);
    bool all = true;
    for (int i = 0; i < RANKS * JOB_STREAMS; i++)
        all &= is_watched (EVENT_STREAM, i);
    ok (all, "stdout and stderr of all ranks are watched");
    run_world ();
    check ("all succeed", JOB_DONE, 0, 30, "");
    ok (atomic_load (&jobseg_slot (&the_job.segment, 1)->exited), "the segment records it");
    end_world ("all succeed");

    make_world ();
    at (10, END, 1, 7 << 8);
    world.ranks[2].heeds_ms = 2000;
    run_world ();
    check ("one fails", JOB_FAILED, 1, 2010, "TERM -1000@10 TERM -1002@10 CONT -1000@10 CONT -1002@10 ");
    ok (!the_job.killed && !the_job.out_of_grace, "no rank is killed");
    end_world ("one fails");

    make_world ();
    at (10, END, 1, 7 << 8);
    at (12, END, 2, 3 << 8);
    run_world ();
    check ("a second failure", JOB_FAILED, 1, 15, NULL);
    end_world ("a second failure");

    make_world ();
    at (10, END, 1, 7 << 8);
    world.ranks[0].heeds_ms = NEVER;
    world.ranks[0].dies_ms = 100;
    run_world ();
    check ("a deaf one", JOB_FAILED, 1, 30110,
           "TERM -1000@10 TERM -1002@10 CONT -1000@10 CONT -1002@10 KILL -1000@30010 ");
    ok (the_job.killed == 1 && the_job.out_of_grace, "one was killed, because its time was over");
    end_world ("a deaf one");

    make_world ();
    the_plan.grace_s = 0;
    at (10, END, 1, 7 << 8);
    run_world ();
    check ("no grace", JOB_FAILED, 1, 10, "KILL -1000@10 KILL -1002@10 ");
    ok (the_job.killed == 2 && !the_job.out_of_grace, "two were killed at once");
    end_world ("no grace");
}

/* What is noted about the moment of a failure. */
static void
test_notes (void)
{
    static const struct {
        int signal, kills;
        bool out_of_memory;
    } cases[] = { { SIGKILL, 1, true }, { SIGKILL, 0, false }, { SIGTERM, 1, false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_world ();
        at (10, END, 0, cases[i].signal);
        world.oom_kills = cases[i].kills;
        run_world ();
        ok (the_job.out_of_memory == cases[i].out_of_memory, "signal %d and %d kills for want of memory",
            cases[i].signal, cases[i].kills);
        end_world ("want of memory");
    }
    make_world ();
    for (int i = 0; i < RANKS; i++)
        atomic_store (&jobseg_slot (&the_job.segment, i)->state, JOBSEG_READY);
    at (5, END, 0, 0);
    at (10, END, 1, 256);
    run_world ();
    ok (!the_job.ranks[0].doing && the_job.ranks[1].doing && the_job.ranks[2].doing,
        "what those that had not ended were doing");
    end_world ("doings");

    make_world ();
    at_text (10, WRITE_ERR, 0, "first\n");
    at_text (10, WRITE_ERR, 2, "second\n");
    at (10, END, 0, 256);
    run_world ();
    is_text (world.got[JOB_ERR].text, "first\nsecond\n", "the words of the failed rank come first");
    end_world ("last words");
}

/* Ends of which one SIGCHLD tells: all of them are seen. */
static void
test_unseen (void)
{
    make_world ();
    for (int i = 0; i < RANKS; i++) {
        world.ranks[i].is_unseen = true;
        world.ranks[i].heeds_ms = NEVER;
        at (10, END, i, i ? 0 : 256);
    }
    run_world ();
    check ("ends without a pidfd", JOB_FAILED, 0, 10, "TERM -1001@10 TERM -1002@10 CONT -1001@10 CONT -1002@10 ");
    end_world ("ends without a pidfd");
}

static void
test_signals (void)
{
    static const struct {
        const char *name;
        int signal, of_terminal, status; /* of rank 0, 5 ms before; 0: it does not end */
        enum job_end end;
        int number;
        int64_t end_ms;
    } cases[] = {
        { "SIGTERM", SIGTERM, 0, 0, JOB_STOPPED, SIGTERM, 25 },
        { "SIGHUP after a failure", SIGHUP, 0, 256, JOB_FAILED, 0, 20 },
        { "^C, of which rank 0 has died", SIGINT, 1, SIGINT, JOB_STOPPED, SIGINT, 20 },
        { "the same, not from the terminal", SIGINT, 0, SIGINT, JOB_FAILED, 0, 20 },
        { "^C, and rank 0 has died of SIGQUIT", SIGINT, 1, SIGQUIT, JOB_FAILED, 0, 20 },
        { "^C, and rank 0 has failed", SIGINT, 1, 256, JOB_FAILED, 0, 20 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_world ();
        if (cases[i].status)
            at (15, END, 0, cases[i].status);
        at (17, SIGNAL, cases[i].of_terminal, cases[i].signal);
        if (!cases[i].status)
            world.list[world.count - 1].at_ms += 3;
        run_world ();
        check (cases[i].name, cases[i].end, cases[i].number, cases[i].end_ms, NULL);
        end_world (cases[i].name);
    }
    make_world ();
    world.signals_first = true;
    at (10, END, 1, 256);
    at (10, SIGNAL, 0, SIGTERM);
    run_world ();
    check ("a failure and a signal at once", JOB_FAILED, 1, 15, NULL);
    end_world ("a failure and a signal at once");

    make_world ();
    at (10, SIGNAL, 0, SIGUSR1);
    at (20, SIGNAL, 1, SIGTSTP);
    at (25, END, 1, 0);
    at (30, SIGNAL, 0, SIGUSR2);
    end_all (40);
    the_job.ranks[0].own_group = false;
    run_world ();
    check ("signals that only pass", JOB_DONE, 0, 40,
           "USR1 1000@10 USR1 -1001@10 USR1 -1002@10 TSTP -1001@20 TSTP -1002@20 USR2 1000@30 USR2 -1002@30 ");
    end_world ("signals that only pass");

    make_world ();
    at (10, SIGNAL, 1, SIGINT);
    at (11, END, 0, SIGINT);
    the_job.ranks[0].own_group = false;
    run_world ();
    check ("^C with a rank at the terminal", JOB_STOPPED, SIGINT, 15,
           "INT -1001@10 INT -1002@10 CONT 1000@10 CONT -1001@10 CONT -1002@10 ");
    end_world ("^C with a rank at the terminal");
}

/* Ranks that ask for requests get them in the job segment, and no signal. */
static void
test_requests (void)
{
    static const struct {
        const char *name;
        int signal;       /* 0: the time limit, at the same moment */
        int grace_s;
        bool ranks_ask, agree, failed;
        enum job_end end;
        int number, status;
        int64_t end_ms;
        uint32_t request; /* in the segment, at the end */
        const char *said;
    } cases[] = {
        { "SIGTERM", SIGTERM, 30, true, true, false, JOB_STOPPED, SIGTERM, 143, 40, JOBSEG_SAVE | JOBSEG_STOP,
          "CONT -1000@10 CONT -1001@10 CONT -1002@10 " },
        { "SIGTERM, and they were done", SIGTERM, 30, true, false, false, JOB_DONE, 0, 0, 40, JOBSEG_SAVE | JOBSEG_STOP,
          "CONT -1000@10 CONT -1001@10 CONT -1002@10 " },
        { "SIGTERM without grace", SIGTERM, 0, true, false, false, JOB_STOPPED, SIGTERM, 143, 10,
          JOBSEG_SAVE | JOBSEG_STOP, "KILL -1000@10 KILL -1001@10 KILL -1002@10 " },
        { "SIGTERM to ranks that do not ask", SIGTERM, 30, false, false, false, JOB_STOPPED, SIGTERM, 143, 15,
          JOBSEG_SAVE | JOBSEG_STOP, NULL },
        { "SIGUSR1", SIGUSR1, 30, true, false, false, JOB_DONE, 0, 0, 40, JOBSEG_SAVE, "" },
        { "the time limit", 0, 30, true, true, false, JOB_STOPPED, 0, 75, 40, JOBSEG_SAVE | JOBSEG_STOP,
          "CONT -1000@10 CONT -1001@10 CONT -1002@10 " },
        { "a failure", 0, 30, true, false, true, JOB_FAILED, 1, 1, 15, JOBSEG_END,
          "TERM -1000@10 TERM -1002@10 CONT -1000@10 CONT -1002@10 " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_world ();
        the_plan.grace_s = cases[i].grace_s;
        for (int j = 0; j < RANKS; j++) {
            atomic_store (&jobseg_slot (&the_job.segment, j)->respects,
                          cases[i].ranks_ask ? JOBSEG_SAVE | JOBSEG_STOP : 0);
            atomic_store (&jobseg_slot (&the_job.segment, j)->agreed, cases[i].agree ? JOBSEG_SAVE | JOBSEG_STOP : 0);
        }
        if (cases[i].failed)
            at (10, END, 1, 256);
        else if (cases[i].signal)
            at (10, SIGNAL, 0, cases[i].signal);
        else
            the_plan.requests.stop_ms = BEGIN_MS + 10;
        end_all (40);
        run_world ();
        check (cases[i].name, cases[i].end, cases[i].number, cases[i].end_ms, cases[i].said);
        ok (job_status (&the_job) == cases[i].status, "%s: status %d", cases[i].name, job_status (&the_job));
        ok (atomic_load (&the_job.segment.header->request) == cases[i].request, "%s: request %u", cases[i].name,
            atomic_load (&the_job.segment.header->request));
        the_plan.requests.stop_ms = 0;
        end_world (cases[i].name);
    }
    make_world ();
    for (int j = 0; j < RANKS; j++)
        atomic_store (&jobseg_slot (&the_job.segment, j)->agreed, JOBSEG_STOP);
    end_all (40);
    run_world ();
    ok (the_job.end == JOB_STOPPED && job_status (&the_job) == 75 && the_job.stop_reason, "a signal to a rank");
    end_world ("a signal to a rank");
}

/* @return whether the file at @path asks for a checkpoint at @now */
static bool
asks (struct supervisor *its, const char *path, int64_t now)
{
    const char *reason = NULL;
    the_plan.requests.checkpoint_file = path;
    request_serve (its, now, &reason);
    return atomic_exchange (&the_job.segment.header->request, 0) == JOBSEG_SAVE;
}

static void
test_checkpoint_file (void)
{
    static const char folder[] = "/"; /* it cannot be removed */
    make_world ();
    struct supervisor its = { .job = &the_job };
    ok (asks (&its, folder, 1000) && !asks (&its, folder, 2000) && !asks (&its, folder, 3000),
        "a file that cannot be removed asks for one checkpoint");
    ok (!asks (&its, "no/such/file", 4000) && asks (&its, folder, 5000), "and for another one when it comes back");
    the_plan.requests.checkpoint_file = NULL;
    end_all (40);
    run_world ();
    end_world ("a file that asks for checkpoints");
}

/* All ranks die of what the terminal sent, and the guardian passes it on later, or never. */
static void
test_terminal (void)
{
    static const struct {
        int signal, tells_ms;
        enum job_end end;
        int64_t end_ms;
    } cases[] = {
        { SIGINT, 200, JOB_STOPPED, 200 }, { SIGINT, 0, JOB_FAILED, 260 }, { SIGQUIT, 200, JOB_STOPPED, 200 },
        { SIGQUIT, 0, JOB_FAILED, 260 }, { SIGTERM, 0, JOB_FAILED, 10 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        snprintf (name, sizeof name, "all die of %d, told after %d ms", cases[i].signal, cases[i].tells_ms);
        make_world ();
        for (int j = 0; j < RANKS; j++)
            at (10, END, j, cases[i].signal);
        if (cases[i].tells_ms)
            at (cases[i].tells_ms, SIGNAL, 1, cases[i].signal);
        run_world ();
        bool told = cases[i].end == JOB_STOPPED;
        check (name, cases[i].end, told ? cases[i].signal : the_job.first_failed, cases[i].end_ms, NULL);
        end_world (name);
    }
}

static void
test_repeats (void)
{
    static const struct {
        const char *name;
        int first, second, second_ms;
        int64_t end_ms;
    } cases[] = {
        { "SIGTERM twice", SIGTERM, SIGTERM, 400, 400 },
        { "SIGINT after SIGHUP", SIGHUP, SIGINT, 400, 400 },
        { "twice at the same time", SIGTERM, SIGTERM, 200, 3010 },
        { "SIGHUP twice", SIGHUP, SIGHUP, 400, 3010 },
        { "SIGQUIT after SIGTERM", SIGTERM, SIGQUIT, 400, 3010 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_world ();
        the_plan.grace_s = 3;
        for (int j = 0; j < RANKS; j++)
            world.ranks[j].heeds_ms = NEVER;
        at (10, SIGNAL, 0, cases[i].first);
        at (cases[i].second_ms, SIGNAL, 0, cases[i].second);
        run_world ();
        check (cases[i].name, JOB_STOPPED, cases[i].first, cases[i].end_ms, NULL);
        ok (the_job.killed == RANKS && the_job.out_of_grace == (cases[i].end_ms == 3010), "%s: why", cases[i].name);
        end_world (cases[i].name);
    }
}

static void
test_guardian (void)
{
    make_world ();
    at (10, GUARDIAN, 0, 0);
    for (int i = 0; i < RANKS; i++)
        world.ranks[i].dies_ms = 20;
    world.has_left = true;
    world.left_kills = 1;
    run_world ();
    check ("the guardian dies", JOB_STOPPED, SIGKILL, 35, "KILL -1000@10 KILL -1001@10 KILL -1002@10 KILL all@30 ");
    end_world ("the guardian dies");

    make_world ();
    at (1, END, 0, 0);
    at (1, END, 1, 0);
    at (1, END, 2, 0);
    at (50, GUARDIAN, 0, 0);
    world.has_left = true;
    world.left_heeds_ms = 1000;
    world.left_kills = 1;
    run_world ();
    check ("the guardian dies while leftovers are asked", JOB_STOPPED, SIGKILL, 55,
           "TERM all@1 CONT all@1 KILL all@50 ");
    end_world ("the guardian dies while leftovers are asked");
}

/* They die unseen, so it takes 5 ms to find that out. */
static void
test_leftovers (void)
{
    static const struct {
        const char *name;
        int heeds_ms, kills, signal, signal_ms;
        enum job_end end;
        int64_t end_ms;
        const char *said;
    } cases[] = {
        { "leftovers", 100, 1, 0, 0, JOB_DONE, 110, "TERM all@10 CONT all@10 " },
        { "deaf ones", NEVER, 3, 0, 0, JOB_DONE, 2025, "TERM all@10 CONT all@10 KILL all@2010 " },
        { "some that nothing ends", NEVER, 0, 0, 0, JOB_DONE, 12010, "TERM all@10 CONT all@10 KILL all@2010 " },
        { "one signal while they are asked", NEVER, 1, SIGTERM, 500, JOB_DONE, 505,
          "TERM all@10 CONT all@10 KILL all@500 " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_world ();
        end_all (10);
        world.has_left = world.left_is_stopped = true;
        world.left_heeds_ms = cases[i].heeds_ms;
        world.left_kills = cases[i].kills;
        if (cases[i].signal)
            at (cases[i].signal_ms, SIGNAL, 0, cases[i].signal);
        run_world ();
        check (cases[i].name, cases[i].end, 0, cases[i].end_ms, cases[i].said);
        ok (the_job.has_leftovers == !cases[i].kills, "%s: whether some are left", cases[i].name);
        end_world (cases[i].name);
    }
    make_world ();
    for (int i = 0; i < RANKS; i++)
        world.ranks[i].heeds_ms = NEVER;
    world.has_left = true;
    world.left_heeds_ms = 100;
    world.left_kills = 1;
    at (10, SIGNAL, 0, SIGINT);
    at (400, SIGNAL, 0, SIGINT);
    run_world ();
    check ("^C twice: leftovers are killed at once", JOB_STOPPED, SIGINT, 405, NULL);
    ok (strstr (world.said.text, "KILL all@400") && !strstr (world.said.text, "TERM all"), "without being asked");
    end_world ("^C twice");
}

static void
test_abandon (void)
{
    make_world ();
    supervise_abandon (&loop);
    check ("a start fails", JOB_STOPPED, 0, 5,
           "TERM -1000@0 TERM -1001@0 TERM -1002@0 CONT -1000@0 CONT -1001@0 CONT -1002@0 ");
    end_world ("a start fails");
}

/* ---- other machines ---- */

/* After 20 ms the ranks have to end, because of another machine. */
static int64_t
serve_others (struct job_peers *peers, struct job *job, bool own_is_over, bool skip_wait)
{
    (void) job, (void) skip_wait;
    peers->must_end = now_ms () >= 20;
    peers->is_over = own_is_over;
    return peers->must_end ? INT64_MAX : BEGIN_MS + 20;
}

/* Rank 1 has ended at 10 ms, which is seen at 30 ms. */
static void
end_unseen (int status)
{
    world.ranks[1].is_unseen = true;
    world.child_signals = 1; /* SIGCHLD comes later */
    at (10, END, 1, status);
    at (30, SIGNAL, 0, SIGCHLD);
}

static void
note_observed (const struct job *job, const struct job_observer *observer)
{
    (void) observer;
    strbuf_printf (&world.said, "rank %d of %lld ", job->first_failed, (long long) (job->failed_ns != 0));
}

/* It may be the cause of the failure of rank 0, or of a signal. */
static void
test_causes (void)
{
    static const struct job_observer head = { .failed = note_observed };
    static const struct {
        const char *name;
        const struct job_observer *observer; /* of a launcher below an agent */
        int of_rank_1, of_rank_0, signal;
        enum job_end end;
        int number;
    } cases[] = {
        { "a rank that was killed before its victim failed", NULL, SIGKILL, 4 << 8, 0, JOB_FAILED, 1 },
        { "a rank that has aborted may be a victim itself", NULL, SIGABRT, 4 << 8, 0, JOB_FAILED, 0 },
        { "one that was killed, and one that crashed", NULL, SIGBUS, SIGSEGV, 0, JOB_FAILED, 0 },
        { "a rank that was killed before a signal came", NULL, SIGKILL, 0, SIGTERM, JOB_FAILED, 1 },
        { "one that was killed by the same signal", NULL, SIGTERM, 0, SIGTERM, JOB_STOPPED, SIGTERM },
        { "the same below an agent, which informs no other host", &head, SIGTERM, 0, SIGTERM, JOB_FAILED, 1 },
        { "one that has exited below an agent, whose head decides", &head, 7 << 8, 0, SIGTERM, JOB_FAILED, 1 },
        { "the same without an agent", NULL, 7 << 8, 0, SIGTERM, JOB_STOPPED, SIGTERM },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_world ();
        the_job.observer = cases[i].observer;
        end_unseen (cases[i].of_rank_1);
        at (20, cases[i].signal ? SIGNAL : END, 0, cases[i].signal ? cases[i].signal : cases[i].of_rank_0);
        run_world ();
        check (cases[i].name, cases[i].end, cases[i].number, 30, NULL);
        ok (!the_job.ending && the_job.failed_ns, "and nothing is awaited any more");
        bool is_told = cases[i].observer && cases[i].end == JOB_FAILED;
        ok (is_told == (strstr (world.said.text, "rank 1 of 1") != NULL), "the agent hears of it");
        end_world (cases[i].name);
    }
    make_world ();
    the_job.observer = &head;
    end_unseen (SIGKILL);
    at (20, END, 0, 4 << 8);
    run_world ();
    ok (strstr (world.said.text, "rank 0 of 1 TERM") && strstr (world.said.text, "rank 1 of 1"),
        "the agent hears of the first failure at once, and of the cause later: %s", world.said.text);
    end_world ("both are reported");
}

/* Rank 0 says whose end made it give up. */
static void
test_words (void)
{
    for (int is_named = 0; is_named < 2; is_named++) {
        make_world ();
        struct jobseg_slot *slot = jobseg_slot (&the_job.segment, 0);
        snprintf (slot->reason, sizeof slot->reason, "rank %d ended (process 7)", is_named ? 1 : 2);
        atomic_store (&slot->state, JOBSEG_FAILED);
        end_unseen (SIGABRT);
        at (20, END, 0, 4 << 8);
        run_world ();
        check (is_named ? "an abort that a victim names" : "one that it does not name", JOB_FAILED, is_named, 30, NULL);
        end_world ("words");
    }
}

/* Both end, rank 1 first, after epoll was asked and before signals are read. */
static void
test_order (void)
{
    make_world ();
    world.unseen_looks = 1;
    at (10, END, 1, 1 << 8);
    at (10, END, 0, 2 << 8);
    at (10, SIGNAL, 0, SIGCHLD);
    run_world ();
    check ("ends since the last look", JOB_FAILED, 1, 15, NULL);
    end_world ("order");
}

/* Rank 1 may be the cause of what has happened elsewhere. */
static void
test_others (void)
{
    static const struct {
        const char *name;
        int status; /* of rank 1; 0: it runs on */
        enum job_end end;
        int number;
        const char *said;
    } cases[] = {
        { "no rank here is to blame", 0, JOB_ELSEWHERE, 0, "TERM -1000@20 TERM -1001@20 TERM -1002@20 CONT -1000@20 "
          "CONT -1001@20 CONT -1002@20 " },
        { "a rank that was killed is", SIGKILL, JOB_FAILED, 1, "TERM -1000@20 TERM -1001@20 TERM -1002@20 "
          "CONT -1000@20 CONT -1001@20 CONT -1002@20 " },
        { "a rank that has given up is not", 7 << 8, JOB_ELSEWHERE, 0, "TERM -1000@20 TERM -1001@20 TERM -1002@20 "
          "CONT -1000@20 CONT -1001@20 CONT -1002@20 " },
        { "nor is one that has aborted", SIGABRT, JOB_ELSEWHERE, 0, "TERM -1000@20 TERM -1001@20 TERM -1002@20 "
          "CONT -1000@20 CONT -1001@20 CONT -1002@20 " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job_peers peers = { .fd = -1, .serve = serve_others };
        const struct job_observer observer = { .fd = -1, .peers = &peers };
        make_world ();
        the_job.observer = &observer;
        if (cases[i].status)
            end_unseen (cases[i].status);
        run_world ();
        check (cases[i].name, cases[i].end, cases[i].number, cases[i].status ? 30 : 25, cases[i].said);
        end_world (cases[i].name);
    }
}

/* After 20 ms all ranks are to save and stop, because of another machine, which has stopped, too. */
static int64_t
serve_notice (struct job_peers *peers, struct job *job, bool own_is_over, bool skip_wait)
{
    (void) job, (void) skip_wait;
    bool is_time = now_ms () >= 20;
    peers->stop_reason = is_time ? "because b will be taken away" : NULL;
    peers->must_end = is_time;
    peers->is_over = own_is_over;
    return is_time ? INT64_MAX : BEGIN_MS + 20;
}

static const char *noticed; /* what other machines hear */

static void
take_noticed (struct job_peers *peers, const char *why)
{
    (void) peers;
    noticed = why;
}

static void
test_notice (void)
{
    struct job_peers peers = { .fd = -1, .serve = serve_notice, .notice = take_noticed };
    const struct job_observer observer = { .fd = -1, .peers = &peers };
    make_world ();
    the_job.observer = &observer;
    run_world ();
    ok (the_job.end == JOB_STOPPED && job_status (&the_job) == FAIL_STOPPED && the_job.stop_reason
            && !strcmp (the_job.stop_reason, "because b will be taken away") && !noticed,
        "another machine's notice stops the ranks, and they may save");
    ok (atomic_load (&the_job.segment.header->request) == (JOBSEG_SAVE | JOBSEG_STOP),
        "which is what they are asked for");
    end_world ("a notice");
    peers = (struct job_peers){ .fd = -1, .serve = serve_others, .notice = take_noticed };
    make_world ();
    the_job.observer = &observer;
    the_plan.requests.stop_ms = BEGIN_MS + 10;
    run_world ();
    the_plan.requests.stop_ms = 0;
    ok (the_job.end == JOB_STOPPED && noticed && !strcmp (noticed, "at the time limit"),
        "other machines hear of a time limit that is over");
    end_world ("a time limit");
}

int
main (void)
{
    signal (SIGPIPE, SIG_IGN);
    test_shutdown ();
    test_notes ();
    test_unseen ();
    test_signals ();
    test_requests ();
    test_checkpoint_file ();
    test_terminal ();
    test_repeats ();
    test_guardian ();
    test_leftovers ();
    test_abandon ();
    test_causes ();
    test_words ();
    test_order ();
    test_others ();
    test_notice ();
    return done_testing ();
}
