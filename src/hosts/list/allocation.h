/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts that a scheduler has given to the job in which this command runs. */
#ifndef HOSTS_LIST_ALLOCATION_H
#define HOSTS_LIST_ALLOCATION_H

#include "hosts/list/hostlist.h"

/** As getenv(). */
typedef const char *allocation_lookup (const char *name);

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
