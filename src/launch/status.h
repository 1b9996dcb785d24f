/* SPDX-License-Identifier: Apache-2.0 */
/* The exit status of `accelerate launch`: how the end of a rank, a failed exec and a signal turn into a number. */
#ifndef LAUNCH_STATUS_H
#define LAUNCH_STATUS_H

/** Of a rank that ended as waitpid() reports: its own status, or 128+N for signal N. */
int status_of_wait (int wait_status);

/** Of an exec that failed with @p error: 127 if there is no such program, 126 if it cannot be executed. */
int status_of_exec (int error);

/** Of a launcher that was told to end by @p signal: 128+N. */
int status_of_signal (int signal);

/** @return what to do about @p error from starting a program, "" where there is nothing to say. */
const char *status_exec_hint (int error);

#endif
