/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings of a stall, in a world without processes: when they come, whatever it takes to find the names of stacks. */
#include <config.h>

#include "launch/job/stall.h"
#include "launch/process/process.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/procfs.h"

#include <string.h>

static struct {
    int64_t now_ms;
    int64_t names_ms;  /* what finding names takes */
    int64_t named_ms;  /* when they are found */
    int64_t begin_ms;  /* of a run */
    int64_t work_until_ms; /* rank 1 works until then, since `begin_ms` */
    int64_t again_ms;  /* when it works again, for WORK_AGAIN_MS; 0: never */
    int64_t call_ms;   /* when it logs something; 0: never */
    int64_t bytes_s;   /* that it reads and writes each second */
    char state;        /* of its process */
    bool is_on_gpu;    /* its stack is in libcuda */
    bool is_starved;   /* rank 1 gets a processor for a hundredth of the time */
    int64_t sleeps_s;  /* of its first thread, each second */
    int64_t asleep;    /* hundredths of the time that it is in them */
    int64_t turn_ms;   /* between the times that it gets a processor */
    bool has_worker;   /* another thread, which computes */
    bool has_tasks;    /* threads that compute, each for a moment */
    struct strbuf *said;
} world = { .now_ms = 1000000 };

enum { WORK_AGAIN_MS = 300 };

static int
start_names (struct stack_names *names)
{
    *names = (struct stack_names){ .pid = 1, .fd = -1 };
    world.named_ms = world.now_ms + world.names_ms;
    return 0;
}

static json_t *
finish_names (struct stack_names *names)
{
    static const char stacks[] = "[{\"rank\":1,\"stack\":[{\"function\":\"\",\"module\":\"/lib/libc.so.6\"},"
                                 "{\"function\":\"\",\"module\":\"/lib/libcuda.so.1\"}]}]";
    *names = (struct stack_names){ .fd = -1 };
    return world.is_on_gpu ? json_loads (stacks, 0, NULL) : json_array ();
}

static void
say_lines (struct strbuf *text)
{
    strbuf_add (world.said, text->text);
    strbuf_truncate (text, 0);
}

/* The kernel counts what is over. */
static struct process_use
starve (uint64_t ms)
{
    struct process_thread first = { ms * 10000 + 1, ms * (99 - (uint64_t) world.asleep) * 10000,
                                    ms * (uint64_t) world.sleeps_s / 1000, true };
    uint64_t threads = world.has_worker ? 2 : 1;
    return (struct process_use){ .pid = 1, .cpu_ns = threads * first.ran_ns, .delayed_ns = threads * first.delayed_ns,
                                 .is_ready = world.has_worker, .first = first };
}

/* They use 0.6 of a processor.  The delays of those that end are no longer counted: the sum becomes less. */
static struct process_use
find_use_of_tasks (uint64_t ms)
{
    struct process_thread first = { ms * 10000 + 1, ms * 400000, ms * (uint64_t) world.sleeps_s / 1000, false };
    return (struct process_use){ .pid = 1, .cpu_ns = ms * 600000 + 1,
                                 .delayed_ns = UINT64_C (10000000000) - ms * 100000, .first = first };
}

/* Half of its work is waiting for a processor.  Rank 2 does nothing. */
static struct process_use
find_use (pid_t pid)
{
    if (pid == 2)
        return (struct process_use) { .cpu_ns = 1, .delayed_ns = 1 };
    if (world.has_tasks)
        return find_use_of_tasks ((uint64_t) (world.now_ms - world.begin_ms));
    if (world.is_starved)
        return starve ((uint64_t) ((world.now_ms - world.begin_ms) / world.turn_ms * world.turn_ms));
    int64_t until_ms = world.now_ms < world.work_until_ms ? world.now_ms : world.work_until_ms;
    int64_t again_ms = world.again_ms ? world.now_ms - world.begin_ms - world.again_ms : 0;
    again_ms = again_ms < 0 ? 0 : again_ms < WORK_AGAIN_MS ? again_ms : WORK_AGAIN_MS;
    uint64_t work_ns = (uint64_t) (until_ms - world.begin_ms + again_ms) * 1000000 / 2 + 1;
    return (struct process_use) { .cpu_ns = work_ns, .delayed_ns = work_ns };
}

/* /proc/PID/io */
static ssize_t
read_file (char *text, size_t size)
{
    long long bytes = world.bytes_s * world.now_ms / 1000 + 1;
    return snprintf (text, size, "rchar: %lld\nwchar: %lld\nsyscr: 3\n", bytes / 4, bytes - bytes / 4);
}

static bool
read_state (struct procfs_stat *stat)
{
    *stat = (struct procfs_stat){ .state = world.state };
    return true;
}

#define clock_ms() (world.now_ms)
#define process_find_use(pid) find_use (pid)
#define procfs_read(pid, name, text, size) read_file (text, size)
#define procfs_read_stat(pid, stat) read_state (stat)
#define stacks_take(stacks, wait_ms) (void) (world.now_ms += wait_ms / 5) /* of the time that ranks may take */
#define stacks_start(stacks, names) start_names (names)
#define stacks_read(names) (world.now_ms >= world.named_ms)
#define stacks_finish(names, stacks) finish_names (names)
#define output_sink_say_lines(sink, text) say_lines (text)
#include "launch/job/stall.c"

enum { RANKS = 3 };
static char host_name[] = "this one";
static struct plan plan = { .world_size = RANKS, .stall_s = 1, .host = host_name };
static struct plan_process processes[RANKS] = { { .rank = 0 }, { .rank = 1 }, { .rank = 2 } };
static struct job_rank ranks[RANKS] = { { .process = &processes[0], .pid = 1 },
                                        { .process = &processes[1], .pid = 1 },
                                        { .process = &processes[2], .pid = 2 } };
static struct job job = { .plan = &plan, .ranks = ranks, .count = RANKS, .alive = RANKS };

/* Ranks 0 and 2 wait in a collective, and give signs of life; rank 1 does not come. */
static void
make_ranks (void)
{
    struct jobseg_slot *slots[RANKS];
    for (int i = 0; i < RANKS; i++) {
        slots[i] = jobseg_slot (&job.segment, i);
        atomic_store (&slots[i]->state, JOBSEG_READY);
    }
    for (int i = 0; i < RANKS; i += 2) {
        slots[i]->ledger[0] = (struct jobseg_record){ .sequence = 1, .number = 1 };
        atomic_store (&slots[i]->ledger_count, 1);
        atomic_store (&slots[i]->heartbeat_ns, jobseg_now_ns () + UINT64_C (3600000000000));
    }
}

/* The lines that say when the next warning comes, of what is said within @ms; a note is there as "note". */
static void
run (int64_t ms, int64_t names_ms, struct strbuf *said)
{
    struct stall stall = { 0 };
    AUTO_STRBUF struct strbuf all = { 0 };
    world.names_ms = names_ms;
    world.said = &all;
    world.begin_ms = world.now_ms;
    for (int64_t end_ms = world.now_ms + ms; world.now_ms < end_ms;) {
        if (world.call_ms && world.now_ms >= world.begin_ms + world.call_ms) {
            atomic_fetch_add (&jobseg_slot (&job.segment, 1)->progress.version, 2);
            world.call_ms = 0;
        }
        int64_t next_ms = stall_serve (&stall, &job);
        world.now_ms = next_ms > world.now_ms ? next_ms : world.now_ms + 1;
    }
    stall_end (&stall);
    for (const char *at = all.text; at && *at; at += strcspn (at, "\n") + 1) {
        static const char note[] = "accelerate: note: rank 1 has been ", tail[] = " without a call of libaccel for 1";
        static const char host[] = "accelerate: note: all ranks on this one are waiting for ranks on other hosts, ";
        const char *next = strstr (at, "comes in "), *end = strstr (at, tail);
        bool is_note = !strncmp (at, note, sizeof note - 1) && end;
        bool is_host = !strncmp (at, host, sizeof host - 1);
        if (is_note && strncmp (at + sizeof note - 1, "computing", strlen ("computing")) != 0)
            strbuf_printf (said, "%.*s,", (int) (end - at) - (int) (sizeof note - 1), at + sizeof note - 1);
        else if (is_note || is_host)
            strbuf_add (said, "note,");
        else if (next && next < at + strcspn (at, "\n"))
            strbuf_printf (said, "%.*s,", (int) strcspn (next + 9, " "), next + 9);
    }
}

static void
test_computing (void)
{
    static const struct {
        const char *what, *said;
        int64_t run_ms, work_ms, call_ms, again_ms;
        bool is_blocked; /* rank 2 does not come, either */
    } rows[] = {
        { "a rank that computes gets a note, and ten times as long", "note,", 9800, 100000, 0, 0, false },
        { "then another one has stacks", "note,note,10,", 11500, 100000, 0, 0, false },
        { "after a call it has as long again, and another note", "note,note,", 14000, 100000, 5000, 0, false },
        { "one that stops to compute gets a warning soon", "note,1,", 5800, 5000, 0, 0, false },
        { "one that has stopped before gets it at once", "1,2,", 2600, 300, 0, 0, false },
        { "the next ones come later and later, even if it computes in between", "1,2,4,", 6000, 300, 0, 2300, false },
        { "and one that computes beside one that is blocked", "1,2,", 2600, 100000, 0, 0, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO_STRBUF struct strbuf said = { 0 };
        world.work_until_ms = world.now_ms + rows[i].work_ms;
        world.call_ms = rows[i].call_ms;
        world.again_ms = rows[i].again_ms;
        atomic_store (&jobseg_slot (&job.segment, 2)->ledger_count, rows[i].is_blocked ? 0 : 1);
        run (rows[i].run_ms, 0, &said);
        is_text (said.text, rows[i].said, rows[i].what);
    }
}

/* All ranks of this host are waiting: for each other, or for those of another host. */
static void
test_hosts (void)
{
    static const struct {
        const char *what, *said;
        int64_t run_ms;
        int hosts;
    } rows[] = {
        { "ranks that wait for each other get warnings", "1,2,", 2600, 1 },
        { "those of a host that may wait for another one get a note", "note,", 9800, 2 },
        { "and one with stacks after ten times as long", "note,note,10,", 11500, 2 },
    };
    struct jobseg_slot *slot = jobseg_slot (&job.segment, 1);
    atomic_store (&jobseg_slot (&job.segment, 2)->ledger_count, 1);
    slot->ledger[0] = (struct jobseg_record){ .sequence = 1, .number = 1 };
    atomic_store (&slot->heartbeat_ns, jobseg_now_ns () + UINT64_C (3600000000000));
    atomic_store (&slot->ledger_count, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO_STRBUF struct strbuf said = { 0 };
        plan.world_size = RANKS * rows[i].hosts;
        run (rows[i].run_ms, 0, &said);
        is_text (said.text, rows[i].said, rows[i].what);
    }
    plan.world_size = RANKS;
    atomic_store (&slot->ledger_count, 0);
}

/* Rank 1 does not compute. */
static void
test_waiting (void)
{
    static const struct {
        const char *what, *said;
        int64_t run_ms, call_ms, bytes_s;
        char state;
        bool is_on_gpu;
    } rows[] = {
        { "one that waits for a disk gets a note", "busy with files,", 9800, 0, 0, 'D', false },
        { "one that reads files, too", "busy with files,", 9800, 0, 67000, 'S', false },
        { "but not one that reads very little", "1,2,", 2600, 0, 64000, 'S', false },
        { "one that waits for a GPU gets a note, and ten times as long", "waiting for a GPU,", 9800, 0, 0, 'S', true },
        { "then another one has stacks", "waiting for a GPU,waiting for a GPU,10,", 11500, 0, 0, 'S', true },
        { "after a call, it has as long again", "waiting for a GPU,waiting for a GPU,", 14000, 5000, 0, 'S', true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO_STRBUF struct strbuf said = { 0 };
        world.work_until_ms = world.now_ms;
        world.call_ms = rows[i].call_ms;
        world.again_ms = 0;
        world.bytes_s = rows[i].bytes_s;
        world.state = rows[i].state;
        world.is_on_gpu = rows[i].is_on_gpu;
        atomic_store (&jobseg_slot (&job.segment, 2)->ledger_count, 1);
        run (rows[i].run_ms, 0, &said);
        is_text (said.text, rows[i].said, rows[i].what);
    }
}

/* Too many other programs run. */
static void
test_starved (void)
{
    static const struct {
        const char *what, *said;
        int64_t sleeps_s, asleep, turn_ms;
        bool has_worker, has_tasks;
    } rows[] = {
        { "one that would compute gets a note", "note,", 0, 0, 500, false, false },
        { "also if it sleeps now and then", "note,", 20, 9, 500, false, false },
        { "also if it sleeps often, but for less time than it runs", "note,", 200, 0, 5, false, false },
        { "one that polls does not compute, though it waits for a processor for most of the time", "1,2,", 200, 9, 5,
          false, false },
        { "nor if it waits for it longer than from one look to the next", "1,2,", 200, 9, 500, false, false },
        { "it does if another thread computes", "note,", 200, 9, 500, true, false },
        { "and if threads do that end", "note,", 200, 59, 500, false, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO_STRBUF struct strbuf said = { 0 };
        world.is_starved = true;
        world.sleeps_s = rows[i].sleeps_s;
        world.asleep = rows[i].asleep;
        world.turn_ms = rows[i].turn_ms;
        world.has_worker = rows[i].has_worker;
        world.has_tasks = rows[i].has_tasks;
        world.bytes_s = 0;
        world.state = 'R';
        world.is_on_gpu = false;
        run (2600, 0, &said);
        is_text (said.text, rows[i].said, rows[i].what);
    }
    world.is_starved = world.has_tasks = false;
}

int
main (void)
{
    struct fail fail;
    AUTO_STRBUF struct strbuf quick = { 0 }, slow = { 0 };
    if (jobseg_create (&job.segment, RANKS, RANKS, 0, "stall", &fail)) {
        ok (false, "%s", fail.text);
        return done_testing ();
    }
    make_ranks ();
    run (9000, 0, &quick);
    is_text (quick.text, "1,2,4,8,", "warnings after 1, 1, 2, 4 seconds");
    run (11000, 900, &slow);
    is_text (slow.text, "1,2,4,8,", "also if it takes long to find the names: that is no gap in which we were stopped");
    test_computing ();
    test_waiting ();
    test_starved ();
    test_hosts ();
    jobseg_detach (&job.segment);
    return done_testing ();
}
