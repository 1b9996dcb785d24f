/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs that others use, when a job has failed for want of their memory; see report.h. */
#include <config.h>

#include "launch/report/report.h"

#include "launch/job/job.h"
#include "launch/machine/gpus.h"
#include "util/cleanup.h"

#include <string.h>

/* Words of CUDA, and of what is built on it. */
static bool
is_about_gpu_memory (const char *line)
{
    static const char *const words[] = {
        "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "cudaErrorDevicesUnavailable",
        "CUDA-capable device(s) is/are busy or unavailable", "CUBLAS_STATUS_ALLOC_FAILED",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr (line, words[i]))
            return true;
    return strcasestr (line, "out of memory") && (strcasestr (line, "cuda") || strcasestr (line, "gpu"));
}

static bool
lacked_gpu_memory (const struct job *job)
{
    const struct job_rank *rank = &job->ranks[job->first_failed];
    AUTO_STRBUF struct strbuf message = { 0 };
    AUTO_STRLIST struct strlist lines = { 0 }, traceback = { 0 };
    logs_read_error (job->plan, rank, &message, &traceback);
    output_stream_tail (&rank->streams[JOB_ERR], &lines);
    bool found = message.text && is_about_gpu_memory (message.text);
    for (size_t i = 0; i < lines.count && !found; i++)
        found = is_about_gpu_memory (lines.items[i]);
    return found;
}

static void
add_gpu (struct job *job, const struct gpu *gpu)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    gpu_describe_use (gpu, &line);
    strlist_add (&job->gpu_lines, line.text ? line.text : "");
}

void
gpu_report_find (struct job *job)
{
    enum { MOST = 64 };
    if (job->end != JOB_FAILED || strncmp (job->ranks[job->first_failed].process->device, "cuda:", 5)
        || !lacked_gpu_memory (job))
        return;
    AUTO_FREE struct gpu *gpus = calloc (MOST, sizeof *gpus);
    int count = gpus ? nvml_list (gpus, MOST, NULL) : -1, used = 0;
    bool are_known = gpu_processes_are_known () && count <= MOST;
    for (int i = 0; i < count && i < MOST; i++) {
        are_known = are_known && gpus[i].process_count >= 0;
        if (gpus[i].process_count > 0) {
            add_gpu (job, &gpus[i]);
            used++;
        }
    }
    if (count > 0 && !used && are_known)
        strlist_add (&job->gpu_lines, "no other process uses a GPU now");
}
