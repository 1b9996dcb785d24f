/* SPDX-License-Identifier: Apache-2.0 */
/* The head's loop; see head.h. */
#include <config.h>

#include "hosts/head/head.h"

#include "hosts/head/state.h"
#include "hosts/mpi/mpi.h"
#include "launch/process/process.h"
#include "launch/report/report.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/io.h"
#include "util/printable.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

enum {
    MPI_LAUNCHER_MS = 4000, /* for mpirun to end, after the ranks that have ended because of it */
    EXTRA_MS = 15000,   /* beyond the grace period, for a host to end its ranks */
    HEARTBEAT_MS = 5000, /* between beats, at most */
    QUICK_BEATS = 20, QUICK_HEARTBEAT_MS = 25, /* at first */
    BEATS = 5,          /* in the time after which a host is lost */
    FDS_OF_LINK = 3,
    FDS_OF_HEAD = 7,
};

/* ---- what the links bring ---- */

/* What SSH says is kept as long as the host may be asked again; after that it is for the user. */
static void
show_said (struct head *head, struct link *link)
{
    char *end;
    if (link->batch && !link->host)
        return;
    while (link->said.length && (end = memchr (link->said.text, '\n', link->said.length))) {
        AUTO_STRBUF struct strbuf line = { 0 };
        *end = '\0';
        strbuf_printf (&line, "%s: ", link->name);
        printable_add (&line, link->said.text);
        if (line.text && !output_sink_say (head->sink_of[1], line.text)) {
            *end = '\n';
            return;
        }
        strbuf_drop (&link->said, (size_t) (end + 1 - link->said.text));
    }
}

/* Errors of MPI in ranks come this way, too.  Before the ranks start, it is kept as the reason why they do not. */
static void
show_mpi_launcher (struct head *head)
{
    static const char dashes[] = "- \t\r";
    AUTO_STRBUF struct strbuf said = { 0 }, line = { 0 };
    const char *name = starter_mpi_name (&head->hosts->starter), *slash = strrchr (name, '/');
    while (head->phase == HEAD_RUN && !output_sink_is_full (head->sink_of[1])
           && mpi_launcher_take_line (&head->mpi_launcher, &said)) {
        if (!said.text || !said.text[strspn (said.text, dashes)])
            continue;
        strbuf_truncate (&line, 0);
        strbuf_printf (&line, "%s: ", slash ? slash + 1 : name);
        printable_add (&line, said.text);
        if (line.text)
            output_sink_say (head->sink_of[1], line.text);
    }
}

static void
reap (struct head *head)
{
    mpi_launcher_reap (&head->mpi_launcher);
    for (int i = 0; i < head->count; i++)
        link_reap (&head->links[i]);
}

/* ---- the end of the job ---- */

/* @of_failure  because a rank or a host has failed; hosts where that was so are ending the others already */
static void
tell_all (struct head *head, int signal, bool of_failure)
{
    for (int i = 0; i < head->count; i++) {
        struct link *link = &head->links[i];
        if (link->state != LINK_RUNNING || link->pipe.out < 0 || (link->failed_rank >= 0 && of_failure))
            continue;
        wire_put_frame (&link->pipe.to_write, WIRE_SIGNAL, signal, of_failure);
        link->end_requested = link->end_requested || (signals_end_job (signal) && link->failed_rank < 0);
    }
}

static void
set_limit (struct head *head)
{
    if (head->limit_ms == INT64_MAX)
        head->limit_ms = clock_ms () + head->spec.config.settings.grace * 1000 + EXTRA_MS;
}

/* A failure anywhere ends the job everywhere. */
static void
broadcast_failure (struct head *head)
{
    bool has_failed = false, has_stopped = false;
    if (head->limit_ms != INT64_MAX)
        return;
    for (int i = 0; i < head->count; i++) {
        const struct link *link = &head->links[i];
        has_stopped = has_stopped || outcome_has_stopped (link);
        has_failed = has_failed || link->state == LINK_LOST || link->failed_rank >= 0
                     || (link->state == LINK_ENDED && !outcome_has_stopped (link)
                         && (link->end != WIRE_END_DONE || link->status));
    }
    if (has_failed)
        tell_all (head, SIGTERM, true);
    if (has_failed || has_stopped)
        set_limit (head);
}

static bool
have_all_ended (const struct head *head)
{
    for (int i = 0; i < head->count; i++)
        if (head->links[i].state < LINK_ENDED)
            return false;
    return true;
}

/* ---- signals ---- */

/* All ranks stop, then we do; the hosts know that we are silent on purpose. */
static void
stop_self (struct head *head)
{
    for (int i = 0; i < head->count; i++)
        if (head->links[i].pipe.out >= 0)
            pipe_flush (&head->links[i].pipe);
    if (getsid (getppid ()) == getsid (0))
        raise (SIGSTOP);
}

static void
tell_size (struct head *head)
{
    job_spec_find_size (&head->spec); /* also for hosts that get the job later */
    for (int i = 0; i < head->count; i++) {
        struct link *link = &head->links[i];
        if (link->has_job && link->pipe.out >= 0)
            wire_put_frame (&link->pipe.to_write, WIRE_SIZE, head->spec.rows, head->spec.columns);
    }
}

static void
take_signal (struct head *head, int signal)
{
    if (signal == SIGCHLD) {
        reap (head);
        return;
    }
    if (signal == SIGWINCH) {
        tell_size (head);
        status_resize (&head->status);
    }
    tell_all (head, signal, false);
    if (signal == SIGTSTP || signal == SIGCONT)
        status_stop (&head->status, signal == SIGTSTP);
    if (signal == SIGTSTP)
        stop_self (head);
    if (!signals_end_job (signal))
        return;
    if (!head->signal) {
        head->signal = signal;
        head->signal_ns = clock_ns ();
    }
    if (head->phase == HEAD_RUN)
        set_limit (head);
}

static void
take_signals (struct head *head)
{
    struct signalfd_siginfo info;
    while (read (head->signal_fd, &info, sizeof info) == sizeof info)
        take_signal (head, (int) info.ssi_signo);
}

/* ---- deadlines ---- */

/* As after SIGTERM, unless the job ends already. */
static void
stop_for (struct head *head, const char *reason)
{
    if (head->limit_ms != INT64_MAX || have_all_ended (head))
        return;
    take_signal (head, SIGTERM);
    head->stop_reason = reason;
}

static void
take_notices (struct head *head)
{
    for (int i = 0; i < head->count && head->phase == HEAD_RUN; i++)
        if (head->links[i].notice)
            stop_for (head, head->links[i].notice);
}

/* The end of a Slurm job is one for ranks that respect it, and only their launchers know that, so it
 * is theirs alone. */
static void
keep_time_limit (struct head *head)
{
    if (!head->stop_ms || clock_ms () < head->stop_ms || head->phase != HEAD_RUN || head->limit_ms != INT64_MAX)
        return; /* hosts that are ending may start again */
    head->stop_ms = 0;
    stop_for (head, "at the time limit");
}

/* Logging in may take longer than a sign of life.
 * A user who is asked something has as much time as SSH gives. */
static int64_t
link_deadline (const struct head *head, const struct link *link)
{
    int64_t limit_ms = link->state == LINK_CONNECTING ? startup_connect_ms (&head->spec) : head->spec.timeout_ms;
    bool is_asked = link->state == LINK_CONNECTING && !link->batch && link == head->asking;
    return link->state >= LINK_ENDED || is_asked ? INT64_MAX : link->pipe.heard_ms + limit_ms;
}

/* After we were stopped, or the machine asleep, silence says nothing about the hosts. */
static void
forgive_own_silence (struct head *head, int64_t now)
{
    for (int i = 0; i < head->count && now - head->turn_ms > head->spec.timeout_ms / 2; i++)
        head->links[i].pipe.heard_ms = now;
    head->turn_ms = now;
}

static void
lose_silent (const struct head *head, struct link *link)
{
    if (link->state == LINK_CONNECTING)
        link_lose (link, "no connection within %g s", (double) startup_connect_ms (&head->spec) / 1000);
    else
        link_lose (link, "lost: no sign of life for %g s", (double) head->spec.timeout_ms / 1000);
}

static void
keep_deadlines (struct head *head)
{
    int64_t now = clock_ms (), interval = head->spec.timeout_ms / BEATS;
    keep_time_limit (head);
    take_notices (head);
    for (int i = 0; i < head->count; i++) {
        struct link *link = &head->links[i];
        if (now >= link_deadline (head, link))
            lose_silent (head, link);
        if (now >= head->limit_ms)
            link_lose (link, "its ranks did not end in time");
        if (now >= head->heartbeat_ms)
            link_heartbeat (link);
    }
    if (now < head->heartbeat_ms)
        return;
    /* The quickest of several beats tells most about the other clock. */
    interval = head->heartbeats++ < QUICK_BEATS ? QUICK_HEARTBEAT_MS
               : interval < HEARTBEAT_MS        ? interval
                                                : HEARTBEAT_MS;
    head->heartbeat_ms = now + interval;
}

static int
find_timeout (const struct head *head)
{
    int64_t now = clock_ms (), until = head->heartbeat_ms, watch_ms = head_watch_deadline (&head->watch);
    int64_t labels_ms = labels_due (&head->labels, head->sink_of), status_ms = status_due (&head->status);
    int64_t standby_ms = standby_due (head);
    until = watch_ms < until ? watch_ms : until;
    until = labels_ms < until ? labels_ms : until;
    until = status_ms < until ? status_ms : until;
    until = standby_ms < until ? standby_ms : until;
    if (head->phase == HEAD_START_MPI && head->mpi_start_ms < until)
        until = head->mpi_start_ms;
    if (head->phase == HEAD_CONNECT && head->mpi_launcher.until_ms && head->mpi_launcher.until_ms < until)
        until = head->mpi_launcher.until_ms;
    if (head->await_ms && head->await_ms < until)
        until = head->await_ms;
    if (head->phase == HEAD_RUN && head->stop_ms && head->stop_ms < until && head->limit_ms == INT64_MAX)
        until = head->stop_ms;
    for (int i = 0; i < head->count; i++) {
        int64_t deadline = link_deadline (head, &head->links[i]);
        until = deadline < until ? deadline : until;
    }
    if (!have_all_ended (head) && head->limit_ms < until) /* afterwards, only a slow reader is waited for */
        until = head->limit_ms;
    return until <= now ? 0 : (int) (until - now);
}

/* ---- the loop ---- */

static void
fill_fds (const struct head *head, struct pollfd *fds)
{
    fds[0] = (struct pollfd){ .fd = head->signal_fd, .events = POLLIN };
    for (int i = 0; i < LINK_STREAMS; i++) {
        bool waits = !output_sink_is_empty (&head->sinks[i]) && head->sinks[i].may_block;
        fds[1 + i] = (struct pollfd){ .fd = waits ? head->sinks[i].fd : -1, .events = POLLOUT };
    }
    fds[1 + LINK_STREAMS] = (struct pollfd){ .fd = head->mpi_launcher.out, .events = POLLIN };
    fds[2 + LINK_STREAMS] = (struct pollfd){ .fd = input_fd (&head->input, &head->links[0]), .events = POLLIN };
    fds[3 + LINK_STREAMS] = (struct pollfd){ .fd = head->watch.bell[0], .events = POLLIN };
    fds[4 + LINK_STREAMS] = (struct pollfd){ .fd = head->standby.out, .events = POLLIN };
    for (int i = 0; i < head->count; i++) {
        const struct link *link = &head->links[i];
        struct pollfd *at = &fds[FDS_OF_HEAD + FDS_OF_LINK * i];
        at[0] = (struct pollfd){ .fd = link->pipe.in, .events = POLLIN };
        at[1] = (struct pollfd){ .fd = pipe_has_output (&link->pipe) ? link->pipe.out : -1, .events = POLLOUT };
        at[2] = (struct pollfd){ .fd = link->err, .events = POLLIN };
    }
}

/* As in `| head`: ranks notice, as they do on one host. */
static void
tell_of_reader (struct head *head)
{
    const struct output_sink *sink = head->sink_of[0];
    if (!head->has_reader || !sink->broken || sink->error)
        return;
    head->has_reader = false;
    for (int i = 0; i < head->count; i++)
        if (head->links[i].has_job && head->links[i].pipe.out >= 0)
            wire_put_frame (&head->links[i].pipe.to_write, WIRE_UNREAD, 0);
}

/* When ranks are ending, a report follows. */
static void
show_status (struct head *head)
{
    if (head->limit_ms != INT64_MAX || have_all_ended (head))
        status_end (&head->status);
    else
        status_turn (&head->status, clock_ms ());
}

/* @param before_ms  of labels_pass_on() */
static void
pass_on (struct head *head, int64_t before_ms)
{
    show_mpi_launcher (head);
    input_pass_on (&head->input, &head->links[0]);
    for (int i = 0; i < head->count; i++) {
        struct link *link = &head->links[i];
        show_said (head, link);
        link_pass_on (link, head->sink_of, &head->labels);
        if (link->pipe.out >= 0 && !pipe_flush (&link->pipe)) {
            close (link->pipe.out);
            link->pipe.out = -1;
        }
    }
    labels_pass_on (&head->labels, before_ms);
    show_status (head);
    for (int i = 0; i < LINK_STREAMS; i++)
        output_sink_drain (&head->sinks[i]);
    tell_of_reader (head);
}

/* One turn: wait, and take what has happened. */
static void
turn (struct head *head, struct pollfd *fds)
{
    head->watch.is_shown = head->status.sink != NULL;
    head_watch_turn (&head->watch, &HEAD_LINKS (head));
    standby_turn (head);
    pass_on (head, clock_ms () - OUTPUT_COLLAPSE_MS);
    fill_fds (head, fds);
    int count = poll (fds, (nfds_t) (FDS_OF_HEAD + FDS_OF_LINK * head->count), find_timeout (head));
    for (int i = 0; count > 0 && i < head->count; i++) {
        const struct pollfd *at = &fds[FDS_OF_HEAD + FDS_OF_LINK * i];
        if (at[2].revents)
            link_read_err (&head->links[i]);
        if (at[0].revents)
            link_read (&head->links[i]);
    }
    if (count > 0 && fds[1 + LINK_STREAMS].revents)
        mpi_launcher_read (&head->mpi_launcher);
    if (count > 0 && fds[4 + LINK_STREAMS].revents)
        mpi_launcher_read (&head->standby);
    if (count > 0 && fds[0].revents)
        take_signals (head);
    forgive_own_silence (head, clock_ms ()); /* after the signals, one of which may have stopped us */
    keep_deadlines (head);
}

static void
begin_watch (struct head *head)
{
    struct fail fail = { 0 };
    AUTO_STRBUF struct strbuf line = { 0 };
    if (!head_watch_begin (&head->watch, &head->spec, head->restarts, head->hosts, &HEAD_LINKS (head), &fail)) {
        status_begin (&head->status, head->sink_of, &head->watch.segment, getpgrp (), NULL);
        return;
    }
    strbuf_printf (&line, "note: accelerate top, ps and stacks cannot see this job: %s", fail.text);
    if (line.text && !head->restarts)
        output_sink_say (head->sink_of[1], line.text);
}

/* Until the job cannot start, or has ended everywhere.  @return 0, or -1 with @fail */
static int
run_attempt (struct head *head, struct pollfd *fds, struct fail *fail)
{
    while (head->phase < HEAD_RUN && !head->signal) {
        if (startup_advance (head, fail))
            return -1;
        if (head->phase < HEAD_RUN)
            turn (head, fds);
    }
    if (head->phase == HEAD_RUN) {
        begin_watch (head);
        standby_plan (head);
    }
    while (head->phase == HEAD_RUN && !have_all_ended (head)) {
        turn (head, fds);
        broadcast_failure (head);
    }
    head->standby_ms = INT64_MAX;
    status_end (&head->status);
    head_watch_turn (&head->watch, &HEAD_LINKS (head)); /* it shows the end */
    return 0;
}

/* Output that is left is passed on as slowly as its reader takes it, until a signal ends the wait. */
static void
finish_output (struct head *head, struct pollfd *fds)
{
    int64_t grace_ms = head->spec.config.settings.grace * 1000, until = clock_ms () + grace_ms;
    for (;;) {
        pass_on (head, INT64_MAX); /* what remains in queues waits for a sink that is full */
        bool has_output = !output_sink_is_empty (&head->sinks[0]) || !output_sink_is_empty (&head->sinks[1]);
        for (int i = 0; i < head->count; i++)
            has_output = has_output || link_has_output (&head->links[i]);
        if (!has_output || (head->signal && clock_ms () >= until))
            return;
        turn (head, fds);
    }
}

/* mpirun ends after the ranks whose end it brings about, and what it says may come late. */
static void
await_mpi_launcher (struct head *head, struct pollfd *fds)
{
    head->await_ms = clock_ms () + MPI_LAUNCHER_MS;
    while (outcome_may_be_mpi (head, outcome_find (head)) && head->mpi_launcher.pid && !head->signal
           && clock_ms () < head->await_ms)
        turn (head, fds);
    head->await_ms = 0;
    mpi_launcher_read_all (&head->mpi_launcher);
    show_mpi_launcher (head);
}

/* A host that has refused its part would again. */
static bool
may_restart (const struct head *head, const struct link *cause)
{
    if (head->signal || head->restarts >= head->spec.config.settings.max_restarts)
        return false;
    if (!cause)
        return outcome_may_go_on (head) && survivors_are_enough (head);
    bool has_failed = cause->state == LINK_ENDED && (cause->end == WIRE_END_FAILED || cause == head->mpi);
    return (has_failed || (cause->state == LINK_LOST && !cause->status)) && survivors_are_enough (head);
}

/* @param[out] text  which hosts are left out  @return 0, or -1 with @fail */
static int
begin_again (struct head *head, const struct link *cause, struct strbuf *text, struct fail *fail)
{
    AUTO_STRBUF struct strbuf json = { 0 };
    if (outcome_json (head, cause, &json, NULL))
        strbuf_truncate (&json, 0);
    report_attempts_add (&head->attempts, &json);
    if (survivors_go_on (head, text, fail))
        return -1;
    if (text->length)
        standby_drop (head);
    input_restart (&head->input, &head->links[0]);
    head->restarts++;
    head->limit_ms = INT64_MAX;
    head->phase = HEAD_CONNECT;
    return 0;
}

static int
write_report (const struct head *head, const struct link *cause, struct fail *fail)
{
    AUTO_STRBUF struct strbuf json = { 0 };
    if (!head->report.path)
        return 0;
    if (outcome_json (head, cause, &json, fail) || report_put_attempts (&head->attempts, &json, fail)
        || report_put_launch (&head->spec.config, head->started_s, &json, fail))
        return -1;
    return io_target_write (&head->report, json.text, json.length, fail);
}

/* Best effort: @error is reported anyway. */
static void
report_error (const struct head *head, const struct fail *error)
{
    AUTO_STRBUF struct strbuf json = { 0 };
    struct fail unused = { 0 };
    if (head->report.path && !outcome_json_error (head, error, &json, &unused)
        && !report_put_attempts (&head->attempts, &json, &unused)
        && !report_put_launch (&head->spec.config, head->started_s, &json, &unused))
        io_target_write (&head->report, json.text, json.length, &unused);
}

/* Say what became of an attempt, and whether another one follows, which then is prepared.
 * @param[out] again  whether it does  @return 0, or -1 with @fail */
static int
end_attempt (struct head *head, const struct link *cause, bool *again, struct fail *fail)
{
    const struct settings *settings = &head->spec.config.settings;
    AUTO_STRBUF struct strbuf report = { 0 }, left_out = { 0 };
    *again = may_restart (head, cause);
    if (cause || head->signal)
        mpi_launcher_hurry (&head->mpi_launcher);
    if (!settings->quiet)
        outcome_text (head, cause, &report);
    if (*again && begin_again (head, cause, &left_out, fail))
        return -1;
    if (*again && !settings->quiet)
        strbuf_printf (&report, "accelerate: restarting all ranks (%lld of %lld)%s\n", (long long) head->restarts,
                       (long long) settings->max_restarts, left_out.text ? left_out.text : "");
    output_sink_say_lines (head->sink_of[1], &report);
    return 0;
}

/* A host that is lost while ranks are being started again, and none runs yet.  @return NULL: it is something else */
static struct link *
find_lost_again (const struct head *head)
{
    struct link *lost = NULL;
    for (int i = 0; head->restarts && i < head->count; i++) {
        struct link *link = &head->links[i];
        if (link->state == LINK_RUNNING || link->state == LINK_ENDED)
            return NULL;
        lost = !lost && link->state == LINK_LOST ? link : lost;
    }
    return lost;
}

/* @return the exit status, or -1 with @fail */
static int
run_all (struct head *head, struct pollfd *fds, struct fail *fail)
{
    for (;;) {
        struct link *cause;
        bool again;
        if (run_attempt (head, fds, fail)) {
            cause = find_lost_again (head);
            if (!cause || !may_restart (head, cause))
                return -1;
        } else {
            await_mpi_launcher (head, fds);
            finish_output (head, fds);
            cause = outcome_find (head);
        }
        if (end_attempt (head, cause, &again, fail))
            return -1;
        if (again)
            continue;
        finish_output (head, fds);
        int status = outcome_status (head, cause);
        return write_report (head, cause, fail) ? -1 : status;
    }
}

/* ---- beginning and end ---- */

static int
fill_job_spec (struct head *head, const struct config *config, struct fail *fail)
{
    if (job_spec_fill (&head->spec, config, fail))
        return -1;
    input_init (&head->input, strcmp (config->settings.input, "none") != 0);
    head->spec.has_input = head->input.fd >= 0;
    if (!head->hosts->starter.mpi)
        return 0;
    head->spec.proxies = malloc (MPI_PROXY_NAME_BYTES);
    return head->spec.proxies ? mpi_proxy_make_name (head->spec.proxies, fail) : fail_nomem (fail);
}

static int
start_links (struct head *head, struct fail *fail)
{
    const struct hostlist *list = &head->hosts->list;
    head->most = list->all > list->count ? list->all : list->count;
    head->links = calloc (head->most, sizeof *head->links);
    head->failures = calloc (HEAD_FAILURES (head->most), sizeof *head->failures);
    if (!head->links || !head->failures)
        return fail_nomem (fail);
    head->count = (int) list->count;
    for (int i = 0; i < head->count; i++)
        link_init (&head->links[i], list->hosts[i].name);
    for (int i = 0; i < head->count; i++)
        if (link_start (&head->links[i], head->hosts, fail))
            return fail_prefix (fail, "host %s", head->links[i].name);
    return 0;
}

static void
release (struct head *head)
{
    standby_drop (head);
    mpi_launcher_finish (&head->mpi_launcher);
    mpi_launcher_finish (&head->standby);
    if (head->links)
        links_close (&HEAD_LINKS (head), head->signal_fd);
    for (int i = 0; i < head->count; i++)
        link_release (&head->links[i]);
    free (head->links);
    free (head->failures);
    labels_release (&head->labels);
    for (int i = 0; i < LINK_STREAMS; i++)
        output_sink_release (&head->sinks[i]);
    if (head->signal_fd >= 0)
        close (head->signal_fd);
    head_watch_end (&head->watch);
    io_target_release (&head->report);
    report_attempts_release (&head->attempts);
    head->spec.config = (struct config){ 0 };
    job_spec_release (&head->spec);
}

int
head_run (struct hosts *hosts, struct config *config, struct fail *fail)
{
    struct head head = { .hosts = hosts, .limit_ms = INT64_MAX, .signal_fd = -1, .turn_ms = clock_ms (),
                         .started_s = report_time (), .mpi_launcher = MPI_LAUNCHER_NONE,
                         .standby = MPI_LAUNCHER_NONE, .standby_ms = INT64_MAX, .watch = HEAD_WATCH_NONE };
    if (config->settings.time_limit)
        head.stop_ms = clock_ms () + config->settings.time_limit * 1000;
    sigset_t signals, old_mask;
    int64_t processes = config->settings.num_processes;
    int status = -1;
    if (hostlist_is_complete (&hosts->list, processes) && hostlist_divide (&hosts->list, processes, fail))
        return -1;
    if (report_file_prepare (&head.report, config->settings.failure_report, true, fail)) {
        io_target_release (&head.report);
        return -1;
    }
    signals_block (&signals, &old_mask);
    head.signal_fd = signalfd (-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!fill_job_spec (&head, config, fail) && !output_sinks_init (head.sinks, head.sink_of, fail)
        && !start_links (&head, fail)) {
        head.has_reader = !head.sink_of[0]->broken; /* do not wait for what a closed stream loses */
        AUTO_FREE struct pollfd *fds = calloc (FDS_OF_HEAD + FDS_OF_LINK * head.most, sizeof *fds);
        status = fds ? run_all (&head, fds, fail) : fail_nomem (fail);
    }
    if (status < 0)
        report_error (&head, fail);
    release (&head);
    return status;
}
