/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of a job's ranks, as `accelerate stacks` prints and `accelerate top` shows them. */
#ifndef CLI_WATCH_DUMP_H
#define CLI_WATCH_DUMP_H

#include "launch/watch/places.h"
#include "util/strbuf.h"

/** Append what stacks_finish() has said, and how many ranks are on other hosts. */
void dump_put (const json_t *ranks, int elsewhere, struct strbuf *out);

/** For those who cannot wait while names and lines are found, which may take seconds. */
struct dump {
    struct stacks stacks;
    struct stack_names names;
    struct watch_job job; /* of a head */
    struct places places; /* then */
    int64_t until_ms;     /* that names are waited for; 0: none are */
    int elsewhere;        /* ranks on other hosts */
    struct strlist lines; /* to be shown */
};

#define DUMP_NONE ((struct dump){ .job = { .segment = JOBSEG_NONE } })

/** Ask rank @p only of this host, or all if it is -1.  @param[out] dump  what was in it is released */
int dump_begin (struct dump *dump, const struct watch_job *job, int only, struct fail *fail);

/** @return a descriptor that becomes readable when dump_turn() has something to do; -1: nothing is awaited */
int dump_fd (const struct dump *dump);

/** If all names are there, or it is too late for them, put stacks into `lines`. */
void dump_turn (struct dump *dump);

void dump_release (struct dump *dump);

#endif
