/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the supervisor's loop, and what the loop is told to watch.  supervise.c runs it; relay.c and shutdown.c
 * do parts of it. */
#ifndef LAUNCH_JOB_SUPERVISOR_H
#define LAUNCH_JOB_SUPERVISOR_H

#include "launch/job/job.h"
#include "launch/job/stall.h"
#include "launch/job/status.h"
#include "launch/job/stops.h"

#include <sys/signalfd.h>

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
enum { EVENT_RANK = 1, EVENT_STREAM, EVENT_SIGNAL, EVENT_SINK, EVENT_GUARDIAN, EVENT_PORT_LOCK, EVENT_PEERS,
       EVENT_NOTICE };

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
    int64_t keepalive_ms;   /* when the observer wants the next sign of life */
    int64_t stall_ms;       /* when to look for a stall next */
    struct stall stall;
    int64_t stops_ms;       /* when to look next for ranks that were stopped */
    struct stops stops;
    int64_t request_ms;     /* when request_serve() wants to be called next */
    int64_t file_ms;        /* when to look next for the file that asks for a checkpoint */
    bool file_stays;        /* it has asked, but could not be removed */
    int64_t saves_ms;       /* when to look next for the first checkpoints in memory; INT64_MAX: they were reported */
    int64_t stop_ms;        /* when the first signal to stop came; 0: none did */
    int stop_signal;        /* the last such signal; 0 */
    bool is_signalled;      /* a signal that ends the job has come: the next one is a repetition */
    bool is_impatient;      /* with that signal the user asks for an immediate end */
    bool guardian_is_lost;
    bool sink_is_watched[JOB_STREAMS];
    unsigned turn;          /* of the stream that is served first */
    struct status status;
    uint64_t taken;         /* bytes that the readers had taken when we looked last */
};

int supervisor_init (struct supervisor *supervisor, struct job *job, struct fail *fail);

/** Start to watch rank @p index, which has just been started. */
int supervisor_add (struct supervisor *supervisor, int index, struct fail *fail);

/** Have epoll report @p fd. */
int supervisor_watch (struct supervisor *supervisor, int fd, uint32_t events, uint64_t about, int index);

/** Give the signals back. */
void supervisor_release (struct supervisor *supervisor);

/* supervise.c: watching the ranks until the last one has ended, what they left behind has too, and what they wrote has
 * been passed on. */

/** Until all is over. */
void supervise (struct supervisor *supervisor);

/** A start has failed: end those that were started. */
void supervise_abandon (struct supervisor *supervisor);

/* relay.c: passing on what ranks write. */

/** The ranks' streams are open: there may be a status line. */
void relay_begin (struct supervisor *supervisor);

/** Read stream @p number (see EVENT_STREAM), if it is open. */
void relay_read (struct supervisor *supervisor, int number);

/** The last words of rank @p index, before others write about their own end. */
void relay_read_rank (struct supervisor *supervisor, int index);

/** @return when relay_balance() has something to do though nothing happens; INT64_MAX: never */
int64_t relay_deadline (struct supervisor *supervisor, int64_t now_ms);

/** Write what our readers take, lines that stay unfinished included.  While they are slow, nothing more is read from
 * ranks without files; they wait, as they would have without us. */
void relay_balance (struct supervisor *supervisor);

/** Our terminal has another size: so have those of the ranks. */
void relay_resize (struct supervisor *supervisor);

/** No process of the job lives: read what is still there.  @return whether all of it has been passed on */
bool relay_finish (struct supervisor *supervisor);

/** @return whether output is left that waits for its reader, which causes an event by reading */
bool relay_awaits_reader (const struct supervisor *supervisor);

/** @return whether the readers have taken something since the last time */
bool relay_has_moved (struct supervisor *supervisor);

/** Count what has not been passed on, for the report. */
void relay_count_left (struct supervisor *supervisor);

/* shutdown.c: ranks that have ended, signals that tell the job to, and the guardian's death. */

/** Reap rank @p index if it has ended; the first failure ends the job. */
void shutdown_reap_rank (struct supervisor *supervisor, int index);

/** The job has failed: end all ranks with SIGTERM, and set the time when they are killed. */
void shutdown_fail_ranks (struct supervisor *supervisor);

void shutdown_kill_ranks (struct supervisor *supervisor);

/** All ranks have ended.  If none of them failed, but one has lost its last save, that is the failure. */
void shutdown_check_saves (struct supervisor *supervisor);

/** All ranks have ended.  If they did so because one of them was asked to stop, the job has not come to its end; if
 * they were done before they learnt of a request, it has. */
void shutdown_note_agreed (struct supervisor *supervisor);

/** Do what a signal to the launcher, or the end of a child, asks for. */
void shutdown_take_signal (struct supervisor *supervisor, const struct signalfd_siginfo *info);

/** Another machine has ended the job: ask the ranks here to end, unless that has been done for another reason. */
void shutdown_for_peers (struct supervisor *supervisor);

/** The guardian has ended: no process waits for the job any more, and no other process could end it. */
void shutdown_lose_guardian (struct supervisor *supervisor);

/** The time of the job is over: the same as after SIGTERM.  @param reason  for the report; lives as long as the job */
void shutdown_stop_for (struct supervisor *supervisor, const char *reason);

/** Whether the first failure is a rank's death by a signal of the terminal that we have not seen yet.  A
 * terminal signals the ranks itself, and their end may be seen before the guardian has passed the signal on. */
bool shutdown_may_be_of_terminal (const struct supervisor *supervisor);

/* request.c: what ranks are asked for through the job segment. */

/** Ask all ranks for @p request, enum jobseg_request together.
 * @return whether any of them asks after it: then it tells the others */
bool request_raise (struct job *job, uint32_t request);

/** The job has failed: no rank can save any more, so SIGTERM ends it at once. */
void request_end (struct job *job);

/** Ask for a checkpoint if there is the file that asks for one.
 * @param[out] stop_reason  of shutdown_stop_for(), if the time has come; otherwise unchanged
 * @return when to call it again */
int64_t request_serve (struct supervisor *supervisor, int64_t now_ms, const char **stop_reason);

/** Read one packet of plan_requests.notices, and print it if it is a warning.
 * @return the reason for shutdown_stop_for(); NULL: there is none */
const char *request_take_notice (struct supervisor *supervisor);

#endif
