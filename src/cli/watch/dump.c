/* SPDX-License-Identifier: Apache-2.0 */
/* Taking the stacks of a job's ranks; see dump.h. */
#include <config.h>

#include "cli/watch/dump.h"

#include "util/cleanup.h"
#include "util/clock.h"

#include <string.h>

void
dump_put (const json_t *ranks, int elsewhere, struct strbuf *out)
{
    stacks_put (ranks, "", out);
    if (elsewhere)
        strbuf_printf (out, "%d ranks are on other hosts\n", elsewhere);
}

/* The caller's job may be over before the answer is there. */
static int
begin_at_head (struct dump *dump, const struct watch_job *job, int only, struct fail *fail)
{
    if (watch_job_find (&dump->job, job->id, fail))
        return -1;
    places_ask (&dump->places, &dump->job, only);
    dump->until_ms = clock_ms () + PLACES_WAIT_MS;
    strlist_add (&dump->lines, "Waiting for the hosts ...");
    return 0;
}

int
dump_begin (struct dump *dump, const struct watch_job *job, int only, struct fail *fail)
{
    dump_release (dump);
    if (job->hosts)
        return begin_at_head (dump, job, only, fail);
    dump->elsewhere = only < 0 ? job->world_size - job->rank_count : 0;
    if (places_take (job, only, &dump->stacks, fail))
        return -1;
    bool is_started = !stacks_start (&dump->stacks, &dump->names);
    dump->until_ms = clock_ms () + (is_started ? STACKS_NAMES_WAIT_MS : 0);
    strlist_add (&dump->lines, "Looking up names and lines ...");
    return 0;
}

int
dump_fd (const struct dump *dump)
{
    return dump->until_ms && !dump->job.hosts ? dump->names.fd : -1;
}

static bool
is_awaited (struct dump *dump)
{
    if (clock_ms () >= dump->until_ms)
        return false;
    return dump->job.hosts ? !places_are_complete (&dump->places) : dump->names.pid > 0 && !stacks_read (&dump->names);
}

static json_t *
finish (struct dump *dump)
{
    return dump->job.hosts ? places_finish (&dump->places) : stacks_finish (&dump->names, &dump->stacks);
}

void
dump_turn (struct dump *dump)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    char *rest;
    if (!dump->until_ms || is_awaited (dump))
        return;
    json_t *ranks = finish (dump);
    dump->until_ms = 0;
    dump_put (ranks, dump->elsewhere, &text);
    json_decref (ranks);
    strlist_release (&dump->lines);
    dump->lines.failed = text.failed;
    for (char *line = text.text ? strtok_r (text.text, "\n", &rest) : NULL; line; line = strtok_r (NULL, "\n", &rest))
        strlist_add (&dump->lines, line);
}

void
dump_release (struct dump *dump)
{
    if (dump->until_ms)
        json_decref (finish (dump));
    stacks_release (&dump->stacks);
    strlist_release (&dump->lines);
    watch_job_release (&dump->job);
    *dump = DUMP_NONE;
}
