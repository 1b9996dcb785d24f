/* SPDX-License-Identifier: Apache-2.0 */
/* All that is known of a run. */
#ifndef REPORT_RUN_H
#define REPORT_RUN_H

#include "report/metrics.h"
#include "report/profile.h"
#include "util/fail.h"
#include "util/strbuf.h"

#include <jansson.h>

struct run {
    char *path;   /* as it was named */
    char *name;   /* for the page */
    struct metrics metrics;
    struct profile profile;
    json_t *launch; /* the report of its launch; NULL: none */
    char *metrics_path, *profile_path, *launch_path; /* NULL: not found */
};

struct runs {
    struct run *items; /* [count] */
    size_t count;
};

/**
 * Read what a command line names: folders of runs, and files.  A profile or the report of a launch belongs to the run
 * before it, or is one of its own if there is none.
 *
 * @param[out] runs  for runs_release(), also after a failure
 */
int runs_read (struct runs *runs, const struct strlist *paths, struct fail *fail);
void runs_release (struct runs *runs);

#endif
