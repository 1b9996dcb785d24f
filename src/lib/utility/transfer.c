/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a save or a load; see transfer.h. */
#include <config.h>

#include "lib/utility/transfer.h"

#include "lib/utility/terminal.h"
#include "util/printable.h"
#include "util/clock.h"
#include "util/io.h"
#include "util/strbuf.h"

#include <string.h>
#include <unistd.h>

enum { FIRST_MS = 1000, TERMINAL_MS = 100, PLAIN_MS = 10000, NAME_COLUMNS = 40 };

/* While it runs, and when it has ended. */
static const char *const words[][2] = {
    [IO_PROGRESS_SAVE] = { "saving", "saved" },
    [IO_PROGRESS_CHECK] = { "checking", "checked" },
    [IO_PROGRESS_LOAD] = { "loading", "loaded" },
};

static void
add_name (struct strbuf *line, const char *name)
{
    char cut[NAME_COLUMNS + 1];
    strncpy (cut, name, sizeof cut - 1);
    cut[sizeof cut - 1] = '\0';
    printable_add (line, cut);
}

static void
add_seconds (struct strbuf *line, double seconds)
{
    if (seconds < 100)
        strbuf_printf (line, "%.0f s", seconds);
    else if (seconds < 6000)
        strbuf_printf (line, "%.0f min", seconds / 60);
    else
        strbuf_printf (line, "%.1f h", seconds / 3600);
}

static void
add_rate (struct strbuf *line, const struct io_progress *progress, double seconds)
{
    strbuf_add (line, ", ");
    bytes_add (line, (uint64_t) ((double) progress->done / seconds));
    strbuf_add (line, "/s");
}

/* "saving checkpoint_3: 412.0 MB of 1.1 GB, 640.0 MB/s, 1 s left" */
static void
add_state (struct strbuf *line, const struct io_progress *progress, double seconds, bool syncing)
{
    bytes_add (line, progress->done);
    if (progress->total > progress->done) {
        strbuf_add (line, " of ");
        bytes_add (line, progress->total);
    }
    add_rate (line, progress, seconds);
    if (syncing)
        strbuf_add (line, ", syncing to disk");
    else if (progress->total > progress->done && progress->done) {
        strbuf_add (line, ", ");
        add_seconds (line, seconds * (double) (progress->total - progress->done) / (double) progress->done);
        strbuf_add (line, " left");
    }
}

/* "saved checkpoint_3: 1.1 GB in 2 s, 640.0 MB/s" */
static void
add_result (struct strbuf *line, const struct io_progress *progress, double seconds)
{
    bytes_add (line, progress->done);
    strbuf_add (line, " in ");
    add_seconds (line, seconds);
    add_rate (line, progress, seconds);
}

static void
draw (const struct io_progress *progress, int64_t now, enum io_progress_event event)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    double seconds = (double) (now - progress->begin_ms) / 1000;
    strbuf_add (&line, words[progress->kind][event == IO_PROGRESS_DONE]);
    strbuf_add_char (&line, ' ');
    add_name (&line, progress->name);
    strbuf_add (&line, ": ");
    if (event == IO_PROGRESS_DONE)
        add_result (&line, progress, seconds);
    else
        add_state (&line, progress, seconds, event == IO_PROGRESS_SYNCING);
    terminal_draw (&line, progress->terminal, event == IO_PROGRESS_DONE);
}

void
transfer_show (struct io_progress *progress, enum io_progress_event event)
{
    static const char erase[] = "\r\033[K";
    int64_t now = clock_ms ();
    if (now - progress->begin_ms < FIRST_MS)
        return;
    bool ends = event == IO_PROGRESS_DONE || event == IO_PROGRESS_FAILED, first = !progress->shown_ms;
    if (first)
        progress->terminal = isatty (STDERR_FILENO);
    if (event == IO_PROGRESS_FAILED) { /* the error says what there is to say */
        if (progress->terminal && !first)
            io_write_all (STDERR_FILENO, erase, sizeof erase - 1);
        return;
    }
    bool due = first || now - progress->shown_ms >= (progress->terminal ? TERMINAL_MS : PLAIN_MS)
               || (progress->terminal && event == IO_PROGRESS_SYNCING);
    if (!ends && !due)
        return;
    progress->shown_ms = now;
    draw (progress, now, event);
}
