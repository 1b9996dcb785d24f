/* SPDX-License-Identifier: Apache-2.0 */
/* The line at the bottom of a terminal that says how far a job is: "8 ranks  step 1200  35.2 steps/s  loss 2.31".
 * There is one while all output passes through us, and ranks show steps in the job segment, or in the head's. */
#ifndef LAUNCH_JOB_STATUS_H
#define LAUNCH_JOB_STATUS_H

#include "launch/output/sink.h"
#include "util/jobseg.h"

enum { STATUS_BYTES = 256, STATUS_SAMPLES = 64 };

/** All zero is none. */
struct status {
    const struct jobseg *segment;
    struct output_sink *sink; /* NULL: there is no line */
    bool is_stopped;          /* the job is, by Ctrl-Z */
    int64_t look_ms;          /* when to look at the ranks again */
    int64_t shown_ms;         /* when the line was drawn last */
    char text[STATUS_BYTES];  /* what to show; "" while no rank shows a step */
    struct {
        uint64_t step, ns;
    } samples[STATUS_SAMPLES]; /* a ring: steps of the slowest rank */
    unsigned first, count;
};

/** All that writes to the terminals among @p sink_of, our stdout and stderr, passes through us.
 * @param group    our process group, as the terminal knows it
 * @param is_seen  of struct output_status */
void status_begin (struct status *status, struct output_sink *const sink_of[2], const struct jobseg *segment,
                   pid_t group, _Atomic int *is_seen);

/** Draw it, if it has changed or was erased by output. */
void status_turn (struct status *status, int64_t now_ms);

/** @return when status_turn() has something to do though nothing happens; INT64_MAX: never */
int64_t status_due (const struct status *status);

/** The terminal has another size. */
void status_resize (struct status *status);

/** The job stops, or continues. */
void status_stop (struct status *status, bool stops);

/** Erase it, for good. */
void status_end (struct status *status);

#endif
