/* SPDX-License-Identifier: Apache-2.0 */
/* How a job ends: ranks that have ended, signals that tell it to, and the keeper's death. */
#ifndef LAUNCH_ENDS_H
#define LAUNCH_ENDS_H

#include "launch/supervisor.h"

#include <sys/signalfd.h>

/** Reap rank @p index if it has ended; the first failure ends the job. */
void ends_reap_rank (struct supervisor *supervisor, int index);

/** Ask all ranks to end with @p signal, and set the time when we shall no longer ask.
 * @param of_terminal  the terminal has sent it to the rank in the keeper's process group itself */
void ends_stop_ranks (struct supervisor *supervisor, int signal, bool of_terminal);

void ends_kill_ranks (struct supervisor *supervisor);

/** All ranks have ended.  If none of them failed, but one has lost its last save, that is the failure. */
void ends_check_saves (struct supervisor *supervisor);

/** Do what a signal to the launcher, or the end of a child, asks for. */
void ends_take_signal (struct supervisor *supervisor, const struct signalfd_siginfo *info);

/** Another machine has ended the job: ask the ranks here to end, unless that has been done for another reason. */
void ends_stop_for_peers (struct supervisor *supervisor);

/** The keeper has ended: no process waits for the job any more, and no other process could end it. */
void ends_lose_keeper (struct supervisor *supervisor);

/** Whether the first failure is a rank's death by a signal of the terminal that we have not been told of yet.  A
 * terminal signals the ranks itself, and their end may be seen before the keeper has passed the signal on. */
bool ends_may_be_terminal (const struct supervisor *supervisor);

#endif
