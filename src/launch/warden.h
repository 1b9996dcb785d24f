/* SPDX-License-Identifier: Apache-2.0 */
/* The warden: a small process beside the launcher that outlives it only to end what it left behind.  A launcher that is
 * killed with SIGKILL cannot clean up, and what its ranks have started may have left their sessions and groups. */
#ifndef LAUNCH_WARDEN_H
#define LAUNCH_WARDEN_H

#include "util/fail.h"

#include <sys/types.h>

/** Shared by the launcher, who writes it, and the warden. */
struct warden {
    pid_t pid; /* of the warden */
    int count;
    size_t bytes;
    volatile pid_t groups[]; /* process groups of the ranks, 0 for those that are gone */
};

/** Start one.  @param id  what marks the job's processes in their environment  @return NULL with @p fail set */
struct warden *warden_start (int ranks, const char *id, struct fail *fail);

/** The job has ended and left nothing behind: let the warden go.  Accepts NULL. */
void warden_dismiss (struct warden *warden);

#endif
