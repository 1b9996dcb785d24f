/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a report; see report_file.h. */
#include <config.h>

#include "launch/report_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The report must not replace a file that our own output goes to. */
static int
check_apart (const char *file, const struct io_target *report, struct fail *fail)
{
    static const char *const names[] = { "standard output", "standard error" };
    struct stat info, ours;
    for (int i = 0; i < 2; i++)
        if (!stat (report->path, &info) && !fstat (i + 1, &ours) && info.st_dev == ours.st_dev
            && info.st_ino == ours.st_ino)
            return fail_set (fail, FAIL_GENERAL, "--failure_report: %s: %s goes there; name another file", file,
                             names[i]);
    return 0;
}

int
report_file_prepare (struct io_target *report, const char *file, struct fail *fail)
{
    if (!file)
        return 0;
    if (io_check_writable (file, fail) || io_target_find (report, file, 0644, fail))
        return fail_prefix (fail, "--failure_report");
    if (check_apart (file, report, fail))
        return -1;
    return report->exists && unlink (report->path)
           ? fail_set (fail, FAIL_GENERAL, "--failure_report: %s: cannot remove the old one: %s", file,
                       strerror (errno)) : 0;
}
