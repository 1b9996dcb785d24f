/* SPDX-License-Identifier: Apache-2.0 */
/* One file of a rank's output; see sink.h. */
#include <config.h>

#include "launch/output/sink.h"

#include "util/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int
logfile_open (struct logfile *file, char *path, struct fail *fail)
{
    *file = (struct logfile){ .fd = -1, .path = path };
    if (!path)
        return fail_nomem (fail);
    file->fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    return file->fd < 0 ? fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno)) : 0;
}

static size_t
write_some (struct logfile *file, const char *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t put = write (file->fd, bytes + done, length - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && !file->error)
            file->error = errno;
        if (put <= 0)
            break;
        done += (size_t) put;
    }
    file->size += done;
    return done;
}

bool
logfile_write (struct logfile *file, const char *bytes, size_t length, size_t *written)
{
    *written = 0;
    if (file->lost) {
        char text[80];
        int mark = snprintf (text, sizeof text, "\n[accelerate: %llu bytes are missing here]\n",
                             (unsigned long long) file->lost);
        if (write_some (file, text, (size_t) mark) < (size_t) mark) {
            file->lost += length;
            return false;
        }
        file->lost = 0;
    }
    *written = write_some (file, bytes, length);
    file->lost = length - *written;
    return !file->lost;
}

size_t
logfile_read (const struct logfile *file, uint64_t offset, char *bytes, size_t size)
{
    ssize_t got;
    do
        got = pread (file->fd, bytes, size, (off_t) offset);
    while (got < 0 && errno == EINTR);
    return got > 0 ? (size_t) got : 0;
}

void
logfile_release (struct logfile *file)
{
    if (file->fd >= 0)
        close (file->fd);
    free (file->path);
    *file = (struct logfile){ .fd = -1 };
}
