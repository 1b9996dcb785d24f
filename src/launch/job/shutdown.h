/* SPDX-License-Identifier: Apache-2.0 */
/* How a job ends: ranks that have ended, signals that tell it to, and the guardian's death. */
#ifndef LAUNCH_JOB_SHUTDOWN_H
#define LAUNCH_JOB_SHUTDOWN_H

#include "launch/job/supervisor.h"

#include <sys/signalfd.h>

/** Reap rank @p index if it has ended; the first failure ends the job. */
void shutdown_reap_rank (struct supervisor *supervisor, int index);

/** Ask all ranks to end with @p signal, and set the time when we shall no longer ask.
 * @param of_terminal  the terminal has sent it to the rank in the guardian's process group itself */
void shutdown_stop_ranks (struct supervisor *supervisor, int signal, bool of_terminal);

void shutdown_kill_ranks (struct supervisor *supervisor);

/** All ranks have ended.  If none of them failed, but one has lost its last save, that is the failure. */
void shutdown_check_saves (struct supervisor *supervisor);

/** Do what a signal to the launcher, or the end of a child, asks for. */
void shutdown_take_signal (struct supervisor *supervisor, const struct signalfd_siginfo *info);

/** Another machine has ended the job: ask the ranks here to end, unless that has been done for another reason. */
void shutdown_for_peers (struct supervisor *supervisor);

/** The guardian has ended: no process waits for the job any more, and no other process could end it. */
void shutdown_lose_guardian (struct supervisor *supervisor);

/** Whether the first failure is a rank's death by a signal of the terminal that we have not seen yet.  A
 * terminal signals the ranks itself, and their end may be seen before the guardian has passed the signal on. */
bool shutdown_may_be_of_terminal (const struct supervisor *supervisor);

#endif
