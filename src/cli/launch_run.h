/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a job, or one host's part of it, on this machine. */
#ifndef CLI_LAUNCH_RUN_H
#define CLI_LAUNCH_RUN_H

#include "config/values.h"
#include "hosts/agent/host_job.h"

/**
 * Plan and run the job of @p config, or print the plan with --dry_run.
 *
 * @param host_job  this host's part of a job on several: what becomes of it, errors included, goes to the agent.
 *                  NULL: all of the job runs here
 * @return the exit status, or -1 with @p fail set
 */
int launch_run (struct config *config, const struct host_job *host_job, struct fail *fail);

/** The same for an agent. */
int launch_run_part (struct config *config, const struct host_job *host_job);

#endif
