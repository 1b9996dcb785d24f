/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate tpu-config: run startup commands on all machines of a TPU pod, through gcloud. */
#include <config.h>

#include "cli/command.h"
#include "config/load.h"
#include "launch/plan/gcloud.h"
#include "launch/process/process.h"
#include "util/printable.h"

#include <stdio.h>

static void
print_command (const struct strlist *argv)
{
    fputs ("Running", stdout);
    for (size_t i = 0; i < argv->count; i++) {
        putchar (' ');
        printable_put (stdout, argv->items[i]);
    }
    putchar ('\n');
}

/* @return the exit status, or -1 with @fail set */
static int
run_command (const struct strlist *argv, struct fail *fail)
{
    int status = foreground_run (argv->items, fail);
    if (status < 0 && fail->status == FAIL_NOT_FOUND)
        return fail_set (fail, FAIL_NOT_FOUND, "gcloud not found: install the Google Cloud CLI, or add its folder to "
                         "PATH");
    if (status > 0)
        return fail_set (fail, status, "gcloud failed with exit status %d; the pod may be only partly set up", status);
    if (status == 0)
        puts ("Successfully setup pod.");
    return status;
}

static int
run (struct config *config, int argc, char **argv, struct fail *fail)
{
    AUTO_STRLIST struct strlist command = { 0 };
    if (config_load_command (config, COMMAND_TPU_CONFIG, argc, argv, 0, fail) || config_load_file (config, fail)
        || gcloud_command (config, &command, fail))
        return -1;
    if (!config->settings.print_command)
        return run_command (&command, fail);
    print_command (&command);
    return 0;
}

int
cmd_tpu_config (int argc, char **argv, struct fail *fail)
{
    struct config config = { 0 };
    int status = run (&config, argc, argv, fail);
    config_release (&config);
    return status;
}
