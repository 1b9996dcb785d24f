/* SPDX-License-Identifier: Apache-2.0 */
/* The file that --failure_report names. */
#ifndef LAUNCH_REPORT_FILE_H
#define LAUNCH_REPORT_FILE_H

#include "util/fail.h"
#include "util/io.h"

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

#endif
