/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job on several hosts ended; see head_state.h. */
#include <config.h>

#include "hosts/head_state.h"

#include "hosts/blame.h"
#include "launch/report.h"
#include "launch/signals.h"
#include "launch/status.h"
#include "util/jobseg.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { LOST_PMIX_SERVER = 195 }; /* PMIX_ERR_LOST_CONNECTION: how Open MPI ends a rank whose mpirun or daemon is gone */

/* What a host was told to do is no failure of its own.  A launcher that has only begun cannot say that it was told. */
static bool
is_failure (const struct link *link)
{
    if (link->state == LINK_LOST)
        return true;
    if (link->was_told && link->end == WIRE_END_ERROR && signals_end_job (link->status - status_of_signal (0)))
        return false;
    return link->state == LINK_ENDED && (link->end == WIRE_END_FAILED || link->end == WIRE_END_ERROR
                                         || (link->end == WIRE_END_TOLD && !link->was_told)
                                         || (link->end == WIRE_END_DONE && link->status));
}

static struct blame
blame_of (const struct link *link)
{
    bool has_ended = link->state == LINK_ENDED;
    int64_t failed_ns = link->failed_ns ? link->failed_ns : 1;
    return (struct blame){ .failed_ns = is_failure (link) ? failed_ns : 0, .is_lost = link->state == LINK_LOST,
                           .end = has_ended ? link->end : WIRE_END_DONE, .status = link->status,
                           .report = link->report };
}

/* The other clock is known to half a round trip, and ranks that the signal has ended take others with them. */
static bool
may_be_due_to_signal (const struct head *head, const struct link *link)
{
    return head->signal && link->failed_ns + link->round_trip_ns / 2 > head->signal_ns;
}

struct link *
verdict_find (struct head *head)
{
    for (int i = 0; i < head->count; i++)
        head->blames[i] = blame_of (&head->links[i]);
    size_t first = blame_find_first (head->blames, (size_t) head->count);
    bool is_due = first < (size_t) head->count && !may_be_due_to_signal (head, &head->links[first]);
    return is_due ? &head->links[first] : NULL;
}

bool
verdict_may_be_mpi (const struct head *head, const struct link *guilty)
{
    return head->hosts->starter.mpi == STARTER_MPI_OPEN && guilty && guilty->state == LINK_ENDED
           && guilty->end == WIRE_END_FAILED && guilty->status == LOST_PMIX_SERVER;
}

/* An mpirun that ends because of a rank or a daemon says so. */
static bool
is_due_to_mpi (const struct head *head, const struct link *guilty)
{
    return verdict_may_be_mpi (head, guilty) && head->lender.wait_status
           && (WIFSIGNALED (head->lender.wait_status) || !head->lender.blames_other);
}

/* Open MPI's mpirun ends with 1 after a signal that it can catch. */
static void
describe_mpi (const struct head *head, char *text, size_t size)
{
    const char *name = starter_mpi_name (&head->hosts->starter), *slash = strrchr (name, '/');
    char how[96];
    jobseg_describe_exit (head->lender.wait_status, how, sizeof how);
    bool may_be_told = !WIFSIGNALED (head->lender.wait_status) && WEXITSTATUS (head->lender.wait_status) == 1;
    snprintf (text, size, "%s on %s %s%s, and ranks that use MPI ended with it", slash ? slash + 1 : name,
              head->hosts->own, how, may_be_told ? ", as it does after SIGTERM" : "");
}

int
verdict_status (const struct head *head, const struct link *guilty)
{
    if (is_due_to_mpi (head, guilty))
        return status_of_wait (head->lender.wait_status);
    if (guilty)
        return guilty->status ? guilty->status : FAIL_GENERAL;
    return head->signal ? status_of_signal (head->signal) : 0;
}

/* A launcher's report names its host where it names a rank; its errors do not. */
static void
add_report (const struct link *link, struct strbuf *out)
{
    const char *report = link->report ? link->report : "";
    if (link->end == WIRE_END_FAILED || !*report)
        strbuf_add (out, report);
    else
        strbuf_printf (out, "accelerate: host %s: %s", link->name, blame_without_prefix (report));
}

void
verdict_text (const struct head *head, const struct link *guilty, struct strbuf *out)
{
    const char *name = head->signal ? sigabbrev_np (head->signal) : NULL;
    if (guilty && guilty->state == LINK_LOST)
        strbuf_printf (out, "accelerate: host %s: %s\n", guilty->name, guilty->why);
    else if (is_due_to_mpi (head, guilty)) {
        char text[512];
        const char *report = blame_without_prefix (guilty->report ? guilty->report : "");
        describe_mpi (head, text, sizeof text);
        strbuf_printf (out, "accelerate: %s\n  the first of them: %.*s\n", text, (int) strcspn (report, "\n"), report);
    } else if (guilty) {
        add_report (guilty, out);
        blame_add_simultaneous (head->blames, (size_t) head->count, (size_t) (guilty - head->links), out);
    } else if (head->signal) {
        if (head->sinks[1].is_terminal && (head->signal == SIGINT || head->signal == SIGQUIT))
            strbuf_add_char (out, '\n'); /* after the ^C that the terminal shows */
        strbuf_printf (out, "accelerate: ended by SIG%s\n", name ? name : "?");
    }
    for (int i = 0; i < head->count; i++)
        if (&head->links[i] != guilty && head->links[i].state == LINK_LOST)
            strbuf_printf (out, "  host %s: %s\n", head->links[i].name, head->links[i].why);
}

int
verdict_json_error (const struct head *head, const struct fail *error, struct strbuf *out, struct fail *fail)
{
    struct plan plan = { .host = head->hosts->own, .program = head->parcel.config.program,
                         .world_size = hostlist_world_size (&head->hosts->list) };
    for (int i = head->count - 1; i >= 0; i--) {
        const struct link *link = &head->links[i];
        if (link->state == LINK_LOST)
            plan.host = (char *) (link->host ? link->host : link->name);
    }
    return report_json_error (&plan, error, out, fail);
}

int
verdict_json (const struct head *head, const struct link *guilty, struct strbuf *out, struct fail *fail)
{
    const struct link *link = guilty ? guilty : &head->links[0];
    if (is_due_to_mpi (head, guilty)) {
        struct fail ended = { .status = verdict_status (head, guilty) };
        describe_mpi (head, ended.text, sizeof ended.text);
        struct plan here = { .host = head->hosts->own, .program = head->parcel.config.program,
                             .world_size = hostlist_world_size (&head->hosts->list) };
        return report_json_error (&here, &ended, out, fail);
    }
    if (link->state == LINK_ENDED && link->json && *link->json) {
        strbuf_add (out, link->json);
        return out->failed ? fail_nomem (fail) : 0;
    }
    struct fail error = { .status = verdict_status (head, guilty) };
    struct plan plan = { .host = (char *) (link->host ? link->host : link->name),
                         .program = head->parcel.config.program,
                         .world_size = hostlist_world_size (&head->hosts->list) };
    const char *why = link->state == LINK_LOST ? link->why
                      : link->report ? blame_without_prefix (link->report) : "no report";
    snprintf (error.text, sizeof error.text, "host %s: %.*s", link->name, (int) strcspn (why, "\n"), why);
    return report_json_error (&plan, &error, out, fail);
}
