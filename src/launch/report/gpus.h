/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds the memory of GPUs, for the report of a job that got none. */
#ifndef LAUNCH_REPORT_GPUS_H
#define LAUNCH_REPORT_GPUS_H

#include "launch/job/job.h"

/**
 * If the rank that failed first has said that a GPU was out of memory or busy, ask NVML for the GPUs and their
 * processes, and keep the answer in job->gpu_lines for the report.  All ranks of this machine have ended.
 */
void gpu_report_find (struct job *job);

#endif
