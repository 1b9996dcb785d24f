/* SPDX-License-Identifier: Apache-2.0 */
/* Where we differ from golden data on purpose: lines CASES<tab>WHAT<tab>REASON, both patterns of fnmatch(). */
#ifndef TESTS_DIFFERENCES_H
#define TESTS_DIFFERENCES_H

#include "tests/tap.h"
#include "util/cleanup.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIFFERENCES = 400 };

static struct difference {
    char *cases, *what, *reason;
    int used;
} differences[MOST_DIFFERENCES];
static size_t difference_count;

/* Whether the list has a reason for difference @p what of case @p name. */
static bool
has_reason (const char *name, const char *what)
{
    for (size_t i = 0; i < difference_count; i++)
        if (!fnmatch (differences[i].cases, name, 0) && !fnmatch (differences[i].what, what, 0)) {
            differences[i].used++;
            return true;
        }
    return false;
}

static void
read_differences (const char *path)
{
    AUTO_FILE FILE *file = fopen (path, "r");
    char line[1000];
    while (file && fgets (line, sizeof line, file) && difference_count < MOST_DIFFERENCES) {
        char *rest = line, *cases = strsep (&rest, "\t"), *what = strsep (&rest, "\t"), *reason = strsep (&rest, "\n");
        if (*cases == '#' || !what || !reason)
            continue;
        differences[difference_count++]
            = (struct difference){ .cases = strdup (cases), .what = strdup (what), .reason = strdup (reason) };
    }
}

/* A reason that no case needs any more is a failure, where @p all cases were run. */
static void
check_differences (bool all)
{
    for (size_t i = 0; i < difference_count; i++) {
        if (all && !ok (differences[i].used, "the difference '%s' of %s is one", differences[i].what,
                        differences[i].cases))
            diag ("%s", differences[i].reason);
        free (differences[i].cases);
        free (differences[i].what);
        free (differences[i].reason);
    }
}

#endif
