/* SPDX-License-Identifier: Apache-2.0 */
/* Starting one rank, with errors of exec told before it counts as started. */
#ifndef LAUNCH_SPAWN_H
#define LAUNCH_SPAWN_H

#include "launch/job.h"

#include <sys/resource.h>

/** What ranks of a job have in common; made once. */
struct spawn {
    struct job *job;
    const char **envp;  /* room for the plan's variables, ours and the rest of the launcher's environment */
    size_t base;        /* first entry of that rest */
    char *segment;      /* ACCEL_JOB_SEGMENT=... */
    char *id;           /* ACCEL_JOB_ID=... */
    void *stack;        /* of the child until it has called exec */
    int null;           /* /dev/null */
    bool pipes;         /* stderr of the ranks comes through us */
    bool terminal;      /* stdin is one: the rank that reads it is in the keeper's process group */
    bool descriptors_raised;
    struct rlimit descriptors; /* the limit that was given to us */
    pid_t launcher;
};

int spawn_init (struct spawn *spawn, struct job *job, struct fail *fail);

/** Start the process of local rank @p index.  @return 0, or -1 with @p fail set and nothing started */
int spawn_rank (struct spawn *spawn, int index, struct fail *fail);

void spawn_release (struct spawn *spawn);

#endif
