/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to a running job and to its end. */
#ifndef LAUNCH_JOB_RUN_H
#define LAUNCH_JOB_RUN_H

#include "launch/job/job.h"

/**
 * Start the processes of @p plan and wait for their end, in the supervisor that guardian_split() has made.  Makes no
 * report, prints nothing itself.
 *
 * @param port_lock  of the job's port: it answers launches that ask; -1: none
 * @param observer   may be NULL
 * @param[out] job   how it went; release it with job_release(), also after a failure
 * @return 0 if the job was started, whatever became of it; -1 with @p fail set if it could not be
 */
int job_run (struct job *job, const struct plan *plan, const struct guardian *guardian, int port_lock,
             const struct job_observer *observer, struct fail *fail);

#endif
