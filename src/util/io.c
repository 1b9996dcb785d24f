/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files; see io.h. */
#include <config.h>

#include "util/io.h"

#include "util/cleanup.h"
#include "util/strbuf.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

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
static int
write_within_limit (int fd, const void *bytes, size_t length)
{
    sigset_t size, old;
    sigemptyset (&size);
    sigaddset (&size, SIGXFSZ);
    int blocked = pthread_sigmask (SIG_BLOCK, &size, &old);
    int result = io_write_all (fd, bytes, length), saved = errno;
    if (!blocked && !sigismember (&old, SIGXFSZ)) {
        while (sigtimedwait (&size, NULL, &(struct timespec){ 0 }) > 0)
            continue;
        pthread_sigmask (SIG_UNBLOCK, &size, NULL);
    }
    errno = saved;
    return result;
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

/* @is_exact: the mode is that of the file replaced, and not for the umask to cut. */
static int
replace_file (const char *path, const void *bytes, size_t length, mode_t mode, bool is_exact, struct fail *fail)
{
    AUTO_STRBUF struct strbuf beside = { 0 };
    AUTO_CLOSE int fd = create_beside (path, mode, &beside);
    if (fd < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: cannot create a file beside it: %s", path, strerror (errno));
    if (write_within_limit (fd, bytes, length) || (is_exact && fchmod (fd, mode)) || fsync (fd)
        || rename (beside.text, path)) {
        fail_set (fail, FAIL_GENERAL, "%s: cannot write: %s", path, strerror (errno));
        unlink (beside.text);
        return -1;
    }
    if (sync_directory_of (path))
        return fail_set (fail, FAIL_GENERAL, "%s: written, but its directory cannot be synced: %s", path,
                         strerror (errno));
    return 0;
}

/* What @path leads to, if it is there.  @return -1 where that is not a file to be written; 1 there is none yet */
static int
look_at_target (const char *target, struct stat *info, struct fail *fail)
{
    if (stat (target, info))
        return 1;
    return S_ISREG (info->st_mode) ? 0
           : fail_set (fail, FAIL_GENERAL, "%s: is %s, not a regular file", target,
                       S_ISDIR (info->st_mode) ? "a directory" : "a device or the like");
}

int
io_check_writable (const char *path, struct fail *fail)
{
    AUTO_FREE char *real = realpath (path, NULL);
    AUTO_STRBUF struct strbuf beside = { 0 };
    struct stat info;
    if (look_at_target (real ? real : path, &info, fail) < 0)
        return -1;
    AUTO_CLOSE int fd = create_beside (real ? real : path, 0600, &beside);
    if (fd < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: cannot create a file beside it: %s", path, strerror (errno));
    unlink (beside.text);
    return 0;
}

int
io_write_file (const char *path, const void *bytes, size_t length, mode_t mode, struct fail *fail)
{
    AUTO_FREE char *real = realpath (path, NULL); /* a link stays one, what it leads to is written */
    const char *target = real ? real : path;
    struct stat info;
    int missing = look_at_target (target, &info, fail);
    if (missing < 0)
        return -1;
    if (!missing)
        mode = info.st_mode & 07777; /* whoever made a file private wants it to stay so */
    return replace_file (target, bytes, length, mode, !missing, fail);
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
