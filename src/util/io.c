/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files; see io.h. */
#include <config.h>

#include "util/io.h"

#include "util/cleanup.h"
#include "util/strbuf.h"
#include "util/text.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

enum { MOST_LINKS = 40 }; /* as the kernel */

static int
read_file (const char *path, int flags, size_t limit, char **text, size_t *length, struct fail *fail)
{
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
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
io_read_file (const char *path, size_t limit, char **text, size_t *length, struct fail *fail)
{
    return read_file (path, O_NONBLOCK, limit, text, length, fail);
}

int
io_read_input (const char *path, size_t limit, char **text, size_t *length, struct fail *fail)
{
    return read_file (path, 0, limit, text, length, fail);
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

/* Beyond the limit for the size of files a write is to fail like any other, instead of ending the process. */
struct limit {
    sigset_t size, old;
    bool blocked;
};

static void
begin_limit (struct limit *limit)
{
    sigemptyset (&limit->size);
    sigaddset (&limit->size, SIGXFSZ);
    limit->blocked = !pthread_sigmask (SIG_BLOCK, &limit->size, &limit->old);
}

static void
end_limit (struct limit *limit)
{
    int saved = errno;
    if (limit->blocked && !sigismember (&limit->old, SIGXFSZ)) {
        while (sigtimedwait (&limit->size, NULL, &(struct timespec){ 0 }) > 0)
            continue;
        pthread_sigmask (SIG_UNBLOCK, &limit->size, NULL);
    }
    errno = saved;
}

static int
write_within_limit (int fd, const void *bytes, size_t length)
{
    struct limit limit;
    begin_limit (&limit);
    int result = io_write_all (fd, bytes, length);
    end_limit (&limit);
    return result;
}

int
io_reserve (int fd, off_t size)
{
    struct limit limit;
    struct statvfs space;
    int result;
    if (!fstatvfs (fd, &space) && space.f_blocks) {
        uint64_t blocks = geteuid () ? space.f_bavail : space.f_bfree;
        if ((uint64_t) size / space.f_frsize > blocks) {
            errno = ENOSPC;
            return -1;
        }
    }
    begin_limit (&limit);
    do
        result = ftruncate (fd, size);
    while (result && errno == EINTR);
    end_limit (&limit);
    return result;
}

int
io_sync_directory_of (const char *path)
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

/* mkostemp() creates files that no other user may read, and fchmod() does not know the umask: open() does. */
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
io_target_write (const struct io_target *target, const void *bytes, size_t length, struct fail *fail)
{
    const char *path = target->path;
    AUTO_STRBUF struct strbuf beside = { 0 };
    AUTO_CLOSE int fd = create_beside (path, target->mode, &beside);
    if (fd < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: cannot create a temporary file in its directory: %s", path,
                         strerror (errno));
    /* The mode of a file that is replaced is not for the umask to cut. */
    if (write_within_limit (fd, bytes, length) || (target->exists && fchmod (fd, target->mode)) || fsync (fd)
        || rename (beside.text, path)) {
        fail_set (fail, FAIL_GENERAL, "%s: cannot write: %s", path, strerror (errno));
        unlink (beside.text);
        return -1;
    }
    if (io_sync_directory_of (path))
        return fail_set (fail, FAIL_GENERAL, "%s: written, but cannot sync its directory: %s", path,
                         strerror (errno));
    return 0;
}

/* What @path leads to, which does not exist yet: realpath() would not say.  NULL: no memory */
static char *
follow_to_nothing (const char *path, int most_links)
{
    char text[PATH_MAX];
    ssize_t length = most_links ? readlink (path, text, sizeof text - 1) : -1;
    if (length <= 0)
        return strdup (path);
    text[length] = '\0';
    const char *slash = strrchr (path, '/');
    int folder = slash && *text != '/' ? (int) (slash + 1 - path) : 0;
    AUTO_FREE char *next = text_printf ("%.*s%s", folder, path, text);
    return next ? follow_to_nothing (next, most_links - 1) : NULL;
}

int
io_target_find (struct io_target *target, const char *path, mode_t mode, struct fail *fail)
{
    struct stat info;
    *target = (struct io_target){ .mode = mode, .exists = !stat (path, &info) };
    if (target->exists && !S_ISREG (info.st_mode))
        return fail_set (fail, FAIL_GENERAL, "%s: is %s, not a regular file", path,
                         S_ISDIR (info.st_mode) ? "a directory" : "a device or other special file");
    target->path = target->exists ? realpath (path, NULL) : follow_to_nothing (path, MOST_LINKS);
    if (!target->path) /* /dev/stderr may lead to a file that has no name any more */
        return errno == ENOMEM ? fail_nomem (fail) : fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
    if (target->exists)
        target->mode = info.st_mode & 07777; /* a file that was made private stays private */
    return 0;
}

void
io_target_release (struct io_target *target)
{
    free (target->path);
    target->path = NULL;
}

int
io_check_writable (const char *path, struct fail *fail)
{
    struct io_target target;
    AUTO_STRBUF struct strbuf beside = { 0 };
    if (io_target_find (&target, path, 0600, fail))
        return -1;
    AUTO_CLOSE int fd = create_beside (target.path, 0600, &beside);
    int error = errno;
    io_target_release (&target);
    if (fd < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: cannot create a temporary file in its directory: %s", path,
                         strerror (error));
    unlink (beside.text);
    return 0;
}

int
io_write_file (const char *path, const void *bytes, size_t length, mode_t mode, struct fail *fail)
{
    struct io_target target;
    if (io_target_find (&target, path, mode, fail))
        return -1;
    int result = io_target_write (&target, bytes, length, fail);
    io_target_release (&target);
    return result;
}

/* That folder @path can be found by its name.  Where the folder above may not be read, or its file system does not sync
 * folders, nothing can be done; what is not a folder is for the caller to find out. */
static int
sync_name (const char *path)
{
    AUTO_FREE char *above = text_printf ("%s/..", path);
    if (!above)
        return -1;
    AUTO_CLOSE int fd = open (above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES || errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    return fsync (fd) && errno != EINVAL && errno != EROFS ? -1 : 0;
}

/* From the innermost folder outwards to one that exists, then inwards.  Each is on disk before the next one is made,
 * so only the innermost folder that a process was killed after making can be without a name: it is synced, too. */
int
io_make_parents (const char *path, struct fail *fail)
{
    AUTO_FREE char *copy = strdup (path);
    if (!copy)
        return fail_nomem (fail);
    char *end = copy + strlen (copy), *at = strrchr (copy, '/');
    bool inwards = false; /* in /proc, an existing folder may take no other, with the error of a missing one */
    while (at && at > copy) {
        *at = '\0';
        bool is_made = !mkdir (copy, 0777) || errno == EEXIST;
        char *outer = is_made ? NULL : strrchr (copy, '/');
        if (!is_made && !inwards && errno == ENOENT && outer && outer > copy) {
            at = outer;
            continue;
        }
        if (!is_made)
            return fail_set (fail, FAIL_GENERAL, "%s: cannot create directory: %s", copy, strerror (errno));
        if (sync_name (copy))
            return fail_set (fail, FAIL_GENERAL, "%s: cannot sync the directory that it is in: %s", copy,
                             strerror (errno));
        inwards = true;
        *at = '/';
        at += strlen (at);          /* the next one inwards, which was cut off here, */
        at = at < end ? at : NULL;  /* or all are there */
    }
    return 0;
}

int
io_open_without_waiting (int fd)
{
    char path[32];
    struct stat info;
    if (fstat (fd, &info) || !(S_ISFIFO (info.st_mode) || isatty (fd)))
        return -1;
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    return open (path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool
io_is_closed (int fd)
{
    int flags = fcntl (fd, F_GETFL);
    return flags < 0 || (flags & O_ACCMODE) == (fd ? O_RDONLY : O_WRONLY);
}
