/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate checkpoint: ask a running job for a checkpoint, and wait until it is there. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "config/load.h"
#include "launch/watch/saves.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/printable.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum { LOOK_MS = 20 };

static struct jobseg_slot *
slot_of (const struct watch_job *job, int index)
{
    return jobseg_slot (&job->segment, index);
}

static bool
has_ended (const struct watch_job *job)
{
    for (int i = 0; i < job->rank_count; i++)
        if (atomic_load (&slot_of (job, i)->exited))
            return true;
    return kill (job->holder, 0) && errno == ESRCH;
}

static int
await (const struct watch_job *job, const uint32_t *before, int64_t wait_s, struct fail *fail)
{
    int64_t until_ms = clock_ms () + wait_s * 1000;
    while (!watch_saves_are_complete (job, before)) {
        watch_job_ask (job);
        if (has_ended (job) && !watch_saves_are_complete (job, before))
            return fail_set (fail, FAIL_GENERAL, "job %s ended before it had saved", job->id);
        if (clock_ms () >= until_ms)
            return fail_set (fail, FAIL_GENERAL, "job %s has not saved within %lld s; it is still asked to", job->id,
                             (long long) wait_s);
        nanosleep (&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
    }
    return 0;
}

static int
print_saved (const struct watch_job *job, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    struct jobseg_slot *slot = slot_of (job, 0);
    char path[sizeof slot->saved_path];
    snprintf (path, sizeof path, "%.*s", (int) sizeof path - 1, slot->saved_path);
    strbuf_printf (&out, "saved step %llu: ", (unsigned long long) atomic_load (&slot->saved_step) - 1);
    printable_add (&out, path);
    strbuf_add_char (&out, '\n');
    return print_text (&out, fail);
}

static int
ask (const struct watch_job *job, int64_t wait_s, struct fail *fail)
{
    AUTO_FREE uint32_t *before = calloc ((size_t) job->rank_count, sizeof *before);
    if (!before)
        return fail_nomem (fail);
    if (watch_saves_ask (job, before, fail))
        return fail_prefix (fail, "job %s cannot be asked for a checkpoint", job->id);
    if (!wait_s)
        return 0;
    return await (job, before, wait_s, fail) ? -1 : print_saved (job, fail);
}

int
cmd_checkpoint (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct watch_job job = { .segment = JOBSEG_NONE };
    int status = config_load_command (&config, COMMAND_CHECKPOINT, argc, argv, 1, fail);
    if (!status)
        status = watch_job_find (&job, config.words.count ? config.words.items[0] : NULL, fail);
    if (!status) {
        watch_job_await (&job, WATCH_JOB_WAIT_MS);
        status = ask (&job, config.settings.wait, fail);
    }
    watch_job_release (&job);
    return status;
}
