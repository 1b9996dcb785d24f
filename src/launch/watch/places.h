/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks of a running job are: their stacks, from the segment of this host, or by the head from all hosts. */
#ifndef LAUNCH_WATCH_PLACES_H
#define LAUNCH_WATCH_PLACES_H

#include "launch/stacks/stacks.h"
#include "launch/watch/jobs.h"

/** Ask rank @p only of this host, or all if it is -1.
 *  @param[out] stacks  for stacks_release(), also after a failure  @return 0, or -1 without memory */
int places_take (const struct watch_job *job, int only, struct stacks *stacks, struct fail *fail);

/* ---- from a head, which asks the hosts: they look up the names ---- */

enum { PLACES_WAIT_MS = STACKS_NAMES_WAIT_MS + 2000 };

/** Stacks that a head was asked for. */
struct places {
    const struct watch_job *job;
    int only;          /* a rank; -1: all */
    uint32_t number;   /* of the question */
    uint64_t since_ns; /* CLOCK_MONOTONIC */
};

/** Ask the head of @p job.  Does not wait. */
void places_ask (struct places *places, const struct watch_job *job, int only);

/** @return whether all hosts have answered of which that can be expected */
bool places_are_complete (const struct places *places);

/** What has come in: an array as stacks_finish() makes it, each rank with its "host"; those whose host has not answered
 *  have that as their reason.  @return NULL without memory */
json_t *places_finish (const struct places *places);

/** The last two, waiting for as long as PLACES_WAIT_MS. */
json_t *places_await (const struct places *places);

/** Head: an answer of a host in the file that header.answers names.  Its text, without a terminating 0, follows. */
struct places_answer {
    uint32_t number;
    uint32_t first_rank, ranks; /* of the host */
    uint32_t length;            /* of the text: JSON; 0: there is none */
};

#endif
