/* SPDX-License-Identifier: Apache-2.0 */
/* Watching the ranks of a job until the last one has ended, what they left behind has too, and what they wrote has been
 * passed on. */
#ifndef LAUNCH_JOB_SUPERVISE_H
#define LAUNCH_JOB_SUPERVISE_H

#include "launch/job/supervisor.h"

/** Until all is over. */
void supervise (struct supervisor *supervisor);

/** A start has failed: end those that were started. */
void supervise_abandon (struct supervisor *supervisor);

#endif
