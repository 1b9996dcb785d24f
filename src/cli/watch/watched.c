/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at all jobs again and again; see watched.h. */
#include <config.h>

#include "cli/watch/watched.h"

#include "launch/watch/saves.h"
#include "util/array.h"
#include "util/procfs.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

enum { FIND_EVERY = 5 }; /* refreshes */

static void
release (struct watched *watched)
{
    watch_job_release (&watched->job);
    sample_release (&watched->sample);
    history_release (&watched->history);
    free (watched->rates);
    free (watched->awaited);
    free (watched->awaits);
    free (watched->saves);
}

void
watched_release (struct watched_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        release (&list->items[i]);
    free (list->items);
    *list = (struct watched_list){ 0 };
}

static int
begin (struct watched *watched, struct fail *fail)
{
    size_t count = (size_t) watched->job.rank_count;
    watched->rates = calloc (count, sizeof *watched->rates);
    watched->awaited = calloc (count, sizeof *watched->awaited);
    watched->awaits = calloc (count, sizeof *watched->awaits);
    if (!watched->rates || !watched->awaited || !watched->awaits)
        return fail_nomem (fail);
    return history_begin (&watched->history, &watched->job, fail);
}

/* Move @job, and what is known of it from before.  @return 0, or -1 without memory */
static int
add (struct watched_list *list, struct watched_list *before, struct watch_job *job, struct fail *fail)
{
    struct watched *added = array_room (&list->items, list->count, sizeof *added);
    if (!added)
        return fail_nomem (fail);
    list->count++;
    *added = (struct watched){ .job = *job };
    job->segment = (struct jobseg) JOBSEG_NONE;
    for (size_t i = 0; i < before->count; i++)
        if (before->items[i].job.inode == added->job.inode && before->items[i].history.ranks) {
            struct watch_job now = added->job;
            *added = before->items[i];
            added->job = now;
            before->items[i] = (struct watched){ .job = before->items[i].job };
            return 0;
        }
    return begin (added, fail);
}

static int
look (struct watched *watched, bool is_patient, struct fail *fail)
{
    sample_release (&watched->sample);
    if (is_patient)
        watch_job_await (&watched->job, WATCH_JOB_WAIT_MS);
    else
        watch_job_ask (&watched->job); /* for the next look */
    if (sample_take (&watched->sample, &watched->job, fail))
        return -1;
    sample_find_awaited (&watched->job, watched->awaited, watched->awaits);
    history_look (&watched->history, watched->awaited);
    history_add (&watched->history, &watched->sample);
    if (watched->saves && watch_saves_are_complete (&watched->job, watched->saves)) {
        free (watched->saves);
        watched->saves = NULL;
    }
    for (int i = 0; i < watched->sample.count; i++)
        history_rates (&watched->history, &watched->sample, i, &watched->rates[i]);
    return 0;
}

static bool
is_chosen (const struct watch_job *job, const struct watched_filter *filter)
{
    if (filter->launcher)
        return job->launcher == filter->launcher;
    return !filter->inode || job->inode == filter->inode;
}

/* Whether all jobs are still there; a job whose ranks have all ended may have started them again. */
static bool
is_complete (const struct watched_list *list)
{
    struct procfs_stat stat;
    for (size_t i = 0; i < list->count; i++)
        if (!procfs_read_stat (list->items[i].job.holder, &stat) || stat.state == 'Z'
            || !sample_count_alive (&list->items[i].sample))
            return false;
    return list->count > 0;
}

/* @return 0, or -1 with @fail */
static int
find (struct watched_list *list, const struct watched_filter *filter, struct fail *fail)
{
    struct watch_jobs jobs;
    struct watched_list made = { .refreshed = list->refreshed, .is_patient = list->is_patient };
    if (watch_jobs_find (&jobs, fail))
        return -1;
    int result = 0;
    for (size_t i = 0; i < jobs.count && !result; i++)
        if (is_chosen (&jobs.jobs[i], filter))
            result = add (&made, list, &jobs.jobs[i], fail);
    made.foreign = jobs.foreign;
    watch_jobs_release (&jobs);
    watched_release (list);
    *list = made;
    return result;
}

int
watched_refresh (struct watched_list *list, const struct watched_filter *filter, struct fail *fail)
{
    int result = 0;
    if (list->refreshed++ % FIND_EVERY == 0 || !is_complete (list))
        result = find (list, filter, fail);
    watched_gpus_read (&list->gpus);
    for (size_t i = 0; i < list->count && !result; i++)
        result = look (&list->items[i], list->is_patient, fail);
    return result;
}

void
watched_look (struct watched_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct watched *watched = &list->items[i];
        sample_find_awaited (&watched->job, watched->awaited, watched->awaits);
        history_look (&watched->history, watched->awaited);
    }
}

int
watched_leader (const struct watched *watched)
{
    int leader = -1;
    for (int i = 0; i < watched->sample.count; i++) {
        const struct sample_rank *rank = &watched->sample.ranks[i];
        if (rank->step_ns && (leader < 0 || rank->step > watched->sample.ranks[leader].step))
            leader = i;
    }
    return leader;
}

double
watched_pace (const struct watched *watched)
{
    int leader = watched_leader (watched);
    return leader < 0 ? (double) NAN : watched->rates[leader].steps_per_second;
}

struct jobseg_gpu
watched_rank_gpu (const struct watched_gpus *gpus, const struct sample_rank *rank)
{
    return rank->is_remote ? rank->gpu : watched_gpu_of (gpus, rank);
}

int
watched_ask_save (struct watched *watched, struct fail *fail)
{
    uint32_t *before = calloc ((size_t) watched->job.rank_count, sizeof *before);
    if (!before)
        return fail_nomem (fail);
    if (watch_saves_ask (&watched->job, before, fail)) {
        free (before);
        return -1;
    }
    free (watched->saves);
    watched->saves = before;
    return 0;
}

int64_t
watched_age (const struct watched *watched)
{
    int64_t now = time (NULL), started = watched->job.started_s;
    return started > 0 && started <= now ? now - started : -1;
}

const char *
watched_state (const struct watched *watched, int i)
{
    const struct sample_rank *rank = &watched->sample.ranks[i];
    if (rank->is_silent)
        return "no answer";
    if (rank->has_ended)
        return rank->wait_status > 0 ? WIFSIGNALED (rank->wait_status) ? "killed" : "failed" : "ended";
    if (rank->process_state == 'T' || rank->process_state == 't')
        return rank->process_state == 'T' ? "stopped" : "debugged";
    switch (rank->state) {
    case JOBSEG_EMPTY: return "not open";
    case JOBSEG_JOINING: return "opening";
    case JOBSEG_LEFT: return "left";
    case JOBSEG_FAILED: return "gave up";
    case JOBSEG_READY: return watched->awaits[i] >= 0 ? "waiting" : rank->call ? "in call" : "computing";
    default: return "?";
    }
}
