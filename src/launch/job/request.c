/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks are asked for through the job segment: checkpoints, and an end after one; see supervisor.h.  Ranks that
 * use libaccel say there what they respect. */
#include <config.h>

#include "launch/job/supervisor.h"

#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FILE_MS = 1000 }; /* between two looks at the file that asks for a checkpoint */

static struct jobseg_slot *
slot_of (const struct job *job, int index)
{
    return jobseg_slot (&job->segment, index);
}

static bool
is_respected (const struct job *job, uint32_t request)
{
    for (int i = 0; i < job->count; i++)
        if (!job->ranks[i].ended && atomic_load (&slot_of (job, i)->respects) & request)
            return true;
    return false;
}

void
request_end (struct job *job)
{
    atomic_fetch_or (&job->segment.header->request, JOBSEG_END);
}

bool
request_raise (struct job *job, uint32_t request)
{
    uint32_t before = atomic_fetch_or (&job->segment.header->request, request);
    return !(before & JOBSEG_END) && is_respected (job, request & JOBSEG_STOP ? JOBSEG_STOP : JOBSEG_SAVE);
}

/* What asks for one checkpoint asks once, also if it cannot be removed. */
static void
look_for_file (struct supervisor *supervisor, int64_t now_ms)
{
    const char *path = supervisor->job->plan->requests.checkpoint_file;
    bool is_removed = !unlink (path), stays = !is_removed && errno != ENOENT && !access (path, F_OK);
    supervisor->file_ms = now_ms + FILE_MS;
    if (is_removed || (stays && !supervisor->file_stays))
        request_raise (supervisor->job, JOBSEG_SAVE);
    supervisor->file_stays = stays;
}

int64_t
request_serve (struct supervisor *supervisor, int64_t now_ms, const char **stop_reason)
{
    struct job *job = supervisor->job;
    const struct plan_requests *requests = &job->plan->requests;
    int64_t next = INT64_MAX;
    if (supervisor->phase != PHASE_RANKS || job->end != JOB_DONE)
        return next;
    if (requests->stop_ms && now_ms >= requests->stop_ms)
        *stop_reason = "at the time limit";
    else if (requests->ending_ms && now_ms >= requests->ending_ms && is_respected (job, JOBSEG_STOP))
        *stop_reason = "before the end of its Slurm job";
    if (*stop_reason)
        return next;
    if (requests->checkpoint_file && now_ms >= supervisor->file_ms)
        look_for_file (supervisor, now_ms);
    if (requests->stop_ms)
        next = requests->stop_ms;
    if (requests->ending_ms > now_ms && requests->ending_ms < next)
        next = requests->ending_ms;
    if (requests->checkpoint_file && supervisor->file_ms < next)
        next = supervisor->file_ms;
    return next;
}

/* Who watches repeats what it has seen, so a notice that comes while ranks that have failed are started again counts
 * after that. */
const char *
request_take_notice (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    char text[PLAN_NOTICE_BYTES], line[PLAN_NOTICE_BYTES + sizeof "accelerate: "];
    ssize_t length = recv (job->plan->requests.notices, text, sizeof text - 1, MSG_DONTWAIT);
    if (length < 0)
        return NULL;
    if (length == 0) { /* every packet has a first byte */
        epoll_ctl (supervisor->epoll, EPOLL_CTL_DEL, job->plan->requests.notices, NULL);
        length = snprintf (text, sizeof text, "%cthe process that watches for spot notices has ended",
                           PLAN_NOTICE_WARNING);
    }
    text[length] = '\0';
    if (*text == PLAN_NOTICE_WARNING) {
        snprintf (line, sizeof line, "accelerate: %s", text + 1);
        output_sink_say (job->sink_of[JOB_ERR], line);
    } else if (supervisor->phase == PHASE_RANKS && job->end == JOB_DONE && job->alive) {
        memcpy (job->notice, text + 1, (size_t) length);
        return job->notice;
    }
    return NULL;
}

bool
job_has_agreed (const struct job *job)
{
    for (int i = 0; i < job->count; i++)
        if (!(atomic_load (&slot_of (job, i)->agreed) & JOBSEG_STOP))
            return false;
    return job->count;
}

bool
job_saved_step (const struct job *job, uint64_t *step)
{
    for (int i = 0; i < job->count; i++) {
        struct jobseg_slot *slot = slot_of (job, i);
        uint64_t saved = atomic_load (&slot->saved_step);
        if (!saved || atomic_load (&slot->saves) == atomic_load (&slot->asked_saves) || (i && saved - 1 != *step))
            return false;
        *step = saved - 1;
    }
    return job_has_agreed (job);
}
