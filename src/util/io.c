/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files; see io.h. */
#include <config.h>

#include "util/io.h"

#include "util/cleanup.h"
#include "util/strbuf.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int
io_read_file (const char *path, size_t limit, char **text, size_t *length, struct fail *fail)
{
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
    struct stat info;
    if (!fstat (fd, &info) && S_ISDIR (info.st_mode))
        return fail_set (fail, FAIL_GENERAL, "%s: is a directory", path);
    AUTO_STRBUF struct strbuf buf = { 0 };
    char chunk[8192];
    for (;;) {
        ssize_t got = read (fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
        if (!got)
            break;
        strbuf_add_bytes (&buf, chunk, (size_t) got);
        if (buf.length > limit)
            return fail_set (fail, FAIL_GENERAL, "%s: larger than %zu bytes", path, limit);
    }
    size_t total = buf.length;
    char *taken = strbuf_take (&buf);
    if (!taken)
        return fail_nomem (fail);
    *text = taken;
    if (length)
        *length = total;
    return 0;
}

int
io_write_all (int fd, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length) {
        ssize_t put = write (fd, at, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        at += put;
        length -= (size_t) put;
    }
    return 0;
}

/* A rename is on disk only when its directory is. */
static int
sync_directory_of (const char *path)
{
    AUTO_FREE char *copy = strdup (path);
    if (!copy)
        return -1;
    char *slash = strrchr (copy, '/');
    if (slash)
        slash[slash == copy] = '\0';
    AUTO_CLOSE int fd = open (slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync (fd);
}

/* mkostemp() makes files that nobody else may read, and fchmod() afterwards does not know the umask: open() does. */
static int
create_beside (const char *path, mode_t mode, struct strbuf *name)
{
    int fd = -1;
    for (unsigned i = 0; i < 1000 && fd < 0; i++) {
        strbuf_truncate (name, 0);
        strbuf_printf (name, "%s.%d.%u", path, (int) getpid (), i);
        if (name->failed) {
            errno = ENOMEM;
            return -1;
        }
        fd = open (name->text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

int
io_write_file (const char *path, const void *bytes, size_t length, mode_t mode, struct fail *fail)
{
    AUTO_STRBUF struct strbuf beside = { 0 };
    AUTO_CLOSE int fd = create_beside (path, mode, &beside);
    if (fd < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: cannot create a file beside it: %s", path, strerror (errno));
    if (io_write_all (fd, bytes, length) || fsync (fd) || rename (beside.text, path)) {
        fail_set (fail, FAIL_GENERAL, "%s: cannot write: %s", path, strerror (errno));
        unlink (beside.text);
        return -1;
    }
    if (sync_directory_of (path))
        return fail_set (fail, FAIL_GENERAL, "%s: written, but its directory cannot be synced: %s", path,
                         strerror (errno));
    return 0;
}

int
io_make_parents (const char *path, struct fail *fail)
{
    AUTO_FREE char *copy = strdup (path);
    if (!copy)
        return fail_nomem (fail);
    for (char *at = copy + 1; *copy && (at = strchr (at, '/')); at++) {
        *at = '\0';
        if (mkdir (copy, 0777) && errno != EEXIST)
            return fail_set (fail, FAIL_GENERAL, "%s: cannot create directory: %s", copy, strerror (errno));
        *at = '/';
    }
    return 0;
}
