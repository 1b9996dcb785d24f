/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of a job's ranks, as `accelerate stacks` prints and `accelerate top` shows them. */
#ifndef CLI_WATCH_DUMP_H
#define CLI_WATCH_DUMP_H

#include "launch/stacks/stacks.h"
#include "launch/watch/jobs.h"
#include "util/strbuf.h"

/** Ask rank @p only of this host, or all if it is -1.
 *  @param[out] stacks  for stacks_release(), also after a failure  @return 0, or -1 without memory */
int dump_take (const struct watch_job *job, int only, struct stacks *stacks, struct fail *fail);

/** Append what stacks_finish() has said, and how many ranks are on other hosts. */
void dump_put (const json_t *ranks, int elsewhere, struct strbuf *out);

/** For those who cannot wait while names and lines are found, which may take seconds.  {0}: none. */
struct dump {
    struct stacks stacks;
    struct stack_names names;
    int64_t until_ms;     /* that names are waited for; 0: none are */
    int elsewhere;        /* ranks on other hosts */
    struct strlist lines; /* to be shown */
};

/** Ask as dump_take() does.  @param[out] dump  what was in it is released */
int dump_begin (struct dump *dump, const struct watch_job *job, int only, struct fail *fail);

/** @return a descriptor that becomes readable when dump_turn() has something to do; -1: nothing is awaited */
int dump_fd (const struct dump *dump);

/** If all names are there, or it is too late for them, put stacks into `lines`. */
void dump_turn (struct dump *dump);

void dump_release (struct dump *dump);

#endif
