/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a report; see report.h. */
#include <config.h>

#include "launch/report/report.h"

#include "util/cleanup.h"

#include <errno.h>
#include <fcntl.h>
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

static bool
is_report (const char *path)
{
    static const char begin[] = REPORT_BEGIN;
    char bytes[sizeof begin - 1];
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd >= 0 && read (fd, bytes, sizeof bytes) == sizeof bytes && !memcmp (bytes, begin, sizeof bytes);
}

int
report_file_prepare (struct io_target *report, const char *file, bool is_certain, struct fail *fail)
{
    if (!file)
        return 0;
    if (io_check_writable (file, fail) || io_target_find (report, file, 0644, fail))
        return fail_prefix (fail, "--failure_report");
    if (check_apart (file, report, fail))
        return -1;
    return report->exists && (is_certain || is_report (report->path)) && unlink (report->path)
           ? fail_set (fail, FAIL_GENERAL, "--failure_report: %s: cannot remove the old one: %s", file,
                       strerror (errno)) : 0;
}

void
report_file_refuse (const struct io_target *report, const char *program, int64_t world_size, const struct fail *error)
{
    AUTO_STRBUF struct strbuf json = { 0 };
    struct fail unused = { 0 };
    char host[256] = "";
    gethostname (host, sizeof host - 1);
    if (report->path && access (report->path, F_OK)
        && !report_json_error (host, program, (int) world_size, error, &json, &unused))
        io_target_write (report, json.text, json.length, &unused);
}
