/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate stacks: where the ranks of a running job are.  The job continues. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "config/load.h"
#include "config/text/json_text.h"
#include "launch/stacks/stacks.h"
#include "launch/watch/jobs.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/procfs.h"

#include <dirent.h>
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

static int
take (const struct watch_job *job, struct stacks *stacks, struct fail *fail)
{
    AUTO_FREE pid_t *pids = calloc ((size_t) job->rank_count, sizeof *pids);
    if (!pids)
        return fail_nomem (fail);
    if (job->launcher)
        find_children (job->holder, pids, job->rank_count);
    for (int i = 0; i < job->rank_count; i++)
        if (!stacks_add (stacks, &job->segment, i, pids[i]))
            return fail_nomem (fail);
    stacks_take (stacks, STACKS_WAIT_MS);
    return 0;
}

static int
show (const struct watch_job *job, json_t *ranks, bool as_json, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    if (!ranks)
        return fail_nomem (fail);
    if (as_json) {
        json_t *root = json_pack ("{so si sO}", "job", json_text (job->id), "world_size", job->world_size, "ranks",
                                  ranks);
        if (json_add (&out, root, JSON_INDENT (2)))
            return fail_nomem (fail);
    } else
        stacks_put (ranks, "", &out);
    if (!as_json && job->rank_count < job->world_size)
        strbuf_printf (&out, "%d ranks are on other hosts\n", job->world_size - job->rank_count);
    return print_text (&out, fail);
}

int
cmd_stacks (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct watch_job job = { .segment = JOBSEG_NONE };
    struct stacks stacks = { 0 };
    json_t *ranks = NULL;
    int status = config_load_command (&config, COMMAND_STACKS, argc, argv, SIZE_MAX, fail);
    if (!status && config.words.count > 1)
        status = fail_set (fail, FAIL_USAGE, "unexpected argument '%s'", config.words.items[1]);
    if (!status)
        status = watch_job_find (&job, config.words.count ? config.words.items[0] : NULL, fail);
    if (!status)
        status = take (&job, &stacks, fail);
    if (!status) {
        ranks = stacks_resolve (&stacks);
        status = show (&job, ranks, config.settings.json, fail);
    }
    json_decref (ranks);
    stacks_release (&stacks);
    watch_job_release (&job);
    return status;
}
