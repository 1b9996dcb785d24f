/* SPDX-License-Identifier: Apache-2.0 */
/* When the status line wants to be drawn: on a terminal that another job has, as after `bg`, not again and again. */
#include <config.h>

#include "launch/job/status.h"
#include "tests/tap.h"
#include "util/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static _Atomic int is_seen;

/* A terminal that controls no process: no group of ours has it.  @return its master; -1: there is none */
static int
open_terminal (struct output_sink *sink)
{
    int master = posix_openpt (O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt (master) || unlockpt (master))
        return -1;
    *sink = (struct output_sink){ .fd = open (ptsname (master), O_RDWR | O_NOCTTY), .own_fd = -1, .is_terminal = true };
    const struct winsize size = { .ws_row = 24, .ws_col = 80 };
    return sink->fd < 0 || ioctl (sink->fd, TIOCSWINSZ, &size) ? -1 : master;
}

static void
test_background (void)
{
    struct fail fail;
    struct output_sink sink;
    struct output_sink *const sink_of[] = { &sink, &sink };
    struct jobseg segment;
    struct status status;
    int64_t now = clock_ms ();
    int master = open_terminal (&sink);
    if (master < 0) {
        skip ("no pseudo-terminals here");
        return;
    }
    if (jobseg_create (&segment, 1, 1, 0, "status", &fail)) {
        ok (false, "a segment: %s", fail.text);
        return;
    }
    struct jobseg_progress *progress = &jobseg_slot (&segment, 0)->progress;
    atomic_store (&progress->step, 7);
    atomic_store (&progress->step_ns, (uint64_t) clock_ns ());
    status_begin (&status, sink_of, &segment, getpgrp (), &is_seen);
    ok (status.sink != NULL, "the terminal may have a status line");
    status_turn (&status, now);
    is_text (status.text, "1 rank  step 7", "what it would say");
    ok (!is_seen && !sink.count, "nothing is drawn while another job has the terminal");
    int64_t due = status_due (&status);
    ok (due > now && due < now + 1000, "and it is tried again later, not at once: after %lld ms",
        (long long) (due - now));
    status_turn (&status, due - 1);
    ok (status_due (&status) >= due, "waking up earlier does not change that");
    status_turn (&status, due);
    ok (status_due (&status) > due, "and later again");
    status_end (&status);
    jobseg_detach (&segment);
    close (sink.fd);
    close (master);
}

int
main (void)
{
    setenv ("TERM", "xterm", 1);
    test_background ();
    return done_testing ();
}
