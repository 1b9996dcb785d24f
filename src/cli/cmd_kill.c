/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate kill: send a signal to a job, wait for its end, and say what became of it. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "config/load.h"
#include "launch/process/process.h"
#include "launch/watch/jobs.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

static const struct {
    const char *name;
    int number;
} signals[] = {
    { "TERM", SIGTERM }, { "INT", SIGINT },   { "HUP", SIGHUP },   { "QUIT", SIGQUIT }, { "USR1", SIGUSR1 },
    { "USR2", SIGUSR2 }, { "CONT", SIGCONT }, { "TSTP", SIGTSTP }, { "KILL", SIGKILL },
};

static int
number_of (const char *name)
{
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!strcmp (signals[i].name, name))
            return signals[i].number;
    return SIGTERM;
}

/* Ranks that ended in the same way are one part of the line. */
static void
add_ends (const struct watch_job *job, struct strbuf *line)
{
    for (int i = 0; i < job->rank_count; i++) {
        const struct jobseg_slot *slot = jobseg_slot (&job->segment, i);
        int status = atomic_load (&slot->wait_status), count = 0;
        bool ended = atomic_load (&slot->exited), is_first = true;
        for (int j = 0; j < job->rank_count; j++) {
            const struct jobseg_slot *other = jobseg_slot (&job->segment, j);
            bool same = (atomic_load (&other->exited) != 0) == ended
                        && (!ended || atomic_load (&other->wait_status) == status);
            count += same;
            is_first &= !same || j >= i;
        }
        if (!is_first)
            continue;
        char how[80] = "was killed with its launcher";
        if (job->hosts)
            snprintf (how, sizeof how, "has ended in a way that its host has not said");
        if (ended)
            jobseg_describe_exit (status, how, sizeof how);
        if (count == 1)
            strbuf_printf (line, "%srank %d %s", i ? "; " : "", job->first_rank + i, how);
        else if (count == job->rank_count)
            strbuf_printf (line, "each rank %s", how);
        else
            strbuf_printf (line, "%s%d ranks each %s", i ? "; " : "", count, how);
    }
}

static int
report_end (const struct watch_job *job, struct fail *fail)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    strbuf_printf (&line, "job %s has ended: ", job->id);
    add_ends (job, &line);
    if (line.failed)
        return fail_nomem (fail);
    print_line ("", line.text, "");
    return 0;
}

static int
await_end (const struct watch_job *job, int launcher, int64_t seconds, int number, struct fail *fail)
{
    struct pollfd end = { .fd = launcher, .events = POLLIN };
    int64_t until = clock_ms () + seconds * 1000, left;
    while ((left = until - clock_ms ()) > 0)
        if (poll (&end, 1, (int) (left < INT32_MAX ? left : INT32_MAX)) == 1)
            return report_end (job, fail);
    return fail_set (fail, FAIL_GENERAL, "job %s has got SIG%s, but has not ended after %lld s%s%s", job->id,
                     sigabbrev_np (number), (long long) seconds,
                     number == SIGKILL ? "" : ": its launcher kills ranks after its --grace; to end them at once: "
                                              "accelerate kill --signal KILL ",
                     number == SIGKILL ? "" : job->id);
}

static int
run (const struct settings *settings, const char *word, struct fail *fail)
{
    struct watch_job job;
    int number = number_of (settings->signal), result = -1;
    if (!watch_job_find (&job, word, fail)) {
        watch_job_await (&job, WATCH_JOB_WAIT_MS); /* hosts that were asked say how their ranks end */
        AUTO_CLOSE int launcher = watch_job_signal (&job, number, fail);
        result = launcher < 0 ? -1 : 0;
        if (!result && settings->wait && (number == SIGKILL || signals_end_job (number)))
            result = await_end (&job, launcher, settings->wait, number, fail);
    }
    watch_job_release (&job);
    return result;
}

int
cmd_kill (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    int status = config_load_command (&config, COMMAND_KILL, argc, argv, 1, fail);
    if (!status && !config.words.count)
        status = fail_set (fail, FAIL_USAGE, "no job is named: accelerate kill JOB; accelerate ps lists them");
    return status ? status : run (&config.settings, config.words.items[0], fail);
}
