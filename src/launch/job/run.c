/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to a running job and to its end; see job.h. */
#include <config.h>

#include "launch/job/job.h"

#include "launch/job/spawn.h"
#include "launch/job/supervisor.h"
#include "launch/machine/cgroup.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/printable.h"

#include <string.h>
#include <sys/random.h>

int
job_make_id (char id[PLAN_JOB_ID_BYTES], struct fail *fail)
{
    uint64_t number;
    if (getrandom (&number, sizeof number, 0) != sizeof number)
        return fail_set (fail, FAIL_GENERAL, "cannot get random numbers: %s", strerror (errno));
    snprintf (id, PLAN_JOB_ID_BYTES, "%016llx", (unsigned long long) number);
    return 0;
}

/* What is left of an earlier start must not take this one for its own. */
static void
name_attempt (struct job *job)
{
    char restart[24] = "";
    if (job->plan->restarts)
        snprintf (restart, sizeof restart, ".%lld", (long long) job->plan->restarts);
    snprintf (job->id, sizeof job->id, "%.16s%.20s", job->plan->job_id, restart);
}

/* For those who watch: the program as the user named it, and its arguments. */
static int
describe (struct job *job, struct fail *fail)
{
    const struct plan *plan = job->plan;
    struct jobseg_header *header = job->segment.header;
    const struct strlist *argv = &plan->processes[0].argv;
    AUTO_STRBUF struct strbuf words = { 0 };
    size_t first = 0;
    while (first < argv->count && strcmp (argv->items[first], plan->program) != 0)
        first++;
    shell_word_add (&words, plan->program);
    for (size_t i = first < argv->count ? first + 1 : 1; i < argv->count; i++) { /* else it was found in PATH */
        strbuf_add_char (&words, ' ');
        shell_word_add (&words, argv->items[i]);
    }
    if (words.failed)
        return fail_nomem (fail);
    snprintf (header->program, sizeof header->program, "%s", words.text);
    header->restarts = (uint32_t) plan->restarts;
    header->launcher_pid = job->guardian->pid;
    return 0;
}

/* Where each line of each rank was asked for (--label yes), it is there.  Below an agent, the head does it. */
static int
make_collapses (struct job *job, struct fail *fail)
{
    bool is_wanted = job->count > 1 && job->plan->label == PLAN_LABEL_AUTO && !job->plan->is_merged;
    for (int i = 0; i < JOB_STREAMS && is_wanted; i++) {
        if (!job->sinks[i].is_terminal)
            continue;
        job->collapses[i] = output_collapse_create (&job->sinks[i], job->plan->first_rank, job->count);
        if (!job->collapses[i])
            return fail_nomem (fail);
    }
    return 0;
}

static int
prepare (struct job *job, const struct plan *plan, const struct guardian *guardian, int port_lock, struct fail *fail)
{
    *job = (struct job){ .plan = plan, .guardian = guardian, .port_lock = port_lock, .count = plan->process_count,
                         .first_failed = -1, .segment = JOBSEG_NONE };
    name_attempt (job);
    output_pool_init (&job->pool, job->count);
    job->discard = (struct output_sink){ .fd = -1, .own_fd = -1, .broken = true };
    job->oom_kills_before = cgroup_oom_kills ();
    job->ranks = calloc ((size_t) job->count, sizeof *job->ranks);
    if (!job->ranks)
        return fail_nomem (fail);
    for (int i = 0; i < job->count; i++) {
        job->ranks[i].process = &plan->processes[i];
        job->ranks[i].pidfd = -1;
        for (int j = 0; j < JOB_STREAMS; j++)
            job->ranks[i].streams[j].fd = job->ranks[i].streams[j].log.fd = -1;
    }
    if (output_sinks_init (job->sinks, job->sink_of, fail) || make_collapses (job, fail)
        || logs_make_attempt (plan, fail)
        || jobseg_create (&job->segment, plan->world_size, plan->local_world_size, plan->first_rank, job->id, fail)
        || describe (job, fail))
        return -1;
    if (plan->memtier) {
        struct cgroup_limits limits;
        cgroup_own_limits (&limits);
        memtier_begin (plan->memtier, plan->local_world_size, plan->restarts, job->id, limits.memory_file);
    }
    return 0;
}

int
job_run (struct job *job, const struct plan *plan, const struct guardian *guardian, int port_lock,
         const struct job_observer *observer, struct fail *fail)
{
    struct supervisor supervisor;
    struct spawn_pool spawn_pool;
    if (prepare (job, plan, guardian, port_lock, fail))
        return -1;
    job->observer = observer;
    if (supervisor_init (&supervisor, job, fail))
        return -1;
    int result = spawn_pool_start (&spawn_pool, &supervisor, fail);
    if (result == 0)
        supervise (&supervisor);
    else {
        job->error = fail;
        supervise_abandon (&supervisor);
        job->error = NULL;
    }
    spawn_pool_release (&spawn_pool);
    supervisor_release (&supervisor);
    return result;
}

int
job_status (const struct job *job)
{
    int status;
    switch (job->end) {
    case JOB_FAILED:
        status = status_of_wait (job->failed_status);
        return status ? status : FAIL_GENERAL; /* the processes went well, but not their last save */
    case JOB_STOPPED: return job->stop_reason ? FAIL_STOPPED : status_of_signal (job->signal ? job->signal : SIGKILL);
    case JOB_ELSEWHERE: return job->status ? job->status : FAIL_GENERAL;
    default: return job_lost_bytes (job) ? FAIL_GENERAL : 0;
    }
}

bool
job_may_restart (const struct job *job)
{
    return !job->is_called_off && (job->end == JOB_FAILED || job->was_rank_asked);
}

uint64_t
job_lost_bytes (const struct job *job)
{
    uint64_t lost = job->not_passed_on;
    for (int i = 0; i < JOB_STREAMS; i++)
        lost += job->sinks[i].lost;
    return lost;
}

void
job_release (struct job *job)
{
    for (int i = 0; job->ranks && i < job->count; i++) {
        for (int j = 0; j < JOB_STREAMS; j++)
            output_stream_release (&job->ranks[i].streams[j]);
        free (job->ranks[i].doing);
        free (job->ranks[i].frame);
    }
    free (job->ranks);
    for (int i = 0; i < JOB_STREAMS; i++) {
        output_collapse_destroy (job->collapses[i]);
        output_sink_release (&job->sinks[i]);
    }
    jobseg_detach (&job->segment);
    strlist_release (&job->gpu_lines);
    stacks_release (&job->taken);
    json_decref (job->stacks);
    *job = (struct job){ .segment = JOBSEG_NONE };
}
