/* SPDX-License-Identifier: Apache-2.0 */
/* One host's part of a job on several: the agent that starts its launcher, passes its output and what became of its
 * ranks to the head, and ends them when the head, or the connection to it, is gone; and what that launcher tells the
 * agent. */
#ifndef HOSTS_AGENT_HOST_JOB_H
#define HOSTS_AGENT_HOST_JOB_H

#include "config/values.h"
#include "hosts/mpi/mpi.h"
#include "hosts/net/wire.h"
#include "launch/job/job.h"
#include "launch/job/port_lock.h"
#include "launch/machine/topology.h"

struct host_job {
    struct topology_share share;
    struct port_lock port_lock; /* of the job's port, on the host of rank 0 */
    int64_t restarts;   /* so far */
    const char *job_id; /* of the whole job */
    const struct memtier *memtier; /* that the agent keeps from start to start; NULL: none */
    const struct mpi_proxies *proxies; /* of the ranks; NULL or empty: they are not processes of MPI */
    int agent;          /* where to write frames WIRE_FAILED and WIRE_END */
    pid_t agent_pid;
};

/** Runs the part of @p config on this host.  @return the exit status */
typedef int host_job_run (struct config *config, const struct host_job *host_job);

/** A job_observer's function: tell the agent at once. */
void host_job_tell_failure (const struct job *job, const struct job_observer *observer);

/** A job_observer's function: the head has all ranks save and stop, and reports why. */
void host_job_tell_notice (const struct job_observer *observer, const char *why);

/** Tell the agent that this process does its work, and does not go silent for more than @p silence_ms.
 *  @return whether it has not read the last signs, either */
bool host_job_tell_alive (int agent, int64_t silence_ms);

/** A job_observer's function: the same, again and again.  An agent that was stopped has lost its head, and all that it
 * could do is end its ranks: it is continued. */
int64_t host_job_keepalive (const struct job_observer *observer);

/** Tell the agent what became of the part.  @param text, json  may be NULL */
void host_job_tell_end (const struct host_job *host_job, enum wire_end end, int status, const char *text,
                        const char *json);

/** Be the agent: serve the head on standard input and output until it closes them.
 *  @param run  starts this host's ranks, in a process of its own  @return the exit status */
int agent_serve (host_job_run *run);

#endif
