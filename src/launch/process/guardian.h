/* SPDX-License-Identifier: Apache-2.0 */
/* A launch is two processes, so that nothing of a job is left when either of them is killed with SIGKILL.
 *
 * The guardian is the process that the user has started; it does nothing but pass signals on and wait.  The supervisor,
 * its child, starts and watches the ranks.  Both are subreapers: whatever a rank starts, in whatever session, ends up
 * below the supervisor as long as that lives, and below the guardian otherwise.  So each finds all of it, exactly. */
#ifndef LAUNCH_PROCESS_GUARDIAN_H
#define LAUNCH_PROCESS_GUARDIAN_H

#include "util/fail.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct guardian {
    pid_t pid;         /* of the guardian */
    pid_t group;       /* its process group, the one of the terminal */
    int pidfd;         /* supervisor: becomes readable when the guardian has ended */
    sigset_t signals;  /* to take */
    sigset_t old_mask; /* as it was given to us */
    _Atomic int *status_is_seen; /* both share it: 1 while the terminal shows a status line of the supervisor's, and
                                  * nothing after it; NULL: there is no memory to share */
    int status;        /* guardian: the exit status that the supervisor has earned */
};

enum { GUARDIAN_IS_SUPERVISOR, GUARDIAN_IS_OVER };

/**
 * Split in two.
 *
 * @return GUARDIAN_IS_SUPERVISOR in the supervisor, at once, who shall run the job and exit; GUARDIAN_IS_OVER in the
 *         guardian, after the supervisor has ended, with `status` set; -1 with @p fail set if there
 *         is no supervisor, or it was killed
 * @param stopped_ms  for how long the supervisor may be stopped before it is killed
 */
int guardian_split (struct guardian *guardian, int64_t stopped_ms, struct fail *fail);

/** Supervisor: whether the guardian still lives. */
bool guardian_lives (const struct guardian *guardian);

/** @return the signal that has killed the guardian, 0 if the kernel does not say */
int guardian_death_signal (const struct guardian *guardian);

/**
 * Write @p text on stderr.  While its reader takes nothing, wait until a signal comes that ends jobs or, in the
 * supervisor, the guardian dies; without @p patient, not at all.
 *
 * @return whether all of it was written
 */
bool guardian_say (const struct guardian *guardian, const char *text, bool patient);

/** What erases the supervisor's status line. */
#define GUARDIAN_ERASE_STATUS "\r\033[J"

/** What the value of a signal that the guardian passes on says.  Who knows that the job has failed on another host
 * sends its signal with GUARDIAN_SIGNAL_OF_FAILURE. */
enum { GUARDIAN_SIGNAL_SENT, GUARDIAN_SIGNAL_OF_TERMINAL, GUARDIAN_SIGNAL_OF_FAILURE };

#endif
