/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing a checkpoint's files with its manifest. */
#include <config.h>

#include "files/manifest.h"

#include "files/checksum.h"
#include "files/error.h"
#include "files/safetensors.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MANIFEST_LIMIT = 1 << 30, PIECE = 1 << 20 };

enum accel_status
manifest_read (struct manifest *manifest, const char *path, struct accel_error *err)
{
    AUTO_FREE char *name = NULL;
    AUTO_FREE char *text = NULL;
    size_t length;
    struct fail fail;
    struct stat info;
    *manifest = (struct manifest){ 0 };
    name = text_printf ("%s/" MANIFEST_NAME, path);
    if (!name)
        return accel_fail_nomem (err);
    if (lstat (name, &info) && errno == ENOENT)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: has no " MANIFEST_NAME, path);
    if (io_read_file (name, MANIFEST_LIMIT, &text, &length, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    enum accel_status status = manifest_parse (manifest, text, length, err);
    if (status) {
        manifest_release (manifest);
        return accel_fail_in (err, status, "%s", name);
    }
    return ACCEL_OK;
}

/* Open @name in the folder @at, one component after the other: none may be a symbolic link. */
static int
open_beneath (int at, const char *name)
{
    AUTO_FREE char *copy = strdup (name);
    char *slash;
    int fd = copy ? fcntl (at, F_DUPFD_CLOEXEC, 0) : -1;
    for (char *part = copy; part && fd >= 0; part = slash ? slash + 1 : NULL) {
        slash = strchr (part, '/');
        if (slash)
            *slash = '\0';
        AUTO_CLOSE int folder = fd;
        fd = openat (folder, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (slash ? O_DIRECTORY : 0));
    }
    return fd;
}

enum accel_status
manifest_open_file (struct source *source, const char *folder, const char *name, struct accel_error *err)
{
    struct stat info;
    *source = (struct source) SOURCE_CLOSED;
    source->path = text_printf ("%s/%s", folder, name);
    if (!source->path)
        return accel_fail_nomem (err);
    AUTO_CLOSE int at = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum accel_status status = ACCEL_OK;
    source->fd = at < 0 ? -1 : open_beneath (at, name);
    if (source->fd < 0 && errno == ELOOP)
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: is a symbolic link", source->path);
    else if (source->fd < 0 || fstat (source->fd, &info))
        status = accel_fail_errno (err, "%s", source->path);
    else if (!S_ISREG (info.st_mode))
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: is not a regular file", source->path);
    if (status) {
        source_close (source);
        return status;
    }
    source->size = (uint64_t) info.st_size;
    source->modified = info.st_mtim;
    return ACCEL_OK;
}

static enum accel_status
open_sized (struct source *source, const struct manifest_file *file, const char *folder, struct accel_error *err)
{
    enum accel_status status = manifest_open_file (source, folder, file->name, err);
    if (!status && source->size != file->bytes) {
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has %" PRIu64 " bytes, but the manifest says %" PRIu64,
                             source->path, source->size, file->bytes);
        source_close (source);
    }
    return status;
}

enum accel_status
manifest_check_sizes (const struct manifest *manifest, const char *folder, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < manifest->count; i++) {
        struct source source;
        status = open_sized (&source, &manifest->files[i], folder, err);
        if (!status)
            source_close (&source);
    }
    return status;
}

/* Compare the checksum of a stretch of a file; @what it is, for the message. */
static enum accel_status
check_stretch (const struct source *source, uint64_t begin, uint64_t end, uint64_t wanted, const char *what,
               const char *name, struct accel_error *err)
{
    AUTO_FREE char *piece = malloc (PIECE);
    struct checksum checksum;
    enum accel_status status = ACCEL_OK;
    if (!piece)
        return accel_fail_nomem (err);
    checksum_begin (&checksum);
    for (uint64_t at = begin; !status && at < end; at += PIECE) {
        size_t length = end - at < PIECE ? (size_t) (end - at) : PIECE;
        status = source_read (source, at, piece, length, err);
        if (!status)
            checksum_add (&checksum, piece, length);
    }
    if (!status && checksum_end (&checksum) != wanted)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: damaged: the checksum of %s%.100s is wrong", source->path, what,
                           name);
    return status;
}

static enum accel_status
check_tensors (const struct manifest_file *file, const struct source *source, struct accel_error *err)
{
    struct safetensors header = { 0 };
    uint64_t data = 0;
    enum accel_status status = safetensors_read (&header, source, &data, err);
    if (!status)
        status = check_stretch (source, 0, data, file->checksum, "its header", "", err);
    if (!status && header.count != file->count)
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has %zu tensors, but the manifest says %zu", source->path,
                             header.count, file->count);
    for (size_t i = 0; !status && i < file->count; i++) {
        const struct safetensors_tensor *tensor = safetensors_find (&header, file->tensors[i].name);
        if (!tensor)
            status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has no tensor '%.100s', which the manifest lists",
                                 source->path, file->tensors[i].name);
        else
            status = check_stretch (source, data + tensor->begin, data + tensor->end, file->tensors[i].checksum,
                                    "tensor ", tensor->name, err);
    }
    safetensors_release (&header);
    return status;
}

enum accel_status
manifest_check_file (const struct manifest_file *file, const char *folder, struct accel_error *err)
{
    struct source source;
    enum accel_status status = open_sized (&source, file, folder, err);
    if (status)
        return status;
    status = file->has_tensors ? check_tensors (file, &source, err)
                               : check_stretch (&source, 0, source.size, file->checksum, "the file", "", err);
    source_close (&source);
    return status;
}
