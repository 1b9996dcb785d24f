/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate launch: settings, topology and program make a plan; the plan is printed, or becomes a job. */
#include <config.h>

#include "cli/command.h"
#include "config/check.h"
#include "config/explain.h"
#include "config/load.h"
#include "config/mode.h"
#include "launch/claim.h"
#include "launch/job.h"
#include "launch/keeper.h"
#include "launch/logs.h"
#include "launch/outside.h"
#include "launch/plan.h"
#include "launch/report.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/printable.h"

#include <stdio.h>
#include <string.h>

/* A port is claimed only for a job that is really started; a plan for reading does not depend on what happens to
 * listen. */
static int
make_plan (struct plan *plan, struct claim *claim, const struct config *config, struct fail *fail)
{
    struct topology topology;
    struct program program;
    topology_probe (&topology, config->settings.num_cpu_threads_per_process <= 0);
    if (program_resolve (&program, config, fail))
        return -1;
    if (mode_is_deepspeed_launcher (&config->settings))
        topology_probe_deepspeed (&topology);
    int result = mode_is_mpirun (&config->settings) ? topology_probe_mpi (&topology, fail) : 0;
    if (result == 0 && !config->settings.dry_run)
        result = claim_for_job (claim, &topology, config, fail);
    if (result == 0)
        result = plan_make (plan, config, &topology, &program, fail);
    program_release (&program);
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
    if (out.failed)
        return fail_nomem (fail);
    fputs (out.text, stdout);
    return 0;
}

static int
print_settings (const struct config *config, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    explain_text (config, false, &out);
    if (out.failed)
        return fail_nomem (fail);
    printf ("%s\n", out.text ? out.text : "");
    return 0;
}

static void
print_note (const char *text, const char *name)
{
    fprintf (stderr, "accelerate: note: %s", text);
    printable_put (stderr, name);
    fputc ('\n', stderr);
}

/* That the file cannot be written is known before hours of work, and no report of an earlier job is taken for ours. */
static int
prepare_report (const char *file, struct fail *fail)
{
    if (!file)
        return 0;
    if (io_check_writable (file, fail))
        return fail_prefix (fail, "--failure_report");
    AUTO_FREE char *real = realpath (file, NULL);
    return real && unlink (real) ? fail_set (fail, FAIL_GENERAL, "--failure_report: %s: cannot remove the old one: %s",
                                             file, strerror (errno)) : 0;
}

/* Of @job, or of a job that came to nothing because of @error. */
static int
write_report (const char *file, const struct plan *plan, const struct job *job, const struct fail *error,
              struct fail *fail)
{
    AUTO_STRBUF struct strbuf report = { 0 };
    if (job ? report_json (job, &report, fail) : report_json_error (plan, error, &report, fail))
        return -1;
    return io_write_file (file, report.text, report.length, 0644, fail);
}

static void
print_report (const struct job *job, const struct keeper *keeper, bool quiet)
{
    AUTO_STRBUF struct strbuf report = { 0 };
    if (!quiet)
        report_text (job, &report);
    report_losses (job, &report);
    if (report.failed)
        keeper_say (keeper, "accelerate: out of memory while writing the report\n", !job->not_passed_on);
    else if (report.text)
        keeper_say (keeper, report.text, !job->not_passed_on); /* nobody waits for a reader twice */
}

/* Allocates nothing, because the failure may be that there is no memory. */
static void
say_failure (const struct keeper *keeper, const struct fail *fail)
{
    char line[sizeof fail->text + sizeof "accelerate: \n"];
    snprintf (line, sizeof line, "accelerate: %s\n", fail->text);
    keeper_say (keeper, line, true);
}

static void
say_restart (const struct keeper *keeper, const struct settings *settings, int64_t restarts)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    strbuf_printf (&line, "accelerate: restarting all ranks (%lld of %lld)\n", (long long) restarts,
                   (long long) settings->max_restarts);
    if (line.text && !settings->quiet)
        keeper_say (keeper, line.text, true);
}

/* One start of all ranks, and what became of it.  @return the exit status, -1 with @fail */
static int
run_once (struct job *job, const struct plan *plan, const struct keeper *keeper, const struct settings *settings,
          struct fail *fail)
{
    if (job_run (job, plan, keeper, fail))
        return -1;
    print_report (job, keeper, settings->quiet);
    return job_status (job);
}

/* The ranks, again after a failure as often as --max_restarts says. */
static int
run_attempts (struct job *job, struct plan *plan, const struct keeper *keeper, const struct settings *settings,
              struct fail *fail)
{
    int status = run_once (job, plan, keeper, settings, fail);
    bool has_lost = false;
    for (int64_t restarts = 1; status > 0 && job->end == JOB_FAILED && restarts <= settings->max_restarts; restarts++) {
        say_restart (keeper, settings, restarts);
        if (!keeper_lives (keeper))
            return status;
        has_lost |= job_lost_bytes (job) != 0;
        job_release (job);
        if (plan_set_restarts (plan, restarts, fail))
            return -1;
        status = run_once (job, plan, keeper, settings, fail);
    }
    return status == 0 && has_lost ? FAIL_GENERAL : status;
}

/* In the supervisor.  What it says must not hold it when the keeper is gone, so main() has nothing to say.
 * @return the exit status */
static int
supervise_plan (struct plan *plan, const struct keeper *keeper, const struct settings *settings)
{
    struct job job;
    struct fail fail = { 0 }, report_fail = { 0 };
    const char *file = settings->failure_report;
    int status = run_attempts (&job, plan, keeper, settings, &fail);
    if (status < 0)
        say_failure (keeper, &fail);
    if (file && write_report (file, plan, status < 0 ? NULL : &job, &fail, &report_fail)) {
        say_failure (keeper, &report_fail);
        status = status ? status : FAIL_GENERAL;
    }
    job_release (&job);
    return status < 0 ? fail.status : status;
}

static int
run_plan (struct plan *plan, const struct settings *settings, struct fail *fail)
{
    struct keeper keeper;
    if (plan->path == PATH_DEEPSPEED && plan->outside && outside_write_environment (plan, fail))
        return -1;
    if (prepare_report (settings->failure_report, fail) || logs_make_run (plan, fail))
        return -1;
    if (!settings->quiet) {
        for (size_t i = 0; i < plan->notes.count; i++)
            print_note ("", plan->notes.items[i]);
        if (plan->logs.run)
            print_note ("the ranks' output is in ", plan->logs.run);
    }
    switch (keeper_split (&keeper, fail)) {
    case KEEPER_IS_SUPERVISOR: return supervise_plan (plan, &keeper, settings);
    case KEEPER_IS_OVER: return keeper.status;
    default:
        if (settings->failure_report && access (settings->failure_report, F_OK)) /* the supervisor's says more */
            write_report (settings->failure_report, plan, NULL, fail, NULL);
        return -1;
    }
}

int
cmd_launch (int argc, char **argv, struct fail *fail)
{
    struct config config;
    struct plan plan = { 0 };
    struct claim claim = CLAIM_NONE; /* held until this process ends the job: the keeper and the supervisor both do */
    int status = -1;
    if (config_load_launch (&config, argc, argv, fail)
        || (!config.settings.dry_run && config_check_files (&config, fail)) || make_plan (&plan, &claim, &config, fail))
        goto done;
    if (config.settings.explain && print_settings (&config, fail))
        goto done;
    status = config.settings.dry_run ? print_plan (&plan, config.settings.json, fail)
                                     : run_plan (&plan, &config.settings, fail);
done:
    claim_release (&claim);
    plan_release (&plan);
    config_release (&config);
    return status;
}
