/* SPDX-License-Identifier: Apache-2.0 */
/* When the ranks' lines reach a reader who is slow, stalls or continues just in time, and what is reported of those
 * that do not: the supervisor in a made-up world. */
#include <config.h>

#include "tests/scratch.h" /* before the calls that the world replaces */
#include "tests/unit/launch/supervise_world.h"

#include <stdlib.h>

/* The readers take nothing, and there is no room for a byte. */
static void
stand_still (void)
{
    for (int i = 0; i < JOB_STREAMS; i++) {
        world.reads[i] = false;
        world.filled += fill (world.sink_ends[i]);
    }
}

/* Nothing that stdout was given is missing without being counted. */
static void
check_count (const char *name, bool all)
{
    size_t written = world.filled;
    for (int i = 0; i < RANKS; i++)
        written += world.ranks[i].written;
    size_t got = world.got[JOB_OUT].length + world.got[JOB_ERR].length;
    ok (written == got + the_job.not_passed_on && all == !the_job.not_passed_on, "%s: %zu of %zu bytes, %llu reported",
        name, got, written, (unsigned long long) the_job.not_passed_on);
}

/* Two of a rank's pipes, so that they are in the pipe, in the buffers and in the queue. */
static void
fill_all (void)
{
    for (int i = 0; i < 2 * RANKS; i++)
        at (10 + i, FILL, i % RANKS, 0);
}

static void
test_readers (void)
{
    static const struct {
        const char *name;
        int signals_ms[2], take_ms, take_every_ms; /* 0: never */
        int grace_s;
        int64_t end_ms;
        bool all;
        enum job_end end;
    } cases[] = {
        { "a reader who comes late", { 0, 0 }, 7200000, 0, 30, 7200000, true, JOB_DONE },
        { "one who stands still after a signal", { 12, 0 }, 0, 0, 30, 20 + 30000, false, JOB_STOPPED },
        { "one who stands still after two", { 12, 300 }, 0, 0, 30, 300 + 1000, false, JOB_STOPPED },
        { "one who stands still, without a grace", { 12, 0 }, 0, 0, 0, 12 + 1000, false, JOB_STOPPED },
        { "one who takes something now and then", { 12, 0 }, 29000, 29000, 30, 20 + 5 * 29000 + 30000, false,
          JOB_STOPPED },
        { "one who comes in time", { 12, 0 }, 29000, 0, 30, 29000, true, JOB_STOPPED },
        { "a signal while he is waited for", { 500, 0 }, 0, 0, 30, 500, false, JOB_STOPPED },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_world ();
        stand_still ();
        fill_all ();
        if (!cases[i].signals_ms[1])
            end_all (20);
        the_plan.grace_s = cases[i].grace_s;
        for (int j = 0; j < RANKS; j++)
            world.ranks[j].heeds_ms = cases[i].signals_ms[1] ? NEVER : 8;
        for (int j = 0; j < 2; j++)
            if (cases[i].signals_ms[j])
                at (cases[i].signals_ms[j], SIGNAL, 0, SIGTERM);
        for (int j = 0; cases[i].take_every_ms && j < 5; j++)
            at (20 + (j + 1) * cases[i].take_every_ms, TAKE, JOB_OUT, 4096);
        for (int j = 0; cases[i].take_ms && !cases[i].take_every_ms && j < JOB_STREAMS; j++)
            at (cases[i].take_ms, TAKE, j, 0);
        run_world ();
        ok (the_job.end == cases[i].end && now_ms () == cases[i].end_ms, "%s: the end after %lld ms", cases[i].name,
            (long long) now_ms ());
        check_count (cases[i].name, cases[i].all);
        end_world (cases[i].name);
    }
}

static void
open_log (int rank, const char *name)
{
    struct output_stream *stream = &the_job.ranks[rank].streams[JOB_OUT];
    if (logfile_open (&stream->log, strdup (name), NULL))
        exit (99);
    unlink (name);
}

/* Ranks with files continue, and what the reader has not got is counted there too. */
static void
test_files (void)
{
    for (int cut = 0; cut < 2; cut++) {
        const char *name = cut ? "a file that is cut off" : "files, and a reader who stands still";
        make_world ();
        stand_still ();
        for (int i = 0; i < RANKS; i++)
            open_log (i, "test_relay.log");
        fill_all ();
        end_all (20);
        if (cut) {
            at (21, CUT, 1, 0);
            at (1000, TAKE, JOB_OUT, 0);
            at (1000, TAKE, JOB_ERR, 0);
        } else
            at (500, SIGNAL, 0, SIGTERM);
        run_world ();
        ok (the_job.end == (cut ? JOB_DONE : JOB_STOPPED), "%s: the end", name);
        check_count (name, false);
        end_world (name);
    }
    make_world ();
    stand_still ();
    open_log (0, "test_relay.log");
    fill_all ();
    at (1000, TAKE, JOB_OUT, 0);
    at (1000, TAKE, JOB_ERR, 0);
    at (2000, LOOK, 0, 0);
    end_all (3000);
    run_world ();
    ok (world.looked == world.got[JOB_OUT].length, "ranks that waited for the reader continue with it");
    check_count ("ranks that waited", true);
    end_world ("ranks that waited");
}

/* What is in a file, while the queue is empty: nothing else would wake the launcher up. */
static void
test_deadline (void)
{
    static const char text[OUTPUT_SINK_BYTES];
    make_world ();
    stand_still ();
    open_log (0, "test_relay.log");
    world.filled += output_sink_put (&the_job.sinks[JOB_OUT], text, sizeof text);
    write_text (&world.ranks[0], JOB_OUT, "a line\n");
    relay_read (&loop, 0);
    ok (relay_deadline (&loop, world.now) == INT64_MAX, "nothing to do without a reader");
    while (!output_sink_is_empty (&the_job.sinks[JOB_OUT])) {
        take (JOB_OUT, 0);
        output_sink_drain (&the_job.sinks[JOB_OUT]);
    }
    ok (relay_deadline (&loop, world.now) == world.now, "what is in a file is passed on without an event");
    world.reads[JOB_OUT] = world.reads[JOB_ERR] = true;
    end_all (1000);
    run_world ();
    check_count ("a line in a file", true);
    end_world ("a line in a file");
}

/* The reader takes the last bytes after the launcher has looked for the last time, and before it waits. */
static void
test_just_in_time (void)
{
    for (int told = 0; told < 2; told++) {
        make_world ();
        stand_still ();
        at_text (10, WRITE, 0, "the last words\n");
        if (told)
            at (15, SIGNAL, 0, SIGHUP);
        end_all (20);
        world.takes_after_look = 1;
        run_world ();
        ok (now_ms () == 20, "a reader who takes the last bytes just then: the end after %lld ms",
            (long long) now_ms ());
        check_count ("just in time", true);
        end_world ("just in time");
    }
}

/* An unfinished line comes out after a moment: soon if it is a progress bar, later if it may be a question.  The end of
 * a full buffer waits for its rest, unless a question may be in it. */
static void
test_prompts (void)
{
    static char full[OUTPUT_FULL_BYTES + 1];
    memset (full, 'x', OUTPUT_FULL_BYTES);
    const struct {
        const char *text, *prefix, *shown, *about;
        bool on_terminal, may_ask;
        int after_ms;
    } cases[] = {
        { "how many? ", NULL, "how many? ", "a question", false, false, 1000 },
        { "how many? ", "[name]:", "[name]:how many? \n", "one with a name", false, false, 1000 },
        { "how many? ", "[0] ", "[0] how many? \n", "one on a terminal", true, false, 300 },
        { "how many? ", NULL, "how many? \n", "the same without a label", true, false, 300 },
        { "\r10 %", NULL, "\r10 %", "a bar", false, false, 100 },
        { full, NULL, full, "a full buffer", false, false, 20000 - 10 },
        { full, NULL, full, "a full buffer of a rank that reads", false, true, 10000 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_world ();
        struct output_stream *stream = &the_job.ranks[0].streams[JOB_OUT];
        at_text (10, WRITE, 0, cases[i].text);
        end_all (20000);
        stream->prefix = cases[i].prefix ? strdup (cases[i].prefix) : NULL;
        stream->on_terminal = cases[i].on_terminal;
        stream->may_ask = cases[i].may_ask;
        run_world ();
        int64_t after = world.first_got_ms - BEGIN_MS;
        ok (after == 10 + cases[i].after_ms, "%s is shown after %lld ms", cases[i].about, (long long) after);
        is_text (world.got[JOB_OUT].text, cases[i].shown, "as it should be");
        end_world (cases[i].about);
    }
    make_world ();
    write_text (&world.ranks[0], JOB_OUT, "be");
    relay_read (&loop, 0);
    write_text (&world.ranks[0], JOB_OUT, "gun\n");
    write_text (&world.ranks[1], JOB_OUT, "other\n");
    world.now += 200;
    relay_balance (&loop);
    relay_read (&loop, JOB_STREAMS);
    end_all (300);
    run_world ();
    is_text (world.got[JOB_OUT].text, "other\nbegun\n", "a line is not cut because we have not read its rest");
    end_world ("a line that is there");
}

/* A file that lacks something is reported once, though there may be no room for that at first. */
static void
test_incomplete (void)
{
    static const char text[OUTPUT_SINK_BYTES];
    for (int late = 0; late < 2; late++) {
        make_world ();
        if (late) {
            stand_still ();
            world.filled += output_sink_put (&the_job.sinks[JOB_ERR], text, sizeof text);
            at (1000, TAKE, JOB_OUT, 0);
            at (1000, TAKE, JOB_ERR, 0);
        }
        for (int i = 0; i < RANKS; i++) {
            struct logfile *log = &the_job.ranks[i].streams[JOB_OUT].log;
            log->error = ENOSPC;
            log->path = strdup ("some.log");
            at_text (10 + i, WRITE, i, "line\n");
        }
        end_all (2000);
        run_world ();
        const struct strbuf *got = &world.got[JOB_ERR];
        static const char words[] = "accelerate: warning: some.log: No space left on device";
        const char *first = memmem (got->text, got->length, words, strlen (words));
        ok (first && !strstr (first + 1, words), "a file that lacks something is reported once, late: %d", late);
        ok (the_job.incomplete_is_noted, "and that is noted");
        end_world ("a warning");
    }
}

int
main (void)
{
    const char *folder = scratch_enter ();
    signal (SIGPIPE, SIG_IGN);
    test_readers ();
    test_files ();
    test_deadline ();
    test_just_in_time ();
    test_prompts ();
    test_incomplete ();
    if (chdir ("/") || rmdir (folder))
        ok (false, "nothing is left behind");
    return done_testing ();
}
