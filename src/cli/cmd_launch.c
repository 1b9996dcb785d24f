/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate launch: on this machine, or on several hosts. */
#include <config.h>

#include "cli/command.h"
#include "cli/launch_run.h"
#include "config/check.h"
#include "config/load.h"
#include "hosts/head.h"
#include "hosts/hosts.h"
#include "hosts/place.h"

int
cmd_launch (int argc, char **argv, struct fail *fail)
{
    struct config config = { 0 };
    struct hosts hosts = { 0 };
    int status = -1, is_placed = -1;
    if (!config_load_launch (&config, argc, argv, fail)
        && (config.settings.dry_run || !config_check_files (&config, fail)))
        is_placed = place_find_here (&config, fail);
    if (is_placed < 0 || (!is_placed && hosts_find (&hosts, &config, fail))) /* otherwise, --hosts starts nothing */
        goto done;
    if (!hosts.list.count)
        status = launch_run (&config, NULL, fail);
    else if (config.settings.dry_run)
        status = hosts_print (&hosts, &config, fail);
    else
        status = head_run (&hosts, &config, fail);
done:
    hosts_release (&hosts);
    config_release (&config);
    return status;
}
