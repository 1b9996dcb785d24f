/* SPDX-License-Identifier: Apache-2.0 */
/* Taking the stacks of a job's ranks; see dump.h. */
#include <config.h>

#include "cli/watch/dump.h"

#include "util/cleanup.h"
#include "util/clock.h"
#include "util/parse.h"
#include "util/procfs.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* LOCAL_RANK in the environment of @pid; -1: it has none. */
static int
local_rank_of (pid_t pid)
{
    static const char name[] = "LOCAL_RANK=";
    char text[65536];
    ssize_t length = procfs_read (pid, "environ", text, sizeof text);
    for (const char *at = text; at < text + length; at += strlen (at) + 1) {
        int64_t rank;
        if (!strncmp (at, name, sizeof name - 1))
            return parse_int64 (at + sizeof name - 1, 0, JOBSEG_MAX_LOCAL, &rank) == PARSE_OK ? (int) rank : -1;
    }
    return -1;
}

/* Which processes the supervisor has started: those of programs that do not use libaccel are not in the segment. */
static void
find_children (pid_t supervisor, pid_t *pids, int count)
{
    DIR *dir = opendir ("/proc");
    for (const struct dirent *item; dir && (item = readdir (dir));) {
        struct procfs_stat stat;
        int64_t pid;
        if (parse_int64 (item->d_name, 1, INT32_MAX, &pid) != PARSE_OK || !procfs_read_stat ((pid_t) pid, &stat)
            || stat.parent != supervisor)
            continue;
        int rank = local_rank_of ((pid_t) pid);
        if (rank >= 0 && rank < count)
            pids[rank] = (pid_t) pid;
    }
    if (dir)
        closedir (dir);
}

int
dump_take (const struct watch_job *job, int only, struct stacks *stacks, struct fail *fail)
{
    AUTO_FREE pid_t *pids = calloc ((size_t) job->rank_count, sizeof *pids);
    *stacks = (struct stacks){ 0 };
    if (!pids)
        return fail_nomem (fail);
    if (job->launcher)
        find_children (job->holder, pids, job->rank_count);
    for (int i = 0; i < job->rank_count; i++)
        if ((only < 0 || i == only) && !stacks_add (stacks, &job->segment, i, pids[i]))
            return fail_nomem (fail);
    stacks_take (stacks, STACKS_WAIT_MS);
    return 0;
}

void
dump_put (const json_t *ranks, int elsewhere, struct strbuf *out)
{
    stacks_put (ranks, "", out);
    if (elsewhere)
        strbuf_printf (out, "%d ranks are on other hosts\n", elsewhere);
}

int
dump_begin (struct dump *dump, const struct watch_job *job, int only, struct fail *fail)
{
    dump_release (dump);
    dump->elsewhere = only < 0 ? job->world_size - job->rank_count : 0;
    if (dump_take (job, only, &dump->stacks, fail))
        return -1;
    bool is_started = !stacks_start (&dump->stacks, &dump->names);
    dump->until_ms = clock_ms () + (is_started ? STACKS_NAMES_WAIT_MS : 0);
    strlist_add (&dump->lines, "Looking up names and lines ...");
    return 0;
}

int
dump_fd (const struct dump *dump)
{
    return dump->until_ms ? dump->names.fd : -1;
}

void
dump_turn (struct dump *dump)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    char *rest;
    if (!dump->until_ms || (dump->names.pid > 0 && !stacks_read (&dump->names) && clock_ms () < dump->until_ms))
        return;
    json_t *ranks = stacks_finish (&dump->names, &dump->stacks);
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
        json_decref (stacks_finish (&dump->names, &dump->stacks));
    stacks_release (&dump->stacks);
    strlist_release (&dump->lines);
    *dump = (struct dump){ 0 };
}
