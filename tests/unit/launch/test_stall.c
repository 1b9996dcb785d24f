/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings of a stall, in a world without processes: when they come, whatever it takes to find the names of stacks. */
#include <config.h>

#include "launch/job/stall.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <string.h>

static struct {
    int64_t now_ms;
    int64_t names_ms;  /* what finding names takes */
    int64_t named_ms;  /* when they are found */
    int64_t begin_ms;  /* of a run */
    int64_t work_until_ms; /* rank 1 works until then, since `begin_ms` */
    int64_t again_ms;  /* when it works again, for WORK_AGAIN_MS; 0: never */
    int64_t call_ms;   /* when it logs something; 0: never */
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
    *names = (struct stack_names){ .fd = -1 };
    return json_array ();
}

static void
say_lines (struct strbuf *text)
{
    strbuf_add (world.said, text->text);
    strbuf_truncate (text, 0);
}

/* /proc/PID/schedstat: half of its work is waiting for a processor.  Rank 2 does nothing. */
static ssize_t
read_work (pid_t pid, char *text, size_t size)
{
    if (pid == 2)
        return snprintf (text, size, "1 1 1\n");
    int64_t until_ms = world.now_ms < world.work_until_ms ? world.now_ms : world.work_until_ms;
    int64_t again_ms = world.again_ms ? world.now_ms - world.begin_ms - world.again_ms : 0;
    again_ms = again_ms < 0 ? 0 : again_ms < WORK_AGAIN_MS ? again_ms : WORK_AGAIN_MS;
    int64_t work_ns = (until_ms - world.begin_ms + again_ms) * 1000000 / 2 + 1;
    return snprintf (text, size, "%lld %lld 7\n", (long long) work_ns, (long long) work_ns);
}

#define clock_ms() (world.now_ms)
#define procfs_read(pid, name, text, size) read_work (pid, text, size)
#define stacks_take(stacks, wait_ms) (void) (world.now_ms += wait_ms)
#define stacks_start(stacks, names) start_names (names)
#define stacks_read(names) (world.now_ms >= world.named_ms)
#define stacks_finish(names, stacks) finish_names (names)
#define output_sink_say_lines(sink, text) say_lines (text)
#include "launch/job/stall.c"

enum { RANKS = 3 };
static struct plan plan = { .world_size = RANKS, .stall_s = 1 };
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
        static const char note[] = "accelerate: note: rank 1 has been computing without a call of libaccel for 1";
        const char *next = strstr (at, "comes in ");
        if (!strncmp (at, note, sizeof note - 1))
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
        { "then there are warnings", "note,1,2,", 11500, 100000, 0, 0, false },
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
    jobseg_detach (&job.segment);
    return done_testing ();
}
