/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate launch: on this machine, on several hosts, or on SageMaker. */
#include <config.h>

#include "cli/command.h"
#include "cli/launch_run.h"
#include "cli/progress.h"
#include "config/check.h"
#include "config/load.h"
#include "hosts/head/head.h"
#include "hosts/list/hosts.h"
#include "launch/report/report.h"
#include "sagemaker/launch.h"

#include <string.h>

static void
start_upload (void *data, uint64_t bytes)
{
    *(struct progress *) data = (struct progress){ .verb = "uploading", .total = bytes };
}

/* Other answers than that of the upload are not shown. */
static void
add_upload (void *data, uint64_t bytes)
{
    struct progress *progress = data;
    uint64_t left = progress->total - progress->done; /* an upload that is repeated sends more */
    if (left)
        progress_add (progress, bytes < left ? bytes : left);
}

static void
end_upload (void *data)
{
    progress_end (data);
    *(struct progress *) data = (struct progress){ 0 };
}

/* The list of processes would show the key as long as the job is followed; settings have a copy. */
static void
hide_secret (const struct config *config, int argc, char **argv)
{
    const char *secret = config->settings.aws_secret_access_key;
    size_t length = secret ? strlen (secret) : 0;
    for (int i = 0; length && i < argc && &argv[i] != config->program_args; i++) {
        size_t word = strlen (argv[i]), at = word - length;
        if (word < length || strcmp (argv[i] + at, secret) != 0)
            continue;
        if (strncmp (argv[at || !i ? i : i - 1], "--aws", 5) != 0)
            continue;
        if (!at || argv[i][at - 1] == '=')
            memset (argv[i] + at, '*', length);
    }
}

static int
run_on_sagemaker (const struct config *config, struct fail *fail)
{
    struct progress progress = { 0 };
    struct sagemaker_view view = { &progress, start_upload, add_upload, end_upload };
    return sagemaker_launch (config, &view, fail);
}

/* A launch that is refused leaves no report of an earlier one.  @return 0; -1 with @fail if none can be written */
static int
begin_report (struct io_target *report, const struct config *config, struct fail *fail)
{
    if (!config->settings.dry_run && !report_file_prepare (report, config->settings.failure_report, false, fail))
        return 0;
    io_target_release (report);
    *report = (struct io_target){ 0 };
    return config->settings.dry_run ? 0 : -1;
}

int
cmd_launch (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct hosts hosts = { 0 };
    struct io_target report = { 0 };
    int status = -1, is_placed = -1;
    int loaded = config_load_launch (&config, argc, argv, fail);
    if (begin_report (&report, &config, loaded ? NULL : fail))
        loaded = -1;
    if (!loaded && sagemaker_is_wanted (&config.settings)) {
        hide_secret (&config, argc, argv);
        status = run_on_sagemaker (&config, fail);
        goto done;
    }
    if (!loaded && (config.settings.dry_run || !config_check_files (&config, fail)))
        is_placed = machine_rank_find_here (&config, fail);
    if (is_placed < 0 || (!is_placed && hosts_find (&hosts, &config, fail))) /* otherwise, --hosts starts nothing */
        goto done;
    if (!hosts.list.count)
        status = launch_run (&config, NULL, fail);
    else if (config.settings.dry_run)
        status = hosts_print (&hosts, &config, fail);
    else
        status = head_run (&hosts, &config, fail);
done:
    if (status < 0)
        report_file_refuse (&report, config.program, config.settings.num_processes, fail);
    io_target_release (&report);
    hosts_release (&hosts);
    return status;
}
