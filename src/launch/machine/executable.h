/* SPDX-License-Identifier: Apache-2.0 */
/* Files that this process may execute, by path or by name. */
#ifndef LAUNCH_MACHINE_EXECUTABLE_H
#define LAUNCH_MACHINE_EXECUTABLE_H

#include "util/fail.h"

#include <stdbool.h>

/** Find the first executable file called @p name in PATH.
 *  @param[out] found  to be freed; NULL if there is none  @return 0, or -1 without memory */
int executable_find (const char *name, char **found, struct fail *fail);

/** Whether @p path is a regular file that this process may execute. */
bool executable_is (const char *path);

#endif
