/* SPDX-License-Identifier: Apache-2.0 */
/* Watching the ranks of a job until the last one has ended. */
#ifndef LAUNCH_SUPERVISE_H
#define LAUNCH_SUPERVISE_H

#include "launch/job.h"

/** One loop's state; made before the first rank is started, so that no signal is missed. */
struct supervisor {
    struct job *job;
    int epoll;
    int signals;            /* signalfd */
    bool sink_is_watched[JOB_STREAMS];
    unsigned turn;          /* of the stream that is served first */
    int64_t deadline_ms;    /* CLOCK_MONOTONIC; when to kill; 0: not stopping, or killed already */
    bool keeper_is_lost;
    int64_t told_ms;        /* when the first signal to stop came */
};

int supervise_init (struct supervisor *supervisor, struct job *job, struct fail *fail);

/** Start to watch rank @p index, which has just been started. */
int supervise_add (struct supervisor *supervisor, int index, struct fail *fail);

/** Until all ranks have ended, and what they left behind. */
void supervise (struct supervisor *supervisor);

/** A start has failed: end those that were started. */
void supervise_abandon (struct supervisor *supervisor);

/** Give the signals back. */
void supervise_release (struct supervisor *supervisor);

#endif
