/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job failed, for people and for programs. */
#ifndef LAUNCH_REPORT_H
#define LAUNCH_REPORT_H

#include "launch/job.h"
#include "util/fail.h"
#include "util/strbuf.h"

/** Begins a line about what may have failed first, too. */
#define REPORT_SIMULTANEOUS "  at nearly the same time, "

/** Append the report of @p job as lines of text, the first beginning "accelerate: "; nothing where all went well. */
void report_text (const struct job *job, struct strbuf *out);

/** Append how many processes had to be killed, as lines that follow another report. */
void report_killed (const struct job *job, struct strbuf *out);

/** Append what must be reported even if no report is wanted: output that was lost, processes that remain. */
void report_losses (const struct job *job, struct strbuf *out);

/** Append it as one JSON object on one line; also where all went well. */
int report_json (const struct job *job, struct strbuf *out, struct fail *fail);

/** The same of a job that came to nothing, because of @p error. */
int report_json_error (const struct plan *plan, const struct fail *error, struct strbuf *out, struct fail *fail);

#endif
