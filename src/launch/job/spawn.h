/* SPDX-License-Identifier: Apache-2.0 */
/* Starting one rank, with errors of exec reported before it counts as started. */
#ifndef LAUNCH_JOB_SPAWN_H
#define LAUNCH_JOB_SPAWN_H

#include "launch/job/job.h"
#include "launch/job/limits.h"

/** What ranks of a job have in common; made once, then only read. */
struct spawn {
    struct job *job;
    const char **common; /* variables after a rank's own: ours, then the launcher's environment; NULL ends them */
    size_t common_count;
    char *segment;      /* ACCEL_JOB_SEGMENT=... */
    char *id;           /* ACCEL_JOB_ID=... */
    int null;           /* /dev/null */
    bool has_input;     /* the first rank reads our stdin */
    bool terminal;      /* that is one: this rank is in the guardian's process group */
    bool may_ask;       /* a user, or a program, may answer there */
    struct limits limits;
    pid_t launcher;
};

/** What a thread needs to start ranks, one after the other. */
struct spawn_context {
    const struct spawn *spawn;
    const char **envp; /* room for a rank's own variables, then the common ones */
    void *stack;       /* of the child until it has called exec */
};

int spawn_init (struct spawn *spawn, struct job *job, struct fail *fail);
void spawn_release (struct spawn *spawn);
int spawn_context_init (struct spawn_context *context, const struct spawn *spawn, struct fail *fail);
void spawn_context_release (struct spawn_context *context);

/**
 * Start the process of local rank @p index.  Threads may do so at the same time, each with its own context.  The kernel
 * kills the process when the calling thread ends, however that comes.
 *
 * @return 0, or -1 with @p fail set and nothing started
 */
int spawn_rank (struct spawn_context *context, int index, struct fail *fail);

#endif
