/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of all hosts were doing when the job was told to end, from the reports of their launchers. */
#ifndef HOSTS_DOING_H
#define HOSTS_DOING_H

#include "util/strbuf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** {0} is an empty one. */
struct doing {
    struct doing_rank {
        int rank;
        const char *text; /* in the JSON that it is from */
    } *ranks; /* in their order */
    size_t count;
    int64_t killed;  /* processes that did not end when they were asked to */
    json_t *reports; /* the launchers', parsed */
};

/** Add the ranks of a launcher that was told to end.
 * @param json  its report; what is not one adds nothing  @param gave_up  also those that gave up before that */
void doing_add (struct doing *doing, const char *json, bool gave_up);

/** Append a line for all ranks that were doing the same, after a line with @p title; nothing if nothing is known. */
void doing_put (const struct doing *doing, const char *title, struct strbuf *out);

/** @return an array as in a launcher's report */
json_t *doing_json (const struct doing *doing);

void doing_release (struct doing *doing);

#endif
