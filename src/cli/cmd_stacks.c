/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate stacks: where the ranks of a running job are.  The job continues. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "cli/watch/dump.h"
#include "config/load.h"
#include "config/text/json_text.h"
#include "util/cleanup.h"

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
        dump_put (ranks, job->world_size - job->rank_count, &out);
    return print_text (&out, fail);
}

static int
run (const struct watch_job *job, bool as_json, struct fail *fail)
{
    struct places places;
    struct stacks stacks = { 0 };
    json_t *ranks = NULL;
    int status = 0;
    if (job->hosts) {
        places_ask (&places, job, -1);
        ranks = places_await (&places);
    } else {
        status = places_take (job, -1, &stacks, fail);
        ranks = status ? NULL : stacks_resolve (&stacks);
    }
    if (!status)
        status = show (job, ranks, as_json, fail);
    json_decref (ranks);
    stacks_release (&stacks);
    return status;
}

int
cmd_stacks (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct watch_job job = { .segment = JOBSEG_NONE };
    int status = config_load_command (&config, COMMAND_STACKS, argc, argv, SIZE_MAX, fail);
    if (!status && config.words.count > 1)
        status = fail_set (fail, FAIL_USAGE, "unexpected argument '%s'", config.words.items[1]);
    if (!status)
        status = watch_job_find (&job, config.words.count ? config.words.items[0] : NULL, fail);
    if (!status)
        status = run (&job, config.settings.json, fail);
    watch_job_release (&job);
    return status;
}
