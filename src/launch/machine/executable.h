/* SPDX-License-Identifier: Apache-2.0 */
/* Files that this process may execute, by path or by name; and the user's Python: of all that a machine may have, the
 * one that would run Accelerate. */
#ifndef LAUNCH_MACHINE_EXECUTABLE_H
#define LAUNCH_MACHINE_EXECUTABLE_H

#include "util/fail.h"

#include <stdbool.h>

/** Find the first executable file called @p name in PATH.
 *  @param[out] found  to be freed; NULL if there is none  @return 0, or -1 without memory */
int executable_find (const char *name, char **found, struct fail *fail);

/** Whether @p path is a regular file that this process may execute. */
bool executable_is (const char *path);

/**
 * Find the interpreter, python3 or python, in this order:
 *
 * 1. the environment (venv or conda) in which this command was called: the folder of the path that was executed, or of
 *    a link on the way from there to the file.  Accelerate's command runs under the Python of its environment, too.
 * 2. the active environment: VIRTUAL_ENV or CONDA_PREFIX, and if both are set, the one that PATH names first.
 * 3. python3 in PATH, then python.
 *
 * @param[out] path  to be freed; NULL if there is none
 * @param[out] note  one line that says which and why, to be freed; may be NULL
 * @return 0, or -1 without memory
 */
int python_find (char **path, char **note, struct fail *fail);

#endif
