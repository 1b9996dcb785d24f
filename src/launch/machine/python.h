/* SPDX-License-Identifier: Apache-2.0 */
/* The user's Python: of all that a machine may have, the one that would run Accelerate. */
#ifndef LAUNCH_MACHINE_PYTHON_H
#define LAUNCH_MACHINE_PYTHON_H

#include "util/fail.h"

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
