/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that a signal has stopped, as SIGSTOP does: a note names them, and one more when they continue. */
#ifndef LAUNCH_JOB_STOPS_H
#define LAUNCH_JOB_STOPS_H

#include "launch/job/job.h"

/** What is known of a rank.  All zero at first. */
struct stop_rank {
    bool is_stopped;
    bool is_noted;      /* the latest note about it said that it is stopped */
    int signal;         /* that has stopped it; 0: not known */
    int noted_signal;   /* the same in the latest note */
    int64_t stopped_ms; /* CLOCK_MONOTONIC, as all times: when that was first seen.  A note that it continues ends it */
    int64_t changed_ms; /* when it was first seen as it is now */
};

/** {0} is one that has seen nothing. */
struct stops {
    struct stop_rank *ranks; /* [job->count] */
    bool is_of_job;    /* we have passed SIGTSTP on, and no SIGCONT since */
    bool is_signalled; /* a child may have stopped or continued since the latest look */
    bool is_gap;       /* the next look counts as one after a gap */
    bool is_over;
    int64_t begun_ms;  /* 0: not yet */
    int64_t looked_ms;
    int64_t look_ms;   /* when to look next, even if nothing happens; INT64_MAX: then never */
    int64_t paid_ms;   /* until then, the notes so far use up what is allowed */
    struct strbuf text; /* lines that have not been printed */
};

/** SIGCHLD has come. */
void stops_expect (struct stops *stops);

/** SIGTSTP (@p is_stop) or SIGCONT is passed on to all ranks: what they do then is not worth a note. */
void stops_pass_on (struct stops *stops, bool is_stop);

/** Look at the ranks of @p job if it is time to, and print notes.  @return when to call it again; INT64_MAX: never */
int64_t stops_serve (struct stops *stops, struct job *job);

/** No more notes. */
void stops_end (struct stops *stops);

#endif
