/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of checkpoints; see folder.h. */
#include <config.h>

#include "lib/checkpoint/folder.h"

#include "files/checkpoints.h"
#include "files/manifest.h"
#include "lib/base/error.h"
#include "lib/checkpoint/files.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

/* What the name of a folder contains that was replaced, and kept because others had put files into it. */
#define KEPT ".kept-"

enum { TREE_DESCRIPTORS = 16, TRIES = 100 };

/* ---- removing ---- */

static int
remove_one (const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void) info, (void) kind, (void) ftw;
    return remove (path);
}

static int
remove_tree (const char *path)
{
    return nftw (path, remove_one, TREE_DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static enum accel_status
sync_folder (const char *path, struct accel_error *err)
{
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync (fd))
        return accel_fail_errno (err, "cannot sync folder %s", path);
    return ACCEL_OK;
}

/* The folder that contains @path, which is absolute. */
static void
parent_of (char parent[PATH_MAX], const char *path)
{
    snprintf (parent, PATH_MAX, "%s", path);
    char *slash = strrchr (parent, '/');
    slash[slash == parent] = '\0';
}

/* A name beside @place that does not exist yet; false: @place is too long. */
static bool
name_beside (char name[PATH_MAX], const char *place)
{
    uint32_t digits;
    if (getrandom (&digits, sizeof digits, GRND_NONBLOCK) != sizeof digits)
        digits = (uint32_t) getpid ();
    return (size_t) snprintf (name, PATH_MAX, "%s" CHECKPOINT_TEMPORARY "%08x", place, digits) < PATH_MAX;
}

/* First it loses its name: half of it is never taken for a checkpoint. */
static enum accel_status
remove_checkpoint (const char *path, struct accel_error *err)
{
    char name[PATH_MAX], parent[PATH_MAX];
    if (!name_beside (name, path) || rename (path, name))
        return accel_fail_errno (err, "cannot remove checkpoint %s", path);
    parent_of (parent, path);
    enum accel_status status = sync_folder (parent, err);
    if (!status && remove_tree (name))
        return accel_fail_errno (err, "cannot remove checkpoint %s", path);
    return status;
}

/* ---- beginning ---- */

/* Open and lock a temporary folder; -1 with EWOULDBLOCK: it is in use; ENOENT: it was removed; others: its file system
 * has no locks for folders. */
static int
lock_folder (const char *path)
{
    struct stat info, named;
    int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    int error = flock (fd, LOCK_EX | LOCK_NB) || lstat (path, &named) ? errno : 0;
    if (!error && !fstat (fd, &info) && (info.st_dev != named.st_dev || info.st_ino != named.st_ino))
        error = ENOENT;
    if (!error)
        return fd;
    close (fd);
    errno = error;
    return -1;
}

/* Find a file in the folder @inner of @place that does not belong to the checkpoint.  Folders without files do not
 * matter: manifests do not list them; nor do files that are removed meanwhile.
 * @param[out] other  its name, relative to @place; unchanged: there is none */
static enum accel_status
find_other (const char *place, const char *inner, const struct manifest *manifest, char **other,
            struct accel_error *err)
{
    AUTO_FREE char *path = NULL;
    const struct dirent *entry;
    enum accel_status status = ACCEL_OK;
    if (asprintf (&path, "%s%s%s", place, *inner ? "/" : "", inner) < 0)
        return path = NULL, accel_fail_nomem (err);
    DIR *stream = opendir (path);
    if (!stream)
        return *inner && errno == ENOENT ? ACCEL_OK : accel_fail_errno (err, "%s", path);
    while (!status && !*other && (entry = readdir (stream))) {
        AUTO_FREE char *name = NULL;
        struct stat info;
        if (checkpoint_passes_over (dirfd (stream), entry->d_name))
            continue;
        if (asprintf (&name, "%s%s%s", inner, *inner ? "/" : "", entry->d_name) < 0)
            status = (name = NULL, accel_fail_nomem (err));
        else if (fstatat (dirfd (stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW))
            status = errno == ENOENT ? ACCEL_OK : accel_fail_errno (err, "%s/%s", place, name);
        else if (S_ISDIR (info.st_mode))
            status = find_other (place, name, manifest, other, err);
        else if (strcmp (name, MANIFEST_NAME) && !manifest_find_file (manifest, name)) {
            *other = name;
            name = NULL;
        }
    }
    closedir (stream);
    return status;
}

/* Whether the folder @old, which has lost its name, has files in it that do not belong to its checkpoint: a user may
 * have put them there meanwhile.  Then it gets a name that is never removed.
 * @param complete  it was at the place, where everything without a manifest is a user's
 * @param[out] kept  [PATH_MAX], where it is now; unchanged: there are no such files */
static bool
keep_others (const char *old, bool complete, char *kept)
{
    struct manifest manifest;
    struct accel_error cause;
    char name[PATH_MAX];
    AUTO_FREE char *other = NULL;
    bool is_foreign = manifest_read (&manifest, old, &cause)
                          ? complete
                          : find_other (old, "", &manifest, &other, &cause) || other;
    manifest_release (&manifest);
    if (!is_foreign)
        return false;
    const char *end = strstr (strrchr (old, '/'), CHECKPOINT_TEMPORARY);
    bool fits = (size_t) snprintf (name, sizeof name, "%.*s" KEPT "%s", (int) (end - old), old,
                                   end + sizeof CHECKPOINT_TEMPORARY - 1)
                < sizeof name;
    bool is_renamed = fits && !rename (old, name);
    if (is_renamed || !access (old, F_OK)) /* otherwise another job has renamed it */
        snprintf (kept, PATH_MAX, "%s", is_renamed ? name : old);
    return true;
}

/* Remove temporary folders of @place that no process writes to.  What cannot be removed does not matter.
 * @param[out] kept  as for keep_others() */
static void
remove_remainders (const char *place, char *kept)
{
    char parent[PATH_MAX], path[PATH_MAX];
    const char *base = strrchr (place, '/') + 1;
    const struct dirent *entry;
    bool numbered = checkpoint_number (base) != UINT64_MAX;
    size_t length = strlen (base);
    parent_of (parent, place);
    DIR *stream = opendir (parent);
    while (stream && (entry = readdir (stream))) {
        const char *end = strstr (entry->d_name, CHECKPOINT_TEMPORARY);
        bool ours = end && (size_t) (end - entry->d_name) == length && !strncmp (entry->d_name, base, length);
        if (end && numbered && !strncmp (entry->d_name, CHECKPOINT_PREFIX, sizeof CHECKPOINT_PREFIX - 1))
            ours = true; /* automatic naming: those of other numbers too */
        if (!ours || (size_t) snprintf (path, sizeof path, "%s/%s", parent, entry->d_name) >= sizeof path)
            continue;
        AUTO_CLOSE int lock = lock_folder (path);
        if (lock >= 0 && !keep_others (path, false, kept))
            (void) remove_tree (path);
    }
    if (stream)
        closedir (stream);
}

/* Without an exchange of names, a process that was killed may have left nothing at the place: the checkpoint that is
 * loaded instead gets its name back, before what remains beside it is removed. */
static enum accel_status
restore_place (const char *place, struct accel_error *err)
{
    char found[PATH_MAX], parent[PATH_MAX];
    struct stat info;
    if (!lstat (place, &info) || errno != ENOENT || checkpoint_folder_find (found, place, NULL))
        return ACCEL_OK;
    AUTO_CLOSE int lock = lock_folder (found);
    if (lock < 0) /* another job is about to put it there itself */
        return ACCEL_OK;
    if (rename (found, place))
        return accel_fail_errno (err, "cannot rename %s to %s", found, place);
    parent_of (parent, place);
    return sync_folder (parent, err);
}

static enum accel_status
check_empty (const char *place, struct accel_error *err)
{
    const struct dirent *entry;
    bool found = false;
    DIR *stream = opendir (place);
    if (!stream)
        return accel_fail_errno (err, "%s", place);
    while (!found && (entry = readdir (stream)))
        found = strcmp (entry->d_name, ".") && strcmp (entry->d_name, "..");
    closedir (stream);
    return found ? accel_fail (err, ACCEL_ERR_INVALID,
                               "%s exists and is not a checkpoint: choose another folder, or an empty one", place)
                 : ACCEL_OK;
}

/* What is at the place may be replaced: an empty folder, or a checkpoint and nothing else. */
static enum accel_status
check_replaceable (const char *place, struct accel_error *err)
{
    struct manifest manifest;
    struct accel_error cause = { 0 };
    AUTO_FREE char *other = NULL;
    if (manifest_read (&manifest, place, &cause))
        return check_empty (place, err);
    enum accel_status status = find_other (place, "", &manifest, &other, err);
    if (!status && other)
        status = accel_fail (err, ACCEL_ERR_INVALID,
                             "cannot replace checkpoint %s: '%.100s' in it is not part of the checkpoint; move it away",
                             place, other);
    manifest_release (&manifest);
    return status;
}

static enum accel_status
check_place (const char *place, bool automatic, struct accel_error *err)
{
    struct stat info;
    if (lstat (place, &info))
        return errno == ENOENT ? ACCEL_OK : accel_fail_errno (err, "%s", place);
    if (automatic)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "checkpoint %s already exists: load it, or set `iteration` of the project configuration to "
                           "the number to begin with",
                           place);
    if (!S_ISDIR (info.st_mode))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s should be a directory, but is a file", place);
    return check_replaceable (place, err);
}

/* The absolute path that @path leads to, whose last component need not exist. */
static enum accel_status
resolve (char place[PATH_MAX], const char *path, struct accel_error *err)
{
    char parent[PATH_MAX], resolved[PATH_MAX];
    size_t length = strlen (path);
    if (realpath (path, place))
        return ACCEL_OK;
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (errno != ENOENT || length >= sizeof parent)
        return accel_fail_errno (err, "%s", path);
    snprintf (parent, sizeof parent, "%.*s", (int) length, path);
    char *slash = strrchr (parent, '/');
    const char *base = slash ? slash + 1 : parent;
    if (!realpath (slash == parent ? "/" : slash ? (*slash = '\0', parent) : ".", resolved))
        return accel_fail_errno (err, "%s", path);
    if ((size_t) snprintf (place, PATH_MAX, "%s/%s", strcmp (resolved, "/") ? resolved : "", base) >= PATH_MAX)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the path is too long", path);
    return ACCEL_OK;
}

enum accel_status
checkpoint_folder_make_parents (const char *path, struct accel_error *err)
{
    struct fail fail;
    return io_make_parents (path, &fail) ? accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text) : ACCEL_OK;
}

/* Another job that saves to the same place takes a folder without a lock for a remainder, also a new one. */
static enum accel_status
make_temporary (struct checkpoint_folder *folder, struct accel_error *err)
{
    for (int i = 0; i < TRIES && name_beside (folder->temporary, folder->place); i++) {
        if (!mkdir (folder->temporary, 0777)) {
            folder->lock = lock_folder (folder->temporary);
            if (folder->lock >= 0 || (errno != EWOULDBLOCK && errno != ENOENT))
                return ACCEL_OK;
        } else if (errno != EEXIST)
            break;
    }
    enum accel_status status = accel_fail_errno (err, "cannot create folder %s", folder->temporary);
    *folder->temporary = '\0';
    return status;
}

enum accel_status
checkpoint_folder_begin (struct checkpoint_folder *folder, const char *path, bool automatic, struct accel_error *err)
{
    *folder = (struct checkpoint_folder) CHECKPOINT_NO_FOLDER;
    enum accel_status status = checkpoint_folder_make_parents (path, err);
    if (!status)
        status = resolve (folder->place, path, err);
    if (!status && !strcmp (folder->place, "/"))
        status = accel_fail (err, ACCEL_ERR_INVALID, "cannot save to the root folder");
    if (!status && !automatic)
        status = restore_place (folder->place, err);
    if (!status)
        status = check_place (folder->place, automatic, err);
    if (status)
        return status;
    remove_remainders (folder->place, folder->kept);
    return make_temporary (folder, err);
}

/* ---- ending ---- */

enum accel_status
checkpoint_folder_keep_apart (struct checkpoint_folder *folder, struct accel_error *err)
{
    size_t length = strlen (folder->place);
    if (length + sizeof CHECKPOINT_NONFINITE > sizeof folder->place)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the path is too long", folder->place);
    memcpy (folder->place + length, CHECKPOINT_NONFINITE, sizeof CHECKPOINT_NONFINITE);
    return ACCEL_OK;
}

/* Exchange the two names; if the file system cannot, there is nothing at the place for a moment.
 * @param[out] old  what was at the place */
static int
exchange (const char *temporary, const char *place, char old[PATH_MAX])
{
    if (!renameat2 (AT_FDCWD, temporary, AT_FDCWD, place, RENAME_EXCHANGE)) {
        snprintf (old, PATH_MAX, "%s", temporary);
        return 0;
    }
    if ((errno != EINVAL && errno != ENOSYS) || !name_beside (old, place) || rename (place, old))
        return -1;
    if (!rename (temporary, place))
        return 0;
    int saved = errno;
    (void) rename (old, place);
    errno = saved;
    return -1;
}

/* Another job may just be removing it, as a remainder: then a file that is missing says nothing. */
static void
remove_old (const char *old, char *kept)
{
    AUTO_CLOSE int lock = lock_folder (old);
    bool complete = lock >= 0 || (errno != EWOULDBLOCK && errno != ENOENT);
    if (!keep_others (old, complete, kept))
        (void) remove_tree (old);
}

/* What was there before goes only when the new name is on disk. */
enum accel_status
checkpoint_folder_commit (struct checkpoint_folder *folder, struct accel_error *err)
{
    char parent[PATH_MAX], old[PATH_MAX] = "";
    parent_of (parent, folder->place);
    enum accel_status status = sync_folder (folder->temporary, err);
    if (status)
        return status;
    /* An empty folder is replaced by rename() itself. */
    if (rename (folder->temporary, folder->place)
        && ((errno != ENOTEMPTY && errno != EEXIST) || exchange (folder->temporary, folder->place, old)))
        return accel_fail_errno (err, "cannot rename %s to %s", folder->temporary, folder->place);
    *folder->temporary = '\0';
    status = sync_folder (parent, err);
    if (!status && *old)
        remove_old (old, folder->kept);
    return status;
}

void
checkpoint_folder_end (struct checkpoint_folder *folder)
{
    int saved = errno;
    if (*folder->temporary && !remove_tree (folder->temporary))
        *folder->temporary = '\0'; /* otherwise another rank still writes there: the next call removes it */
    if (folder->lock >= 0)
        close (folder->lock);
    folder->lock = -1;
    errno = saved;
}

enum accel_status
checkpoint_folder_limit (const char *place, uint64_t limit, const uint64_t best[2], struct accel_error *err)
{
    char parent[PATH_MAX], path[PATH_MAX];
    struct checkpoint_list list;
    uint64_t kept = 1; /* @place, whatever its number */
    if (!limit)
        return ACCEL_OK;
    parent_of (parent, place);
    const bool apart = checkpoint_is_apart (place);
    enum accel_status status = checkpoint_list_read (&list, parent, err);
    for (size_t i = 0; !status && i < list.count; i++) {
        const struct checkpoint_entry *entry = &list.entries[i];
        uint64_t number = checkpoint_number (entry->name);
        if (number == UINT64_MAX || checkpoint_is_apart (entry->name) != apart
            || (entry->reason && !apart) || entry->is_python
            || (size_t) snprintf (path, sizeof path, "%s/%s", parent, entry->name) >= sizeof path
            || !strcmp (path, place)
            || (!apart && (number == best[0] || number == best[1] || ++kept <= limit)))
            continue;
        status = remove_checkpoint (path, err);
    }
    checkpoint_list_release (&list);
    return status;
}

/* ---- finding ---- */

static enum accel_status
fail_missing (const char *path, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_INVALID, "tried to find %s, but the folder does not exist", path);
}

enum accel_status
checkpoint_folder_find (char *place, const char *path, struct accel_error *err)
{
    char parent[PATH_MAX], other[PATH_MAX];
    struct stat info;
    uint64_t newest = 0;
    if (!*path)
        return accel_fail (err, ACCEL_ERR_INVALID, "the path of the folder is empty");
    if (stat (path, &info) && errno != ENOENT)
        return accel_fail_errno (err, "%s", path);
    enum accel_status status = resolve (place, path, err);
    if (status == ACCEL_ERR_SYSTEM && errno == ENOENT)
        return fail_missing (path, err);
    if (status || !stat (place, &info))
        return status || S_ISDIR (info.st_mode)
                   ? status
                   : accel_fail (err, ACCEL_ERR_INVALID, "%s: is not a folder", path);
    parent_of (parent, place);
    const char *base = strrchr (place, '/') + 1;
    const struct dirent *entry;
    char found[PATH_MAX] = "";
    DIR *stream = opendir (parent);
    while (stream && (entry = readdir (stream))) {
        struct manifest manifest;
        struct accel_error cause;
        const char *end = strstr (entry->d_name, CHECKPOINT_TEMPORARY);
        if (!end || (size_t) (end - entry->d_name) != strlen (base) || strncmp (entry->d_name, base, strlen (base))
            || (size_t) snprintf (other, sizeof other, "%s/%s", parent, entry->d_name) >= sizeof other)
            continue;
        if (!manifest_read (&manifest, other, &cause) && !manifest_check_sizes (&manifest, other, &cause)
            && manifest.saved_ns > newest) {
            newest = manifest.saved_ns;
            snprintf (found, sizeof found, "%s", other);
        }
        manifest_release (&manifest);
    }
    if (stream)
        closedir (stream);
    if (!*found)
        return fail_missing (path, err);
    snprintf (place, PATH_MAX, "%s", found);
    return ACCEL_OK;
}
