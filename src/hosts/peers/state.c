/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the machines of a job, and the outcome; see state.h. */
#include <config.h>

#include "hosts/peers/state.h"

#include "launch/report/report.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <stdarg.h>
#include <string.h>

enum { PORTS_APART = 1000, LAST_PORT = 65535 };

int
peers_first_port (int port)
{
    return port + PORTS_APART + PEERS_PORTS - 1 <= LAST_PORT ? port + PORTS_APART : port - PORTS_APART;
}

void
peers_set_why (struct peers *peers, int weight, const char *why, ...)
{
    va_list arguments;
    if (*peers->why && weight < peers->dial.weight)
        return;
    peers->dial.weight = weight;
    va_start (arguments, why);
    vsnprintf (peers->why, sizeof peers->why, why, arguments);
    va_end (arguments);
}

static char *
copy (const char *text)
{
    return text ? strdup (text) : NULL;
}

void
peers_set_failure (struct peers_machine *machine, int64_t failed_ns, enum wire_end end, int status, const char *text,
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

struct failure
peers_failure_of (const struct peers_machine *machine)
{
    return (struct failure){ .failed_ns = machine->failed_ns, .is_lost = machine->state == MACHINE_LOST,
                             .end = machine->end, .status = machine->status, .report = machine->text };
}

void
peers_add_machine (const struct peers_machine *machine, int number, struct strbuf *out)
{
    strbuf_printf (out, "%s (machine %d", machine->host ? machine->host : "?", number);
    if (machine->ranks > 1)
        strbuf_printf (out, ", ranks %d-%d)", machine->first_rank, machine->first_rank + machine->ranks - 1);
    else
        strbuf_printf (out, machine->ranks ? ", rank %d)" : ")", machine->first_rank);
}

void
peers_lose (struct peers *peers, struct peers_machine *machine, int number, int64_t heard_ms, const char *why)
{
    AUTO_STRBUF struct strbuf text = { 0 }, json = { 0 };
    struct fail error = { .status = FAIL_GENERAL };
    machine->state = MACHINE_LOST;
    strbuf_add (&text, "accelerate: host ");
    peers_add_machine (machine, number, &text);
    strbuf_printf (&text, ": %s\n", why);
    snprintf (error.text, sizeof error.text, "host %s: %s", machine->host ? machine->host : "?", why);
    if (machine->host)
        report_json_error (machine->host, peers->plan->program, peers->plan->world_size, &error, &json, NULL);
    peers_set_failure (machine, heard_ms * 1000000, WIRE_END_ERROR, FAIL_GENERAL, text.text, json.text);
}

bool
peers_may_start_again (const struct peers *peers)
{
    bool may_be = peers->outcome.end == WIRE_END_FAILED || peers->outcome.end == WIRE_END_ASKED; /* a rank was asked */
    return may_be && !peers->notice && peers->restarts < peers->settings->max_restarts;
}

void
peers_release_outcome (struct job_outcome *outcome)
{
    free (outcome->text);
    free (outcome->also);
    free (outcome->json);
    *outcome = (struct job_outcome){ 0 };
}

void
peers_set_outcome (struct peers *peers, const struct job_outcome *what)
{
    struct job_outcome *outcome = &peers->outcome;
    if (outcome->is_known)
        return;
    *outcome = *what;
    peers->outcome_ms = clock_ms ();
    outcome->is_known = true;
    outcome->is_ours = outcome->machine == peers->machine;
    outcome->text = copy (what->text);
    outcome->also = copy (what->also);
    outcome->json = copy (what->json);
    if (outcome->end == WIRE_END_DONE)
        return;
    peers->hook.must_end = true;
    if (!outcome->is_ours && outcome->text && !(outcome->end == WIRE_END_STOPPED && peers->has_stopped)) {
        strbuf_add (&peers->to_say, outcome->text);
        strbuf_add (&peers->to_say, outcome->also ? outcome->also : "");
    }
}

/* Machines have ended at different times: one that waits for the others waits from the later one of the two. */
int64_t
peers_settled_ms (const struct peers *peers)
{
    return peers->over_ms > peers->outcome_ms ? peers->over_ms : peers->outcome_ms;
}

void
peers_reset_machine (struct peers_machine *machine)
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
peers_reset (struct peers *peers)
{
    int count = peers->machine ? 1 : peers->machines;
    for (int i = 0; i < count; i++)
        peers_reset_machine (&peers->all[i]);
    peers_release_outcome (&peers->last);
    peers->last = peers->outcome;
    peers->outcome = (struct job_outcome){ 0 };
    for (struct peer *peer = peers->first; peer; peer = peer->next)
        peer->has_acknowledged = false;
    peers->decide_ms = peers->over_ms = peers->outcome_ms = 0;
    peers->hook.must_end = peers->hook.is_final = peers->is_asked = peers->has_stopped = false;
    peers->restarts++; /* a notice that machine 0 has missed by a moment remains: it stops the next start */
    peers->again = true;
}
