/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are written beside their path; see atomic_file.h.  Each is locked while it is written: one that is not
 * locked was left by a process that was killed. */
#include <config.h>

#include "files/atomic_file.h"

#include "files/error.h"
#include "files/source.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WRITE_MOST = 8 << 20,    /* bytes of one pwrite() */
    WRITE_AT_ONCE = 1 << 20, /* from so many on, the disk starts with them */
};

static const char suffix[] = ".partial";

/* The length of the directory with its '/', 0 if @path has none. */
static int
folder_length (const char *path)
{
    const char *slash = strrchr (path, '/');
    return slash ? (int) (slash + 1 - path) : 0;
}

static bool
is_left_over (const char *name, const char *wanted)
{
    size_t length = strlen (name), prefix = strlen (wanted);
    return length > prefix + sizeof suffix && name[0] == '.' && !strncmp (name + 1, wanted, prefix)
           && name[1 + prefix] == '.' && !strcmp (name + length - (sizeof suffix - 1), suffix);
}

/* Remove what killed processes left.  This may fail; write nevertheless. */
static void
remove_leftovers (const char *path)
{
    int folder = folder_length (path);
    AUTO_FREE char *name = folder ? strndup (path, (size_t) folder) : strdup (".");
    DIR *dir = name ? opendir (name) : NULL;
    for (struct dirent *entry; dir && (entry = readdir (dir)); ) {
        if (!is_left_over (entry->d_name, path + folder))
            continue;
        AUTO_CLOSE int fd = openat (dirfd (dir), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && !flock (fd, LOCK_EX | LOCK_NB))
            unlinkat (dirfd (dir), entry->d_name, 0);
    }
    if (dir)
        closedir (dir);
}

/* Another process may remove the file between open() and flock(): then it has no name any more, and another is made. */
static bool
lock (int fd)
{
    struct stat info;
    return !flock (fd, LOCK_EX | LOCK_NB) ? !fstat (fd, &info) && info.st_nlink : errno != EWOULDBLOCK;
}

static enum accel_status
create_beside (struct atomic_file *atomic, mode_t mode, struct accel_error *err)
{
    int folder = folder_length (atomic->path);
    for (unsigned i = 0; i < 1000; i++) {
        atomic->beside = text_printf ("%.*s.%s.%d-%u%s", folder, atomic->path, atomic->path + folder,
                                       (int) getpid (), i, suffix);
        if (!atomic->beside)
            return accel_fail_nomem (err);
        atomic->fd = open (atomic->beside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (atomic->fd >= 0 && lock (atomic->fd))
            return ACCEL_OK;
        if (atomic->fd < 0 && errno != EEXIST)
            break;
        if (atomic->fd >= 0)
            close (atomic->fd);
        atomic->fd = -1;
        free (atomic->beside);
        atomic->beside = NULL;
    }
    accel_fail_errno (err, "%s: cannot create a temporary file in its directory", atomic->path);
    free (atomic->beside);
    atomic->beside = NULL;
    return ACCEL_ERR_SYSTEM;
}

static enum accel_status
create_in_place (struct atomic_file *atomic, const char *path, struct accel_error *err)
{
    atomic->path = strdup (path);
    atomic->beside = strdup (path);
    if (!atomic->path || !atomic->beside)
        return accel_fail_nomem (err);
    if (!unlink (path) || errno == ENOENT) /* not emptied: others may have the former file mapped */
        atomic->fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (atomic->fd >= 0)
        return ACCEL_OK;
    accel_fail_errno (err, "%s: cannot create", path);
    free (atomic->beside);
    atomic->beside = NULL;
    return ACCEL_ERR_SYSTEM;
}

static enum accel_status
create (struct atomic_file *atomic, const char *path, struct accel_error *err)
{
    struct io_target target;
    struct fail fail;
    if (io_target_find (&target, path, 0666, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    atomic->path = target.path;
    remove_leftovers (atomic->path);
    enum accel_status status = create_beside (atomic, target.mode, err);
    /* The mode of a file that is replaced is not for the umask to cut. */
    if (!status && target.exists && fchmod (atomic->fd, target.mode))
        status = accel_fail_errno (err, "%s: cannot write", atomic->path);
    return status;
}

enum accel_status
atomic_file_create (struct atomic_file *atomic, const char *path, bool in_place, uint64_t size, struct accel_error *err)
{
    *atomic = (struct atomic_file) ATOMIC_FILE_NONE;
    if (!path || !*path)
        return accel_fail (err, ACCEL_ERR_INVALID, "path is NULL or empty");
    enum accel_status status = in_place ? create_in_place (atomic, path, err) : create (atomic, path, err);
    if (!status && (size > INT64_MAX || io_reserve (atomic->fd, (off_t) size)))
        status = size > INT64_MAX ? accel_fail (err, ACCEL_ERR_INVALID, "%s: too large: size overflows", path)
                                  : accel_fail_errno (err, "%s: cannot reserve %llu bytes", atomic->path,
                                                      (unsigned long long) size);
    if (status)
        atomic_file_close (atomic);
    return status;
}

/* The kernel would begin to write only at fsync(), or with much more memory dirty.  Told at once, the disk works while
 * the next bytes are copied: that is up to half as fast again. */
static void
start_writing (int fd, uint64_t offset, size_t length)
{
    if (length >= WRITE_AT_ONCE)
        (void) sync_file_range (fd, (off_t) offset, (off_t) length, SYNC_FILE_RANGE_WRITE);
}

enum accel_status
atomic_file_write (const struct atomic_file *atomic, uint64_t offset, const void *bytes, size_t length,
                   struct accel_error *err)
{
    const char *at = bytes;
    while (length) {
        ssize_t put = pwrite (atomic->fd, at, length < WRITE_MOST ? length : WRITE_MOST, (off_t) offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return accel_fail_errno (err, "%s: cannot write", atomic->path);
        start_writing (atomic->fd, offset, (size_t) put);
        traffic_moved ((uint64_t) put);
        at += put;
        offset += (uint64_t) put;
        length -= (size_t) put;
    }
    return ACCEL_OK;
}

enum accel_status
atomic_file_finish (struct atomic_file *atomic, struct accel_error *err)
{
    traffic_syncing ();
    if (fsync (atomic->fd))
        return accel_fail_errno (err, "%s: cannot sync", atomic->path);
    if (strcmp (atomic->beside, atomic->path) && rename (atomic->beside, atomic->path))
        return accel_fail_errno (err, "%s: cannot rename the temporary file", atomic->path);
    free (atomic->beside);
    atomic->beside = NULL;
    return ACCEL_OK;
}

void
atomic_file_close (struct atomic_file *atomic)
{
    int saved = errno;
    if (atomic->beside)
        unlink (atomic->beside);
    if (atomic->fd >= 0)
        close (atomic->fd);
    free (atomic->beside);
    free (atomic->path);
    *atomic = (struct atomic_file) ATOMIC_FILE_NONE;
    errno = saved;
}
