/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job on several hosts ended; see head_state.h. */
#include <config.h>

#include "hosts/head_state.h"

#include "launch/report.h"
#include "launch/status.h"
#include "util/cleanup.h"

#include <signal.h>
#include <string.h>

/* What a host was told to do is no failure of its own. */
static bool
is_failure (const struct link *link)
{
    if (link->state == LINK_LOST)
        return true;
    return link->state == LINK_ENDED && (link->end == WIRE_END_FAILED || link->end == WIRE_END_ERROR
                                         || (link->end == WIRE_END_TOLD && !link->was_told)
                                         || (link->end == WIRE_END_DONE && link->status));
}

struct link *
verdict_find (struct head *head)
{
    struct link *first = NULL;
    for (int i = 0; i < head->count; i++) {
        struct link *link = &head->links[i];
        if (is_failure (link) && (!first || link->failed_ns < first->failed_ns))
            first = link;
    }
    return first && head->signal && first->failed_ns > head->signal_ns ? NULL : first;
}

int
verdict_status (const struct head *head, const struct link *guilty)
{
    if (guilty)
        return guilty->status ? guilty->status : FAIL_GENERAL;
    return head->signal ? status_of_signal (head->signal) : 0;
}

/* A launcher's report names its host where it names a rank; its errors do not. */
static void
add_report (const struct link *link, struct strbuf *out)
{
    static const char prefix[] = "accelerate: ";
    size_t skip = strncmp (link->report, prefix, sizeof prefix - 1) ? 0 : sizeof prefix - 1;
    if (link->end == WIRE_END_FAILED || !*link->report)
        strbuf_add (out, link->report);
    else
        strbuf_printf (out, "%shost %s: %s", prefix, link->name, link->report + skip);
}

void
verdict_text (const struct head *head, const struct link *guilty, struct strbuf *out)
{
    const char *name = head->signal ? sigabbrev_np (head->signal) : NULL;
    if (guilty && guilty->state == LINK_LOST)
        strbuf_printf (out, "accelerate: host %s: %s\n", guilty->name, guilty->why);
    else if (guilty)
        add_report (guilty, out);
    else if (head->signal) {
        if (head->sinks[1].is_terminal && (head->signal == SIGINT || head->signal == SIGQUIT))
            strbuf_add_char (out, '\n'); /* after the ^C that the terminal shows */
        strbuf_printf (out, "accelerate: ended by SIG%s\n", name ? name : "?");
    }
    for (int i = 0; i < head->count; i++)
        if (&head->links[i] != guilty && head->links[i].state == LINK_LOST)
            strbuf_printf (out, "  host %s: %s\n", head->links[i].name, head->links[i].why);
}

int
verdict_json (const struct head *head, const struct link *guilty, struct strbuf *out, struct fail *fail)
{
    const struct link *link = guilty ? guilty : &head->links[0];
    if (link->state == LINK_ENDED && *link->json) {
        strbuf_add (out, link->json);
        return out->failed ? fail_nomem (fail) : 0;
    }
    struct fail error = { .status = verdict_status (head, guilty) };
    struct plan plan = { .host = (char *) (link->host ? link->host : link->name), .program = head->parcel.config.program,
                         .world_size = hostlist_world_size (&head->hosts->list) };
    snprintf (error.text, sizeof error.text, "host %s: %s", link->name, link->state == LINK_LOST ? link->why : "no report");
    return report_json_error (&plan, &error, out, fail);
}
