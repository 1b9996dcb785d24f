/* SPDX-License-Identifier: Apache-2.0 */
/* Notes about ranks that were stopped, in a world without processes: which there are, when, and what they say. */
#include <config.h>

#include "launch/job/stops.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/procfs.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum { RANKS = 3, FIRST_PID = 100, SCRIPT_PID = 200, BEGIN_MS = 1000000 };

static struct {
    int64_t now_ms;
    char state[RANKS]; /* of their processes, as in /proc */
    int signals[RANKS]; /* that have stopped them */
    bool is_parent;    /* the kernel tells us of the signal */
    bool is_held;      /* we are stopped */
    int calls;         /* of stops_serve() */
    struct strbuf said;
} world;

static int
index_of (pid_t pid)
{
    return pid >= SCRIPT_PID ? pid - SCRIPT_PID : pid - FIRST_PID;
}

static bool
read_state (pid_t pid, struct procfs_stat *stat)
{
    *stat = (struct procfs_stat){ .state = world.state[index_of (pid)], .exit_code = world.signals[index_of (pid)] };
    return true;
}

static int
wait_for (pid_t pid, siginfo_t *info)
{
    if (world.is_parent && world.state[index_of (pid)] == 'T') {
        info->si_pid = pid;
        info->si_status = world.signals[index_of (pid)];
    }
    return 0;
}

/* Each with its time before it. */
static void
say_lines (struct strbuf *text)
{
    strbuf_printf (&world.said, "%lld %s", (long long) (world.now_ms - BEGIN_MS), text->text);
    strbuf_truncate (text, 0);
}

#define clock_ms() (world.now_ms)
#define procfs_read_stat(pid, stat) read_state (pid, stat)
#define procfs_pid_space() 1u
#define waitid(kind, pid, info, options) wait_for ((pid_t) (pid), info)
#define output_sink_say_lines(sink, text) say_lines (text)
#include "launch/job/stops.c"

static char host_name[] = "here";
static struct plan plan = { .world_size = RANKS, .stall_s = 60, .host = host_name };
static struct plan_process processes[RANKS] = { { .rank = 0 }, { .rank = 1 }, { .rank = 2 } };
static struct job_rank ranks[RANKS] = { { .process = &processes[0], .pid = FIRST_PID },
                                        { .process = &processes[1], .pid = FIRST_PID + 1 },
                                        { .process = &processes[2], .pid = FIRST_PID + 2 } };
static struct job job = { .plan = &plan, .ranks = ranks, .count = RANKS, .alive = RANKS };

/* Rank 0 waits in a collective, rank 1 has been in one, rank 2's program does not use libaccel. */
static void
make_ranks (void)
{
    for (int i = 0; i < 2; i++) {
        struct jobseg_slot *slot = jobseg_slot (&job.segment, i);
        slot->ledger[0] = (struct jobseg_record){ .sequence = 1, .number = 1, .call = JOBSEG_CALL_ALL_REDUCE, .line = 7,
                                                  .done = i };
        strcpy (slot->files[0], "train.c");
        atomic_store (&slot->file_count, 1);
        atomic_store (&slot->ledger_count, 1);
        atomic_store (&slot->begun_ns, jobseg_now_ns () - 1000000000);
        atomic_store (&slot->heartbeat_ns, jobseg_now_ns () + UINT64_C (3600000000000));
        atomic_store (&slot->state, JOBSEG_READY);
    }
}

static void
join (int index)
{
    struct jobseg_slot *slot = jobseg_slot (&job.segment, index);
    atomic_store (&slot->pid, SCRIPT_PID + index);
    atomic_store (&slot->pid_space, 1);
    atomic_store (&slot->state, JOBSEG_READY);
}

/* What happens: "300 S1 900 C1" is a stop of rank 1 after 300 ms and its end after 900.  T is a stop by SIGTSTP, I and
 * O are those by SIGTTIN and SIGTTOU, D is one by a debugger; Z and F are SIGTSTP and SIGCONT that we pass on to all,
 * G is that SIGCONT before they have continued; H is that we are stopped, and P that we continue; E is the end of a
 * rank; J is that it joins, as a script's program. */
static void
happen (struct stops *stops, const char *what)
{
    int i = what[1] - '0';
    int signal = *what == 'T' ? SIGTSTP : *what == 'I' ? SIGTTIN : *what == 'O' ? SIGTTOU : SIGSTOP;
    if (*what == 'Z' || *what == 'F' || *what == 'G') {
        if (*what != 'G')
            memset (world.state, *what == 'Z' ? 'T' : 'S', RANKS);
        stops_pass_on (stops, *what == 'Z');
    } else if (*what == 'E')
        ranks[i].ended = true;
    else if (*what == 'J')
        join (i);
    else if (*what == 'H' || *what == 'P')
        world.is_held = *what == 'H';
    else {
        world.state[i] = *what == 'C' ? 'S' : *what == 'D' ? 't' : 'T';
        world.signals[i] = signal;
    }
    if (world.is_parent)
        stops_expect (stops);
}

static int64_t
serve (struct stops *stops)
{
    world.calls++;
    return world.is_held ? INT64_MAX : stops_serve (stops, &job);
}

static void
run (const char *happenings, int64_t end_ms)
{
    struct stops stops = { 0 };
    const char *next = happenings;
    int64_t serve_ms;
    world.now_ms = BEGIN_MS;
    world.calls = 0;
    strbuf_truncate (&world.said, 0);
    memset (world.state, 'S', RANKS);
    ranks[1].ended = false;
    serve_ms = serve (&stops);
    while (world.now_ms < BEGIN_MS + end_ms) {
        int64_t happen_ms = INT64_MAX;
        int used = 0;
        long long ms;
        char what[3];
        if (*next && sscanf (next, " %lld %2s%n", &ms, what, &used) == 2)
            happen_ms = BEGIN_MS + ms;
        if (used && happen_ms <= serve_ms) {
            world.now_ms = happen_ms;
            happen (&stops, what);
            next += used;
            if (world.is_parent || *what == 'P')
                serve_ms = serve (&stops);
            else if (*what == 'H')
                serve_ms = INT64_MAX;
        } else {
            world.now_ms = serve_ms < BEGIN_MS + end_ms ? serve_ms : BEGIN_MS + end_ms;
            serve_ms = serve (&stops);
        }
    }
    stops_end (&stops);
}

#define STOPPED_BY(signal, remedy) "accelerate: note: rank 1 (process 101) was stopped by signal " signal ", after " \
                                   "accel_comm_all_reduce at train.c:7; rank 0 is waiting; " remedy "\n"
#define CONTINUES "'kill -CONT 101' continues it"
#define BACKGROUND "in the background"
#define STOPPED STOPPED_BY ("19 (SIGSTOP)", CONTINUES)

static void
test_notes (void)
{
    static const struct {
        const char *what, *happenings, *said;
    } rows[] = {
        { "no stop, no note", "", "" },
        { "a stop has its signal, its place and those that wait", "1000 S1", "1500 " STOPPED },
        { "and an end", "1000 S1 3000 C1", "1500 " STOPPED "3500 accelerate: note: rank 1 continues, after 2 s\n" },
        { "a short one has none", "1000 S1 1400 C1", "" },
        { "nor has a debugger's", "1000 D1", "" },
        { "one that is killed does not continue", "1000 S1 3000 E1", "1500 " STOPPED },
        { "a rank that is stopped again soon has not continued", "1000 S1 3000 C1 3300 S1", "1500 " STOPPED },
        { "its time is the whole, if it was not said to continue meanwhile", "1000 S1 4000 C1 4300 S1 5300 C1",
          "1500 " STOPPED "5800 accelerate: note: rank 1 continues, after 4.3 s\n" },
        { "also after a short stop by another signal", "1000 S1 4000 C1 4300 T1 4500 C1",
          "1500 " STOPPED "5000 accelerate: note: rank 1 continues, after 3.5 s\n" },
        { "a long one is named", "1000 S1 4000 C1 4300 T1 5300 C1",
          "1500 " STOPPED "4800 " STOPPED_BY ("20 (SIGTSTP)", CONTINUES)
          "5800 accelerate: note: rank 1 continues, after 4.3 s\n" },
        { "also if it was not seen to continue", "1000 S1 4000 T1",
          "1500 " STOPPED "4500 " STOPPED_BY ("20 (SIGTSTP)", CONTINUES) },
        { "the time of several is the longest", "1000 S2 1200 S1 3000 C2 3110 C1",
          "1500 accelerate: note: ranks 1-2 (process 101 and others) were stopped by signal 19 (SIGSTOP), rank 1 after "
          "accel_comm_all_reduce at train.c:7; rank 0 is waiting; SIGCONT continues them\n"
          "3500 accelerate: note: ranks 1-2 continue, after up to 2 s\n" },
        { "one that reads the terminal needs it", "1000 I1",
          "1500 "
          STOPPED_BY ("21 (SIGTTIN)", "it reads the terminal " BACKGROUND ": 'fg' brings it to the foreground") },
        { "so do several that write to it", "1000 O1 1000 O2",
          "1500 accelerate: note: ranks 1-2 (process 101 and others) were stopped by signal 22 (SIGTTOU), rank 1 after "
          "accel_comm_all_reduce at train.c:7; rank 0 is waiting; they write to the terminal " BACKGROUND
          ": 'fg' brings them to the foreground\n" },
        { "one signal, one line", "1000 S1 1150 S2",
          "1500 accelerate: note: ranks 1-2 (process 101 and others) were stopped by signal 19 (SIGSTOP), rank 1 after "
          "accel_comm_all_reduce at train.c:7; rank 0 is waiting; SIGCONT continues them\n" },
        { "they may come a little later", "1000 S1 1200 S2 1500 C0",
          "1500 accelerate: note: ranks 1-2 (process 101 and others) were stopped by signal 19 (SIGSTOP), rank 1 after "
          "accel_comm_all_reduce at train.c:7; rank 0 is waiting; SIGCONT continues them\n" },
        { "two signals, two lines", "1000 S1 1050 T2",
          "1500 " STOPPED "1600 accelerate: note: rank 2 (process 102) was stopped by signal 20 (SIGTSTP); "
          "rank 0 is waiting; 'kill -CONT 102' continues it\n" },
        { "in a call; a program without libaccel", "1000 S0 2000 T2",
          "1500 accelerate: note: rank 0 (process 100) was stopped by signal 19 (SIGSTOP), in accel_comm_all_reduce at "
          "train.c:7; 'kill -CONT 100' continues it\n"
          "2500 accelerate: note: rank 2 (process 102) was stopped by signal 20 (SIGTSTP); "
          "'kill -CONT 102' continues it\n" },
        { "^Z reaches the rank at the terminal first", "1000 T0 1400 Z0 9000 F0", "" },
        { "they may take a moment to continue", "1000 T0 1400 Z0 1600 G0 2000 C0 2000 C1 2000 C2", "" },
        { "after it there are notes again", "1000 Z0 2000 F0 3000 S1", "3500 " STOPPED },
        { "we were stopped, too, and continued first",
          "1000 S1 1200 S0 1200 S2 1250 H0 9000 P0 9300 C1 9300 C0 9300 C2", "" },
        { "or were stopped first", "900 H0 1000 S1 1200 S0 1200 S2 9000 P0 9300 C1 9300 C0 9300 C2", "" },
        { "or continued last", "1000 S1 1200 S0 1200 S2 1250 H0 9000 C1 9000 C0 9300 C2 9400 P0", "" },
        { "or were stopped first, and continued last", "900 H0 1000 S1 1200 S0 9000 C1 9300 C0 9400 P0", "" },
    };
    world.is_parent = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run (rows[i].happenings, 12000);
        is_text (world.said.text ? world.said.text : "", rows[i].said, rows[i].what);
    }
}

/* The shell does not know other process groups than the launcher's. */
static void
test_groups (void)
{
    ranks[1].own_group = true;
    world.is_parent = true;
    run ("1000 O1", 12000);
    is_text (world.said.text, "1500 " STOPPED_BY ("22 (SIGTTOU)", "it writes to the terminal " BACKGROUND
             ", and 'fg' brings only local rank 0 to the foreground"), "a rank of its own process group");
    ranks[1].own_group = false;
}

static int
count_notes (void)
{
    int count = 0;
    for (const char *at = world.said.text; at && (at = strstr (at, "was stopped")); at++)
        count++;
    return count;
}

static void
test_bounds (void)
{
    AUTO_STRBUF struct strbuf happenings = { 0 };
    for (int i = 0; i < 100; i++)
        strbuf_printf (&happenings, "%d S1 %d C1 ", 1000 + 2000 * i, 2000 + 2000 * i);
    world.is_parent = true;
    run (happenings.text, 200000);
    ok (count_notes () == 13, "100 stops in 200 s get 13 notes: %d", count_notes ());
    plan.stall_s = 0;
    run ("1000 S1", 12000);
    is_text (world.said.text, "", "--stall_timeout 0 turns them off");
    plan.stall_s = 60;
}

/* A script has started the program, so the kernel does not tell us. */
static void
test_scripts (void)
{
    struct jobseg_slot *slot = jobseg_slot (&job.segment, 1);
    world.is_parent = false;
    run ("1100 S1", 12000);
    is_text (world.said.text, "", "without SIGCHLD, a child of ours is not looked at");
    atomic_store (&slot->pid, SCRIPT_PID + 1);
    atomic_store (&slot->pid_space, 1);
    plan.world_size = 2 * RANKS;
    run ("1100 S1", 12000);
    is_text (world.said.text, "2500 accelerate: note: rank 1 (process 201 on here) was stopped by signal 19 (SIGSTOP), "
             "after accel_comm_all_reduce at train.c:7; rank 0 is waiting; 'kill -CONT 201' continues it\n",
             "a program that a script has started is, on this host of two");
    run ("50001 S1 55001 C1", 60000);
    ok (strstr (world.said.text, "51500 ") && strstr (world.said.text, "\n56000 "), "within two seconds: %s",
        world.said.text);
    run ("1500 S1 1500 S0 1600 H0 9000 P0 9400 C0 9400 C1", 12000);
    is_text (world.said.text, "", "not if we were stopped, too");
    atomic_store (&slot->state, JOBSEG_EMPTY);
    run ("40000 J1 48000 S1", 60000);
    ok (strstr (world.said.text, " rank 1 (process 201 on here) was stopped "), "one that joins later is: %s",
        world.said.text);
    atomic_store (&slot->pid, 0);
    plan.world_size = RANKS;
}

/* The supervisor sleeps while nothing happens. */
static void
test_calls (void)
{
    struct jobseg_slot *slot = jobseg_slot (&job.segment, 2);
    world.is_parent = true;
    run ("", 3600000);
    ok (world.calls < 80, "calls in an hour in which one rank has not joined: %d", world.calls);
    atomic_store (&slot->state, JOBSEG_READY);
    run ("", 3600000);
    ok (world.calls < 5, "where all have: %d", world.calls);
    run ("10000 S1 13000 C1", 3600000);
    ok (world.calls < 20, "with a stop: %d", world.calls);
    atomic_store (&slot->state, JOBSEG_EMPTY);
}

int
main (void)
{
    struct fail fail;
    if (jobseg_create (&job.segment, RANKS, RANKS, 0, "stops", &fail)) {
        ok (false, "a segment: %s", fail.text);
        return done_testing ();
    }
    make_ranks ();
    test_notes ();
    test_groups ();
    test_bounds ();
    test_scripts ();
    test_calls ();
    strbuf_release (&world.said);
    jobseg_detach (&job.segment);
    return done_testing ();
}
