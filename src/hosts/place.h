/* SPDX-License-Identifier: Apache-2.0 */
/* Which machine of a job this one is, where --machine_rank auto leaves that to a scheduler or a list of hosts, and
 * which the main one is, with --main_process_ip auto. */
#ifndef HOSTS_PLACE_H
#define HOSTS_PLACE_H

#include "config/values.h"
#include "hosts/allocation.h"

/** What is known of this machine. */
struct place_host {
    const char *name;                /* its own */
    const struct strlist *addresses; /* of its interfaces */
};

/**
 * Replace `auto` in machine_rank and main_process_ip; set num_machines if it was not given.
 *
 * @param lookup  of environment variables
 * @return 1 if something was auto, 0 if not, -1 with @p fail set if nothing tells
 */
int place_find (struct config *config, const struct place_host *host, allocation_lookup *lookup, struct fail *fail);

/** The same for this process. */
int place_find_here (struct config *config, struct fail *fail);

#endif
