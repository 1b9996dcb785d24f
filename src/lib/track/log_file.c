/* SPDX-License-Identifier: Apache-2.0 */
/* Files of trackers; see log_file.h. */
#include <config.h>

#include "lib/track/log_file.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <accel/utility.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *
log_folder (const struct accel_tracker_run *run)
{
    return run->run_name ? text_printf ("%s/%s/%s", run->logging_dir, run->project_name, run->run_name)
                         : text_printf ("%s/%s", run->logging_dir, run->project_name);
}

/* Where the last whole line ends. */
static off_t
find_end_of_lines (int fd, off_t size)
{
    char piece[4096];
    while (size > 0) {
        size_t length = size < (off_t) sizeof piece ? (size_t) size : sizeof piece;
        ssize_t got = pread (fd, piece, length, size - (off_t) length);
        if (got != (ssize_t) length)
            return -1;
        for (size_t i = length; i > 0; i--)
            if (piece[i - 1] == '\n')
                return size - (off_t) (length - i);
        size -= (off_t) length;
    }
    return 0;
}

static int
remove_half_line (int fd)
{
    struct stat info;
    if (fstat (fd, &info))
        return -1;
    if (!S_ISREG (info.st_mode)) /* a device or a pipe has no end */
        return 0;
    off_t end = find_end_of_lines (fd, info.st_size);
    return end < 0 ? -1 : end < info.st_size ? ftruncate (fd, end) : 0;
}

static int
write_header (const struct log_file *file)
{
    struct stat info;
    if (!file->header)
        return 0;
    return fstat (file->fd, &info) || (!info.st_size && io_write_all (file->fd, file->header, strlen (file->header)))
               ? -1 : 0;
}

/* If this fails, errno says why. */
static enum accel_status
open_now (struct log_file *file, struct accel_error *err)
{
    struct fail fail;
    if (io_make_parents (file->path, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%.400s", fail.text);
    file->fd = open (file->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file->fd >= 0 && (!file->lines || !remove_half_line (file->fd)) && !write_header (file))
        return ACCEL_OK;
    int number = errno;
    accel_fail_errno (err, "cannot open %.300s", file->path);
    if (file->fd >= 0)
        close (file->fd);
    file->fd = -1;
    errno = number;
    return ACCEL_ERR_SYSTEM;
}

enum accel_status
log_file_open (struct log_file *file, const char *folder, const char *name, bool lines, struct accel_error *err)
{
    file->path = text_printf ("%s/%s", folder, name);
    file->lines = lines;
    if (!file->path)
        return accel_fail_nomem (err);
    struct accel_error own;
    enum accel_status status = open_now (file, &own);
    if (!status || errno == ENOSPC || errno == EDQUOT)
        return ACCEL_OK;
    *err = own;
    return status;
}

enum accel_status
log_file_add (struct log_file *file, size_t mark, struct accel_error *err)
{
    if (!file->left.failed)
        return ACCEL_OK;
    file->left.failed = false;
    if (file->left.text)
        strbuf_truncate (&file->left, mark);
    return accel_fail_nomem (err);
}

enum accel_status
log_file_flush (struct log_file *file, struct accel_error *err)
{
    size_t done = 0;
    ssize_t written = 0;
    enum accel_status status = file->fd < 0 ? open_now (file, err) : ACCEL_OK;
    if (status)
        return status;
    while (done < file->left.length && written >= 0) {
        written = write (file->fd, file->left.text + done, file->left.length - done);
        if (written > 0)
            done += (size_t) written;
        else if (written < 0 && errno == EINTR)
            written = 0;
    }
    int number = errno;
    strbuf_drop (&file->left, done);
    if (written >= 0)
        return ACCEL_OK;
    errno = number;
    return accel_fail_errno (err, "cannot write %.300s", file->path);
}

void
log_file_close (struct log_file *file)
{
    int saved = errno;
    if (file->fd >= 0)
        close (file->fd);
    file->fd = -1;
    free (file->path);
    file->path = NULL;
    strbuf_release (&file->left);
    errno = saved;
}

static enum accel_status
flush (void *user, struct accel_error *err)
{
    return log_file_flush (user, err);
}

static void
finish (void *user)
{
    log_file_close (user);
    free (user);
}

enum accel_status
log_file_create (struct accel_tracker_calls *calls, size_t size, struct accel_error *err)
{
    struct log_file *file = calloc (1, size);
    if (!file)
        return accel_fail_nomem (err);
    file->fd = -1;
    calls->user = file;
    calls->flush = flush;
    calls->finish = finish;
    return ACCEL_OK;
}

void
log_warn_unable (const char *tracker, const struct accel_value *value)
{
    accel_logger_log (NULL, ACCEL_LOG_WARNING | ACCEL_LOG_ONCE, "tracker %s cannot write %s: '%s' is left out", tracker,
                      value->kind == ACCEL_IMAGE ? "images" : "histograms", value->key);
}

void
log_add_number (struct strbuf *out, double number)
{
    char text[40];
    if (isnan (number) || isinf (number)) {
        strbuf_add (out, isnan (number) ? "nan" : number > 0 ? "inf" : "-inf");
        return;
    }
    int digits = 15;
    do
        snprintf (text, sizeof text, "%.*g", digits, number);
    while (digits++ < 17 && strtod (text, NULL) != number);
    text_use_point (text);
    strbuf_add (out, text);
}
