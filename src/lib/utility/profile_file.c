/* SPDX-License-Identifier: Apache-2.0 */
/* The trace: Chrome's "Trace Event Format", an array of complete events (ph X) and names (ph M).
 *
 * How long a process waited in a collective needs no recording: processes of one host share a clock, so it is the time
 * from its own coming to that of the last one. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/utility/profile_file.h"
#include "util/io.h"
#include "util/jobseg.h"
#include "util/strbuf.h"
#include "util/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREAD_CALLS = 1, THREAD_STEPS = 2 };

/* Bytes that are not UTF-8 are shown as '?'; a name may have been cut inside a character. */
static void
add_string (struct strbuf *out, const char *text)
{
    bool valid = utf8_is_valid (text, strlen (text));
    strbuf_add_char (out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char) *text;
        if (c == '"' || c == '\\')
            strbuf_printf (out, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            strbuf_printf (out, "\\u%04x", c);
        else
            strbuf_add_char (out, c < 0x80 || valid ? *text : '?');
    }
    strbuf_add_char (out, '"');
}

/* Up to the arguments and the closing brace.  Microseconds with three decimals are whole nanoseconds. */
static void
open_event (struct strbuf *out, int rank, int thread, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t length = end_ns - begin_ns;
    strbuf_printf (out,
                   ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64 ".%03u,\"name\":",
                   rank, thread, begin_ns / 1000, (unsigned) (begin_ns % 1000), length / 1000,
                   (unsigned) (length % 1000));
}

static void
add_metadata (struct strbuf *out, int rank, int thread, const char *what, const char *name)
{
    strbuf_printf (out, "%s{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"ts\":0,\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}",
                   out->length > 2 ? ",\n" : "", rank, thread, what, name);
}

static void
add_names (struct strbuf *out, int rank, const struct profile_part *part)
{
    char name[96];
    if (part->dropped)
        snprintf (name, sizeof name, "rank %d (%" PRIu64 " events dropped)", rank, part->dropped);
    else
        snprintf (name, sizeof name, "rank %d", rank);
    add_metadata (out, rank, 0, "process_name", name);
    add_metadata (out, rank, THREAD_CALLS, "thread_name", "calls and spans");
    add_metadata (out, rank, THREAD_STEPS, "thread_name", "steps");
}

/* When the last process came to each call, and who it was. */
struct arrival {
    uint64_t begin_ns;
    int rank, present;
};

static struct arrival *
find_arrivals (const struct profile_part *parts, int ranks, uint64_t *calls)
{
    *calls = 0;
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < parts[r].count; i++)
            if (parts[r].events[i].kind == PROFILE_CALL && parts[r].events[i].number >= *calls)
                *calls = parts[r].events[i].number + 1;
    struct arrival *last = calloc (*calls + 1, sizeof *last);
    for (int r = 0; last && r < ranks; r++)
        for (size_t i = 0; i < parts[r].count; i++) {
            const struct profile_event *event = &parts[r].events[i];
            if (event->kind != PROFILE_CALL)
                continue;
            struct arrival *arrival = &last[event->number];
            arrival->present++;
            if (event->begin_ns >= arrival->begin_ns)
                *arrival = (struct arrival){ event->begin_ns, r, arrival->present };
        }
    return last;
}

/* A rank that is through before the last one comes has not waited for it, such as the root of a broadcast.  Where a
 * process had no room for the call, the last one is not known. */
static void
add_call (struct strbuf *out, int rank, int ranks, const struct profile_part *part, const struct profile_event *event,
          const struct arrival *last, uint64_t origin)
{
    uint64_t begin = event->begin_ns - origin, end = event->end_ns - origin;
    open_event (out, rank, THREAD_CALLS, begin, end);
    add_string (out, jobseg_call_name (event->call));
    strbuf_add (out, ",\"cat\":\"collective\",\"args\":{\"at\":");
    char place[PROFILE_NAME + 16];
    snprintf (place, sizeof place, "%s:%u", part->names->text[event->name], (unsigned) event->line);
    add_string (out, place);
    strbuf_printf (out, ",\"count\":%" PRIu64, event->count);
    if (event->count)
        strbuf_printf (out, ",\"type\":\"%s\"", accel_dtype_name (event->dtype));
    strbuf_printf (out, ",\"number\":%" PRIu64 "}}", event->number);
    if (last->present < ranks || last->rank == rank || last->begin_ns - origin >= end)
        return;
    open_event (out, rank, THREAD_CALLS, begin, last->begin_ns - origin);
    strbuf_printf (out, "\"wait for rank %d\",\"cat\":\"wait\"}", last->rank);
}

static void
add_event (struct strbuf *out, int rank, const struct profile_part *part, const struct profile_event *event,
           uint64_t origin)
{
    bool step = event->kind == PROFILE_STEP;
    open_event (out, rank, step ? THREAD_STEPS : THREAD_CALLS, event->begin_ns - origin, event->end_ns - origin);
    if (step)
        strbuf_printf (out, "\"step %" PRIu64 "\"", event->number);
    else
        add_string (out, part->names->text[event->name]);
    strbuf_printf (out, ",\"cat\":\"%s\"}", step ? "step" : "span");
}

static uint64_t
find_origin (const struct profile_part *parts, int ranks)
{
    uint64_t origin = UINT64_MAX;
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < parts[r].count; i++)
            if (parts[r].events[i].begin_ns < origin)
                origin = parts[r].events[i].begin_ns;
    return origin;
}

enum accel_status
profile_write (const char *path, const struct profile_part *parts, int ranks, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    struct fail fail;
    uint64_t calls, origin = find_origin (parts, ranks);
    struct arrival *last = find_arrivals (parts, ranks, &calls);
    if (!last)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_profile_stop: out of memory");
    strbuf_add (&out, "[\n");
    for (int r = 0; r < ranks; r++)
        add_names (&out, r, &parts[r]);
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < parts[r].count; i++) {
            const struct profile_event *event = &parts[r].events[i];
            if (event->kind == PROFILE_CALL)
                add_call (&out, r, ranks, &parts[r], event, &last[event->number], origin);
            else
                add_event (&out, r, &parts[r], event, origin);
        }
    strbuf_add (&out, "\n]\n");
    free (last);
    if (out.failed)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_profile_stop: out of memory");
    if (io_write_file (path, out.text, out.length, 0666, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "accel_profile_stop: %.400s", fail.text);
    return ACCEL_OK;
}
