/* SPDX-License-Identifier: Apache-2.0 */
/* What the file of `accelerate launch --failure_report` says, in sentences.  All of it may be missing or of another
 * type: then it is not known. */
#ifndef REPORT_LAUNCH_H
#define REPORT_LAUNCH_H

#include "util/strbuf.h"

#include <jansson.h>

/** How a job, or an attempt, ended. */
enum launch_end { LAUNCH_UNKNOWN, LAUNCH_DONE, LAUNCH_FAILED, LAUNCH_STOPPED };
enum launch_end launch_end (const json_t *report);

/** Append how the job, or an attempt of "restarts", ended: "rank 3 (process 71 on node2) was killed by signal 11
 * (SIGSEGV); it was: ...". */
void launch_sentence (const json_t *report, struct strbuf *out);

/** Append "3 s", "4 min 5 s", "2 h 30 min". */
void launch_duration (double seconds, struct strbuf *out);

/** Append "2026-11-28 20:45 UTC". */
void launch_time (double seconds, struct strbuf *out);

#endif
