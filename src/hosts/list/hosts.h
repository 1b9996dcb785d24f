/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a launch, as settings and schedulers name them, and how to start an agent on each. */
#ifndef HOSTS_LIST_HOSTS_H
#define HOSTS_LIST_HOSTS_H

#include "config/values.h"
#include "hosts/list/hostlist.h"
#include "hosts/list/starter.h"
#include "util/fail.h"

/** All zero: the job runs on this machine. */
struct hosts {
    struct hostlist list;
    const char *source; /* for people: what has named them; NULL: the user */
    char own[256];      /* name of this machine */
    char *program;      /* what to execute on the other hosts */
    struct starter starter;
};

/** Find out which hosts the job of @p config uses; none if it is launched as on a single machine.
 *  @param[out] hosts  for hosts_release(), also after a failure */
int hosts_find (struct hosts *hosts, const struct config *config, struct fail *fail);

/** Append the hosts of --hosts (not auto) or --hostfile. */
int hosts_read_list (struct hostlist *list, const struct settings *settings, struct fail *fail);

/** Whether @p name means this machine, where no SSH is needed. */
bool hosts_is_own (const struct hosts *hosts, const char *name);

/**
 * The command that starts an agent.
 *
 * @param name   of the host
 * @param batch  SSH must not ask for anything
 */
void hosts_add_argv (const struct hosts *hosts, const char *name, bool batch, struct strlist *argv);

/** Decide where the ranks run, and print what would be started where, for --dry_run.
 *  @return 0, or -1 with @p fail set */
int hosts_print (struct hosts *hosts, const struct config *config, struct fail *fail);

void hosts_release (struct hosts *hosts);

/* machine_rank.c: which machine of a job this one is, where --machine_rank auto leaves that to a scheduler or a list of
 * hosts, and which the main one is, with --main_process_ip auto. */

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
