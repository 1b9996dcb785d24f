/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of torch.distributed.checkpoint: the elements of their tensors; see dcp.h. */
#include <config.h>

#include "files/dcp.h"

#include "files/error.h"
#include "files/pickle.h"
#include "files/torch_tensor.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_OPEN = 128 }; /* files at a time: one checkpoint can have thousands */

bool
dcp_is_folder (const char *path)
{
    struct stat info;
    AUTO_CLOSE int fd = open (path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && !fstatat (fd, DCP_METADATA, &info, AT_SYMLINK_NOFOLLOW);
}

/* Files of the folder itself: what dcp_parse() accepted as a name has no '/', and links are refused. */
static enum accel_status
open_in (struct source *source, const struct dcp_folder *folder, const char *name, struct accel_error *err)
{
    struct accel_error own;
    AUTO_FREE char *path = NULL;
    *source = (struct source) SOURCE_CLOSED;
    err = err ? err : &own; /* its errno is read here */
    path = text_printf ("%s/%s", folder->path, name);
    if (!path)
        return accel_fail_nomem (err);
    enum accel_status status = source_open_in (source, folder->fd, name, path, false, err);
    if (status && err->sys_errno == ELOOP)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: is a symbolic link, which may lead out of its folder", path);
    return status;
}

static enum accel_status
read_metadata (struct dcp_folder *folder, struct accel_error *err)
{
    struct source source;
    enum accel_status status = open_in (&source, folder, DCP_METADATA, err);
    if (status)
        return status;
    if (source.size > PICKLE_MAX_BYTES) {
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has %llu bytes, but the maximum is %d", source.path,
                             (unsigned long long) source.size, PICKLE_MAX_BYTES);
        source_close (&source);
        return status;
    }
    AUTO_FREE char *text = malloc ((size_t) source.size + 1);
    if (!text)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate %llu bytes of memory", source.path,
                             (unsigned long long) source.size);
    else
        status = source_read (&source, 0, text, (size_t) source.size, err);
    if (!status && (status = dcp_parse (&folder->dcp, text, (size_t) source.size, err)))
        accel_fail_in (err, status, "%s", source.path);
    source_close (&source);
    return status;
}

enum accel_status
dcp_open (struct dcp_folder *folder, const char *path, struct accel_error *err)
{
    *folder = (struct dcp_folder){ .fd = -1 };
    folder->path = strdup (path);
    if (!folder->path)
        return accel_fail_nomem (err);
    folder->fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0)
        return accel_fail_errno (err, "%s", path);
    enum accel_status status = read_metadata (folder, err);
    if (status)
        return status;
    folder->sources = malloc ((folder->dcp.files.count + 1) * sizeof *folder->sources);
    if (!folder->sources)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < folder->dcp.files.count; i++)
        folder->sources[i] = (struct source) SOURCE_CLOSED;
    return ACCEL_OK;
}

static void
close_sources (struct dcp_folder *folder)
{
    for (size_t i = 0; folder->sources && i < folder->dcp.files.count; i++)
        source_close (&folder->sources[i]);
    folder->open_count = 0;
}

static enum accel_status
open_file (struct dcp_folder *folder, size_t file, struct accel_error *err)
{
    if (folder->sources[file].fd >= 0)
        return ACCEL_OK;
    if (folder->open_count >= MAX_OPEN)
        close_sources (folder);
    enum accel_status status
        = open_in (&folder->sources[file], folder, folder->dcp.files.items[file], err);
    folder->open_count += !status;
    return status;
}

enum accel_status
dcp_read_tensor (struct dcp_folder *folder, size_t index, void *array, struct accel_error *err)
{
    const struct dcp_tensor *tensor = &folder->dcp.tensors[index];
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < tensor->chunk_count && !status; i++) {
        const struct dcp_chunk *chunk = &tensor->chunks[i];
        const struct torch_place place = { tensor->ndim, tensor->shape, chunk->offsets, chunk->sizes };
        status = open_file (folder, chunk->file, err);
        if (!status)
            status = torch_tensor_read (&folder->sources[chunk->file], chunk->begin, chunk->end, tensor->dtype, &place,
                                        array, err);
    }
    return status ? accel_fail_in (err, status, "tensor '%.80s'", tensor->name) : ACCEL_OK;
}

void
dcp_close (struct dcp_folder *folder)
{
    int saved = errno;
    close_sources (folder);
    free (folder->sources);
    dcp_release (&folder->dcp);
    free (folder->path);
    if (folder->fd >= 0)
        close (folder->fd);
    *folder = (struct dcp_folder){ .fd = -1 };
    errno = saved;
}
