/* SPDX-License-Identifier: Apache-2.0 */
/* What the word after the options stands for, decided before anything is started. */
#ifndef LAUNCH_PROGRAM_H
#define LAUNCH_PROGRAM_H

#include "config/options.h"
#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>

/** A resolved program: how to start it.  All zero is empty. */
struct program {
    struct strlist argv; /* the path of what exec gets comes first: interpreter or program */
    bool python;         /* argv is an interpreter of Python and what it shall run */
};

/**
 * Find and check the program of @p config: an ELF file or a script with #! that may be executed runs directly, NAME.py
 * and -m NAME run with python3.  A name without a slash is looked for in the current folder, then in PATH.
 *
 * @return 0; or -1 with @p fail: 127 not found, 126 found and no program, 2 for options that contradict
 */
int program_resolve (struct program *program, const struct config *config, struct fail *fail);

/** @return the first executable file called @p name in PATH, or NULL; the caller frees it. */
char *program_find_in_path (const char *name);

void program_release (struct program *program);

#endif
