/* SPDX-License-Identifier: Apache-2.0 */
/* Which files a run has; see run.h. */
#include <config.h>

#include "report/run.h"

#include "util/array.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LAUNCH_BYTES = 64 << 20 };

/* What a file is, by its first bytes. */
enum content { CONTENT_OTHER, CONTENT_METRICS, CONTENT_PROFILE, CONTENT_LAUNCH, CONTENT_EMPTY };

static enum content
look_at (const char *path)
{
    static const struct {
        const char *begin;
        enum content content;
    } known[] = {
        { "{\"config\":", CONTENT_METRICS }, { "{\"step\":", CONTENT_METRICS },
        { "[\n{\"ph\":", CONTENT_PROFILE },  { "{\"host\":", CONTENT_LAUNCH },
    };
    char bytes[16] = "";
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat info;
    if (fd < 0 || fstat (fd, &info) || !S_ISREG (info.st_mode))
        return CONTENT_OTHER;
    ssize_t got = read (fd, bytes, sizeof bytes - 1);
    for (size_t i = 0; got > 0 && i < sizeof known / sizeof *known; i++)
        if (!strncmp (bytes, known[i].begin, strlen (known[i].begin)))
            return known[i].content;
    return got == 0 ? CONTENT_EMPTY : CONTENT_OTHER;
}

/* Give the run a file, unless it has one of the kind. */
static int
take_file (struct run *run, const char *path, enum content content, struct fail *fail)
{
    static const char *const names[] = { [CONTENT_METRICS] = "metrics", [CONTENT_PROFILE] = "profile",
                                         [CONTENT_LAUNCH] = "failure report" };
    char **place = content == CONTENT_METRICS   ? &run->metrics_path
                   : content == CONTENT_PROFILE ? &run->profile_path
                                                : &run->launch_path;
    if (*place)
        return fail_set (fail, FAIL_GENERAL, "run %s has two files of one kind (%s): %s and %s", run->path,
                         names[content], *place, path);
    *place = strdup (path);
    return *place ? 0 : fail_nomem (fail);
}

static int
skip_dots (const struct dirent *entry)
{
    return *entry->d_name != '.';
}

/* Where there is no run: which of its folders are. */
static int
refuse_folder (const char *folder, struct dirent **entries, int count, struct fail *fail)
{
    AUTO_STRBUF struct strbuf names = { 0 };
    for (int i = 0; i < count; i++) {
        AUTO_FREE char *path = text_printf ("%s/%s/metrics.jsonl", folder, entries[i]->d_name);
        if (path && names.length < 200 && !access (path, F_OK))
            strbuf_printf (&names, "%s%s/%s", names.length ? " " : "", folder, entries[i]->d_name);
    }
    return fail_set (fail, FAIL_GENERAL, "%s: not a run: no metrics.jsonl, no profile, no failure report%s%s", folder,
                     names.length ? "; name the runs in it: " : "", names.length ? names.text : "");
}

static int
take_folder (struct run *run, const char *folder, struct fail *fail)
{
    struct dirent **entries;
    int count = scandir (folder, &entries, skip_dots, alphasort), result = 0;
    if (count < 0)
        return fail_set (fail, FAIL_GENERAL, "cannot read %s: %s", folder, strerror (errno));
    for (int i = 0; i < count && !result; i++) {
        AUTO_FREE char *path = text_printf ("%s/%s", folder, entries[i]->d_name);
        bool is_metrics = !strcmp (entries[i]->d_name, "metrics.jsonl");
        if (!path)
            result = fail_nomem (fail);
        else if (is_metrics || text_ends_in (path, ".json")) {
            enum content content = is_metrics ? CONTENT_METRICS : look_at (path);
            if (is_metrics || content == CONTENT_PROFILE || content == CONTENT_LAUNCH)
                result = take_file (run, path, content, fail);
        }
    }
    if (!result && !run->metrics_path && !run->profile_path && !run->launch_path)
        result = refuse_folder (folder, entries, count, fail);
    while (count > 0)
        free (entries[--count]);
    free (entries);
    return result;
}

static struct run *
add_run (struct runs *runs, const char *path)
{
    struct run *made = array_room (&runs->items, runs->count, sizeof *made);
    if (!made)
        return NULL;
    *made = (struct run){ .path = strdup (path) };
    runs->count++;
    return made->path ? made : NULL;
}

static int
take_path (struct runs *runs, const char *path, struct fail *fail)
{
    struct stat info;
    if (stat (path, &info))
        return fail_set (fail, FAIL_GENERAL, "cannot read %s: %s", path, strerror (errno));
    bool is_folder = S_ISDIR (info.st_mode);
    enum content content = is_folder ? CONTENT_OTHER : look_at (path);
    if (!is_folder && (content == CONTENT_EMPTY || text_ends_in (path, ".jsonl")))
        content = CONTENT_METRICS;
    if (!is_folder && content == CONTENT_OTHER)
        return fail_set (fail, FAIL_GENERAL,
                         "%s: neither a folder nor a file of a run: expected JSON lines of tracker jsonl, a profile or "
                         "a failure report", path);
    bool belongs = runs->count && (content == CONTENT_PROFILE || content == CONTENT_LAUNCH);
    struct run *run = belongs ? &runs->items[runs->count - 1] : add_run (runs, path);
    if (!run)
        return fail_nomem (fail);
    return is_folder ? take_folder (run, path, fail) : take_file (run, path, content, fail);
}

/* What is in a row of the environment, but elsewhere in the report. */
static int
complete_environment (json_t *launch)
{
    static const char *const keys[] = { "host", "program" };
    if (!json_is_object (json_object_get (launch, "environment"))
        && json_object_set_new (launch, "environment", json_object ()))
        return -1;
    json_t *environment = json_object_get (launch, "environment");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get (launch, keys[i]);
        if (json_is_string (value) && json_object_set (environment, keys[i], value))
            return -1;
    }
    return 0;
}

static int
read_run (struct run *run, struct fail *fail)
{
    if (run->metrics_path && metrics_read (&run->metrics, run->metrics_path, fail))
        return -1;
    if (run->profile_path && profile_read (&run->profile, run->profile_path, fail))
        return -1;
    if (!run->launch_path)
        return 0;
    AUTO_FREE char *text = NULL;
    size_t length;
    json_error_t why;
    if (io_read_file (run->launch_path, LAUNCH_BYTES, &text, &length, fail))
        return -1;
    run->launch = json_loadb (text, length, 0, &why);
    if (!json_is_object (run->launch))
        return fail_set (fail, FAIL_GENERAL, "%s:%d: not a failure report: %s", run->launch_path, why.line, why.text);
    return complete_environment (run->launch) ? fail_nomem (fail) : 0;
}

/* ---- names ---- */

/* The folder of a file whose name says nothing. */
static char *
full_path (const char *path)
{
    char *full = realpath (path, NULL), *slash = full ? strrchr (full, '/') : NULL;
    if (slash && slash > full && !strcmp (slash, "/metrics.jsonl"))
        *slash = '\0';
    return full;
}

/* How many bytes up to a '/' all have in common. */
static size_t
common_length (char *const *paths, size_t count)
{
    size_t common = 0;
    for (size_t at = 0;; at++) {
        for (size_t i = 0; i < count; i++)
            if (!paths[i][at] || paths[i][at] != paths[0][at])
                return common;
        if (paths[0][at] == '/')
            common = at + 1;
    }
}

/* @return how many of the runs before it have the same file or folder */
static size_t
count_before (char *const *paths, size_t run)
{
    size_t count = 0;
    for (size_t i = 0; i < run; i++)
        count += !strcmp (paths[i], paths[run]);
    return count;
}

/* By what their paths do not have in common; a run that is named twice is "a" and "a (2)". */
static int
name_runs (struct runs *runs, struct fail *fail)
{
    AUTO_STRLIST struct strlist paths = { 0 };
    for (size_t i = 0; i < runs->count; i++) {
        AUTO_FREE char *full = full_path (runs->items[i].path);
        strlist_add (&paths, full ? full : runs->items[i].path);
    }
    if (paths.failed)
        return fail_nomem (fail);
    size_t common = common_length (paths.items, paths.count);
    for (size_t i = 0; i < runs->count; i++) {
        size_t before = count_before (paths.items, i);
        const char *name = paths.items[i] + common;
        runs->items[i].name = before ? text_printf ("%s (%zu)", name, before + 1) : strdup (name);
        if (!runs->items[i].name)
            return fail_nomem (fail);
    }
    return 0;
}

int
runs_read (struct runs *runs, const struct strlist *paths, struct fail *fail)
{
    *runs = (struct runs){ 0 };
    for (size_t i = 0; i < paths->count; i++)
        if (take_path (runs, paths->items[i], fail))
            return -1;
    for (size_t i = 0; i < runs->count; i++)
        if (read_run (&runs->items[i], fail))
            return -1;
    return name_runs (runs, fail);
}

void
runs_release (struct runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        struct run *run = &runs->items[i];
        metrics_release (&run->metrics);
        profile_release (&run->profile);
        json_decref (run->launch);
        free (run->path);
        free (run->name);
        free (run->metrics_path);
        free (run->profile_path);
        free (run->launch_path);
    }
    free (runs->items);
    *runs = (struct runs){ 0 };
}
