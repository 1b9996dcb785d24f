/* SPDX-License-Identifier: Apache-2.0 */
/* Several token files as one data set.  All are measured when the set is opened and closed again; samples open them as
 * needed.  A limited number stays open, of which the one that was not used for longest makes room for the next. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/data/datasets/set.h"
#include "lib/data/datasets/set_tokens.h"
#include "util/hash.h"
#include "util/strbuf.h"

#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_OPEN_FILES = 16, NO_SLOT = -1 };

struct token_file {
    char *path;
    uint64_t size; /* bytes */
    struct timespec modified;
    struct token_layout layout;
    uint64_t first; /* samples in the files before it; if samples cross files, tokens */
    int slot;       /* where it is open, or NO_SLOT */
};

/* An open file.  While `users` is not 0, it stays open. */
struct slot {
    struct source source;
    struct token_file *file; /* NULL: the slot is empty */
    unsigned users;
    uint64_t used; /* the number of the use: the smallest was used longest ago */
};

struct token_files {
    pthread_mutex_t lock; /* of the slots, and of each file's slot */
    struct token_file *files;
    size_t count;
    uint64_t tokens;
    struct slot *slots;
    size_t slot_count;
    uint64_t uses;
    bool across;
};

/* A file that is being read: in a slot, or, if other threads are using all slots, opened for this read alone. */
struct opened {
    struct slot *slot;
    struct source own;
};

static void
close_files (struct token_files *files)
{
    for (size_t i = 0; i < files->slot_count; i++)
        source_close (&files->slots[i].source);
    for (size_t i = 0; i < files->count; i++)
        free (files->files[i].path);
    pthread_mutex_destroy (&files->lock);
    free (files->slots);
    free (files->files);
    free (files);
}

static const struct source *
opened_source (const struct opened *opened)
{
    return opened->slot ? &opened->slot->source : &opened->own;
}

/* With the lock held.  @return whether the file is open in a slot, which is then in use */
static bool
take_slot (struct token_files *files, const struct token_file *file, struct opened *opened)
{
    if (file->slot == NO_SLOT)
        return false;
    opened->slot = &files->slots[file->slot];
    opened->slot->users++;
    opened->slot->used = ++files->uses;
    return true;
}

/* With the lock held: move what was opened to a slot that no thread uses, if there is one.
 * @param[out] old  the file that was there, to be closed */
static void
keep (struct token_files *files, struct token_file *file, struct opened *opened, struct source *old)
{
    struct slot *oldest = NULL;
    for (size_t i = 0; i < files->slot_count; i++)
        if (!files->slots[i].users && (!oldest || files->slots[i].used < oldest->used))
            oldest = &files->slots[i];
    if (!oldest)
        return;
    if (oldest->file)
        oldest->file->slot = NO_SLOT;
    *old = oldest->source;
    oldest->source = opened->own;
    opened->own = (struct source) SOURCE_CLOSED;
    oldest->file = file;
    file->slot = (int) (oldest - files->slots);
    (void) take_slot (files, file, opened);
}

static void
leave_file (struct token_files *files, struct opened *opened)
{
    if (opened->slot) {
        pthread_mutex_lock (&files->lock);
        opened->slot->users--;
        pthread_mutex_unlock (&files->lock);
    }
    source_close (&opened->own);
}

/* Opening waits for the disk, so other threads continue meanwhile; two may open the same file. */
static enum accel_status
enter_file (const struct set *set, struct token_file *file, struct opened *opened, struct accel_error *err)
{
    struct token_files *files = set->files;
    struct source old = SOURCE_CLOSED;
    enum accel_status status = ACCEL_OK;
    *opened = (struct opened){ .own = SOURCE_CLOSED };
    pthread_mutex_lock (&files->lock);
    bool is_open = take_slot (files, file, opened);
    pthread_mutex_unlock (&files->lock);
    if (!is_open) {
        status = source_open (&opened->own, file->path, err);
        if (!status && set->tokens.mapped)
            status = source_map (&opened->own, err);
        if (!status) {
            pthread_mutex_lock (&files->lock);
            if (!take_slot (files, file, opened))
                keep (files, file, opened, &old);
            pthread_mutex_unlock (&files->lock);
        }
    }
    source_close (&old);
    if (!status)
        status = source_check_unchanged (opened_source (opened), file->size, file->modified, err);
    if (status)
        leave_file (files, opened);
    return status;
}

/* The file that contains sample (or token) @p number. */
static struct token_file *
find_file (const struct token_files *files, uint64_t number)
{
    size_t low = 0, high = files->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (files->files[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return &files->files[low];
}

static enum accel_status
read_file_sample (void *user, size_t index, void *const *into, struct accel_error *err)
{
    const struct set *set = user;
    const struct accel_tokens_options *options = &set->tokens;
    enum accel_status status = set_check_index (set, index, err);
    if (status)
        return status;
    uint64_t number = set->files->across ? (uint64_t) index * options->stride : index;
    struct token_file *file = find_file (set->files, number);
    uint64_t token = set->files->across ? number - file->first : (number - file->first) * options->stride;
    size_t wanted = options->sequence_length + options->labels;
    for (size_t done = 0, now; done < wanted && !status; done += now, token = 0, file++) {
        uint64_t left = file->layout.count - token;
        now = wanted - done < left ? wanted - done : (size_t) left;
        struct opened opened;
        status = enter_file (set, file, &opened, err);
        if (status)
            return status;
        status = tokens_read (opened_source (&opened), &file->layout, options, token, done, now, into, err);
        leave_file (set->files, &opened);
    }
    return status;
}

static enum accel_status
measure_file (struct set *set, struct token_file *file, const char *path, struct accel_error *err)
{
    const struct token_file *first = set->files->files;
    struct source source;
    enum accel_status status = source_open (&source, path, err);
    if (status)
        return status;
    status = tokens_measure (&source, &set->tokens, &file->layout, err);
    if (!status && !file->layout.count)
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has no tokens", path);
    if (!status && file->layout.format != first->layout.format)
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has tokens of %zu bits, but %s has tokens of %zu bits", path,
                             8 * file->layout.token_bytes, first->path, 8 * first->layout.token_bytes);
    file->size = source.size;
    file->modified = source.modified;
    file->path = source.path;
    source.path = NULL;
    source_close (&source);
    return status;
}

static enum accel_status
make_files (struct set *set, size_t count, struct accel_error *err)
{
    size_t slots = set->tokens.open_files ? set->tokens.open_files : DEFAULT_OPEN_FILES;
    struct token_files *files = calloc (1, sizeof *files);
    if (!files)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a data set of %zu files", count);
    set->files = files;
    set->close_files = close_files;
    pthread_mutex_init (&files->lock, NULL);
    files->across = set->tokens.across_files;
    if (slots > count)
        slots = count;
    files->files = calloc (count, sizeof *files->files);
    files->slots = calloc (slots, sizeof *files->slots);
    if (!files->files || !files->slots)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a data set of %zu files", count);
    files->count = count;
    files->slot_count = slots;
    for (size_t i = 0; i < slots; i++)
        files->slots[i].source = (struct source) SOURCE_CLOSED;
    for (size_t i = 0; i < count; i++)
        files->files[i].slot = NO_SLOT;
    return ACCEL_OK;
}

/* Measure all files, and count the samples. */
static enum accel_status
add_files (struct set *set, const char *const *paths, struct accel_error *err)
{
    struct token_files *files = set->files;
    uint64_t samples = 0;
    for (size_t i = 0; i < files->count; i++) {
        struct token_file *file = &files->files[i];
        enum accel_status status = measure_file (set, file, paths[i], err);
        if (status)
            return status;
        file->first = files->across ? files->tokens : samples;
        samples += tokens_samples (&set->tokens, file->layout.count);
        files->tokens += file->layout.count;
    }
    if (files->across)
        samples = tokens_samples (&set->tokens, files->tokens);
    if (!samples)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s%s: no complete sample: each needs %zu tokens", files->files->path,
                           files->count > 1 ? " and the files after it" : "",
                           set->tokens.sequence_length + set->tokens.labels);
    set->dataset.size = (size_t) samples;
    return ACCEL_OK;
}

static enum accel_status
open_files (struct set *set, const char *const *paths, size_t count, struct accel_error *err)
{
    set->dataset.read = read_file_sample;
    enum accel_status status = make_files (set, count, err);
    return status ? status : add_files (set, paths, err);
}

/* glob() has no argument for its caller. */
static _Thread_local struct {
    char path[256];
    int error;
} unreadable;

static int
note_unreadable (const char *path, int error)
{
    snprintf (unreadable.path, sizeof unreadable.path, "%s", path);
    unreadable.error = error;
    return 1;
}

static int
compare_paths (const void *left, const void *right)
{
    return strcmp (*(char *const *) left, *(char *const *) right);
}

static enum accel_status
add_matches (struct strlist *files, const char *pattern, struct accel_error *err)
{
    glob_t found = { 0 };
    enum accel_status status = ACCEL_OK;
    unreadable.error = 0;
    int result = glob (pattern, GLOB_ERR | GLOB_NOSORT, note_unreadable, &found);
    if (result == GLOB_NOMATCH)
        status = accel_fail (err, ACCEL_ERR_SYSTEM, "%s: no file matches this pattern", pattern);
    else if (result == GLOB_ABORTED) {
        errno = unreadable.error;
        status = accel_fail_errno (err, "%s: cannot read the folder %s", pattern, unreadable.path);
    } else if (result)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate memory for the files that match this pattern",
                             pattern);
    else {
        /* Byte order: the locale may differ between hosts. */
        qsort (found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths);
        for (size_t i = 0; i < found.gl_pathc; i++)
            strlist_add (files, found.gl_pathv[i]);
    }
    globfree (&found);
    return status;
}

/* A file whose name looks like a pattern is taken at its word. */
static bool
is_pattern (const char *path)
{
    return strpbrk (path, "*?[") && access (path, F_OK);
}

static enum accel_status
list_files (struct strlist *files, const char *const *paths, size_t count, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (!paths || !count)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_dataset_open_tokens: the list of paths is empty");
    for (size_t i = 0; i < count && !status; i++)
        if (!paths[i] || !*paths[i])
            status = accel_fail (err, ACCEL_ERR_INVALID, "accel_dataset_open_tokens: path %zu is NULL or empty", i);
        else if (is_pattern (paths[i]))
            status = add_matches (files, paths[i], err);
        else
            strlist_add (files, paths[i]);
    if (!status && files->failed)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a data set of %zu files", count);
    return status;
}

enum accel_status
accel_dataset_open_tokens_sized (size_t options_size, struct accel_dataset **dataset, const char *const *paths,
                                 size_t count, const struct accel_tokens_options *options, struct accel_error *err)
{
    AUTO_STRLIST struct strlist files = { 0 };
    struct set *set;
    struct accel_tokens_options room;
    enum accel_status status;
    if (!dataset)
        return accel_fail_null (err, "accel_dataset_open_tokens", "dataset");
    *dataset = NULL;
    options = SIZED (options, options_size, room, &status, err);
    if (status || (status = list_files (&files, paths, count, err)) || (status = tokens_create (&set, options, err)))
        return status;
    status = files.count == 1 ? tokens_open_file (set, files.items[0], err)
                              : open_files (set, (const char *const *) files.items, files.count, err);
    if (status)
        return set_abandon (set, status);
    *dataset = &set->dataset;
    return ACCEL_OK;
}

static const struct set *
as_file_set (const struct accel_dataset *dataset)
{
    return dataset && dataset->read == read_file_sample ? dataset->user : NULL;
}

static const char *
base_name (const char *path)
{
    const char *slash = strrchr (path, '/');
    return slash ? slash + 1 : path;
}

void
token_files_describe (const struct accel_dataset *dataset, char *text, size_t size)
{
    const struct set *set = as_file_set (dataset);
    uint64_t hash = HASH_START;
    if (!set) {
        snprintf (text, size, "none");
        return;
    }
    const struct token_files *files = set->files;
    for (size_t i = 0; i < files->count; i++) {
        const char *name = base_name (files->files[i].path);
        hash = hash_bytes (hash, name, strlen (name) + 1);
        hash = hash_bytes (hash, &files->files[i].size, sizeof files->files[i].size);
    }
    snprintf (text, size, "%zu files, %.32s to %.32s, %llu tokens, hash %016llx%s", files->count,
              base_name (files->files[0].path), base_name (files->files[files->count - 1].path),
              (unsigned long long) files->tokens, (unsigned long long) hash,
              files->across ? ", across_files" : "");
}

size_t
token_shards (const struct accel_dataset *dataset)
{
    const struct set *set = as_file_set (dataset);
    if (set)
        return set->files->across ? 0 : set->files->count;
    return dataset->read_many == tokens_read_many;
}

size_t
token_shard_samples (const struct accel_dataset *dataset, size_t index)
{
    const struct set *set = as_file_set (dataset);
    if (!set)
        return dataset->size;
    const struct token_files *files = set->files;
    uint64_t end = index + 1 < files->count ? files->files[index + 1].first : dataset->size;
    return (size_t) (end - files->files[index].first);
}
