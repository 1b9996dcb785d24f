/* SPDX-License-Identifier: Apache-2.0 */
/* One other program, run in our place: our terminal, our signals, its exit status. */
#ifndef LAUNCH_PROCESS_FOREGROUND_H
#define LAUNCH_PROCESS_FOREGROUND_H

#include "util/fail.h"

/**
 * Run a program to its end, with our standard streams and environment.  Signals that a user or a scheduler sends to us
 * reach it once; it gets no signal when we are killed.
 *
 * @param argv  ended by NULL; the program is looked for in PATH
 * @return its exit status, 128+N for signal N, or -1 with @p fail set if it cannot be started
 */
int foreground_run (char *const *argv, struct fail *fail);

#endif
