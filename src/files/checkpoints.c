/* SPDX-License-Identifier: Apache-2.0 */
/* Finding checkpoints; see checkpoints.h. */
#include <config.h>

#include "files/checkpoints.h"

#include "files/error.h"
#include "files/manifest.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void
checkpoint_list_release (struct checkpoint_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free (list->entries[i].name);
        free (list->entries[i].reason);
    }
    free (list->entries);
    *list = (struct checkpoint_list){ 0 };
}

uint64_t
checkpoint_number (const char *name)
{
    size_t prefix = sizeof CHECKPOINT_PREFIX - 1;
    uint64_t number = 0;
    if (strncmp (name, CHECKPOINT_PREFIX, prefix) || !name[prefix])
        return UINT64_MAX;
    for (const char *at = name + prefix; *at && (at == name + prefix || strcmp (at, CHECKPOINT_NONFINITE)); at++)
        if (*at < '0' || *at > '9' || __builtin_mul_overflow (number, (uint64_t) 10, &number)
            || __builtin_add_overflow (number, (uint64_t) (*at - '0'), &number))
            return UINT64_MAX;
    return number;
}

bool
checkpoint_is_apart (const char *name)
{
    size_t length = strlen (name), end = sizeof CHECKPOINT_NONFINITE - 1;
    return length > end && !strcmp (name + length - end, CHECKPOINT_NONFINITE);
}

static int
compare_numbers (const void *a, const void *b)
{
    uint64_t first = checkpoint_number (((const struct checkpoint_entry *) a)->name);
    uint64_t second = checkpoint_number (((const struct checkpoint_entry *) b)->name);
    return first < second ? 1 : first > second ? -1 : 0;
}

static int
compare_times (const void *a, const void *b)
{
    const struct checkpoint_entry *first = a, *second = b;
    if (first->saved_ns != second->saved_ns)
        return first->saved_ns < second->saved_ns ? 1 : -1;
    return strverscmp (second->name, first->name);
}

static bool
is_folder (const char *path)
{
    struct stat info;
    return !lstat (path, &info) && S_ISDIR (info.st_mode);
}

static bool
has_file (const char *folder, const char *name)
{
    struct stat info;
    AUTO_FREE char *path = text_printf ("%s/%s", folder, name);
    if (!path)
        return false;
    return !lstat (path, &info);
}

bool
checkpoint_is_python (const char *path)
{
    /* libaccel's own folders have a model.safetensors, too, and may have lost their manifest */
    static const char *const names[] = { CHECKPOINT_PYTHON, "optimizer.bin", "scheduler.bin", "pytorch_model.bin" };
    if (has_file (path, MANIFEST_NAME))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has_file (path, names[i]))
            return true;
    return false;
}

/* Add the folder @name, if it is one to be listed. */
static enum accel_status
consider (struct checkpoint_list *list, const char *folder, const char *name, struct accel_error *err)
{
    AUTO_FREE char *path = NULL;
    struct manifest manifest;
    struct accel_error cause;
    if (*name == '.' || strstr (name, CHECKPOINT_TEMPORARY))
        return ACCEL_OK;
    path = text_printf ("%s/%s", folder, name);
    if (!path)
        return accel_fail_nomem (err);
    if (!is_folder (path) || (!has_file (path, MANIFEST_NAME) && checkpoint_number (name) == UINT64_MAX))
        return ACCEL_OK;
    struct checkpoint_entry *entry = array_room (&list->entries, list->count, sizeof *entry);
    if (!entry)
        return accel_fail_nomem (err);
    list->count++;
    *entry = (struct checkpoint_entry){ .name = strdup (name), .is_python = checkpoint_is_python (path) };
    if (entry->is_python)
        return entry->name ? ACCEL_OK : accel_fail_nomem (err);
    bool failed = manifest_read (&manifest, path, &cause) || manifest_check_sizes (&manifest, path, &cause);
    if (!failed && manifest.nonfinite) {
        failed = true;
        accel_fail (&cause, ACCEL_ERR_INVALID, "%s: %s", path, manifest.nonfinite);
    }
    entry->saved_ns = manifest.saved_ns;
    manifest_release (&manifest);
    entry->reason = failed ? strdup (cause.text) : NULL;
    return entry->name && (entry->reason || !failed) ? ACCEL_OK : accel_fail_nomem (err);
}

enum accel_status
checkpoint_list_read (struct checkpoint_list *list, const char *folder, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    bool numbered = true;
    *list = (struct checkpoint_list){ 0 };
    DIR *stream = opendir (folder);
    if (!stream && (errno == ENOENT || errno == ENOTDIR))
        return ACCEL_OK;
    if (!stream)
        return accel_fail_errno (err, "%s", folder);
    const struct dirent *found;
    errno = 0;
    while (!status && (found = readdir (stream))) {
        status = consider (list, folder, found->d_name, err);
        errno = 0;
    }
    if (!status && errno)
        status = accel_fail_errno (err, "%s", folder);
    closedir (stream);
    if (status)
        return status;
    for (size_t i = 0; i < list->count; i++)
        numbered = numbered && checkpoint_number (list->entries[i].name) != UINT64_MAX;
    if (list->count)
        qsort (list->entries, list->count, sizeof *list->entries, numbered ? compare_numbers : compare_times);
    return ACCEL_OK;
}

enum accel_status
checkpoint_verify (const char *path, struct accel_error *err)
{
    struct manifest manifest;
    enum accel_status status = manifest_read (&manifest, path, err);
    for (size_t i = 0; !status && i < manifest.count; i++)
        status = manifest_check_file (&manifest.files[i], path, err);
    manifest_release (&manifest);
    return status;
}

/* The newest good one in @folder, none or an error. */
static enum accel_status
find_in (char **path, const char *folder, struct strlist *passed, struct accel_error *err)
{
    struct checkpoint_list list;
    enum accel_status status = checkpoint_list_read (&list, folder, err);
    for (size_t i = 0; !status && !*path && i < list.count; i++) {
        const char *reason = list.entries[i].reason;
        struct accel_error cause;
        if (!(*path = text_printf ("%s/%s", folder, list.entries[i].name))) {
            status = accel_fail_nomem (err);
            break;
        }
        if (!reason && !list.entries[i].is_python && checkpoint_verify (*path, &cause))
            reason = cause.text;
        if (!reason)
            break;
        if (passed)
            strlist_add (passed, reason);
        free (*path);
        *path = NULL;
    }
    checkpoint_list_release (&list);
    return status;
}

enum accel_status
checkpoint_find_newest (char **path, const char *place, struct strlist *passed, struct accel_error *err)
{
    AUTO_FREE char *inner = NULL;
    struct accel_error cause;
    *path = NULL;
    if (has_file (place, MANIFEST_NAME)) {
        if (!checkpoint_verify (place, &cause))
            return (*path = strdup (place)) ? ACCEL_OK : accel_fail_nomem (err);
        if (passed)
            strlist_add (passed, cause.text);
        return ACCEL_OK;
    }
    enum accel_status status = find_in (path, place, passed, err);
    if (status || *path)
        return status;
    inner = text_printf ("%s/" CHECKPOINTS_FOLDER, place);
    if (!inner)
        return accel_fail_nomem (err);
    status = find_in (path, inner, passed, err);
    if (status || *path || !has_file (place, CHECKPOINT_PYTHON))
        return status;
    return (*path = strdup (place)) ? ACCEL_OK : accel_fail_nomem (err);
}
