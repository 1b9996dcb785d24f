/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate test: launch libaccel's self-test as the user's configuration launches any program; if that names several
 * hosts, check these instead. */
#include <config.h>

#include "cli/command.h"
#include "cli/test_hosts.h"
#include "config/check.h"
#include "config/load.h"
#include "config/mode.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/procfs.h"
#include "util/strbuf.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Where the program may be, seen from this binary: in a build folder, and in an installation that was moved. */
static const char *const places[] = { "src/selftest/accel_selftest", "../libexec/accelerate/accel_selftest" };

static int
find_selftest (char **path, struct fail *fail)
{
    const char *given = getenv ("ACCELERATE_SELFTEST");
    char self[PATH_MAX];
    AUTO_STRBUF struct strbuf found = { 0 };
    procfs_own_path (self, sizeof self);
    char *slash = strrchr (self, '/');
    if (given && *given)
        strbuf_add (&found, given);
    for (size_t i = 0; slash && !found.length && i < sizeof places / sizeof *places; i++) {
        strbuf_printf (&found, "%.*s/%s", (int) (slash - self), self, places[i]);
        if (!found.failed && access (found.text, X_OK))
            strbuf_truncate (&found, 0);
    }
    if (!found.length)
        strbuf_add (&found, SELFTEST_PROGRAM);
    if (found.failed)
        return fail_nomem (fail);
    if (access (found.text, X_OK))
        return fail_set (fail, FAIL_NOT_FOUND, "self-test %s: %s; install it or set ACCELERATE_SELFTEST",
                         found.text, strerror (errno));
    *path = strbuf_take (&found);
    return 0;
}

/* --json belongs to the plan only in a launch. */
static int
check_settings (struct config *config, struct fail *fail)
{
    bool json = config->settings.json;
    config->settings.json = false;
    int result = config_check (config, fail);
    config->settings.json = json;
    return result;
}

/* @param[out] status  what the command exits with, or -1  @return 1 if there are no hosts, and this machine is to be
 * tested; 0 if they were checked; -1 with @fail */
static int
test_on_hosts (struct config *config, struct hosts *hosts, int *status, struct fail *fail)
{
    if (config_load_file (config, fail))
        return -1;
    config_load_environment (config);
    if (config_resolve (config, fail) || hosts_find (hosts, config, fail))
        return -1;
    if (!hosts->list.count)
        return !config->settings.json
                   ? 1 : fail_set (fail, FAIL_USAGE, "--json needs several hosts: use --hosts or --hostfile");
    config->program = strdup ("accelerate"); /* what agents get as the job's program; it is not started */
    if (!config->program)
        return fail_nomem (fail);
    if (check_settings (config, fail))
        return -1;
    AUTO_FREE char *selftest = NULL;
    struct fail unused = { 0 };
    *status = test_hosts (hosts, config, find_selftest (&selftest, &unused) ? NULL : selftest, fail);
    return 0;
}

/* @return as test_on_hosts() */
static int
try_hosts (int argc, char **argv, int *status, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct hosts hosts = { 0 };
    int result = config_load_command (&config, COMMAND_TEST, argc, argv, 0, fail);
    if (!result)
        result = test_on_hosts (&config, &hosts, status, fail);
    hosts_release (&hosts);
    return result;
}

int
cmd_test (int argc, char **argv, struct fail *fail)
{
    AUTO_FREE char *program = NULL;
    AUTO_FREE char **launch = calloc ((size_t) argc + 4, sizeof *launch);
    static char no_label[] = "--label=no", end_of_options[] = "--";
    if (!launch)
        return fail_nomem (fail);
    int status = 0, result = try_hosts (argc, argv, &status, fail);
    if (result <= 0)
        return result ? -1 : status;
    if (find_selftest (&program, fail))
        return -1;
    /* All flags of this command are launch's. */
    memcpy (launch, argv, (size_t) argc * sizeof *launch);
    launch[argc] = no_label; /* its lines name the ranks where that matters */
    launch[argc + 1] = end_of_options;
    launch[argc + 2] = program;
    pid_t pid = getpid ();
    status = cmd_launch (argc + 3, launch, fail);
    /* cmd_launch() returns in the process that watches the ranks too. */
    if (status == 0 && getpid () == pid) {
        sigset_t ends;
        signals_ending (&ends);
        sigprocmask (SIG_UNBLOCK, &ends, NULL); /* a signal may end the wait for this line's reader */
        puts ("All tests passed: this machine is ready for distributed training.");
    }
    return status;
}
