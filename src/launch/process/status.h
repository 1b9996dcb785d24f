/* SPDX-License-Identifier: Apache-2.0 */
/* The exit status of `accelerate launch`: how the end of a rank, a failed exec and a signal turn into a number. */
#ifndef LAUNCH_PROCESS_STATUS_H
#define LAUNCH_PROCESS_STATUS_H

#include <stdbool.h>

/** Of a rank that ended as waitpid() reports: its own status, or 128+N for signal N. */
int status_of_wait (int wait_status);

/** Of an exec that failed with @p error: 127 if there is no such program, 126 if it cannot be executed. */
int status_of_exec (int error);

/** Of a launcher that was told to end by @p signal: 128+N. */
int status_of_signal (int signal);

/** Whether the loss of a connection to another rank may bring about such an end: an exit, or an abort. */
bool status_may_follow (int wait_status);

/** @return what to do about @p error from starting a program, "" if there is nothing to say. */
const char *status_exec_hint (int error);

#endif
