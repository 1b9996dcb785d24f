/* SPDX-License-Identifier: Apache-2.0 */
/* How far a save or a load is; see io_progress.h. */
#include <config.h>

#include "lib/checkpoint/io_progress.h"

#include "util/clock.h"

#include <string.h>

/* The observer is the first member. */
static void
moved (struct traffic_observer *observer, uint64_t bytes)
{
    struct io_progress *progress = (struct io_progress *) (void *) observer;
    progress->done += bytes;
    progress->show (progress, IO_PROGRESS_MOVED);
}

static void
syncing (struct traffic_observer *observer)
{
    struct io_progress *progress = (struct io_progress *) (void *) observer;
    progress->show (progress, IO_PROGRESS_SYNCING);
}

static const char *
last_component (const char *path)
{
    const char *slash = strrchr (path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void
io_progress_begin (struct io_progress *progress, io_progress_show show, enum io_progress_kind kind, const char *path,
                   uint64_t total)
{
    *progress = (struct io_progress){ .kind = kind, .name = last_component (path), .total = total, .show = show };
    if (!show)
        return;
    progress->begin_ms = clock_ms ();
    progress->observer = (struct traffic_observer){ .moved = moved, .syncing = syncing };
    progress->former = traffic_observe (&progress->observer);
}

void
io_progress_end (struct io_progress *progress, enum accel_status status)
{
    if (!progress->show)
        return;
    traffic_observe (progress->former);
    progress->show (progress, status ? IO_PROGRESS_FAILED : IO_PROGRESS_DONE);
    progress->show = NULL;
}
