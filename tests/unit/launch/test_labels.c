/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of ranks of two hosts on a terminal of the head: from what their launchers send to what is shown. */
#include <config.h>

#include "hosts/head/link.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS = 2, READ_BYTES = 128 * 1024 };

static struct link links[HOSTS];
static int64_t sent[HOSTS]; /* bytes of output */
static int ends[HOSTS];     /* where the agents write */
static struct output_sink sink;
static struct output_sink *const sinks[LINK_STREAMS] = { &sink, &sink };
static int reader;
static struct labels labels;

static void
begin (int ranks)
{
    int in[2], out[2];
    struct fail fail = { 0 };
    if (pipe2 (out, O_CLOEXEC | O_NONBLOCK) || output_sink_init (&sink, out[1], "standard output", &fail))
        exit (99);
    reader = out[0];
    sink.is_terminal = true;
    for (int i = 0; i < HOSTS; i++) {
        link_init (&links[i], i ? "b" : "a");
        if (pipe2 (in, O_CLOEXEC))
            exit (99);
        pipe_init (&links[i].pipe, in[0], -1);
        ends[i] = in[1];
        links[i].has_greeting = true;
        sent[i] = 0;
    }
    ok (!labels_begin (&labels, sinks, ranks, &fail), "labels for %d ranks", ranks);
}

static void
end (void)
{
    for (int i = 0; i < HOSTS; i++) {
        link_release (&links[i]);
        close (ends[i]);
    }
    labels_release (&labels);
    output_sink_release (&sink);
    close (sink.fd);
    close (reader);
}

/* The host's agent sends @text, and the link reads it. */
static void
send_text (int host, enum wire_type type, const char *text)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t start = wire_begin (&frame, type);
    strbuf_add (&frame, text);
    wire_end (&frame, start);
    sent[host] += (int64_t) strlen (text);
    if (write (ends[host], frame.text, frame.length) == (ssize_t) frame.length)
        link_read (&links[host]);
}

/* What is shown now. */
static const char *
take (void)
{
    static char text[READ_BYTES];
    size_t length = 0;
    ssize_t part;
    do {
        output_sink_drain (&sink);
        part = read (reader, text + length, sizeof text - 1 - length);
        length += part > 0 ? (size_t) part : 0;
    } while (part > 0);
    text[length] = '\0';
    return text;
}

static void
test_lines (void)
{
    static const struct {
        const char *sent, *shown, *about;
        enum wire_type type;
        int host;
    } steps[] = {
        { "\0010\002same\n\0013\002own\n", "", "lines of one host wait", WIRE_OUT, 0 },
        { "\00111\002same\n\0019\002same\n\0019\002same\n", "[0,9,11] same\n[ 3] own\n[ 9] same\n",
          "and are shown once with equal ones of the other", WIRE_OUT, 1 },
        { "accelerate: a warning\n", "accelerate: a warning\n", "a line of a launcher has no label", WIRE_ERR, 1 },
        { "\0013\002\n\0013\002\001\r\n", "[ 3] \n[ 3] \001\n", "lines of little text", WIRE_OUT, 0 },
        { "\0013\002lo", "[ 3] lo", "a part of a line", WIRE_OUT_PART, 0 },
        { "\0019\002nine\n", "", "for which others wait", WIRE_OUT, 1 },
        { "ng\n", "ng\n[ 9] nine\n", "and its rest", WIRE_OUT, 0 },
        { "\0011", "", "a part of a mark", WIRE_OUT, 1 },
        { "1\002eleven\n", "[11] eleven\n", "and its rest", WIRE_OUT, 1 },
        { "\0010\00210%\r\0010\00220%\r", "[ 0] 10%\r[ 0] 20%\r", "a progress bar", WIRE_OUT, 0 },
        { "\n", "\n", "and its end", WIRE_OUT, 0 },
        { "\0010\002how many? ", "[ 0] how many? ", "a question", WIRE_OUT, 0 },
        { "\0015\002five\n", "\n[ 5] five\n", "a line of another rank ends it", WIRE_OUT, 1 },
        { "7\n", "[ 0] 7\n", "so its rest has a label", WIRE_OUT, 0 },
        { "\00112\002a\n\001x\002b\n", "a\nb\n", "marks of no rank", WIRE_OUT, 0 },
    };
    begin (12);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        send_text (steps[i].host, steps[i].type, steps[i].sent);
        for (int j = 0; j < HOSTS; j++)
            link_pass_on (&links[(steps[i].host + j) % HOSTS], sinks, &labels);
        if (i)
            labels_pass_on (&labels, INT64_MAX);
        is_text (take (), steps[i].shown, steps[i].about);
    }
    ok (links[0].passed_on == sent[0] && links[1].passed_on == sent[1], "marks are acknowledged, too");
    end ();
}

static void
test_queue (void)
{
    struct fail fail = { 0 };
    AUTO_STRBUF struct strbuf text = { 0 };
    begin (3);
    bool is_empty = labels_due (&labels, sinks) == INT64_MAX;
    send_text (0, WIRE_OUT, "\0010\002waits\n");
    link_pass_on (&links[0], sinks, &labels);
    ok (is_empty && labels_due (&labels, sinks) <= clock_ms () + OUTPUT_COLLAPSE_MS, "a line waits, not for long");
    ok (!labels_begin (&labels, sinks, 11, &fail), "ranks start again");
    is_text (take (), "[0] waits\n", "what still waited is shown as it was");
    for (int i = 0; i < OUTPUT_COLLAPSE_LINE_BYTES; i++)
        strbuf_add_char (&text, 'x');
    for (int is_long = 0; is_long < 2; is_long++) {
        AUTO_STRBUF struct strbuf line = { 0 }, shown = { 0 };
        strbuf_printf (&line, "\0010\002%s%s\n", text.text, is_long ? "x" : "");
        strbuf_printf (&shown, "[ 0] %s%s\n", text.text, is_long ? "x" : "");
        send_text (0, WIRE_OUT, line.text);
        link_pass_on (&links[0], sinks, &labels);
        ok (is_long || !*take (), "a line of %d bytes waits", OUTPUT_COLLAPSE_LINE_BYTES);
        labels_pass_on (&labels, is_long ? 0 : INT64_MAX);
        is_text (take (), shown.text, is_long ? "a longer one does not" : "and is shown");
    }
    send_text (1, WIRE_OUT, "\0015\002line\n");
    link_pass_on (&links[1], sinks, &labels);
    ok (labels.ranks[5].burst == strlen ("line\n"), "bytes that come at once are counted");
    labels.ranks[5].burst += OUTPUT_COLLAPSE_BURST;
    labels.ranks[5].read_ms = clock_ms () + 60000; /* without a pause, however slow this machine is */
    send_text (1, WIRE_OUT, "\0015\002last\n");
    link_pass_on (&links[1], sinks, &labels);
    is_text (take (), "[ 5] line\n[ 5] last\n", "if they are many, lines do not wait");
    end ();
}

/* A reader that stands still: nothing is lost, and no frame is passed on twice. */
static void
test_full (void)
{
    enum { LINES = 5000, FRAME_LINES = 500 };
    AUTO_STRBUF struct strbuf expected = { 0 }, got = { 0 }, frame = { 0 };
    bool is_all = true;
    begin (3);
    for (int i = 0; i < LINES; i++) {
        strbuf_printf (&frame, "\001%d\002a line with number %d\n", i % 3, i);
        strbuf_printf (&expected, "[%d] a line with number %d\n", i % 3, i);
        if (i % FRAME_LINES < FRAME_LINES - 1)
            continue;
        send_text (0, WIRE_OUT, frame.text);
        strbuf_truncate (&frame, 0);
        is_all = link_pass_on (&links[0], sinks, &labels);
    }
    ok (!is_all && link_has_output (&links[0]), "the sink is full");
    for (int i = 0; i < LINES && got.length < expected.length; i++) {
        strbuf_add (&got, take ());
        is_all = link_pass_on (&links[0], sinks, &labels);
        labels_pass_on (&labels, is_all ? INT64_MAX : 0);
    }
    strbuf_add (&got, take ());
    ok (got.length == expected.length && !memcmp (got.text, expected.text, got.length), "%d lines, later", LINES);
    end ();
}

int
main (void)
{
    setenv ("NO_COLOR", "1", 1);
    test_lines ();
    test_queue ();
    test_full ();
    return done_testing ();
}
