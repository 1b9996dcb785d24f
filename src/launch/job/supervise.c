/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor: one epoll loop over the ends of ranks (pidfds), signals (a signalfd), the guardian's end and the
 * ranks' output; deadlines are its timeout.  It never waits for anything that a rank could withhold, and polls only for
 * what no event tells: ranks that make no progress (stall.c), eight times in --stall_timeout, and whether a program
 * that a script has started was stopped by a signal (stops.c).
 *
 * pidfds, and not SIGCHLD alone, because epoll reports them in the order in which the ranks ended: when one rank's
 * death makes the others fail within microseconds, it is the first that the report has to name.  See supervisor.h. */
#include <config.h>

#include "launch/job/supervisor.h"

#include "launch/job/port_lock.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

enum {
    TERMINAL_WAIT_MS = 250,   /* for the guardian to pass on what the terminal sent, when it has ended all ranks */
    LEFTOVER_GRACE_MS = 2000, /* for what ranks left running */
    DESCENDANTS_MS = 5,       /* until what leftovers have started meanwhile is killed too */
    IMPATIENT_READER_MS = 1000, /* how long our reader may take nothing after a signal that ends the job immediately */
};

static struct job_peers *
peers_of (const struct supervisor *supervisor)
{
    return supervisor->job->observer ? supervisor->job->observer->peers : NULL;
}

/* On all machines. */
static void
stop_for (struct supervisor *supervisor, const char *reason)
{
    struct job_peers *peers = peers_of (supervisor);
    if (peers && peers->notice)
        peers->notice (peers, reason);
    shutdown_stop_for (supervisor, reason);
}

/* A signal to this launcher is one for the job: ranks on other machines save, too, instead of failing with ours.  If a
 * rank has failed already, there or here, none must start again. */
static void
pass_on_signal (struct supervisor *supervisor)
{
    struct job_peers *peers = peers_of (supervisor);
    const struct job *job = supervisor->job;
    const char *name = sigabbrev_np (supervisor->stop_signal);
    bool has_failed = job->is_called_off && (job->end == JOB_FAILED || job->end == JOB_ELSEWHERE);
    char why[sizeof job->notice];
    if (!peers || !peers->notice || !name || (!has_failed && (job->end != JOB_STOPPED || job->signal != SIGTERM)))
        return;
    snprintf (why, sizeof why, "by SIG%s on %s", name, job->plan->host);
    peers->notice (peers, why);
}

static void
take_signals (struct supervisor *supervisor)
{
    struct signalfd_siginfo infos[8];
    bool was_stopping = supervisor->stop_ms;
    ssize_t length;
    while ((length = read (supervisor->signals, infos, sizeof infos)) > 0)
        for (size_t i = 0; i < (size_t) length / sizeof *infos; i++)
            shutdown_take_signal (supervisor, &infos[i]);
    if (!was_stopping)
        pass_on_signal (supervisor);
}

static void
take_notice (struct supervisor *supervisor)
{
    const char *stop_reason = request_take_notice (supervisor);
    const struct job_observer *observer = supervisor->job->observer;
    if (stop_reason && observer && observer->noticed)
        observer->noticed (observer, stop_reason);
    else if (stop_reason)
        stop_for (supervisor, stop_reason);
}

/* Ends first, in their order, so that the first failure is the first. */
static void
take_events (struct supervisor *supervisor, const struct epoll_event *events, int count)
{
    bool signals = false;
    for (int i = 0; i < count; i++) {
        uint64_t about = events[i].data.u64 >> 32;
        int index = (int) (uint32_t) events[i].data.u64;
        if (about == EVENT_RANK)
            shutdown_reap_rank (supervisor, index);
        else if (about == EVENT_SIGNAL)
            signals = true;
        else if (about == EVENT_GUARDIAN)
            shutdown_lose_guardian (supervisor);
        else if (about == EVENT_PORT_LOCK)
            port_lock_answer (supervisor->job->port_lock);
        else if (about == EVENT_NOTICE)
            take_notice (supervisor);
    }
    if (signals)
        take_signals (supervisor);
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 >> 32 == EVENT_STREAM)
            relay_read (supervisor, (int) (uint32_t) events[i].data.u64);
}

static bool
skip_wait (const struct supervisor *supervisor)
{
    return supervisor->guardian_is_lost || supervisor->is_impatient;
}

static void
enter (struct supervisor *supervisor, enum supervise_phase phase, int64_t limit_ms)
{
    supervisor->phase = phase;
    supervisor->phase_limit_ms = limit_ms;
    supervisor->phase_until_ms = limit_ms == INT64_MAX ? INT64_MAX : clock_ms () + limit_ms;
}

/* A reader is waited for as a plain `cat` would wait; after a signal it has the time that ranks have, as often as it
 * takes something. */
static int64_t
reader_patience_ms (const struct supervisor *supervisor)
{
    int64_t grace_ms = supervisor->job->plan->grace_s * 1000;
    if (!supervisor->stop_ms)
        return INT64_MAX;
    return supervisor->is_impatient || grace_ms < IMPATIENT_READER_MS ? IMPATIENT_READER_MS : grace_ms;
}

static void
enter_output (struct supervisor *supervisor)
{
    int64_t patience_ms = reader_patience_ms (supervisor);
    supervisor->is_impatient = false; /* from now on a signal is about the reader */
    enter (supervisor, PHASE_OUTPUT, patience_ms);
}

/* What ranks have started and left behind is all below us, because orphans come to us; so without a child there is
 * nothing to end, and /proc is not read. */
static void
enter_leftovers (struct supervisor *supervisor)
{
    if (descendants_reap ())
        enter_output (supervisor);
    else if (skip_wait (supervisor))
        enter (supervisor, PHASE_KILL, DESCENDANTS_KILL_MS);
    else {
        descendants_signal (SIGTERM);
        descendants_signal (SIGCONT);
        enter (supervisor, PHASE_ASK, LEFTOVER_GRACE_MS);
    }
}

static void
kill_leftovers (struct supervisor *supervisor)
{
    if (clock_ms () < supervisor->kill_again_ms)
        return;
    descendants_signal (SIGKILL);
    supervisor->kill_again_ms = clock_ms () + DESCENDANTS_MS;
}

static void
pass_on_rest (struct supervisor *supervisor, bool is_late)
{
    struct job *job = supervisor->job;
    if (relay_finish (supervisor) || skip_wait (supervisor))
        enter (supervisor, PHASE_OVER, 0);
    else if (relay_has_moved (supervisor))
        enter (supervisor, PHASE_OUTPUT, supervisor->phase_limit_ms);
    else if (is_late)
        enter (supervisor, PHASE_OVER, 0);
    if (supervisor->phase != PHASE_OVER)
        return;
    enter (supervisor, PHASE_OTHERS, INT64_MAX);
    relay_count_left (supervisor);
    if (job->not_passed_on && job->end == JOB_DONE && supervisor->stop_signal) {
        job->end = JOB_STOPPED;
        job->signal = supervisor->stop_signal;
    }
}

/* The parts of the job on other machines are served in every phase, and waited for in the last one. */
static void
serve_peers (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    struct job_peers *peers = peers_of (supervisor);
    if (!peers)
        return;
    supervisor->peers_ms = peers->serve (peers, job, supervisor->phase == PHASE_OTHERS,
                                         skip_wait (supervisor));
    if (peers->stop_reason && supervisor->phase == PHASE_RANKS && job->end == JOB_DONE && job->alive) {
        snprintf (job->notice, sizeof job->notice, "%s", peers->stop_reason);
        shutdown_stop_for (supervisor, job->notice);
    }
    if (peers->must_end) /* afterwards: what ends to save is not ended at once */
        shutdown_for_peers (supervisor);
    if (supervisor->phase == PHASE_OTHERS && peers->is_over)
        enter (supervisor, PHASE_OVER, 0);
}

/* Here, and not in a thread or in the guardian: those would live on where this loop does not. */
static void
send_keepalive (struct supervisor *supervisor)
{
    const struct job_observer *observer = supervisor->job->observer;
    if (clock_ms () >= supervisor->keepalive_ms)
        supervisor->keepalive_ms = observer->keepalive (observer);
}

static void
serve_requests (struct supervisor *supervisor)
{
    const char *stop_reason = NULL;
    supervisor->request_ms = request_serve (supervisor, clock_ms (), &stop_reason);
    if (stop_reason)
        stop_for (supervisor, stop_reason);
}

/* Continue with the next phase as far as nothing has to be waited for. */
static void
advance (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    int64_t now = clock_ms ();
    if (supervisor->phase == PHASE_RANKS && job->alive == 0) {
        supervisor->deadline_ms = 0;
        shutdown_check_saves (supervisor);
        shutdown_note_agreed (supervisor);
        enter (supervisor, PHASE_TERMINAL, TERMINAL_WAIT_MS);
    }
    if (supervisor->phase == PHASE_TERMINAL
        && (!shutdown_may_be_of_terminal (supervisor) || now >= supervisor->phase_until_ms))
        enter_leftovers (supervisor);
    if (supervisor->phase == PHASE_ASK) {
        if (descendants_reap ())
            enter_output (supervisor);
        else if (skip_wait (supervisor) || now >= supervisor->phase_until_ms)
            enter (supervisor, PHASE_KILL, DESCENDANTS_KILL_MS);
    }
    if (supervisor->phase == PHASE_KILL) {
        bool none = descendants_reap ();
        job->has_leftovers = !none && now >= supervisor->phase_until_ms;
        if (none || job->has_leftovers)
            enter_output (supervisor);
        else
            kill_leftovers (supervisor);
    }
    if (supervisor->phase == PHASE_OUTPUT)
        pass_on_rest (supervisor, now >= supervisor->phase_until_ms);
    if (supervisor->phase == PHASE_OTHERS && !peers_of (supervisor))
        enter (supervisor, PHASE_OVER, 0);
}

/* @return for epoll_wait() */
static int
find_timeout (struct supervisor *supervisor)
{
    int64_t now = clock_ms (), next = relay_deadline (supervisor, now);
    if (supervisor->deadline_ms && supervisor->deadline_ms < next)
        next = supervisor->deadline_ms;
    if (supervisor->phase != PHASE_RANKS && supervisor->phase_until_ms < next)
        next = supervisor->phase_until_ms;
    if (supervisor->peers_ms < next)
        next = supervisor->peers_ms;
    if (supervisor->keepalive_ms < next)
        next = supervisor->keepalive_ms;
    if (supervisor->stall_ms < next)
        next = supervisor->stall_ms;
    if (supervisor->stops_ms < next)
        next = supervisor->stops_ms;
    if (supervisor->request_ms < next)
        next = supervisor->request_ms;
    if (supervisor->phase == PHASE_KILL && supervisor->kill_again_ms < next)
        next = supervisor->kill_again_ms;
    /* The reader may have taken the rest after pass_on_rest() had looked; then there is no event to wait for. */
    if (supervisor->phase == PHASE_OUTPUT && !relay_awaits_reader (supervisor))
        return 0;
    if (next == INT64_MAX)
        return -1;
    return next <= now ? 0 : next - now > 3600000 ? 3600000 : (int) (next - now);
}

void
supervise (struct supervisor *supervisor)
{
    struct epoll_event events[256];
    relay_begin (supervisor);
    for (;;) {
        if (supervisor->deadline_ms && clock_ms () >= supervisor->deadline_ms) {
            supervisor->job->out_of_grace = true;
            shutdown_kill_ranks (supervisor);
        }
        advance (supervisor);
        serve_peers (supervisor);
        send_keepalive (supervisor);
        supervisor->stall_ms = stall_serve (&supervisor->stall, supervisor->job);
        supervisor->stops_ms = stops_serve (&supervisor->stops, supervisor->job);
        serve_requests (supervisor);
        if (supervisor->phase == PHASE_OVER)
            return;
        relay_balance (supervisor);
        int count = epoll_wait (supervisor->epoll, events, sizeof events / sizeof *events, find_timeout (supervisor));
        take_events (supervisor, events, count);
    }
}

void
supervise_abandon (struct supervisor *supervisor)
{
    supervisor->job->end = JOB_STOPPED; /* no rank is to blame */
    shutdown_fail_ranks (supervisor);
    supervise (supervisor);
}
