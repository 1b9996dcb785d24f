/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read at places; see source.h. */
#include <config.h>

#include "files/source.h"

#include "files/error.h"
#include "util/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_MOST = 8 << 20 }; /* bytes of one pread() */

enum accel_status
source_open (struct source *source, const char *path, struct accel_error *err)
{
    *source = (struct source) SOURCE_CLOSED;
    if (!path)
        return accel_fail (err, ACCEL_ERR_INVALID, "path is NULL or empty");
    return source_open_in (source, AT_FDCWD, path, path, true, err);
}

enum accel_status
source_open_in (struct source *source, int folder, const char *name, const char *path, bool follow_links,
                struct accel_error *err)
{
    struct stat info;
    enum accel_status status = ACCEL_ERR_SYSTEM;
    *source = (struct source) SOURCE_CLOSED;
    source->path = strdup (path);
    if (!source->path)
        return accel_fail_nomem (err);
    /* O_NONBLOCK: a FIFO without a writer must be refused, not waited for. */
    source->fd = openat (folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow_links ? 0 : O_NOFOLLOW));
    if (source->fd < 0 || fstat (source->fd, &info))
        accel_fail_errno (err, "%s", path);
    else if (!S_ISREG (info.st_mode))
        status = accel_fail (err, ACCEL_ERR_INVALID, "%s: is not a regular file", path);
    else {
        source->size = (uint64_t) info.st_size;
        source->modified = info.st_mtim;
        return ACCEL_OK;
    }
    source_close (source);
    return status;
}

enum accel_status
source_map (struct source *source, struct accel_error *err)
{
    if (source->map || !source->size)
        return ACCEL_OK;
    if (source->size > SIZE_MAX)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: too large to map", source->path);
    void *map = mmap (NULL, (size_t) source->size, PROT_READ, MAP_PRIVATE, source->fd, 0);
    if (map == MAP_FAILED)
        return accel_fail_errno (err, "%s: cannot map", source->path);
    source->map = map;
    return ACCEL_OK;
}

static enum accel_status
fail_short (const struct source *source, struct accel_error *err)
{
    struct stat info;
    if (fstat (source->fd, &info))
        return accel_fail_errno (err, "%s", source->path);
    return accel_fail (err, ACCEL_ERR_FORMAT, "%s: has only %lld bytes now, but had %llu when it was opened",
                       source->path, (long long) info.st_size, (unsigned long long) source->size);
}

static enum accel_status
read_map (const struct source *source, uint64_t offset, void *into, size_t length, struct accel_error *err)
{
    struct stat info;
    if (fstat (source->fd, &info))
        return accel_fail_errno (err, "%s", source->path);
    /* Pages after the end of the file are in the mapping, but an access to them is fatal. */
    if ((uint64_t) info.st_size < offset + length)
        return fail_short (source, err);
    memory_copy (into, source->map + offset, length);
    return ACCEL_OK;
}

enum accel_status
source_read (const struct source *source, uint64_t offset, void *into, size_t length, struct accel_error *err)
{
    if (offset > source->size || length > source->size - offset)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: ends at byte %llu, before byte %llu", source->path,
                           (unsigned long long) source->size, (unsigned long long) (offset + length));
    if (source->map && length)
        return read_map (source, offset, into, length, err);
    unsigned char *at = into;
    while (length) {
        ssize_t got = memory_read (source->fd, at, length < READ_MOST ? length : READ_MOST, (off_t) offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return accel_fail_errno (err, "%s", source->path);
        if (!got)
            return fail_short (source, err);
        traffic_moved ((uint64_t) got);
        at += got;
        offset += (uint64_t) got;
        length -= (size_t) got;
    }
    return ACCEL_OK;
}

enum accel_status
source_check_unchanged (const struct source *source, uint64_t size, struct timespec modified, struct accel_error *err)
{
    struct stat info;
    if (fstat (source->fd, &info))
        return accel_fail_errno (err, "%s", source->path);
    if ((uint64_t) info.st_size != size)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: has %lld bytes now, but had %llu when the data set was opened",
                           source->path, (long long) info.st_size, (unsigned long long) size);
    if (info.st_mtim.tv_sec != modified.tv_sec || info.st_mtim.tv_nsec != modified.tv_nsec)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: was modified after the data set was opened", source->path);
    return ACCEL_OK;
}

bool
is_gzip (const void *bytes, size_t length)
{
    return length >= 2 && !memcmp (bytes, "\x1f\x8b", 2);
}

enum accel_status
source_refuse_gzip (const struct source *source, const char *wanted, struct accel_error *err)
{
    unsigned char magic[2];
    if (source->size < sizeof magic)
        return ACCEL_OK;
    enum accel_status status = source_read (source, 0, magic, sizeof magic, err);
    if (status || !is_gzip (magic, sizeof magic))
        return status;
    return accel_fail (err, ACCEL_ERR_FORMAT, "%s: is compressed; decompress it with gunzip to get the %s",
                       source->path, wanted);
}

void
source_close (struct source *source)
{
    int saved = errno;
    if (source->map)
        munmap ((void *) source->map, (size_t) source->size);
    if (source->fd >= 0)
        close (source->fd);
    free (source->path);
    *source = (struct source) SOURCE_CLOSED;
    errno = saved;
}

/* ---- the observer ---- */

static _Thread_local struct traffic_observer *current;

struct traffic_observer *
traffic_observe (struct traffic_observer *observer)
{
    struct traffic_observer *former = current;
    current = observer;
    return former;
}

void
traffic_moved (uint64_t bytes)
{
    if (current)
        current->moved (current, bytes);
}

void
traffic_syncing (void)
{
    if (current)
        current->syncing (current);
}
