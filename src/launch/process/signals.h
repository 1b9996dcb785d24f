/* SPDX-License-Identifier: Apache-2.0 */
/* Which signals reach the ranks of a job through the launcher. */
#ifndef LAUNCH_PROCESS_SIGNALS_H
#define LAUNCH_PROCESS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/**
 * Block all that is passed on, SIGCHLD, and what writing to a closed pipe or from the background would bring.  What was
 * ignored (nohup) stays ignored and is left out.
 *
 * @param[out] wanted  the signals for signalfd() or sigwaitinfo()
 * @param[out] old     the mask as it was given to us
 */
void signals_block (sigset_t *wanted, sigset_t *old);

/** @return whether @p signal ends a job; others are only passed on. */
bool signals_end_job (int signal);

/** All those that end a job. */
void signals_ending (sigset_t *set);

#endif
