/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts a job runs on, and with how many processes: --hosts, host files of Open MPI and MPICH, node lists of
 * schedulers.  Pure: nothing is looked up. */
#ifndef HOSTS_LIST_HOSTLIST_H
#define HOSTS_LIST_HOSTLIST_H

#include "util/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOSTLIST_MOST = 10000 };

struct hostlist_host {
    char *name;  /* as ssh takes it: "USER@NAME", or "ssh://USER@NAME:PORT", each part but NAME only if it was given */
    int slots;   /* processes that it takes; 0: not known */
    int times;   /* how often it was named without a number of slots */
    int ranks;   /* processes that the job has there, by hostlist_divide() */
    int first_rank;
};

/** All zero is an empty list. */
struct hostlist {
    struct hostlist_host *hosts; /* in the order in which they were first named; no name twice */
    size_t count, capacity;
    size_t all; /* with those to which hostlist_divide() has given no process, which are after the others; 0: none */
    uint32_t *buckets; /* [2 * capacity], by the names' hashes: a host's index + 1, or 0 */
};

/** Append the hosts of --hosts: "a,b:4,node[01-16]:8,[fe80::1]:2,ssh://c:2222:4".
 *  @return 0, or -1 with @p fail saying which part is wrong */
int hostlist_add_text (struct hostlist *list, const char *text, struct fail *fail);

/** Append the hosts of a file: one per line, "a slots=4" (Open MPI) or "a:4" (MPICH), ranges as above, comments after
 *  #.
 *  @param name  of the file, for messages */
int hostlist_add_file (struct hostlist *list, const char *name, const char *text, struct fail *fail);

/** @return the host of that @p name; NULL: it is not in the list */
struct hostlist_host *hostlist_find (const struct hostlist *list, const char *name);

/** Whether only SSH can reach a host of that @p name: mpirun and srun know no ports. */
bool hostlist_has_port (const char *name);

/** Append one host.  @param slots  0: not given */
int hostlist_add (struct hostlist *list, const char *name, size_t length, int slots, struct fail *fail);

/** Call after everything was added: a name that occurs several times without slots has as many slots as it occurs. */
void hostlist_finish (struct hostlist *list);

/** Whether the ranks of each host follow from the list and @p num_processes (0: not given), so that no host has to be
 * asked how many it would run. */
bool hostlist_is_complete (const struct hostlist *list, int64_t num_processes);

/**
 * Decide how many processes run on each host, and their ranks.
 *
 * Without @p num_processes (0), every slot gets one.  With it, hosts with slots are filled in their order; what is left
 * is divided evenly among the others, of which the first get one more.  Hosts without a process are set aside, and
 * no host can be added any more.
 *
 * @return 0, or -1 with @p fail set; an unknown number of slots counts as 1
 */
int hostlist_divide (struct hostlist *list, int64_t num_processes, struct fail *fail);

/** Whether hostlist_divide() would succeed without the hosts for which @p is_lost, [list->count]. */
bool hostlist_can_lose (const struct hostlist *list, const bool *is_lost, int64_t num_processes);

/** Remove these hosts, and count those that were set aside again: call hostlist_divide() next. */
void hostlist_lose (struct hostlist *list, const bool *is_lost);

int hostlist_world_size (const struct hostlist *list);

/** Accepts an empty list. */
void hostlist_release (struct hostlist *list);

/* allocation.c: the hosts that a scheduler has given to the job in which this command runs. */

/** As getenv(). */
typedef char *allocation_lookup (const char *name);

/**
 * Look for an allocation of Slurm, PBS or LSF.  A process that the scheduler, or another launcher, has started as one
 * of several has none: it is a part of a job already.
 *
 * @param[out] list  empty if there is none; its hosts
 * @param[out] source  for people: "the Slurm allocation (SLURM_JOB_NODELIST)"; NULL if there is none
 */
int allocation_find (struct hostlist *list, const char **source, allocation_lookup *lookup, struct fail *fail);

/** The same for a process of which one was started on each host: the hosts of its step, or of the allocation. */
int allocation_find_ours (struct hostlist *list, const char **source, allocation_lookup *lookup, struct fail *fail);

/** How many processes one srun, mpirun or mpiexec has started, of which this is one; 1 if it was started alone.
 *
 * @param[out] starter  its name, if there are several
 */
int64_t allocation_tasks (const char **starter, allocation_lookup *lookup);

#endif
