/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job failed, for people and for programs. */
#ifndef LAUNCH_REPORT_REPORT_H
#define LAUNCH_REPORT_REPORT_H

#include "launch/job/job.h"
#include "util/fail.h"
#include "util/strbuf.h"

/** Begins a line about what may have failed first, too. */
#define REPORT_SIMULTANEOUS "  at nearly the same time, "

/** The first bytes of each report as JSON. */
#define REPORT_BEGIN "{\"host\":"

enum { REPORT_RESTARTS = 100 }; /* of so many attempts the causes are kept */

/** Attempts that failed, and after which all ranks were started again.  All zero: there are none. */
struct report_attempts {
    struct strlist reports; /* of the last ones: the JSON of each */
    int64_t count;
};

/** Add one with its report, as JSON.  Without memory it is only counted. */
void report_attempts_add (struct report_attempts *attempts, const struct strbuf *json);
void report_attempts_release (struct report_attempts *attempts);

/** Put them into @p json, the report of the whole job. */
int report_put_attempts (const struct report_attempts *attempts, struct strbuf *json, struct fail *fail);

/** Append the report of @p job as lines of text, the first beginning "accelerate: "; nothing if all went well. */
void report_text (const struct job *job, struct strbuf *out);

/** Append how many processes had to be killed, as lines that follow another report. */
void report_killed (const struct job *job, struct strbuf *out);

/** Append what must be reported even without a report: output that was lost, processes that remain. */
void report_losses (const struct job *job, struct strbuf *out);

/** Append it as one JSON object on one line; also if all went well. */
int report_json (const struct job *job, struct strbuf *out, struct fail *fail);

/** The same of a job that came to nothing, because of @p error. */
int report_json_error (const struct plan *plan, const struct fail *error, struct strbuf *out, struct fail *fail);

#endif
