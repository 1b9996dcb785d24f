/* SPDX-License-Identifier: Apache-2.0 */
/* A launch is two processes, so that nothing of a job is left when either of them is killed with SIGKILL.
 *
 * The keeper is the process that the user has started; it does nothing but pass signals on and wait.  The supervisor,
 * its child, starts and watches the ranks.  Both are subreapers: whatever a rank starts, in whatever session, ends up
 * below the supervisor as long as that lives, and below the keeper otherwise.  So each finds all of it, exactly. */
#ifndef LAUNCH_KEEPER_H
#define LAUNCH_KEEPER_H

#include "util/fail.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct keeper {
    pid_t pid;         /* of the keeper */
    pid_t group;       /* its process group, the one of the terminal */
    int pidfd;         /* supervisor: becomes readable when the keeper has ended */
    sigset_t signals;  /* to take */
    sigset_t old_mask; /* as it was given to us */
    int status;        /* keeper: the exit status that the supervisor has earned */
};

enum { KEEPER_IS_SUPERVISOR, KEEPER_IS_OVER };

/**
 * Split in two.
 *
 * @return KEEPER_IS_SUPERVISOR in the supervisor, at once, who shall run the job and exit; KEEPER_IS_OVER in the
 *         keeper, after the supervisor has ended, with `status` set; -1 with @p fail set where there
 *         is no supervisor, or it was killed
 * @param stopped_ms  for how long somebody may stop the supervisor before it is killed
 */
int keeper_split (struct keeper *keeper, int64_t stopped_ms, struct fail *fail);

/** Supervisor: whether the keeper still lives. */
bool keeper_lives (const struct keeper *keeper);

/** @return the signal that has killed the keeper, 0 where the kernel does not say */
int keeper_death_signal (const struct keeper *keeper);

/**
 * Write @p text on stderr.  While its reader takes nothing, wait until a signal comes that ends jobs or, in the
 * supervisor, the keeper dies; without @p patient, not at all.
 *
 * @return whether all of it was written
 */
bool keeper_say (const struct keeper *keeper, const char *text, bool patient);

/** What the value of a signal that the keeper passes on says. */
enum { KEEPER_SIGNAL_SENT, KEEPER_SIGNAL_OF_TERMINAL };

#endif
