/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of this host do; see watch.h. */
#include <config.h>

#include "hosts/agent/watch.h"

#include "hosts/samples.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <string.h>

static bool
find_job (struct agent_watch *watch, pid_t supervisor)
{
    if (supervisor && watch->supervisor != supervisor) {
        agent_watch_end (watch, NULL);
        watch->supervisor = watch_job_of (&watch->job, supervisor) ? 0 : supervisor;
    }
    return watch->supervisor;
}

static void
put_samples (const struct agent_watch *watch, const struct watch_job *job, struct strbuf *out)
{
    static struct watched_gpus gpus; /* too large for a stack */
    if (watch->asks_gpus)
        watched_gpus_read (&gpus);
    samples_put (out, job, &gpus);
}

/* NVML is asked from the first question about GPUs on, so that answer does not have it yet. */
void
agent_watch_answer (struct agent_watch *watch, pid_t supervisor, uint32_t request, bool asks_gpus,
                    struct strbuf *out)
{
    bool is_found = find_job (watch, supervisor);
    if (asks_gpus && !watch->asks_gpus)
        watched_gpus_start ();
    watch->asks_gpus |= asks_gpus;
    if (request && is_found)
        atomic_fetch_or (&watch->job.segment.header->request, request);
    put_samples (watch, is_found ? &watch->job : NULL, out);
}

/* ---- stacks ---- */

static json_t *
finish_stacks (struct agent_watch *watch)
{
    json_t *ranks = watch->until_ms ? stacks_finish (&watch->names, &watch->stacks) : NULL;
    stacks_release (&watch->stacks);
    watch->until_ms = 0;
    return ranks;
}

/* A question that comes before the answer to another one takes its place. */
void
agent_watch_take_stacks (struct agent_watch *watch, pid_t supervisor, uint32_t number, int only)
{
    json_decref (finish_stacks (watch));
    watch->number = number;
    if (!find_job (watch, supervisor) || places_take (&watch->job, only, &watch->stacks, NULL)) {
        stacks_release (&watch->stacks);
        return;
    }
    bool is_started = !stacks_start (&watch->stacks, &watch->names);
    watch->until_ms = clock_ms () + (is_started ? STACKS_NAMES_WAIT_MS : 0);
}

void
agent_watch_turn (struct agent_watch *watch, struct strbuf *out)
{
    if (!watch->until_ms
        || (watch->names.pid > 0 && !stacks_read (&watch->names) && clock_ms () < watch->until_ms))
        return;
    json_t *ranks = finish_stacks (watch);
    AUTO_FREE char *text = json_dumps (ranks, JSON_COMPACT);
    bool fits = text && strlen (text) < WIRE_FRAME_BYTES / 2;
    json_decref (ranks);
    if (!out)
        return;
    size_t begin = wire_begin (out, WIRE_STACKED);
    wire_put_number (out, watch->number);
    wire_put_text (out, fits ? text : NULL);
    wire_end (out, begin);
}

int
agent_watch_fd (const struct agent_watch *watch)
{
    return watch->until_ms && watch->names.pid > 0 ? watch->names.fd : -1;
}

int64_t
agent_watch_deadline (const struct agent_watch *watch)
{
    return watch->until_ms ? watch->until_ms : INT64_MAX;
}

/* ---- the end ---- */

void
agent_watch_end (struct agent_watch *watch, struct strbuf *out)
{
    if (!watch->supervisor)
        return;
    json_decref (finish_stacks (watch));
    if (out)
        put_samples (watch, &watch->job, out);
    watch_job_release (&watch->job);
    watch->supervisor = 0;
}
