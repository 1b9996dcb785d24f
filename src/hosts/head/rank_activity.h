/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of all hosts were doing when the job was told to end, from the reports of their launchers. */
#ifndef HOSTS_HEAD_RANK_ACTIVITY_H
#define HOSTS_HEAD_RANK_ACTIVITY_H

#include "util/strbuf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** {0} is an empty one. */
struct rank_activity {
    struct rank_activity_rank {
        int rank;
        const char *text; /* in the JSON that it is from */
    } *ranks; /* in their order */
    size_t count;
    int64_t killed;  /* processes that did not end when they were asked to */
    json_t *reports; /* the launchers', parsed */
};

/** Add the ranks of a launcher that was told to end.
 * @param json  its report; what is not one adds nothing  @param gave_up  also those that gave up before that */
void rank_activity_add (struct rank_activity *activity, const char *json, bool gave_up);

/** Append a line for all ranks that were doing the same, after a line with @p title; nothing if nothing is known. */
void rank_activity_put (const struct rank_activity *activity, const char *title, struct strbuf *out);

/** @return an array as in a launcher's report */
json_t *rank_activity_json (const struct rank_activity *activity);

void rank_activity_release (struct rank_activity *activity);

#endif
