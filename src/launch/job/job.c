/* SPDX-License-Identifier: Apache-2.0 */
/* What has become of a job; see job.h. */
#include <config.h>

#include "launch/job/job.h"

#include "launch/process/process.h"
#include "util/cleanup.h"

#include <signal.h>

int
job_status (const struct job *job)
{
    int status;
    switch (job->end) {
    case JOB_FAILED:
        status = status_of_wait (job->failed_status);
        return status ? status : FAIL_GENERAL; /* the processes went well, but not their last save */
    case JOB_STOPPED: return status_of_signal (job->signal ? job->signal : SIGKILL);
    case JOB_ELSEWHERE: return job->status ? job->status : FAIL_GENERAL;
    default: return job_lost_bytes (job) ? FAIL_GENERAL : 0;
    }
}

uint64_t
job_lost_bytes (const struct job *job)
{
    uint64_t lost = job->not_passed_on;
    for (int i = 0; i < JOB_STREAMS; i++)
        lost += job->sinks[i].lost;
    return lost;
}

void
job_release (struct job *job)
{
    for (int i = 0; job->ranks && i < job->count; i++) {
        for (int j = 0; j < JOB_STREAMS; j++)
            output_stream_release (&job->ranks[i].streams[j]);
        free (job->ranks[i].doing);
    }
    free (job->ranks);
    for (int i = 0; i < JOB_STREAMS; i++)
        output_sink_release (&job->sinks[i]);
    jobseg_detach (&job->segment);
    strlist_release (&job->gpu_lines);
    *job = (struct job){ .segment = JOBSEG_NONE };
}
