/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the limits of this process allow what a job needs; found out before the first rank starts. */
#ifndef LAUNCH_JOB_LIMITS_H
#define LAUNCH_JOB_LIMITS_H

#include "launch/job/job.h"

#include <sys/resource.h>

/** Our limit of open files was raised, and ranks are to get the one that was given to us. */
struct limits {
    bool is_raised;
    struct rlimit given;
};

/** Raise what can be raised.  @return 0, or -1 with @p fail set: not all ranks could be started */
int limits_prepare (struct limits *limits, const struct job *job, struct fail *fail);

#endif
