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

enum {
    FILE_MS = 1000,  /* between two looks at the file that asks for a checkpoint */
    SAVES_MS = 500,  /* and at the memory tier, until each rank has saved */
    MIB = 1 << 20,
};

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

/* The largest checkpoint of local rank @rank so far; NULL: it has none yet */
static const struct memtier_entry *
find_saved (const struct memtier_header *header, int rank)
{
    const struct memtier_entry *largest = NULL;
    for (uint32_t i = 0; i < MEMTIER_BUFFERS; i++) {
        const struct memtier_entry *entry = &header->entries[(uint32_t) rank * MEMTIER_BUFFERS + i];
        if (memtier_number_of (entry) && (!largest || entry->index_at > largest->index_at))
            largest = entry;
    }
    return largest;
}

/* Only the ranks know how large a state is, when they have saved one. */
static void
look_for_saves (struct supervisor *supervisor, int64_t now_ms)
{
    const struct job *job = supervisor->job;
    const struct memtier_header *header = job->plan->memtier->header;
    uint32_t buffers = atomic_load (&header->buffers);
    bool has_copies = buffers > MEMTIER_BUFFERS_ALONE;
    uint64_t bytes = 0, copied = 0;
    char line[PLAN_NOTICE_BYTES], copies[64] = "";
    supervisor->saves_ms = now_ms + SAVES_MS;
    for (int i = 0; i < job->count; i++) {
        const struct memtier_entry *saved = find_saved (header, i);
        if (!saved)
            return;
        bytes += (saved->index_at + saved->index_bytes - (saved->has_common ? 0 : saved->common_bytes)) * buffers;
        copied += (saved->index_at + saved->index_bytes - saved->common_bytes) * MEMTIER_COPY_BUFFERS;
    }
    if (has_copies)
        snprintf (copies, sizeof copies, ", and %llu MiB on another host",
                  (unsigned long long) (copied + MIB - 1) / MIB);
    snprintf (line, sizeof line, "accelerate: note: checkpoints in memory of this job take %s%llu MiB on %.128s%s",
              has_copies ? "up to " : "", (unsigned long long) (bytes + MIB - 1) / MIB, job->plan->host, copies);
    if (output_sink_say (job->sink_of[JOB_ERR], line))
        supervisor->saves_ms = INT64_MAX;
}

int64_t
request_serve (struct supervisor *supervisor, int64_t now_ms, const char **stop_reason)
{
    struct job *job = supervisor->job;
    const struct plan_requests *requests = &job->plan->requests;
    int64_t next = INT64_MAX;
    bool is_over = supervisor->phase != PHASE_RANKS || job->end != JOB_DONE;
    bool says_memory = job->plan->says_memory && !job->plan->restarts && supervisor->saves_ms != INT64_MAX;
    if (says_memory && (is_over || now_ms >= supervisor->saves_ms))
        look_for_saves (supervisor, now_ms);
    if (is_over)
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
    if (says_memory && supervisor->saves_ms < next)
        next = supervisor->saves_ms;
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
