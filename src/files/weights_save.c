/* SPDX-License-Identifier: Apache-2.0 */
/* Replacing the model in a directory; see weights_save.h.  Each step is on disk before the next one begins, so that a
 * power failure is no worse than a kill. */
#include <config.h>

#include "files/weights_save.h"

#include "files/error.h"
#include "files/index.h"
#include "files/shards.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static const char unfinished_index[] = "." WEIGHTS_INDEX_NAME ".partial";

char *
weights_save_path (const char *path, const char *name)
{
    return text_printf ("%s/.%s.new", path, name);
}

static enum accel_status
sync_folder (const struct weights_save *save, struct accel_error *err)
{
    return fsync (save->folder) ? accel_fail_errno (err, "%s: cannot sync the directory", save->path) : ACCEL_OK;
}

static enum accel_status
remove_file (const struct weights_save *save, const char *name, struct accel_error *err)
{
    if (!unlinkat (save->folder, name, 0) || errno == ENOENT)
        return ACCEL_OK;
    return accel_fail_errno (err, "%s/%s: cannot remove", save->path, name);
}

static enum accel_status
rename_file (const struct weights_save *save, const char *from, const char *to, struct accel_error *err)
{
    if (!renameat (save->folder, from, save->folder, to))
        return ACCEL_OK;
    return accel_fail_errno (err, "%s/%s: cannot rename to %s", save->path, from, to);
}

static bool
is_in (const struct index *index, const char *name)
{
    for (size_t i = 0; i < index->file_count; i++)
        if (!strcmp (index->files[i], name))
            return true;
    return false;
}

/* ".model...safetensors.new": of a save that was not complete. */
static bool
is_new_file (const char *name)
{
    static const char suffix[] = ".new";
    char inner[SHARDS_NAME_SIZE];
    size_t length = strlen (name);
    if (length < sizeof suffix + 1 || name[0] != '.' || strcmp (name + length - 4, suffix) != 0
        || length - 5 >= sizeof inner)
        return false;
    memcpy (inner, name + 1, length - 5);
    inner[length - 5] = '\0';
    return shards_is_name (inner) || !strcmp (inner, WEIGHTS_NAME);
}

/* Remove regular files: those of former sets that @index does not have, or (NULL) of saves that were not complete. */
static enum accel_status
remove_stale (const struct weights_save *save, const struct index *index, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    struct stat info;
    int fd = openat (save->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir (fd);
    if (!dir)
        return accel_fail_errno (err, "%s", save->path);
    for (struct dirent *entry; !status && (entry = readdir (dir)); ) {
        const char *name = entry->d_name;
        bool stale = index ? shards_is_name (name) && !is_in (index, name)
                           : is_new_file (name) || !strcmp (name, unfinished_index);
        if (stale && !fstatat (save->folder, name, &info, AT_SYMLINK_NOFOLLOW) && S_ISREG (info.st_mode))
            status = remove_file (save, name, err);
    }
    closedir (dir);
    return status;
}

/* The new files get their names; those that have got them already are left alone. */
static enum accel_status
rename_shards (const struct weights_save *save, const struct index *index, struct accel_error *err)
{
    for (size_t i = 0; i < index->file_count; i++) {
        AUTO_FREE char *beside = text_printf (".%s.new", index->files[i]);
        if (!beside)
            return accel_fail_nomem (err);
        if (renameat (save->folder, beside, save->folder, index->files[i]) && errno != ENOENT)
            return accel_fail_errno (err, "%s/%s: cannot rename to %s", save->path, beside, index->files[i]);
    }
    return ACCEL_OK;
}

/* What the new index says is done; a save that was killed from here on is finished by the next one.  Programs that do
 * not know about new files find the former set, then none, then the new one, but never a mixture. */
static enum accel_status
finish (const struct weights_save *save, struct accel_error *err)
{
    struct source source;
    struct index index = { 0 };
    enum accel_status status
        = source_open_in (&source, save->folder, WEIGHTS_NEW_INDEX_NAME, WEIGHTS_NEW_INDEX_NAME, false, err);
    if (!status)
        status = index_read (&index, &source, err);
    source_close (&source);
    if (!status)
        status = remove_file (save, WEIGHTS_INDEX_NAME, err);
    if (!status)
        status = remove_file (save, WEIGHTS_NAME, err);
    if (!status)
        status = sync_folder (save, err);
    if (!status)
        status = rename_shards (save, &index, err);
    if (!status)
        status = sync_folder (save, err);
    if (!status)
        status = rename_file (save, WEIGHTS_NEW_INDEX_NAME, WEIGHTS_INDEX_NAME, err);
    if (!status)
        status = sync_folder (save, err);
    if (!status)
        status = remove_stale (save, &index, err);
    index_release (&index);
    return status;
}

enum accel_status
weights_save_begin (struct weights_save *save, const char *path, struct accel_error *err)
{
    struct fail fail;
    AUTO_FREE char *below = NULL;
    *save = (struct weights_save) WEIGHTS_SAVE_NONE;
    if (!path || !*path)
        return accel_fail (err, ACCEL_ERR_INVALID, "the path of the directory is NULL or empty");
    save->path = strdup (path);
    if (!save->path || !(below = text_printf ("%s/", path))) {
        weights_save_end (save);
        return accel_fail_nomem (err);
    }
    enum accel_status status = ACCEL_OK;
    if (io_make_parents (below, &fail))
        status = accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    if (!status && (save->folder = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        status = errno == ENOTDIR ? accel_fail (err, ACCEL_ERR_INVALID, "%s: is a file, but must be a directory", path)
                                  : accel_fail_errno (err, "%s", path);
    if (!status && flock (save->folder, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        status = accel_fail (err, ACCEL_ERR_INVALID, "%s: another process is saving a model there", path);
        close (save->folder);
        save->folder = -1; /* its files are not ours to remove */
    }
    if (!status && !faccessat (save->folder, WEIGHTS_NEW_INDEX_NAME, F_OK, AT_SYMLINK_NOFOLLOW))
        status = finish (save, err);
    if (!status)
        status = remove_stale (save, NULL, err);
    if (status)
        weights_save_end (save);
    return status;
}

static enum accel_status
write_index (const struct weights_save *save, const struct strbuf *index, struct accel_error *err)
{
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    AUTO_CLOSE int fd = openat (save->folder, unfinished_index, flags, 0666);
    if (fd < 0 || io_write_all (fd, index->text, index->length) || fsync (fd))
        return accel_fail_errno (err, "%s/%s: cannot write", save->path, unfinished_index);
    return rename_file (save, unfinished_index, WEIGHTS_NEW_INDEX_NAME, err);
}

enum accel_status
weights_save_commit (struct weights_save *save, const struct strbuf *index, struct accel_error *err)
{
    static const struct index no_shards;
    enum accel_status status = sync_folder (save, err);
    if (status)
        return status;
    if (index) {
        status = write_index (save, index, err);
        if (!status)
            status = sync_folder (save, err);
        return status ? status : finish (save, err);
    }
    status = rename_file (save, "." WEIGHTS_NAME ".new", WEIGHTS_NAME, err);
    if (!status)
        status = sync_folder (save, err);
    if (!status)
        status = remove_file (save, WEIGHTS_INDEX_NAME, err);
    return status ? status : remove_stale (save, &no_shards, err);
}

void
weights_save_end (struct weights_save *save)
{
    int saved = errno;
    if (save->folder >= 0) {
        if (faccessat (save->folder, WEIGHTS_NEW_INDEX_NAME, F_OK, AT_SYMLINK_NOFOLLOW))
            (void) remove_stale (save, NULL, NULL);
        close (save->folder);
    }
    free (save->path);
    *save = (struct weights_save) WEIGHTS_SAVE_NONE;
    errno = saved;
}
