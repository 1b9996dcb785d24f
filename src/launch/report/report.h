/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job failed, for people and for programs. */
#ifndef LAUNCH_REPORT_REPORT_H
#define LAUNCH_REPORT_REPORT_H

#include "config/values.h"
#include "launch/job/job.h"
#include "util/fail.h"
#include "util/io.h"
#include "util/strbuf.h"

#include <jansson.h>

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

/** Put into @p json, the report of the whole job, when it began and ended, the settings with their origins (not those
 * that are secret), and what machine this is.  @param config  may be all zero: then there are no settings */
int report_put_launch (const struct config *config, double started_s, struct strbuf *json, struct fail *fail);

/** @return seconds since 1970 */
double report_time (void);

/** What ranks were doing when the job was told to end, of one host or, from the reports of their launchers, of all.
 * {0} is an empty one. */
struct rank_activity {
    struct rank_activity_rank {
        int rank;
        const char *text; /* in the JSON that it is from */
        double seconds;   /* for how long; -1: not known */
        const char *frame; /* the innermost one that is the program's, "load (data.c:33)"; NULL: not known */
    } *ranks; /* in their order */
    size_t count;
    int64_t killed;  /* processes that did not end when they were asked to */
    json_t *reports; /* the launchers', parsed */
};

/** Add the ranks of a launcher that was told to end.
 * @param json  its report; what is not one adds nothing  @param gave_up  also those that gave up before that */
void rank_activity_add (struct rank_activity *activity, const char *json, bool gave_up);

/** Append a line for all ranks that were doing the same, after a line with @p title; nothing if nothing is known. */
void rank_activity_put (const struct rank_activity *activity, const char *title, struct strbuf *out);

/** @return an array as in a launcher's report */
json_t *rank_activity_json (const struct rank_activity *activity);

void rank_activity_release (struct rank_activity *activity);

/** Append the report of @p job as lines of text, the first beginning "accelerate: "; nothing if all went well. */
void report_text (const struct job *job, struct strbuf *out);

/** Append the line that says how a job was ended from outside.
 * @param step  that all ranks have saved for it; NULL: none  @param reason  NULL: @p signal */
void report_stop (const uint64_t *step, int signal, const char *reason, struct strbuf *out);

/** Append how many processes had to be killed, as lines that follow another report. */
void report_killed (const struct job *job, struct strbuf *out);

/** Append what must be reported even without a report: output that was lost, processes that remain. */
void report_losses (const struct job *job, struct strbuf *out);

/** Append it as one JSON object on one line; also if all went well. */
int report_json (const struct job *job, struct strbuf *out, struct fail *fail);

/** The same of a job that came to nothing, because of @p error.  @param host, program  may be NULL */
int report_json_error (const char *host, const char *program, int world_size, const struct fail *error,
                       struct strbuf *out, struct fail *fail);

/** Append @p root, which is released, on one line. */
int report_print_json (json_t *root, struct strbuf *out, struct fail *fail);

/* The file that --failure_report names. */

/**
 * Before the job starts: find out that the file can be written, before hours of work, and remove the report of an
 * earlier job, which must not be taken for ours.  A file that our own output goes to is refused.
 *
 * @param[out] report  for io_target_release(), also after a failure; without a path if @p file is NULL
 * @param file         NULL: no report was asked for
 * @param is_certain   the command line is valid; otherwise the file may be named by mistake, as in --failure_report
 *                     train.py, and only a report is removed
 */
int report_file_prepare (struct io_target *report, const char *file, bool is_certain, struct fail *fail);

/** A launch of @p program was refused because of @p error: write that, unless there is a report that says more.  Best
 * effort: @p error is reported anyway.  @param program  may be NULL */
void report_file_refuse (const struct io_target *report, const char *program, int64_t world_size,
                         const struct fail *error);

/** Find names for the stacks that were taken, for the report.  May take some seconds, so it is called after the end. */
void report_find_stacks (struct job *job);

/* Who holds the memory of GPUs, for the report of a job that got none. */

/**
 * If the rank that failed first has said that a GPU was out of memory or busy, ask NVML for the GPUs and their
 * processes, and keep the answer in job->gpu_lines for the report.  All ranks of this machine have ended.
 */
void gpu_report_find (struct job *job);

#endif
