/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the machines of a job, and the verdict; see crew_state.h. */
#include <config.h>

#include "hosts/crew_state.h"

#include "launch/report.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <stdarg.h>
#include <string.h>

enum { PORTS_APART = 1000, LAST_PORT = 65535 };

int
crew_first_port (int port)
{
    return port + PORTS_APART + CREW_PORTS - 1 <= LAST_PORT ? port + PORTS_APART : port - PORTS_APART;
}

void
crew_set_why (struct crew *crew, int weight, const char *why, ...)
{
    va_list arguments;
    if (*crew->why && weight < crew->dial.weight)
        return;
    crew->dial.weight = weight;
    va_start (arguments, why);
    vsnprintf (crew->why, sizeof crew->why, why, arguments);
    va_end (arguments);
}

static char *
copy (const char *text)
{
    return text ? strdup (text) : NULL;
}

void
crew_set_failure (struct crew_machine *machine, int64_t failed_ns, enum wire_end end, int status, const char *text,
                  const char *json)
{
    if (machine->failed_ns)
        return;
    machine->failed_ns = failed_ns > 0 ? failed_ns : 1;
    machine->end = end;
    machine->status = status ? status : FAIL_GENERAL;
    machine->text = copy (text);
    machine->json = copy (json);
}

struct blame
crew_blame_of (const struct crew_machine *machine)
{
    return (struct blame){ .failed_ns = machine->failed_ns, .is_lost = machine->state == MACHINE_LOST,
                           .end = machine->end, .status = machine->status, .report = machine->text };
}

void
crew_add_machine (const struct crew_machine *machine, int number, struct strbuf *out)
{
    strbuf_printf (out, "%s (machine %d", machine->host ? machine->host : "?", number);
    if (machine->ranks > 1)
        strbuf_printf (out, ", ranks %d-%d)", machine->first_rank, machine->first_rank + machine->ranks - 1);
    else
        strbuf_printf (out, machine->ranks ? ", rank %d)" : ")", machine->first_rank);
}

void
crew_lose (struct crew *crew, struct crew_machine *machine, int number, int64_t heard_ms, const char *why)
{
    AUTO_STRBUF struct strbuf text = { 0 }, json = { 0 };
    struct fail error = { .status = FAIL_GENERAL };
    struct plan plan = { .host = machine->host, .program = crew->plan->program, .world_size = crew->plan->world_size };
    machine->state = MACHINE_LOST;
    strbuf_add (&text, "accelerate: host ");
    crew_add_machine (machine, number, &text);
    strbuf_printf (&text, ": %s\n", why);
    snprintf (error.text, sizeof error.text, "host %s: %s", machine->host ? machine->host : "?", why);
    if (machine->host)
        report_json_error (&plan, &error, &json, NULL);
    crew_set_failure (machine, heard_ms * 1000000, WIRE_END_ERROR, FAIL_GENERAL, text.text, json.text);
}

bool
crew_may_start_again (const struct crew *crew)
{
    return crew->verdict.end == WIRE_END_FAILED && crew->restarts < crew->settings->max_restarts;
}

void
crew_release_verdict (struct crew_verdict *verdict)
{
    free (verdict->text);
    free (verdict->also);
    free (verdict->json);
    *verdict = (struct crew_verdict){ 0 };
}

void
crew_set_verdict (struct crew *crew, const struct crew_verdict *what)
{
    struct crew_verdict *verdict = &crew->verdict;
    if (verdict->is_known)
        return;
    *verdict = *what;
    crew->verdict_ms = clock_ms ();
    verdict->is_known = true;
    verdict->is_ours = verdict->machine == crew->machine;
    verdict->text = copy (what->text);
    verdict->also = copy (what->also);
    verdict->json = copy (what->json);
    if (verdict->end == WIRE_END_DONE)
        return;
    crew->hook.must_end = true;
    if (!verdict->is_ours && verdict->text) {
        strbuf_add (&crew->to_say, verdict->text);
        strbuf_add (&crew->to_say, verdict->also ? verdict->also : "");
    }
}

/* Machines have ended at different times: whoever waits for the others waits from the later one of the two. */
int64_t
crew_settled_ms (const struct crew *crew)
{
    return crew->over_ms > crew->verdict_ms ? crew->over_ms : crew->verdict_ms;
}

void
crew_reset_machine (struct crew_machine *machine)
{
    if (machine->state == MACHINE_ENDED)
        machine->state = MACHINE_JOINED;
    free (machine->text);
    free (machine->json);
    machine->text = machine->json = NULL;
    machine->failed_ns = 0;
    machine->has_answered = false;
    machine->end = WIRE_END_DONE;
    machine->status = 0;
}

void
crew_reset (struct crew *crew)
{
    int count = crew->machine ? 1 : crew->machines;
    for (int i = 0; i < count; i++)
        crew_reset_machine (&crew->all[i]);
    crew_release_verdict (&crew->last);
    crew->last = crew->verdict;
    crew->verdict = (struct crew_verdict){ 0 };
    for (struct crew_peer *peer = crew->peers; peer; peer = peer->next)
        peer->has_acknowledged = false;
    crew->judge_ms = crew->over_ms = crew->verdict_ms = 0;
    crew->hook.must_end = crew->hook.is_final = crew->is_asked = false;
    crew->restarts++;
    crew->again = true;
}
