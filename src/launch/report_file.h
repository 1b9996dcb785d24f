/* SPDX-License-Identifier: Apache-2.0 */
/* The file that --failure_report names. */
#ifndef LAUNCH_REPORT_FILE_H
#define LAUNCH_REPORT_FILE_H

#include "util/fail.h"
#include "util/io.h"

/**
 * Before the job starts: find out that the file can be written, before hours of work, and remove the report of an
 * earlier job, which nobody shall take for ours.  A file that our own output goes to is refused.
 *
 * @param[out] report  for io_target_release(), also after a failure; without a path if @p file is NULL
 * @param file         NULL: no report was asked for
 */
int report_file_prepare (struct io_target *report, const char *file, struct fail *fail);

#endif
