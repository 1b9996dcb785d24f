/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the supervisor's loop, and what the loop is told to watch.  supervise.c runs it; relay.c and shutdown.c
 * do parts of it. */
#ifndef LAUNCH_JOB_SUPERVISOR_H
#define LAUNCH_JOB_SUPERVISOR_H

#include "launch/job/job.h"

/** What a job goes through, in this order.  The same loop serves them all, so that signals and the guardian's death
 * count in each. */
enum supervise_phase {
    PHASE_RANKS,      /* a rank is alive */
    PHASE_TERMINAL,   /* a signal from the terminal may still be on its way to us */
    PHASE_ASK,        /* processes that ranks left behind have been asked to end */
    PHASE_KILL,       /* and are being killed */
    PHASE_OUTPUT,     /* the reader has not taken everything yet */
    PHASE_OTHERS,     /* other machines' parts of the job have not ended */
    PHASE_OVER,
};

/** What an epoll event is about; ranks are numbered from 0, streams and sinks as in job.h, those of rank 0 first. */
enum { ABOUT_RANK = 1, ABOUT_STREAM, ABOUT_SIGNAL, ABOUT_SINK, ABOUT_GUARDIAN, ABOUT_PORT_LOCK, ABOUT_PEERS };

/** One loop's state; made before the first rank is started, so that no signal is missed. */
struct supervisor {
    struct job *job;
    int epoll;
    int signals;            /* signalfd */
    enum supervise_phase phase;
    int64_t phase_limit_ms; /* how long the phase may take; INT64_MAX: no limit */
    int64_t phase_until_ms; /* CLOCK_MONOTONIC, as all times; when it has to be over */
    int64_t kill_again_ms;  /* when to kill leftovers again */
    int64_t deadline_ms;    /* when to kill the ranks; 0: not stopping, or killed already */
    int64_t peers_ms;       /* when the peers want to be served next */
    int64_t sign_ms;        /* when the observer wants the next sign of life */
    int64_t stop_ms;        /* when the first signal to stop came; 0: none did */
    int stop_signal;        /* the last such signal; 0 */
    bool is_impatient;      /* with that signal the user asks for an immediate end */
    bool guardian_is_lost;
    bool sink_is_watched[JOB_STREAMS];
    unsigned turn;          /* of the stream that is served first */
    uint64_t taken;         /* bytes that the readers had taken when we looked last */
};

int supervisor_init (struct supervisor *supervisor, struct job *job, struct fail *fail);

/** Start to watch rank @p index, which has just been started. */
int supervisor_add (struct supervisor *supervisor, int index, struct fail *fail);

/** Have epoll report @p fd. */
int supervisor_watch (struct supervisor *supervisor, int fd, uint32_t events, uint64_t about, int index);

/** Give the signals back. */
void supervisor_release (struct supervisor *supervisor);

#endif
