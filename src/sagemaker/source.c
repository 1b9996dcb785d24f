/* SPDX-License-Identifier: Apache-2.0 */
/* Walking through the source folder; see source.h. */
#include <config.h>

#include "sagemaker/source.h"

#include "sagemaker/ignore.h"
#include "util/array.h"
#include "util/printable.h"
#include "util/cleanup.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { DEEPEST = 64, MOST_FILES = 200000, SHOWN = 5 };

struct walk {
    struct source *source;
    struct ignore ignore;
    char *root; /* real path of what is walked through */
    struct {
        dev_t device;
        ino_t inode;
    } above[DEEPEST]; /* the folders that one is in */
    int depth;
    bool is_ignored; /* the folder that one is in */
    struct fail *fail;
};

/* A file or folder that was found. */
struct found {
    const char *name; /* in the archive */
    const char *path;
    struct stat info; /* of what a link leads to */
};

static int walk_into (struct walk *walk, const struct found *folder);

static int
take_name (const struct dirent *entry)
{
    return strcmp (entry->d_name, ".") && strcmp (entry->d_name, "..");
}

static int
by_bytes (const struct dirent **a, const struct dirent **b)
{
    return strcmp ((*a)->d_name, (*b)->d_name);
}

static int
append (struct walk *walk, const struct found *found, bool is_folder)
{
    struct source *source = walk->source;
    if (source->count >= MOST_FILES)
        return fail_set (walk->fail, FAIL_GENERAL, "more than %d files to upload; put the script into a folder of its "
                         "own", (int) MOST_FILES);
    struct source_file *file = array_room (&source->files, source->count, sizeof *file);
    if (!file)
        return fail_nomem (walk->fail);
    source->count++;
    *file = (struct source_file){ .name = strdup (found->name), .path = strdup (found->path), .is_folder = is_folder,
                                  .size = is_folder ? 0 : (uint64_t) found->info.st_size,
                                  .is_executable = found->info.st_mode & S_IXUSR };
    source->bytes += file->size;
    return file->name && file->path ? 0 : fail_nomem (walk->fail);
}

/* The path that a link leads to, if that is not below the root; else NULL. */
static char *
outside_of (const struct walk *walk, const char *path)
{
    char *real = realpath (path, NULL);
    size_t length = walk->root ? strlen (walk->root) : 0;
    if (real && walk->root && !strncmp (real, walk->root, length) && (real[length] == '/' || !real[length])) {
        free (real);
        return NULL;
    }
    return real;
}

/* Whether git would leave it out; paths of links are those of the links. */
static bool
is_ignored (struct walk *walk, const struct found *found)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    const char *name = strrchr (found->name, '/') ? strrchr (found->name, '/') + 1 : found->name;
    bool is_folder = S_ISDIR (found->info.st_mode);
    if (!walk->root || walk->is_ignored)
        return walk->is_ignored;
    strbuf_printf (&path, "%s/%s", walk->root, found->name);
    if (is_folder && !strcmp (name, ".git"))
        return true;
    return !path.failed && ignore_matches (&walk->ignore, path.text, is_folder);
}

static int
take (struct walk *walk, struct found *found)
{
    struct stat own;
    if (lstat (found->path, &own))
        return fail_set (walk->fail, FAIL_GENERAL, "%s: cannot read: %s", found->path, strerror (errno));
    if (stat (found->path, &found->info))
        return fail_set (walk->fail, FAIL_GENERAL, "%s: %s: %s", found->path,
                         errno == ENOENT ? "a link that leads nowhere" : "cannot read", strerror (errno));
    AUTO_FREE char *outside = S_ISLNK (own.st_mode) ? outside_of (walk, found->path) : NULL;
    if (outside)
        strlist_printf (&walk->source->outside, "%s -> %s", found->name, outside);
    if (!S_ISREG (found->info.st_mode) && !S_ISDIR (found->info.st_mode)) {
        strlist_add (&walk->source->skipped, found->name);
        return 0;
    }
    bool was_ignored = walk->is_ignored, ignored = is_ignored (walk, found);
    if (ignored && !was_ignored)
        strlist_printf (&walk->source->ignored, "%s%s", found->name, S_ISDIR (found->info.st_mode) ? "/" : "");
    if (S_ISDIR (found->info.st_mode)) {
        walk->is_ignored = ignored;
        int result = walk_into (walk, found);
        walk->is_ignored = was_ignored;
        return result;
    }
    if ((uint64_t) found->info.st_size >= SOURCE_LARGE) {
        AUTO_STRBUF struct strbuf size = { 0 };
        bytes_add (&size, (uint64_t) found->info.st_size);
        strlist_printf (&walk->source->large, "%s (%s)", found->name, size.text ? size.text : "");
    }
    return append (walk, found, false);
}

static int
enter (struct walk *walk, const struct found *folder)
{
    for (int i = 0; i < walk->depth; i++)
        if (walk->above[i].device == folder->info.st_dev && walk->above[i].inode == folder->info.st_ino)
            return fail_set (walk->fail, FAIL_GENERAL, "%s: a link to a folder that contains it", folder->path);
    if (walk->depth == DEEPEST)
        return fail_set (walk->fail, FAIL_GENERAL, "%s: more than %d folders inside each other", folder->path,
                         (int) DEEPEST);
    walk->above[walk->depth].device = folder->info.st_dev;
    walk->above[walk->depth++].inode = folder->info.st_ino;
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): at most DEEPEST deep */
static int
walk_into (struct walk *walk, const struct found *folder)
{
    struct dirent **entries = NULL;
    size_t rules = walk->ignore.count;
    AUTO_STRBUF struct strbuf here = { 0 };
    if (enter (walk, folder))
        return -1;
    int count = scandir (folder->path, &entries, take_name, by_bytes);
    int result = count >= 0 ? 0 : fail_set (walk->fail, FAIL_GENERAL, "%s: cannot read: %s", folder->path,
                                            strerror (errno));
    strbuf_printf (&here, "%s%s%s", walk->root ? walk->root : "", *folder->name ? "/" : "", folder->name);
    if (walk->root && (here.failed || ignore_read (&walk->ignore, here.text)))
        result = fail_nomem (walk->fail);
    if (!count && *folder->name && !result)
        result = append (walk, folder, true);
    for (int i = 0; i < count; i++) {
        AUTO_STRBUF struct strbuf name = { 0 }, path = { 0 };
        strbuf_printf (&name, "%s%s%s", folder->name, *folder->name ? "/" : "", entries[i]->d_name);
        strbuf_printf (&path, "%s/%s", folder->path, entries[i]->d_name);
        if (!result && (name.failed || path.failed))
            result = fail_nomem (walk->fail);
        if (!result)
            result = take (walk, &(struct found){ .name = name.text, .path = path.text });
        free (entries[i]);
    }
    free (entries);
    ignore_truncate (&walk->ignore, rules);
    walk->depth--;
    return result;
}

/* ---- what is packed ---- */

static int
find_folder (struct walk *walk, const char *folder)
{
    struct found found = { .name = "", .path = folder };
    walk->root = realpath (folder, NULL);
    if (!walk->root || stat (folder, &found.info))
        return fail_set (walk->fail, FAIL_GENERAL, "%s: cannot read: %s", folder, strerror (errno));
    if (!S_ISDIR (found.info.st_mode))
        return fail_set (walk->fail, FAIL_GENERAL, "source_dir: %s is not a folder", folder);
    if (ignore_read_above (&walk->ignore, walk->root))
        return fail_nomem (walk->fail);
    int result = walk_into (walk, &found);
    free (walk->root);
    walk->root = NULL;
    ignore_truncate (&walk->ignore, 0);
    return result;
}

/* A file or folder that is packed under its last name. */
static int
find_alone (struct walk *walk, const char *path)
{
    AUTO_FREE char *copy = strdup (path);
    size_t length = copy ? strlen (copy) : 0;
    while (length > 1 && copy[length - 1] == '/')
        copy[--length] = '\0';
    const char *slash = copy ? strrchr (copy, '/') : NULL;
    const char *name = slash ? slash + 1 : copy;
    if (!copy)
        return fail_nomem (walk->fail);
    if (!*name || !strcmp (name, ".") || !strcmp (name, ".."))
        return fail_set (walk->fail, FAIL_GENERAL, "additional_args: dependencies: '%s' has no name", path);
    return take (walk, &(struct found){ .name = name, .path = copy });
}

static int
by_name (const void *a, const void *b)
{
    return strcmp (((const struct source_file *) a)->name, ((const struct source_file *) b)->name);
}

static int
check_all (const struct source *source, struct fail *fail)
{
    for (size_t i = 1; i < source->count; i++)
        if (!strcmp (source->files[i - 1].name, source->files[i].name))
            return fail_set (fail, FAIL_GENERAL, "additional_args: dependencies: %s and %s have the same name",
                             source->files[i - 1].path, source->files[i].path);
    if (source->bytes > SOURCE_MOST) {
        AUTO_STRBUF struct strbuf size = { 0 };
        bytes_add (&size, source->bytes);
        return fail_set (fail, FAIL_GENERAL, "the source code has %s, but 5 GB are the maximum; put data into S3 and "
                         "name it in sagemaker_inputs_file%s%s", size.text ? size.text : "",
                         source->large.count ? "; the first large file is " : "",
                         source->large.count ? source->large.items[0] : "");
    }
    return source->ignored.failed || source->large.failed || source->outside.failed || source->skipped.failed
               ? fail_nomem (fail) : 0;
}

int
source_find (struct source *source, const struct training *training, struct fail *fail)
{
    struct walk walk = { .source = source, .fail = fail };
    const json_t *more = training_argument (training, "dependencies");
    *source = (struct source){ 0 };
    int result = !training->is_uploaded ? 0
                 : training->source     ? find_folder (&walk, training->source)
                                        : find_alone (&walk, training->entry);
    for (size_t i = 0; !result && training->is_uploaded && i < json_array_size (more); i++)
        result = find_alone (&walk, json_string_value (json_array_get (more, i)));
    if (!result && source->count)
        qsort (source->files, source->count, sizeof *source->files, by_name);
    if (!result)
        result = check_all (source, fail);
    free (walk.root);
    ignore_truncate (&walk.ignore, 0);
    if (result)
        source_release (source);
    return result;
}

void
source_release (struct source *source)
{
    for (size_t i = 0; i < source->count; i++) {
        free (source->files[i].name);
        free (source->files[i].path);
    }
    free (source->files);
    strlist_release (&source->ignored);
    strlist_release (&source->large);
    strlist_release (&source->outside);
    strlist_release (&source->skipped);
    *source = (struct source){ 0 };
}

/* ---- for the user ---- */

static void
add_note (struct strbuf *out, const char *what, const struct strlist *names)
{
    if (!names->count)
        return;
    strbuf_printf (out, "accelerate: note: %s: ", what);
    for (size_t i = 0; i < names->count && i < SHOWN; i++) {
        strbuf_add (out, i ? ", " : "");
        printable_add (out, names->items[i]);
    }
    if (names->count > SHOWN)
        strbuf_printf (out, ", and %zu more", names->count - SHOWN);
    strbuf_add_char (out, '\n');
}

void
source_add_notes (const struct source *source, struct strbuf *out)
{
    add_note (out, "uploaded although .gitignore names it, or git itself uses it", &source->ignored);
    add_note (out, "large files are uploaded", &source->large);
    add_note (out, "uploaded through a link that leads out of the folder", &source->outside);
    add_note (out, "not uploaded, because it is neither a file nor a folder", &source->skipped);
}
