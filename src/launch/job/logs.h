/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the ranks' output, laid out like torchrun's:
 * FOLDER/RUN_RANDOM/attempt_N/LOCAL_RANK/stdout.log, stderr.log and, where the program writes one, error.json. */
#ifndef LAUNCH_JOB_LOGS_H
#define LAUNCH_JOB_LOGS_H

#include "launch/job/job.h"
#include "launch/plan/plan.h"

/** Make the run's folder, and choose its name; before anything is started.  Does nothing without logs. */
int logs_make_run (struct plan *plan, struct fail *fail);

/** Make the folders of the plan's attempt. */
int logs_make_attempt (const struct plan *plan, struct fail *fail);

/**
 * Open what of @p rank comes through us.  Touches nothing but the rank.
 *
 * @param[out] ends  what the rank gets for stdout and stderr, -1: as ours; the caller closes them
 */
int logs_open_streams (struct job *job, struct job_rank *rank, int ends[JOB_STREAMS], struct fail *fail);
/** How many descriptors of ours the streams of all ranks will be. */
int logs_count_descriptors (const struct job *job);
void logs_close_streams (struct job_rank *rank);

/** What the program of a rank has written about its own failure.
 * @param[out] message  one line, empty if there is none
 * @param[out] lines    the last ones of a traceback */
void logs_read_error (const struct plan *plan, const struct job_rank *rank, struct strbuf *message,
                      struct strlist *lines);

#endif
