/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on standard error, on local rank 0: redrawn in place on a terminal, elsewhere a line now and then. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/utility/terminal.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/strbuf.h"

#include <accel/utility.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TERMINAL_MS = 100, PLAIN_MS = 5000, LEAST_BAR = 5 };

struct accel_progress {
    uint64_t total, done;
    int64_t begin_ms, drawn_ms; /* drawn_ms: when it was drawn last */
    bool shown, terminal;
    char text[];
};

static void
add_time (struct strbuf *line, double seconds)
{
    uint64_t all = seconds > 0 ? (uint64_t) (seconds + 0.5) : 0;
    if (all >= 3600)
        strbuf_printf (line, "%" PRIu64 ":", all / 3600);
    strbuf_printf (line, "%02" PRIu64 ":%02" PRIu64, all / 60 % 60, all % 60);
}

/* "30/100 [00:03<00:07, 10.0/s]" */
static void
add_figures (struct strbuf *line, const struct accel_progress *progress, double seconds)
{
    double rate = seconds > 0 ? (double) progress->done / seconds : 0;
    strbuf_printf (line, "%" PRIu64, progress->done);
    if (progress->total)
        strbuf_printf (line, "/%" PRIu64, progress->total);
    strbuf_add (line, " [");
    add_time (line, seconds);
    if (progress->total) {
        uint64_t left = progress->total > progress->done ? progress->total - progress->done : 0;
        strbuf_add_char (line, '<');
        if (rate > 0 || !left)
            add_time (line, left ? (double) left / rate : 0);
        else
            strbuf_add_char (line, '?');
    }
    if (rate > 0)
        strbuf_printf (line, ", %.*f/s]", rate < 10 ? 2 : rate < 1000 ? 1 : 0, rate);
    else
        strbuf_add (line, ", ?/s]");
}

/* The bar takes what the rest leaves of the line. */
static void
draw (const struct accel_progress *progress, int64_t now, bool last)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    AUTO_STRBUF struct strbuf figures = { 0 };
    size_t width = terminal_columns (progress->terminal);
    add_figures (&figures, progress, (double) (now - progress->begin_ms) / 1000);
    if (progress->text[0])
        strbuf_printf (&line, "%s: ", progress->text);
    if (progress->total) {
        uint64_t done = progress->done < progress->total ? progress->done : progress->total;
        double part = (double) done / (double) progress->total;
        strbuf_printf (&line, "%3d%% ", (int) (part * 100));
        size_t taken = line.length + figures.length + 3 + progress->terminal;
        size_t bar = width > taken + LEAST_BAR ? width - taken : 0, full = (size_t) (part * (double) bar);
        if (bar)
            strbuf_add_char (&line, '|');
        for (size_t i = 0; i < bar; i++)
            strbuf_add_char (&line, i < full ? '#' : ' ');
        if (bar)
            strbuf_add (&line, "| ");
    }
    strbuf_add_bytes (&line, figures.text, figures.length);
    if (!figures.failed)
        terminal_draw (&line, progress->terminal, last);
}

enum accel_status
accel_progress_create (struct accel_progress **progress, const struct accel *acc, uint64_t total, const char *text,
                       struct accel_error *err)
{
    size_t length = text ? strlen (text) : 0;
    if (!progress)
        return accel_fail_null (err, __func__, "progress");
    *progress = NULL;
    struct accel_progress *made = calloc (1, sizeof *made + length + 1);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_progress_create: out of memory");
    for (size_t i = 0; i < length; i++)
        made->text[i] = (unsigned char) text[i] < ' ' ? ' ' : text[i]; /* it is one line */
    made->total = total;
    made->shown = accel_is_local_main_process (acc);
    made->terminal = isatty (STDERR_FILENO);
    made->begin_ms = made->drawn_ms = clock_ms ();
    if (made->shown && made->terminal)
        draw (made, made->begin_ms, false);
    *progress = made;
    return ACCEL_OK;
}

void
accel_progress_update (struct accel_progress *progress, uint64_t steps)
{
    if (!progress)
        return;
    progress->done += steps;
    if (!progress->shown)
        return;
    int64_t now = clock_ms ();
    if (now - progress->drawn_ms < (progress->terminal ? TERMINAL_MS : PLAIN_MS))
        return;
    progress->drawn_ms = now;
    draw (progress, now, false);
}

void
accel_progress_close (struct accel_progress *progress)
{
    int saved = errno;
    if (progress && progress->shown)
        draw (progress, clock_ms (), true);
    free (progress);
    errno = saved;
}
