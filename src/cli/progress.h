/* SPDX-License-Identifier: Apache-2.0 */
/* A line on the terminal for what takes more than a second: how much is done, how fast, how long it still takes. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/** Start with `verb` and `total`, the rest zero. */
struct progress {
    const char *verb; /* "merging" */
    uint64_t total;   /* bytes */
    uint64_t done;
    int64_t started, shown; /* ms; 0: not yet */
};

/** @p bytes more are done. Prints on standard error if that is a terminal, at most ten times a second. */
void progress_add (struct progress *progress, uint64_t bytes);

/** Remove the line; before anything else is printed. */
void progress_end (struct progress *progress);

#endif
