/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of this host do; see watch.h. */
#include <config.h>

#include "hosts/agent/watch.h"

#include "hosts/samples.h"

void
agent_watch_answer (struct agent_watch *watch, pid_t supervisor, uint32_t request, struct strbuf *out)
{
    if (supervisor && watch->supervisor != supervisor) {
        agent_watch_end (watch, NULL);
        watch->supervisor = watch_job_of (&watch->job, supervisor) ? 0 : supervisor;
    }
    if (request && watch->supervisor)
        atomic_fetch_or (&watch->job.segment.header->request, request);
    samples_put (out, watch->supervisor ? &watch->job : NULL);
}

void
agent_watch_end (struct agent_watch *watch, struct strbuf *out)
{
    if (!watch->supervisor)
        return;
    if (out)
        samples_put (out, &watch->job);
    watch_job_release (&watch->job);
    watch->supervisor = 0;
}
