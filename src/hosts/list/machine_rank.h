/* SPDX-License-Identifier: Apache-2.0 */
/* Which machine of a job this one is, where --machine_rank auto leaves that to a scheduler or a list of hosts, and
 * which the main one is, with --main_process_ip auto. */
#ifndef HOSTS_LIST_MACHINE_RANK_H
#define HOSTS_LIST_MACHINE_RANK_H

#include "config/values.h"
#include "hosts/list/allocation.h"

/** What is known of this machine. */
struct machine_rank_host {
    const char *name;                /* its own */
    const struct strlist *addresses; /* of its interfaces */
};

/**
 * Replace `auto` in machine_rank and main_process_ip; set num_machines if it was not given.
 *
 * @param lookup  of environment variables
 * @return 1 if something was auto, 0 if not, -1 with @p fail set if nothing tells
 */
int machine_rank_find (struct config *config, const struct machine_rank_host *host, allocation_lookup *lookup,
                       struct fail *fail);

/** The same for this process. */
int machine_rank_find_here (struct config *config, struct fail *fail);

#endif
