/* SPDX-License-Identifier: Apache-2.0 */
/* Settings, topology and program make a plan; the plan is printed, or becomes a job; see launch_run.h. */
#include <config.h>

#include "cli/launch_run.h"
#include "cli/print.h"

#include "cli/resume.h"
#include "cli/spot.h"
#include "config/conditions.h"
#include "config/effect.h"
#include "config/explain.h"
#include "config/mode.h"
#include "hosts/peers/peers.h"
#include "launch/job/job.h"
#include "launch/job/port_lock.h"
#include "launch/machine/cgroup.h"
#include "launch/machine/end_time.h"
#include "launch/plan/external_launcher.h"
#include "launch/plan/plan.h"
#include "launch/process/guardian.h"
#include "launch/report/report.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/io.h"
#include "util/memtier.h"

#include <stdio.h>
#include <string.h>

enum { GPU_REPORT_MS = 60000 }; /* for a driver that has to wake GPUs */

struct launch {
    const struct config *config;
    const struct host_job *host_job; /* NULL: there are no other hosts */
    struct plan plan;
    struct port_lock port_lock; /* held until this process ends the job: the guardian and the supervisor both do */
    struct guardian guardian;
    struct io_target report;
    struct report_attempts attempts; /* that have failed */
    double started_s; /* since 1970 */
    const struct option *misplaced; /* of launch, among the program's arguments, or NULL */
    struct memtier memtier; /* of all starts of the ranks; an agent's is in host_job */
    struct spot_watch spot;
    struct peers *peers; /* launchers that were started by hand on other machines; NULL: there are none */
};

static bool
wants_gpu_locations (const struct settings *settings, const struct topology *topology)
{
    return topology->gpus_present && !when_on_cpu (settings)
           && (when_bound_near_gpus (settings) || when_gpus_chosen (settings));
}

static bool
wants_places (const struct settings *settings)
{
    return settings->report_bindings || !strcmp (settings->bind, "core") || !strcmp (settings->bind, "numa");
}

/* A port is locked only for a job that is really started; a plan for reading does not depend on what happens to
 * listen. */
static int
make_plan (struct launch *launch, struct fail *fail)
{
    const struct config *config = launch->config;
    struct topology topology;
    struct program program;
    topology_probe (&topology, config->settings.num_cpu_threads_per_process <= 0);
    if (wants_gpu_locations (&config->settings, &topology) && topology_probe_gpu_locations (&topology))
        return fail_nomem (fail);
    if (wants_places (&config->settings) && topology_probe_places ("", &topology)) {
        topology_release (&topology);
        return fail_nomem (fail);
    }
    if (program_resolve (&program, config, fail)) {
        topology_release (&topology);
        return -1;
    }
    if (mode_is_deepspeed_launcher (&config->settings))
        topology_probe_deepspeed (&topology);
    if (when_accel_on_cpu (&config->settings))
        topology_probe_torch (&topology);
    int result = mode_is_mpirun (&config->settings) ? topology_probe_mpi (&topology, fail) : 0;
    topology.share = launch->host_job ? &launch->host_job->share : NULL;
    if (result == 0 && !config->settings.dry_run && !launch->host_job)
        result = port_lock_for_job (&launch->port_lock, &topology, config, fail);
    if (result == 0)
        result = plan_make (&launch->plan, config, &topology, &program, fail);
    program_release (&program);
    topology_release (&topology);
    return result;
}

static int
print_plan (const struct plan *plan, bool json, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    if (!json)
        plan_print_text (plan, &out);
    else if (plan_print_json (plan, &out, fail))
        return -1;
    return print_text (&out, fail);
}

static int
print_settings (const struct config *config, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    explain_text (config, false, &out);
    strbuf_add_char (&out, '\n');
    return print_text (&out, fail);
}

/* Of @job, or of a job that came to nothing because of @error.  If another machine is to blame, its report counts. */
static int
make_report (const struct launch *launch, const struct job *job, const struct fail *error, struct strbuf *report,
             struct fail *fail)
{
    const struct job_outcome *other = peers_outcome_of_other (launch->peers);
    if (job && other && job->end != JOB_STOPPED && other->json)
        strbuf_add (report, other->json);
    else if (job ? report_json (job, report, fail)
                 : report_json_error (launch->plan.host, launch->plan.program, launch->plan.world_size, error, report,
                                      fail))
        return -1;
    return report->failed ? fail_nomem (fail) : 0;
}

static int
write_report (const struct launch *launch, const struct job *job, const struct fail *error, struct fail *fail)
{
    AUTO_STRBUF struct strbuf report = { 0 };
    if (make_report (launch, job, error, &report, fail) || report_put_attempts (&launch->attempts, &report, fail)
        || report_put_launch (launch->config, launch->started_s, &report, fail))
        return -1;
    return io_target_write (&launch->report, report.text, report.length, fail);
}

static void
note_attempt (struct launch *launch, const struct job *job)
{
    AUTO_STRBUF struct strbuf report = { 0 };
    if (launch->report.path && make_report (launch, job, NULL, &report, NULL))
        strbuf_truncate (&report, 0);
    report_attempts_add (&launch->attempts, &report);
}

/* What had no note before the start.  It is looked for there: a title for ps may later replace the arguments. */
static const struct option *
find_misplaced (char **words)
{
    bool is_certain;
    const struct option *row = effect_find_misplaced (words, &is_certain);
    return is_certain ? NULL : row;
}

/* Programs that parse their arguments exit with 2 if they do not know one.  A program may have options of these names,
 * so other ends say nothing about them. */
static void
add_misplaced (const struct launch *launch, const struct job *job, struct strbuf *report)
{
    if (launch->misplaced && job->end == JOB_FAILED && job_status (job) == FAIL_USAGE)
        strbuf_printf (report, "accelerate: note: --%s is after the program's name, so the program got it; options of "
                       "accelerate launch go before the program\n", launch->misplaced->key);
}

/* What another machine has reported was printed when it came. */
static void
print_report (const struct job *job, const struct launch *launch)
{
    const struct guardian *guardian = &launch->guardian;
    AUTO_STRBUF struct strbuf report = { 0 };
    AUTO_FREE char *rest = peers_take_rest (launch->peers);
    strbuf_add (&report, rest ? rest : "");
    if (!launch->config->settings.quiet && peers_outcome_of_other (launch->peers) && job->end != JOB_STOPPED)
        report_killed (job, &report);
    else if (!launch->config->settings.quiet) {
        report_text (job, &report);
        add_misplaced (launch, job, &report);
        peers_add_simultaneous (launch->peers, &report);
    }
    report_losses (job, &report);
    if (report.text && job->sinks[JOB_ERR].unfinished)
        guardian_say (guardian, "\n", !job->not_passed_on);
    if (report.failed)
        guardian_say (guardian, "accelerate: out of memory while writing the report\n", !job->not_passed_on);
    else if (report.text)
        guardian_say (guardian, report.text, !job->not_passed_on); /* wait for a reader only once */
}

/* Allocates nothing: memory may be what ran out. */
static void
say_failure (const struct guardian *guardian, const struct fail *fail)
{
    char line[sizeof fail->text + sizeof "accelerate: \n"];
    snprintf (line, sizeof line, "accelerate: %s\n", fail->text);
    guardian_say (guardian, line, true);
}

static void
say_restart (const struct launch *launch, int64_t restarts)
{
    const struct settings *settings = &launch->config->settings;
    AUTO_STRBUF struct strbuf line = { 0 };
    strbuf_printf (&line, "accelerate: restarting all ranks (%lld of %lld)\n", (long long) restarts,
                   (long long) settings->max_restarts);
    if (line.text && !settings->quiet)
        guardian_say (&launch->guardian, line.text, true);
}

/* @return -1 with @fail */
static int
find_checkpoint (struct launch *launch, bool before_split, struct fail *fail)
{
    const struct settings *settings = &launch->config->settings;
    AUTO_STRBUF struct strbuf lines = { 0 };
    if (!settings->resume)
        return 0;
    if (resume_find (&launch->plan, settings->resume, &lines, fail))
        return -1;
    if (settings->quiet || !lines.text)
        return 0;
    if (before_split)
        fputs (lines.text, stderr);
    else
        guardian_say (&launch->guardian, lines.text, true);
    return 0;
}

/* One start of all ranks, and what became of it.  @return the exit status, -1 with @fail */
static int
run_once (struct job *job, const struct launch *launch, struct fail *fail)
{
    const struct job_observer observer = { .peers = peers_hook (launch->peers) };
    if (job_run (job, &launch->plan, &launch->guardian, launch->port_lock.fd, observer.peers ? &observer : NULL, fail))
        return -1;
    gpu_report_find (job);
    report_find_stacks (job);
    print_report (job, launch);
    const struct job_outcome *other = peers_outcome_of_other (launch->peers);
    return other && job->end != JOB_STOPPED ? other->status : job_status (job);
}

/* If launchers work together, they start their ranks again together. */
static bool
may_restart (const struct launch *launch, const struct job *job, int status, int64_t restarts)
{
    if (status < 0)
        return false;
    if (peers_has_others (launch->peers))
        return peers_starts_again (launch->peers);
    return status > 0 && job_may_restart (job) && restarts <= launch->config->settings.max_restarts;
}

/* The ranks, again after a failure as often as --max_restarts says. */
static int
run_attempts (struct job *job, struct launch *launch, struct fail *fail)
{
    int status = run_once (job, launch, fail);
    bool has_lost = false;
    for (int64_t restarts = 1; may_restart (launch, job, status, restarts); restarts++) {
        say_restart (launch, restarts);
        note_attempt (launch, job);
        peers_restart (launch->peers);
        if (!guardian_lives (&launch->guardian))
            return status;
        has_lost |= job_lost_bytes (job) != 0;
        job_release (job);
        if (plan_set_restarts (&launch->plan, restarts, fail) || find_checkpoint (launch, false, fail))
            return -1;
        status = run_once (job, launch, fail);
    }
    return status == 0 && has_lost ? FAIL_GENERAL : status;
}

/* In the supervisor.  What it says must not hold it when the guardian is gone, so main() has nothing to say.
 * @return the exit status */
static int
supervise_plan (struct launch *launch)
{
    struct job job;
    struct fail fail = { 0 }, report_fail = { 0 };
    peers_begin (launch->peers);
    int status = run_attempts (&job, launch, &fail);
    if (status < 0) {
        say_failure (&launch->guardian, &fail);
        peers_tell (launch->peers, &fail);
    }
    if (launch->report.path && write_report (launch, status < 0 ? NULL : &job, &fail, &report_fail)) {
        say_failure (&launch->guardian, &report_fail);
        status = status ? status : FAIL_GENERAL;
    }
    job_release (&job);
    return status < 0 ? fail.status : status;
}

static int
tell_agent (const struct launch *launch, const struct job *job, struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 }, json = { 0 };
    static const enum wire_end ends[] = { [JOB_DONE] = WIRE_END_DONE, [JOB_FAILED] = WIRE_END_FAILED,
                                          [JOB_STOPPED] = WIRE_END_STOPPED };
    report_text (job, &text);
    report_losses (job, &text);
    if (report_json (job, &json, fail))
        return -1;
    if (text.failed)
        return fail_nomem (fail);
    enum wire_end end = job->end == JOB_STOPPED && job_may_restart (job) ? WIRE_END_ASKED : ends[job->end];
    host_job_tell_end (launch->host_job, end, job_status (job), text.text, json.text);
    return job_status (job);
}

/* Errors of this host's part; the agent gets them like a failure. */
static int
tell_error (const struct launch *launch, const struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 }, json = { 0 };
    strbuf_printf (&text, "accelerate: %s\n", fail->text);
    if (launch->plan.host) /* or there is no plan yet */
        report_json_error (launch->plan.host, launch->plan.program, launch->plan.world_size, fail, &json, NULL);
    host_job_tell_end (launch->host_job, WIRE_END_ERROR, fail->status, text.text, json.text);
    return fail->status;
}

/* In the supervisor of this host's part: the head starts all hosts again after a failure, not we. */
static int
supervise_part (struct launch *launch)
{
    struct job job;
    struct fail fail = { 0 };
    const struct job_observer observer = { .failed = host_job_tell_failure, .noticed = host_job_tell_notice,
                                           .fd = launch->host_job->agent,
                                           .keepalive = host_job_keepalive, .above = launch->host_job->agent_pid,
                                           .silence_ms = launch->config->settings.host_timeout * 1000 };
    int status = job_run (&job, &launch->plan, &launch->guardian, launch->port_lock.fd, &observer, &fail);
    if (status == 0) {
        host_job_tell_alive (launch->host_job->agent, GPU_REPORT_MS);
        gpu_report_find (&job);
        report_find_stacks (&job);
        status = tell_agent (launch, &job, &fail);
    }
    if (status < 0)
        status = tell_error (launch, &fail);
    job_release (&job);
    return status;
}

/* Also without --memory_checkpoint_every: the program may set that itself.  Pages come when it saves. */
static int
make_memtier (struct launch *launch, struct fail *fail)
{
    const struct settings *settings = &launch->config->settings;
    if (launch->plan.is_external || !settings->max_restarts)
        return 0;
    if (launch->host_job) {
        launch->plan.memtier = launch->host_job->memtier;
        return 0;
    }
    struct fail cause;
    if (memtier_create (&launch->memtier, &cause))
        return settings->memory_checkpoint_every
                   ? fail_set (fail, FAIL_GENERAL, "--memory_checkpoint_every: %s", cause.text) : 0;
    launch->plan.memtier = &launch->memtier;
    return 0;
}

/* What --memory_checkpoint_every may take: how large a state is, the ranks show with the first one. */
static void
print_memory (struct launch *launch)
{
    const struct memtier *memtier = launch->plan.memtier;
    bool has_copies = launch->host_job && launch->host_job->share.machines > 1;
    struct cgroup_limits limits;
    const char *source;
    AUTO_STRBUF struct strbuf text = { 0 };
    if (!memtier || !launch->config->settings.memory_checkpoint_every || launch->plan.restarts)
        return;
    cgroup_own_limits (&limits);
    memtier_limit (memtier, limits.memory_file);
    uint64_t left = memtier_free_bytes (memtier, &source) >> 20;
    strbuf_printf (&text, "checkpoints in memory take up to %d times what each rank saves", has_copies
                   ? MEMTIER_BUFFERS : MEMTIER_BUFFERS_ALONE);
    if (has_copies)
        strbuf_printf (&text, ", models and optimizers on each host, and %d times the rest on another host",
                       MEMTIER_COPY_BUFFERS);
    strbuf_printf (&text, "; %s has %llu MiB left for them", source, (unsigned long long) left);
    if (text.text)
        print_note ("", text.text, "");
    launch->plan.says_memory = true;
}

/* --report_bindings */
static void
print_bindings (const struct plan *plan)
{
    for (int i = 0; plan->reports_bindings && i < plan->process_count; i++) {
        AUTO_STRBUF struct strbuf line = { 0 };
        plan_print_binding (plan, &plan->processes[i], &line);
        if (line.text)
            fprintf (stderr, "accelerate: rank %d: %s\n", plan->processes[i].rank, line.text);
    }
}

/* Of a job on several hosts, the head keeps the time limit. */
static void
set_requests (struct launch *launch)
{
    const struct settings *settings = &launch->config->settings;
    bool has_limit = settings->time_limit && !launch->host_job;
    launch->plan.requests = (struct plan_requests){
        .stop_ms = has_limit ? clock_ms () + settings->time_limit * 1000 : 0,
        .ending_ms = end_time_find (settings->grace),
        .checkpoint_file = settings->checkpoint_file,
        .notices = launch->spot.notices,
    };
}

static int
run_plan (struct launch *launch, struct fail *fail)
{
    struct plan *plan = &launch->plan;
    if (plan->path == PATH_DEEPSPEED && plan->is_external
        && external_launcher_write_environment (&plan->processes[0].env, fail))
        return -1;
    if (report_file_prepare (&launch->report, launch->config->settings.failure_report, true, fail)
        || logs_make_run (plan, fail) || make_memtier (launch, fail)
        || (!launch->host_job && peers_create (&launch->peers, launch->config, plan, fail)))
        return -1;
    if (!launch->config->settings.quiet) {
        for (size_t i = 0; i < plan->notes.count; i++)
            print_note ("", plan->notes.items[i], "");
        if (plan->logs.run)
            print_note ("the ranks' output is in ", plan->logs.run, "");
        print_memory (launch);
    }
    print_bindings (plan);
    if (!*plan->job_id && job_make_id (plan->job_id, fail))
        return -1;
    if (launch->config->settings.spot_notices
        && spot_watch_start (&launch->spot, launch->config->settings.spot_notices,
                             launch->host_job || launch->peers ? plan->host : NULL, fail))
        return -1;
    set_requests (launch);
    switch (guardian_split (&launch->guardian, launch->config->settings.host_timeout * 1000, fail)) {
    case GUARDIAN_IS_SUPERVISOR: return launch->host_job ? supervise_part (launch) : supervise_plan (launch);
    case GUARDIAN_IS_OVER: return launch->guardian.status;
    default:
        if (launch->host_job)
            return -1;
        if (launch->report.path && access (launch->report.path, F_OK)) /* the supervisor's says more */
            write_report (launch, NULL, fail, NULL);
        say_failure (&launch->guardian, fail); /* main() would wait for its reader with all signals blocked */
        return fail->status;
    }
}

static void
begin (struct launch *launch, struct config *config, const struct host_job *host_job)
{
    *launch = (struct launch){ .config = config, .host_job = host_job, .port_lock = PORT_LOCK_NONE,
                               .memtier = MEMTIER_NONE, .started_s = report_time (),
                               .misplaced = find_misplaced (config->program_args) };
    if (host_job)
        launch->port_lock = host_job->port_lock;
}

/* @return 0, or -1 with @fail */
static int
prepare_part (struct launch *launch, struct fail *fail)
{
    launch->plan.is_merged = launch->host_job->share.machines > 1;
    snprintf (launch->plan.job_id, sizeof launch->plan.job_id, "%s", launch->host_job->job_id);
    if (mpi_proxies_apply (launch->host_job->proxies, &launch->plan, fail))
        return -1;
    return launch->host_job->restarts ? plan_set_restarts (&launch->plan, launch->host_job->restarts, fail) : 0;
}

int
launch_run (struct config *config, const struct host_job *host_job, struct fail *fail)
{
    struct launch launch;
    const struct settings *settings = &config->settings;
    int status = -1;
    begin (&launch, config, host_job);
    if (make_plan (&launch, fail) || (host_job && prepare_part (&launch, fail)))
        goto done;
    if (settings->explain && print_settings (config, fail))
        goto done;
    if (find_checkpoint (&launch, true, fail))
        goto done;
    status = settings->dry_run ? print_plan (&launch.plan, settings->json, fail) : run_plan (&launch, fail);
done:
    if (status < 0 && !host_job && !settings->dry_run)
        peers_tell_error (config, fail);
    if (status < 0 && host_job)
        status = tell_error (&launch, fail);
    port_lock_release (&launch.port_lock);
    memtier_release (&launch.memtier);
    spot_watch_end (&launch.spot);
    peers_destroy (launch.peers);
    plan_release (&launch.plan);
    report_attempts_release (&launch.attempts);
    io_target_release (&launch.report);
    return status;
}

int
launch_run_part (struct config *config, const struct host_job *host_job)
{
    struct fail fail = { 0 };
    return launch_run (config, host_job, &fail);
}
