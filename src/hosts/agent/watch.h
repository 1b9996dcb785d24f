/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the ranks of this host for those who watch the job where its head is: in their segment and in /proc, so
 * the launcher has nothing to do with it, and ranks whose launcher hangs are seen, too. */
#ifndef HOSTS_AGENT_WATCH_H
#define HOSTS_AGENT_WATCH_H

#include "launch/watch/places.h"
#include "util/strbuf.h"

struct agent_watch {
    struct watch_job job;
    bool asks_gpus;   /* NVML is asked what GPUs do */
    pid_t supervisor; /* of it; 0: nothing has been asked for since the ranks were started */
    struct stacks stacks;     /* that were asked for */
    struct stack_names names;
    uint32_t number;          /* of the question */
    int64_t until_ms;         /* that names are waited for; 0: none are */
};

/** Pass @p request on to the ranks, and append what they do.
 *  @param supervisor  their supervisor; 0: not known yet
 *  @param asks_gpus   what their GPUs do, too */
void agent_watch_answer (struct agent_watch *watch, pid_t supervisor, uint32_t request, bool asks_gpus,
                         struct strbuf *out);

/** Ask local rank @p only for its stack, or all if it is -1.  agent_watch_turn() answers. */
void agent_watch_take_stacks (struct agent_watch *watch, pid_t supervisor, uint32_t number, int only);

/** If names are there, or it is too late for them, append stacks.  @param out  NULL: they are not needed */
void agent_watch_turn (struct agent_watch *watch, struct strbuf *out);

/** What to wait for so that agent_watch_turn() has something to do; -1: nothing. */
int agent_watch_fd (const struct agent_watch *watch);
/** @return when it has although nothing happens; INT64_MAX: never */
int64_t agent_watch_deadline (const struct agent_watch *watch);

/** The ranks have ended: append how, if they were watched.  @param out  NULL: it is not needed */
void agent_watch_end (struct agent_watch *watch, struct strbuf *out);

#endif
