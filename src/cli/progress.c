/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line; see progress.h. */
#include <config.h>

#include "cli/progress.h"

#include "util/printable.h"
#include "util/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { FIRST_MS = 1000, NEXT_MS = 100 };

static void
show (const struct progress *progress, int64_t now)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    double seconds = (double) (now - progress->started) / 1000;
    double share = (double) progress->done / (double) progress->total;
    strbuf_printf (&line, "\r%s %3.0f %%  ", progress->verb, 100 * share);
    bytes_add (&line, progress->done);
    strbuf_add (&line, " of ");
    bytes_add (&line, progress->total);
    strbuf_add (&line, "  ");
    bytes_add (&line, (uint64_t) ((double) progress->done / seconds));
    strbuf_printf (&line, "/s  %.0f s left\33[K", share > 0 ? seconds / share - seconds : 0);
    if (!line.failed)
        fputs (line.text, stderr);
}

void
progress_add (struct progress *progress, uint64_t bytes)
{
    int64_t now = clock_ms ();
    if (!progress->started)
        progress->started = now;
    progress->done += bytes;
    if (!progress->total || now - (progress->shown ? progress->shown : progress->started + FIRST_MS - NEXT_MS) < NEXT_MS
        || !isatty (STDERR_FILENO))
        return;
    progress->shown = now;
    show (progress, now);
}

void
progress_end (struct progress *progress)
{
    if (progress->shown)
        fputs ("\r\33[K", stderr);
    progress->shown = 0;
}
