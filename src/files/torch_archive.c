/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files of torch.save; see torch_archive.h. */
#include <config.h>

#include "files/torch_archive.h"

#include "files/error.h"
#include "util/cleanup.h"

#include <string.h>

static enum accel_status
read_pickle (struct torch_archive *archive, struct accel_error *err)
{
    const struct source *source = &archive->source;
    enum accel_status status = zip_read (&archive->zip, source, 0, source->size, err);
    if (status)
        return status;
    archive->entry = torch_find_pickle (&archive->zip);
    if (!archive->entry || archive->entry->size > PICKLE_MAX_BYTES)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not an archive of torch.save: %s", source->path,
                           archive->entry ? "its pickle is too large" : "it lacks data.pkl");
    status = torch_check_byte_order (&archive->zip, archive->entry, source, err);
    if (status)
        return status;
    archive->text = malloc ((size_t) archive->entry->size + 1);
    archive->is_checked = calloc (archive->zip.count, sizeof *archive->is_checked);
    if (!archive->text || !archive->is_checked)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a pickle");
    status = zip_read_entry (archive->entry, source, archive->text, err);
    if (status)
        return status;
    status = pickle_read (&archive->pickle, archive->text, (size_t) archive->entry->size, torch_state_names, err);
    return status ? accel_fail_in (err, status, "%s: '%.80s'", source->path, archive->entry->name) : ACCEL_OK;
}

enum accel_status
torch_archive_open (struct torch_archive *archive, const char *path, struct accel_error *err)
{
    *archive = (struct torch_archive) TORCH_ARCHIVE_NONE;
    enum accel_status status = source_open (&archive->source, path, err);
    return status ? status : read_pickle (archive, err);
}

/* PyTorch, too, reads all of an entry to compare it. */
static enum accel_status
check_entry (struct torch_archive *archive, const struct zip_entry *entry, struct accel_error *err)
{
    bool *is_checked = &archive->is_checked[entry - archive->zip.entries];
    if (*is_checked)
        return ACCEL_OK;
    AUTO_FREE void *bytes = entry->size > SIZE_MAX ? NULL : malloc ((size_t) entry->size + 1);
    if (!bytes)
        return accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate %llu bytes of memory", archive->source.path,
                           (unsigned long long) entry->size);
    enum accel_status status = zip_read_entry (entry, &archive->source, bytes, err);
    *is_checked = !status;
    return status;
}

enum accel_status
torch_archive_find (struct torch_archive *archive, const struct pickle_value *value,
                    struct torch_tensor *tensor, uint64_t *begin, struct accel_error *err)
{
    const char *path = archive->source.path;
    enum accel_status status = torch_tensor_describe (tensor, value, err);
    if (status)
        return accel_fail_in (err, status, "%s", path);
    if (!torch_tensor_is_contiguous (tensor))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: a tensor is not contiguous", path);
    const struct zip_entry *entry = torch_find_entry (&archive->zip, archive->entry, "data/", tensor->key);
    if (!entry || entry->size < tensor->reach)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: the storage '%.60s' is missing, or too small", path,
                           tensor->key);
    *begin = entry->begin + tensor->offset * torch_dtype_bytes (tensor->dtype);
    return check_entry (archive, entry, err);
}

void
torch_archive_close (struct torch_archive *archive)
{
    pickle_release (&archive->pickle);
    zip_release (&archive->zip);
    source_close (&archive->source);
    free (archive->text);
    free (archive->is_checked);
    *archive = (struct torch_archive) TORCH_ARCHIVE_NONE;
}
