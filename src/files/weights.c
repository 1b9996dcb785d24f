/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a model; see weights.h. */
#include <config.h>

#include "files/weights.h"

#include "files/error.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_ATTEMPTS = 100 }; /* to read a set that is replaced again and again */

/* How a set was found, to see whether it still is the same when all its files are open. */
struct view {
    const char *path;  /* as given */
    const char *shown; /* the directory's path with a '/', "" for the current one */
    int folder;        /* its descriptor */
    bool is_directory; /* which may turn from a set into a file, and back */
    bool is_new;       /* ".model.safetensors.index.json.new" was read */
    bool follow_links;
    bool again;        /* the set was replaced while it was read */
    struct stat index;
};

static bool
exists (const struct view *view, const char *name)
{
    return !faccessat (view->folder, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static int
compare_names (const void *a, const void *b, void *user)
{
    const struct weights_tensor *all = user;
    return strcmp (all[*(const size_t *) a].tensor->name, all[*(const size_t *) b].tensor->name);
}

/* Make the lists over all files. */
static enum accel_status
collect (struct weights *weights, const char *path, struct accel_error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < weights->file_count; i++)
        weights->count += weights->files[i].header.count;
    weights->tensors = calloc (weights->count + 1, sizeof *weights->tensors);
    weights->by_name = calloc (weights->count + 1, sizeof *weights->by_name);
    if (!weights->tensors || !weights->by_name)
        return accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate memory for %zu tensors", path, weights->count);
    for (size_t i = 0; i < weights->file_count; i++)
        for (size_t j = 0; j < weights->files[i].header.count; j++, at++) {
            weights->tensors[at]
                = (struct weights_tensor){ &weights->files[i].header.tensors[j], &weights->files[i] };
            weights->by_name[at] = at;
        }
    if (weights->count)
        qsort_r (weights->by_name, weights->count, sizeof *weights->by_name, compare_names, weights->tensors);
    for (size_t i = 1; i < weights->count; i++) {
        const struct weights_tensor *x = &weights->tensors[weights->by_name[i - 1]];
        const struct weights_tensor *y = &weights->tensors[weights->by_name[i]];
        if (!strcmp (x->tensor->name, y->tensor->name))
            return accel_fail (err, ACCEL_ERR_FORMAT, "%s: duplicate tensor '%.80s', also in %s", y->file->source.path,
                               y->tensor->name, x->file->source.path);
    }
    return ACCEL_OK;
}

/* One file of a set: no link unless links are allowed, and not what only looks like a file. */
static enum accel_status
open_in (struct source *source, const struct view *view, const char *name, struct accel_error *err)
{
    AUTO_FREE char *path = NULL;
    *source = (struct source) SOURCE_CLOSED;
    path = text_printf ("%s%s", view->shown, name);
    if (!path)
        return accel_fail_nomem (err);
    enum accel_status status = source_open_in (source, view->folder, name, path, view->follow_links, err);
    if (status && err->sys_errno == ELOOP && !view->follow_links)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "%s: is a symbolic link, which may lead out of its directory; set follow_links to allow it",
                           path);
    return status;
}

/* A file of a set that is new comes before the one of its own name. */
static enum accel_status
open_shard (struct source *source, const struct view *view, const char *name, struct accel_error *err)
{
    AUTO_FREE char *beside = NULL;
    if (!view->is_new)
        return open_in (source, view, name, err);
    beside = text_printf (".%s.new", name);
    if (!beside)
        return accel_fail_nomem (err);
    enum accel_status status = open_in (source, view, beside, err);
    return status && err->sys_errno == ENOENT ? open_in (source, view, name, err) : status;
}

static enum accel_status
check_index (const struct weights *weights, const struct index *index, const char *path, struct accel_error *err)
{
    for (size_t i = 0; i < index->count; i++) {
        const struct index_entry *entry = &index->entries[i];
        if (!safetensors_find (&weights->files[entry->file_number].header, entry->name))
            return accel_fail (err, ACCEL_ERR_FORMAT, "%s: tensor '%.80s' is not in %s", path, entry->name,
                               entry->file);
    }
    return ACCEL_OK;
}

static enum accel_status
open_shards (struct weights *weights, const struct view *view, const struct source *source, struct accel_error *err)
{
    struct index index;
    enum accel_status status = index_read (&index, source, err);
    if (status)
        return status;
    weights->files = calloc (index.file_count + 1, sizeof *weights->files);
    if (!weights->files)
        status = accel_fail_nomem (err);
    for (size_t i = 0; i < index.file_count && !status; i++) {
        struct weights_file *file = &weights->files[weights->file_count++];
        *file = (struct weights_file){ .source = SOURCE_CLOSED };
        status = open_shard (&file->source, view, index.files[i], err);
        if (!status)
            status = safetensors_read (&file->header, &file->source, &file->data, err);
    }
    if (!status)
        status = check_index (weights, &index, source->path, err);
    index_release (&index);
    return status ? status : collect (weights, source->path, err);
}

static bool
is_same (const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size
           && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Whether no save has replaced the set since its index was opened: then the files that were opened belong together.  A
 * new index that has got its name does not tell: files called ".NAME.new" may be of the next save. */
static bool
is_current (const struct view *view, const char *name)
{
    struct stat now;
    bool has_new = !strcmp (name, WEIGHTS_INDEX_NAME)
                   && !fstatat (view->folder, WEIGHTS_NEW_INDEX_NAME, &now, AT_SYMLINK_NOFOLLOW);
    if (has_new != view->is_new || (!has_new && fstatat (view->folder, name, &now, 0)))
        return false;
    return is_same (&now, &view->index);
}

static enum accel_status
try_index (struct weights *weights, struct view *view, const char *name, struct accel_error *err)
{
    struct source source;
    view->is_new = !strcmp (name, WEIGHTS_INDEX_NAME) && exists (view, WEIGHTS_NEW_INDEX_NAME);
    enum accel_status status = open_in (&source, view, view->is_new ? WEIGHTS_NEW_INDEX_NAME : name, err);
    if (status) {
        view->again = err->sys_errno == ENOENT
                      && (view->is_new || view->is_directory
                          || (!strcmp (name, WEIGHTS_INDEX_NAME) && exists (view, WEIGHTS_NEW_INDEX_NAME)));
        return status;
    }
    if (fstat (source.fd, &view->index))
        status = accel_fail_errno (err, "%s", source.path);
    if (!status)
        status = open_shards (weights, view, &source, err);
    view->again = !is_current (view, name);
    source_close (&source);
    return status;
}

static enum accel_status
open_file (struct weights *weights, const char *path, struct accel_error *err)
{
    weights->files = calloc (1, sizeof *weights->files);
    if (!weights->files)
        return accel_fail_nomem (err);
    struct weights_file *file = weights->files;
    enum accel_status status = source_open (&file->source, path, err);
    weights->file_count = 1;
    if (!status)
        status = safetensors_read (&file->header, &file->source, &file->data, err);
    return status ? status : collect (weights, path, err);
}

/* The only index of a directory, in @name. */
static enum accel_status
find_index (const struct view *view, char **name, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    int fd = openat (view->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir (fd);
    if (!dir)
        return accel_fail_errno (err, "%s", view->path);
    for (struct dirent *entry; !status && (entry = readdir (dir)); ) {
        if (!text_ends_in (entry->d_name, ".index.json"))
            continue;
        if (*name)
            status = accel_fail (err, ACCEL_ERR_INVALID, "%s: has more than one index: %s and %s; name one", view->path,
                                 *name, entry->d_name);
        else if (!(*name = strdup (entry->d_name)))
            status = accel_fail_nomem (err);
    }
    closedir (dir);
    if (!status && !*name)
        status = accel_fail (err, ACCEL_ERR_INVALID, "%s: has neither %s nor an index (*.index.json)", view->path,
                             WEIGHTS_NAME);
    return status;
}

static enum accel_status
try_directory (struct weights *weights, struct view *view, struct accel_error *err)
{
    AUTO_FREE char *name = NULL;
    enum accel_status status;
    if (exists (view, WEIGHTS_NEW_INDEX_NAME))
        return try_index (weights, view, WEIGHTS_INDEX_NAME, err);
    if (exists (view, WEIGHTS_NAME)) {
        name = text_printf ("%s%s", view->shown, WEIGHTS_NAME);
        if (!name)
            return accel_fail_nomem (err);
        status = open_file (weights, name, err);
        view->again = status && !exists (view, WEIGHTS_NAME);
        return status;
    }
    status = find_index (view, &name, err);
    if (!status)
        return try_index (weights, view, name, err);
    /* What is there now was not, or a rename hid it from readdir(). */
    view->again = !name
                  && (exists (view, WEIGHTS_NEW_INDEX_NAME) || exists (view, WEIGHTS_NAME)
                      || exists (view, WEIGHTS_INDEX_NAME));
    return status;
}

/* A directory or an index. */
static enum accel_status
open_set (struct weights *weights, struct view *view, struct accel_error *err)
{
    const char *path = view->path, *slash = strrchr (path, '/');
    size_t folder = view->is_directory ? strlen (path) : slash ? (size_t) (slash + 1 - path) : 0;
    AUTO_FREE char *shown
        = text_printf ("%.*s%s", (int) folder, path, view->is_directory && path[folder - 1] != '/' ? "/" : "");
    if (!shown)
        return accel_fail_nomem (err);
    AUTO_CLOSE int fd = open (*shown ? shown : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return accel_fail_errno (err, "%s", path);
    view->folder = fd;
    view->shown = shown;
    for (int i = 0; i < MOST_ATTEMPTS; i++) {
        view->again = false;
        enum accel_status status = view->is_directory ? try_directory (weights, view, err)
                                                      : try_index (weights, view, path + folder, err);
        if (!view->again)
            return status;
        weights_close (weights);
    }
    return accel_fail (err, ACCEL_ERR_FORMAT, "%s: was replaced %d times while it was read", path, MOST_ATTEMPTS);
}

enum accel_status
weights_open (struct weights *weights, const char *path, bool follow_links, struct accel_error *err)
{
    struct stat info;
    struct accel_error own;
    *weights = (struct weights){ 0 };
    err = err ? err : &own; /* its errno decides here */
    if (!path || !*path)
        return accel_fail (err, ACCEL_ERR_INVALID, "path is NULL or empty");
    struct view view = { .path = path, .follow_links = follow_links };
    view.is_directory = !stat (path, &info) && S_ISDIR (info.st_mode);
    enum accel_status status = view.is_directory || text_ends_in (path, ".json") ? open_set (weights, &view, err)
                                                                            : open_file (weights, path, err);
    if (status)
        weights_close (weights);
    return status;
}

size_t
weights_find (const struct weights *weights, const char *name)
{
    for (size_t low = 0, high = weights->count; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp (name, weights->tensors[weights->by_name[middle]].tensor->name);
        if (!order)
            return weights->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return SIZE_MAX;
}

enum accel_status
weights_read (const struct weights_tensor *tensor, uint64_t offset, void *into, size_t length, struct accel_error *err)
{
    return source_read (&tensor->file->source, tensor->file->data + tensor->tensor->begin + offset, into, length, err);
}

void
weights_close (struct weights *weights)
{
    int saved = errno;
    for (size_t i = 0; i < weights->file_count; i++) {
        safetensors_release (&weights->files[i].header);
        source_close (&weights->files[i].source);
    }
    free (weights->files);
    free (weights->tensors);
    free (weights->by_name);
    *weights = (struct weights){ 0 };
    errno = saved;
}
