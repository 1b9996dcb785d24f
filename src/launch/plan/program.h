/* SPDX-License-Identifier: Apache-2.0 */
/* What the word after the options means, decided before anything is started. */
#ifndef LAUNCH_PLAN_PROGRAM_H
#define LAUNCH_PLAN_PROGRAM_H

#include "config/values.h"
#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>

/** A resolved program: how to start it.  All zero is empty. */
struct program {
    struct strlist argv; /* the path of what exec gets comes first: interpreter or program */
    bool python;         /* argv is an interpreter of Python and what it shall run */
    char *python_note;   /* which one, and why this one; NULL without Python */
};

/**
 * Find and check the program of @p config.  An ELF file, or a script with #! that may be executed, runs directly.
 * Everything else that `python X` takes runs with Python: NAME.py, text files of other names, zip archives, compiled
 * files, folders with __main__.py, and -m NAME.  A name without a slash is looked for in the current folder, then in
 * PATH; with --no_python in PATH only, and everything runs directly.
 *
 * @return 0; or -1 with @p fail: 127 not found, 126 found but cannot be run, 2 for options that contradict
 */
int program_resolve (struct program *program, const struct config *config, struct fail *fail);

void program_release (struct program *program);

#endif
