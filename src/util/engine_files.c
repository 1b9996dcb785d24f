/* SPDX-License-Identifier: Apache-2.0 */
/* Searching the engine folders, and who else may write there; see engine_files.h. */
#include <config.h>

#include "util/array.h"
#include "util/engine_files.h"

#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/strbuf.h"
#include "util/text.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".so"

/* @return whether @file is BEFORE_NAME.so, with the name in @name. */
static bool
read_name (const char *file, const char *before, char *name)
{
    size_t length = strlen (file), prefix = strlen (before), suffix = strlen (SUFFIX);
    if (length <= prefix + suffix || length > prefix + ENGINE_NAME_MOST + suffix || strncmp (file, before, prefix)
        || strcmp (file + length - suffix, SUFFIX))
        return false;
    length -= prefix + suffix;
    memcpy (name, file + prefix, length);
    name[length] = '\0';
    return strspn (name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/* Whether others could change @path, which is not a link; @why then says how.  A user who may write to a folder can
 * replace what is in it, unless it has the sticky bit. */
static bool
is_open_to_others (const char *path, bool is_folder, struct strbuf *why)
{
    struct stat info;
    if (lstat (path, &info))
        strbuf_printf (why, "%s: %s", path, strerror (errno));
    else if (is_folder ? !S_ISDIR (info.st_mode) : !S_ISREG (info.st_mode))
        strbuf_printf (why, "%s is not a %s", path, is_folder ? "folder" : "plain file");
    else if (info.st_uid && info.st_uid != geteuid ())
        strbuf_printf (why, "%s belongs to user %u, but must belong to root or to you", path, (unsigned) info.st_uid);
    else if (info.st_mode & (S_IWGRP | S_IWOTH) && !(is_folder && info.st_mode & S_ISVTX))
        strbuf_printf (why, "others may write to %s: use chmod go-w", path);
    return why->length || why->failed;
}

/* @path and all folders above it.  @return NULL if it may be loaded */
static char *
find_refusal (const char *path, bool is_folder)
{
    AUTO_STRBUF struct strbuf why = { 0 };
    char real[PATH_MAX];
    if (path[0] != '/')
        strbuf_printf (&why, "'%s' in %s is not an absolute path", path, ENV_ENGINE_PATH);
    else if (!realpath (path, real))
        strbuf_printf (&why, "%s: %s", path, strerror (errno));
    while (!why.length && !why.failed && !is_open_to_others (real, is_folder, &why) && real[1]) {
        char *slash = strrchr (real, '/');
        slash[slash == real] = '\0';
        is_folder = true;
    }
    return why.length || why.failed ? strbuf_take (&why) : NULL;
}

static bool
is_known (const struct engine_files *files, const char *name)
{
#define X(built_in)                \
    if (!strcmp (name, #built_in)) \
        return true;
    ENGINE_BUILT_IN_MAP (X)
#undef X
    for (size_t i = 0; i < files->count; i++)
        if (!strcmp (name, files->items[i].name))
            return true;
    return false;
}

/* @refusal: of the folder; NULL: none. */
static void
add (struct engine_files *files, const char *folder, const char *before, const char *name, const char *refusal)
{
    struct engine_file *file = array_room (&files->items, files->count, sizeof *file);
    files->failed = files->failed || !file;
    if (!file)
        return;
    files->count++;
    *file = (struct engine_file){ 0 };
    strcpy (file->name, name);
    file->path = text_printf ("%s/%s%s" SUFFIX, folder, before, name);
    files->failed = files->failed || !file->path;
    if (file->path)
        file->refusal = refusal ? strdup (refusal) : find_refusal (file->path, false);
}

static void
search (struct engine_files *files, const char *before, const char *folder)
{
    struct dirent **entries;
    char name[ENGINE_NAME_MOST + 1];
    int count = *folder ? scandir (folder, &entries, NULL, alphasort) : -1;
    if (count < 0)
        return;
    AUTO_FREE char *refusal = find_refusal (folder, true);
    for (int i = 0; i < count; i++) {
        if (read_name (entries[i]->d_name, before, name) && !is_known (files, name))
            add (files, folder, before, name, refusal);
        free (entries[i]);
    }
    free (entries);
}

static void
find (struct engine_files *files, const char *before)
{
    *files = (struct engine_files){ 0 };
    const char *path = secure_getenv (ENV_ENGINE_PATH);
    AUTO_FREE char *folders = path ? strdup (path) : NULL;
    files->failed = path && !folders;
    for (char *rest = folders, *folder; (folder = strsep (&rest, ":"));)
        search (files, before, folder);
    search (files, before, ENGINE_FOLDER);
}

void
engine_files_find (struct engine_files *files)
{
    find (files, "accel_engine_");
}

void
engine_files_find_devices (struct engine_files *files)
{
    find (files, "accel_device_");
}

void
engine_files_find_trackers (struct engine_files *files)
{
    find (files, "accel_tracker_");
}

void
engine_files_release (struct engine_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free (files->items[i].path);
        free (files->items[i].refusal);
    }
    free (files->items);
    *files = (struct engine_files){ 0 };
}
