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
    struct strbuf *said;
} world = { .now_ms = 1000000 };

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

#define clock_ms() (world.now_ms)
#define stacks_take(stacks, wait_ms) (void) (world.now_ms += wait_ms)
#define stacks_start(stacks, names) start_names (names)
#define stacks_read(names) (world.now_ms >= world.named_ms)
#define stacks_finish(names, stacks) finish_names (names)
#define output_sink_say_lines(sink, text) say_lines (text)
#include "launch/job/stall.c"

enum { RANKS = 2 };
static struct plan plan = { .world_size = RANKS, .stall_s = 1 };
static struct plan_process processes[RANKS] = { { .rank = 0 }, { .rank = 1 } };
static struct job_rank ranks[RANKS] = { { .process = &processes[0], .pid = 1 },
                                        { .process = &processes[1], .pid = 1 } };
static struct job job = { .plan = &plan, .ranks = ranks, .count = RANKS, .alive = RANKS };

/* Rank 0 waits in a collective, and gives signs of life; rank 1 does not come. */
static void
make_ranks (void)
{
    struct jobseg_slot *slots[RANKS];
    for (int i = 0; i < RANKS; i++) {
        slots[i] = jobseg_slot (&job.segment, i);
        atomic_store (&slots[i]->state, JOBSEG_READY);
    }
    slots[0]->ledger[0] = (struct jobseg_record){ .sequence = 1, .number = 1 };
    atomic_store (&slots[0]->ledger_count, 1);
    atomic_store (&slots[0]->heartbeat_ns, jobseg_now_ns () + UINT64_C (3600000000000));
}

/* The lines that say when the next warning comes, of what is said within @ms. */
static void
run (int64_t ms, int64_t names_ms, struct strbuf *said)
{
    struct stall stall = { 0 };
    AUTO_STRBUF struct strbuf all = { 0 };
    world.names_ms = names_ms;
    world.said = &all;
    for (int64_t end_ms = world.now_ms + ms; world.now_ms < end_ms;) {
        int64_t next_ms = stall_serve (&stall, &job);
        world.now_ms = next_ms > world.now_ms ? next_ms : world.now_ms + 1;
    }
    stall_end (&stall);
    for (const char *at = all.text; at && (at = strstr (at, "comes in ")); at++)
        strbuf_printf (said, "%.*s,", (int) strcspn (at + 9, " "), at + 9);
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
    jobseg_detach (&job.segment);
    return done_testing ();
}
