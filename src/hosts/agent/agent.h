/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: on each host of a launch on several, it starts the launcher of that host's ranks, passes their output and
 * what became of them to the head, and ends them when the head, or the connection to it, is gone. */
#ifndef HOSTS_AGENT_AGENT_H
#define HOSTS_AGENT_AGENT_H

#include "hosts/agent/host_job.h"

/** Serve the head on standard input and output until it closes them.
 *  @param run  starts this host's ranks, in a process of its own  @return the exit status */
int agent_serve (host_job_run *run);

#endif
