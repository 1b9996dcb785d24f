/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the ranks of this host for those who watch the job where its head is: in their segment and in /proc, so
 * the launcher has nothing to do with it, and ranks whose launcher hangs are seen, too. */
#ifndef HOSTS_AGENT_WATCH_H
#define HOSTS_AGENT_WATCH_H

#include "launch/watch/jobs.h"
#include "util/strbuf.h"

struct agent_watch {
    struct watch_job job;
    pid_t supervisor; /* of it; 0: nothing has been asked for since the ranks were started */
};

/** Pass @p request on to the ranks, and append what they do.
 *  @param supervisor  their supervisor; 0: not known yet */
void agent_watch_answer (struct agent_watch *watch, pid_t supervisor, uint32_t request, struct strbuf *out);

/** The ranks have ended: append how, if they were watched.  @param out  NULL: it is not needed */
void agent_watch_end (struct agent_watch *watch, struct strbuf *out);

#endif
