/* SPDX-License-Identifier: Apache-2.0 */
/* Where we differ from golden data on purpose: lines CASES<tab>WHAT<tab>REASON, both patterns of fnmatch(). */
#ifndef TESTS_DIFFERENCES_H
#define TESTS_DIFFERENCES_H

#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <fnmatch.h>
#include <jansson.h>
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

/* Run each line of the golden file in a scratch folder; where there is a pattern, only those whose names it matches, or
 * that have none.  @return main()'s */
static int
compare_goldens (const char *goldens, const char *list, size_t flags, const char *pattern, void (*run) (json_t *row))
{
    const char *srcdir = getenv ("srcdir");
    char path[4096], *line = NULL;
    size_t size = 0;
    snprintf (path, sizeof path, "%s/tests/golden/command/%s", srcdir ? srcdir : ".", list);
    read_differences (path);
    snprintf (path, sizeof path, "%s/tests/golden/command/%s", srcdir ? srcdir : ".", goldens);
    AUTO_FILE FILE *file = fopen (path, "r");
    if (!ok (file && scratch_enter (), "%s", path))
        return done_testing ();
    while (getline (&line, &size, file) > 0) {
        json_t *row = json_loads (line, flags, NULL);
        const char *name = json_string_value (json_object_get (row, "name"));
        if (!pattern || !*name || !fnmatch (pattern, name, 0))
            run (row);
        json_decref (row);
    }
    free (line);
    check_differences (!pattern);
    return done_testing ();
}

#endif
