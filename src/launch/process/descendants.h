/* SPDX-License-Identifier: Apache-2.0 */
/* Ending what a job has left running.  A subreaper is the ancestor of all its job's processes for ever, so they are its
 * descendants in /proc, and there is one exactly as long as there is a child to wait for.  Where /proc is missing only
 * children are found; when one of them ends, its own children come to us. */
#ifndef LAUNCH_PROCESS_DESCENDANTS_H
#define LAUNCH_PROCESS_DESCENDANTS_H

#include <stdbool.h>

/** Send @p signal to all descendants of this process; without /proc, to its children. */
void descendants_signal (int signal);

/** Reap children that have ended.  @return whether none is left, dead or alive */
bool descendants_reap (void);

enum { DESCENDANTS_KILL_MS = 10000 }; /* after which what SIGKILL does not end is left to the kernel */

/** Kill all descendants and reap them, for at most @p limit_ms.  @return whether none is left */
bool descendants_kill (int limit_ms);

#endif
