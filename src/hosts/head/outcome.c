/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job on several hosts ended; see state.h. */
#include <config.h>

#include "hosts/head/state.h"

#include "hosts/root_cause.h"
#include "launch/process/process.h"
#include "launch/report/report.h"
#include "util/jobseg.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { LOST_PMIX_SERVER = 195 }; /* PMIX_ERR_LOST_CONNECTION: how Open MPI ends a rank whose mpirun or daemon is gone */

bool
outcome_has_stopped (const struct link *link)
{
    return link->state == LINK_ENDED && link->status == FAIL_STOPPED
           && (link->end == WIRE_END_STOPPED || link->end == WIRE_END_ASKED);
}

/* @return a host whose report says why; NULL: none has */
static const struct link *
find_stopped (const struct head *head)
{
    for (int i = 0; i < head->count; i++)
        if (outcome_has_stopped (&head->links[i]))
            return &head->links[i];
    return NULL;
}

bool
outcome_may_go_on (const struct head *head)
{
    bool was_asked = false;
    for (int i = 0; i < head->count; i++) {
        const struct link *link = &head->links[i];
        if (outcome_has_stopped (link) && link->end == WIRE_END_STOPPED)
            return false;
        was_asked = was_asked || (link->state == LINK_ENDED && link->end == WIRE_END_ASKED);
    }
    return was_asked;
}

/* What a host was told to do is not a failure of its own.  A launcher that has only begun cannot report it. */
static bool
is_failure (const struct link *link)
{
    if (link->state == LINK_LOST)
        return true;
    if (link->end_requested && link->end == WIRE_END_ERROR && signals_end_job (link->status - status_of_signal (0)))
        return false;
    return link->state == LINK_ENDED && (link->end == WIRE_END_FAILED || link->end == WIRE_END_ERROR
                                         || (link->end == WIRE_END_STOPPED && !link->end_requested
                                             && !outcome_has_stopped (link))
                                         || (link->end == WIRE_END_DONE && link->status));
}

/* Open MPI ends a rank that has lost its daemon, unless SIGPIPE does first; version 5 may let it abort, with a status
 * that says nothing, and words that name the event instead of a call.  A rank with MPICH notices at the next call that
 * needs the daemon, which may be the last, MPI_Finalize(), and prints such words. */
static bool
has_lost_mpi (const struct head *head, const struct link *link)
{
    static const char *const words[] = { "]: readline failed", "PMI_", "PMI2_", "PMIx_",
                                         "*** An error occurred in Socket closed",
                                         "*** An error occurred in PMIx Event Notification" };
    bool has_failed = link->state == LINK_ENDED && link->end == WIRE_END_FAILED;
    if (!has_failed || head->hosts->starter.mpi == STARTER_MPI_NONE)
        return false;
    bool is_cut = link->status == LOST_PMIX_SERVER || link->status == status_of_signal (SIGPIPE);
    if (head->hosts->starter.mpi != STARTER_MPI_HYDRA && is_cut)
        return true;
    for (size_t i = 0; link->report && i < sizeof words / sizeof *words; i++)
        if (strstr (link->report, words[i]))
            return true;
    return false;
}

static struct failure
failure_of_mpi (const struct head *head, const struct link *link)
{
    return (struct failure){ .is_mpi = true, .failed_ns = head->mpi_launcher.has_abort ? 0 : link->mpi_ns,
                             .was_killed = link->mpi_is_daemon && link->mpi_status > status_of_signal (0) };
}

static struct failure
failure_of (const struct head *head, const struct link *link)
{
    bool has_ended = link->state == LINK_ENDED;
    int64_t failed_ns = link->failed_ns ? link->failed_ns : 1;
    return (struct failure){ .failed_ns = is_failure (link) ? failed_ns : 0, .is_lost = link->state == LINK_LOST,
                             .end = has_ended ? link->end : WIRE_END_DONE, .status = link->status,
                             .report = link->report, .has_lost_mpi = has_lost_mpi (head, link) };
}

/* The other clock is known to half a round trip, and ranks that the signal has ended take others with them. */
static bool
may_be_due_to_signal (const struct head *head, const struct link *link, int64_t failed_ns)
{
    return head->signal && failed_ns + link->round_trip_ns / 2 > head->signal_ns;
}

struct link *
outcome_find (struct head *head)
{
    size_t hosts = (size_t) head->count, count = HEAD_FAILURES (head->count);
    for (size_t i = 0; i < hosts; i++) {
        head->failures[i] = failure_of (head, &head->links[i]);
        head->failures[hosts + i] = failure_of_mpi (head, &head->links[i]);
    }
    size_t first = root_cause_find (head->failures, count);
    struct link *cause = first < count ? &head->links[first % hosts] : NULL;
    if (cause && may_be_due_to_signal (head, cause, head->failures[first].failed_ns))
        cause = NULL;
    head->mpi = first >= hosts ? cause : NULL;
    return cause;
}

bool
outcome_may_be_mpi (const struct head *head, const struct link *cause)
{
    return head->hosts->starter.mpi == STARTER_MPI_OPEN && cause
           && (cause == head->mpi || has_lost_mpi (head, cause));
}

/* An mpirun that ends because of a rank or a daemon reports it. */
static bool
is_due_to_mpirun (const struct head *head, const struct link *cause)
{
    bool is_killed = WIFSIGNALED (head->mpi_launcher.wait_status);
    if (cause && cause == head->mpi && is_killed)
        return true;
    return outcome_may_be_mpi (head, cause) && head->mpi_launcher.wait_status
           && (is_killed || !head->mpi_launcher.names_cause);
}

static bool
is_due_to_mpi (const struct head *head, const struct link *cause)
{
    return cause && (cause == head->mpi || is_due_to_mpirun (head, cause));
}

/* Open MPI's mpirun ends with 1 after a signal that it can catch. */
static void
describe_mpi (const struct head *head, const struct link *cause, char *text, size_t size)
{
    if (!is_due_to_mpirun (head, cause)) {
        snprintf (text, size, "%s, and ranks that use MPI ended with it", cause->mpi_why);
        return;
    }
    const char *name = starter_mpi_name (&head->hosts->starter), *slash = strrchr (name, '/');
    char how[96];
    jobseg_describe_exit (head->mpi_launcher.wait_status, how, sizeof how);
    int wait_status = head->mpi_launcher.wait_status;
    bool may_be_told = !WIFSIGNALED (wait_status) && WEXITSTATUS (wait_status) == 1;
    snprintf (text, size, "%s on %s %s%s, and ranks that use MPI ended with it", slash ? slash + 1 : name,
              head->hosts->own, how, may_be_told ? ", as it does after SIGTERM" : "");
}

int
outcome_status (const struct head *head, const struct link *cause)
{
    if (is_due_to_mpirun (head, cause))
        return status_of_wait (head->mpi_launcher.wait_status);
    if (cause && cause == head->mpi)
        return cause->mpi_status ? cause->mpi_status : FAIL_GENERAL;
    if (cause)
        return cause->status ? cause->status : FAIL_GENERAL;
    if (head->signal && !head->stop_reason)
        return status_of_signal (head->signal);
    return head->stop_reason || find_stopped (head) ? FAIL_STOPPED : 0;
}

/* The rank that was the first to end because of MPI.  There is one, or MPI would not be to blame. */
static const char *
first_report (const struct head *head)
{
    const struct link *first = NULL;
    for (int i = 0; i < head->count; i++) {
        const struct link *link = &head->links[i];
        if (has_lost_mpi (head, link) && link->report && (!first || link->failed_ns < first->failed_ns))
            first = link;
    }
    return root_cause_text (first ? first->report : "");
}

/* A launcher's report names its host where it names a rank; its errors do not. */
static void
add_report (const struct link *link, struct strbuf *out)
{
    const char *report = link->report ? link->report : "";
    if (link->end == WIRE_END_FAILED || !*report)
        strbuf_add (out, report);
    else
        strbuf_printf (out, "accelerate: host %s: %s", link->name, root_cause_text (report));
}

/* Ranks of hosts that were told to end.  Those that gave up before have nothing to add to what made them. */
static void
find_doing (const struct head *head, const struct link *cause, struct rank_activity *activity)
{
    *activity = (struct rank_activity){ 0 };
    for (int i = 0; i < head->count; i++)
        if (head->links[i].state == LINK_ENDED
            && (head->links[i].end == WIRE_END_STOPPED || head->links[i].end == WIRE_END_ASKED))
            rank_activity_add (activity, head->links[i].json, !cause);
}

static void
add_doing (const struct head *head, const struct link *cause, struct strbuf *out)
{
    struct rank_activity activity;
    find_doing (head, cause, &activity);
    rank_activity_put (&activity,
                       cause ? "the ranks of other hosts, when these were told to end" : "the ranks at that moment",
                       out);
    if (!cause && activity.killed)
        strbuf_printf (out, "  %lld process%s had to be killed\n", (long long) activity.killed,
                       activity.killed > 1 ? "es" : "");
    rank_activity_release (&activity);
}

/* mpirun ends its other processes at once, and how a process has ended is not always known. */
static void
add_other_ends (const struct head *head, const struct link *cause, struct strbuf *out)
{
    struct failure first = failure_of_mpi (head, cause);
    for (int i = 0; i < head->count && cause == head->mpi && !is_due_to_mpirun (head, cause); i++) {
        struct failure other = failure_of_mpi (head, &head->links[i]);
        if (&head->links[i] != cause && root_cause_may_be_first (&first, &other))
            strbuf_printf (out, REPORT_SIMULTANEOUS "%s\n", head->links[i].mpi_why);
    }
}

/* What the launchers of all hosts say that their ranks have saved before they ended. */
static bool
find_saved_step (const struct head *head, uint64_t *step)
{
    for (int i = 0; i < head->count; i++) {
        json_t *report = head->links[i].json ? json_loads (head->links[i].json, 0, NULL) : NULL;
        json_t *saved = json_object_get (report, "saved_step");
        bool is_same = json_is_integer (saved) && (!i || (uint64_t) json_integer_value (saved) == *step);
        *step = (uint64_t) json_integer_value (saved);
        json_decref (report);
        if (!is_same)
            return false;
    }
    return head->count;
}

void
outcome_text (const struct head *head, const struct link *cause, struct strbuf *out)
{
    uint64_t step;
    bool is_saved = find_saved_step (head, &step);
    if (cause && cause->state == LINK_LOST)
        strbuf_printf (out, "accelerate: host %s: %s\n", cause->name, cause->why);
    else if (is_due_to_mpi (head, cause)) {
        char text[512];
        const char *report = first_report (head);
        describe_mpi (head, cause, text, sizeof text);
        strbuf_printf (out, "accelerate: %s\n  the first of them: %.*s\n", text, (int) strcspn (report, "\n"), report);
        add_other_ends (head, cause, out);
    } else if (cause) {
        add_report (cause, out);
        root_cause_add_simultaneous (head->failures, HEAD_FAILURES (head->count), (size_t) (cause - head->links), out);
    } else if (head->signal) {
        if (head->sinks[1].is_terminal && (head->signal == SIGINT || head->signal == SIGQUIT))
            strbuf_add_char (out, '\n'); /* after the ^C that the terminal shows */
        report_stop (is_saved ? &step : NULL, head->signal, head->stop_reason, out);
    } else if (find_stopped (head) && find_stopped (head)->report)
        strbuf_add (out, find_stopped (head)->report);
    if (cause || (head->signal && !is_saved))
        add_doing (head, cause, out);
    for (int i = 0; i < head->count; i++)
        if (&head->links[i] != cause && head->links[i].state == LINK_LOST)
            strbuf_printf (out, "  host %s: %s\n", head->links[i].name, head->links[i].why);
}

static int
put_error (const struct head *head, const char *host, const struct fail *error, struct strbuf *out, struct fail *fail)
{
    return report_json_error (host, head->spec.config.program, hostlist_world_size (&head->hosts->list), error, out,
                              fail);
}

int
outcome_json_error (const struct head *head, const struct fail *error, struct strbuf *out, struct fail *fail)
{
    const char *host = head->hosts->own;
    for (int i = head->count - 1; i >= 0; i--) {
        const struct link *link = &head->links[i];
        if (link->state == LINK_LOST)
            host = link->host ? link->host : link->name;
    }
    return put_error (head, host, error, out, fail);
}

/* The first host, whose report this is, may have been told to stop because of another one. */
static void
copy_stop_reason (const struct link *stopped, json_t *report)
{
    json_t *its = stopped && stopped->json ? json_loads (stopped->json, 0, NULL) : NULL;
    if (its)
        json_object_set (report, "stop_reason", json_object_get (its, "stop_reason"));
    json_decref (its);
}

/* Without a failure the job has ended as the head says, which launchers saw as a signal. */
static void
set_end (const struct head *head, json_t *report)
{
    uint64_t step;
    bool is_saved = find_saved_step (head, &step);
    json_object_set_new (report, "exit_status", json_integer (outcome_status (head, NULL)));
    json_object_set_new (report, "saved_step", is_saved ? json_integer ((json_int_t) step) : json_null ());
    if (head->stop_reason) {
        json_object_set_new (report, "signal", json_null ());
        json_object_set_new (report, "stop_reason", json_string (head->stop_reason));
    } else if (!head->signal)
        copy_stop_reason (find_stopped (head), report);
}

/* The report of one launcher, with the ranks of the others that were told to end. */
static int
put_json (const struct head *head, const struct link *cause, const char *json, struct strbuf *out, struct fail *fail)
{
    struct rank_activity activity;
    json_t *report = json_loads (json, 0, NULL);
    if (!report) {
        strbuf_add (out, json);
        strbuf_add (out, *json && json[strlen (json) - 1] == '\n' ? "" : "\n");
        return out->failed ? fail_nomem (fail) : 0;
    }
    find_doing (head, cause, &activity);
    json_object_set_new (report, "ranks", rank_activity_json (&activity));
    if (!cause) {
        json_object_set_new (report, "killed", json_integer ((json_int_t) activity.killed));
        set_end (head, report);
    }
    rank_activity_release (&activity);
    return report_print_json (report, out, fail);
}

int
outcome_json (const struct head *head, const struct link *cause, struct strbuf *out, struct fail *fail)
{
    const struct link *link = cause ? cause : &head->links[0];
    if (is_due_to_mpi (head, cause)) {
        struct fail ended = { .status = outcome_status (head, cause) };
        describe_mpi (head, cause, ended.text, sizeof ended.text);
        return put_error (head, head->hosts->own, &ended, out, fail);
    }
    if (link->state == LINK_ENDED && link->json && *link->json)
        return put_json (head, cause, link->json, out, fail);
    struct fail error = { .status = outcome_status (head, cause) };
    const char *why = link->state == LINK_LOST ? link->why
                      : link->report ? root_cause_text (link->report) : "no report";
    snprintf (error.text, sizeof error.text, "host %s: %.*s", link->name, (int) strcspn (why, "\n"), why);
    return put_error (head, link->host ? link->host : link->name, &error, out, fail);
}
