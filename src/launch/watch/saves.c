/* SPDX-License-Identifier: Apache-2.0 */
/* Asking for checkpoints; see saves.h. */
#include <config.h>

#include "launch/watch/saves.h"

/* The ranks agree, so that one that asks is enough. */
static int
check_respected (const struct watch_job *job, struct fail *fail)
{
    bool uses_libaccel = false;
    for (int i = 0; i < job->rank_count; i++) {
        const struct jobseg_slot *slot = jobseg_slot (&job->segment, i);
        if (atomic_load (&slot->respects) & JOBSEG_SAVE)
            return 0;
        uses_libaccel = uses_libaccel || atomic_load (&slot->state) == JOBSEG_READY;
    }
    return fail_set (fail, FAIL_GENERAL, uses_libaccel ? "its program has not called accel_should_save()"
                                                       : "no rank has opened the job with accel_open()");
}

int
watch_saves_ask (const struct watch_job *job, uint32_t *before, struct fail *fail)
{
    if (check_respected (job, fail))
        return -1;
    for (int i = 0; i < job->rank_count; i++)
        before[i] = atomic_load (&jobseg_slot (&job->segment, i)->saves);
    atomic_fetch_or (&job->segment.header->request, JOBSEG_SAVE);
    watch_job_ask (job);
    return 0;
}

bool
watch_saves_are_complete (const struct watch_job *job, const uint32_t *before)
{
    for (int i = 0; i < job->rank_count; i++)
        if (atomic_load (&jobseg_slot (&job->segment, i)->saves) == before[i])
            return false;
    return true;
}
