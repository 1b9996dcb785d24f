/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of .gitignore; see ignore.h and gitignore(5). */
#include <config.h>

#include "sagemaker/ignore.h"

#include "util/array.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/strbuf.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 1 << 20, MOST_RULES = 10000 };

struct ignore_rule {
    char *folder;  /* that it applies below, ends in '/' */
    char *pattern; /* without '!' and the '/' at either end */
    bool is_negative, only_folders, is_path;
};

/* Both without '/'. */
static bool
matches_name (const char *pattern, size_t pattern_length, const char *path, size_t length)
{
    char name[256], wanted[256];
    if (length >= sizeof name || pattern_length >= sizeof wanted)
        return false;
    memcpy (name, path, length);
    memcpy (wanted, pattern, pattern_length);
    name[length] = wanted[pattern_length] = '\0';
    return !fnmatch (wanted, name, 0);
}

/* A pattern with '/' against a path, name by name. If it does not match, the last "**" takes one name more. */
static bool
matches_path (const char *pattern, const char *path)
{
    const char *after = NULL, *retry = NULL; /* the pattern after "**"; the path that was last tried with it */
    for (;;) {
        if (!strcmp (pattern, "**"))
            return *path != '\0';
        if (!strncmp (pattern, "**/", 3)) {
            after = pattern += 3;
            retry = path;
            continue;
        }
        size_t length = strcspn (path, "/"), wanted = strcspn (pattern, "/");
        if (matches_name (pattern, wanted, path, length) && !pattern[wanted] == !path[length]) {
            if (!path[length])
                return true;
            pattern += wanted + 1;
            path += length + 1;
            continue;
        }
        retry = retry ? strchr (retry, '/') : NULL;
        if (!retry)
            return false;
        path = ++retry;
        pattern = after;
    }
}

static bool
matches (const struct ignore_rule *rule, const char *path, bool is_folder)
{
    size_t length = strlen (rule->folder);
    if ((rule->only_folders && !is_folder) || strncmp (path, rule->folder, length))
        return false;
    const char *slash = strrchr (path, '/');
    return rule->is_path ? matches_path (rule->pattern, path + length) : !fnmatch (rule->pattern, slash + 1, 0);
}

bool
ignore_matches (const struct ignore *ignore, const char *path, bool is_folder)
{
    for (size_t i = ignore->count; i-- > 0;)
        if (matches (&ignore->rules[i], path, is_folder))
            return !ignore->rules[i].is_negative;
    return false;
}

/* @line loses its end. */
static int
add_rule (struct ignore *ignore, const char *folder, char *line)
{
    struct ignore_rule rule = { 0 };
    size_t length = strlen (line);
    while (length
           && (line[length - 1] == '\r' || (line[length - 1] == ' ' && (length < 2 || line[length - 2] != '\\'))))
        line[--length] = '\0';
    if (!length || *line == '#' || ignore->count >= MOST_RULES)
        return 0;
    rule.is_negative = *line == '!';
    line += rule.is_negative;
    length = strlen (line);
    rule.only_folders = length && line[length - 1] == '/';
    if (rule.only_folders)
        line[--length] = '\0';
    rule.is_path = strchr (line, '/');
    line += *line == '/';
    if (!array_room (&ignore->rules, ignore->count, sizeof *ignore->rules))
        return -1;
    AUTO_STRBUF struct strbuf place = { 0 };
    strbuf_printf (&place, "%s/", strcmp (folder, "/") ? folder : "");
    rule.folder = strbuf_take (&place);
    rule.pattern = strdup (line);
    ignore->rules[ignore->count++] = rule;
    return rule.folder && rule.pattern ? 0 : -1;
}

int
ignore_add (struct ignore *ignore, const char *folder, char *text)
{
    for (char *line; (line = strsep (&text, "\n"));)
        if (add_rule (ignore, folder, line))
            return -1;
    return 0;
}

int
ignore_read (struct ignore *ignore, const char *folder)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    AUTO_FREE char *text = NULL;
    strbuf_printf (&path, "%s/.gitignore", folder);
    if (path.failed)
        return -1;
    if (io_read_file (path.text, LARGEST, &text, NULL, NULL))
        return 0;
    return ignore_add (ignore, folder, text);
}

int
ignore_read_above (struct ignore *ignore, const char *folder)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    size_t root = strlen (folder);
    strbuf_add (&path, folder);
    if (path.failed)
        return -1;
    for (;; root = (size_t) (strrchr (path.text, '/') - path.text)) { /* up to the repository's folder */
        strbuf_truncate (&path, root);
        strbuf_add (&path, "/.git");
        if (path.failed)
            return -1;
        bool is_root = !access (path.text, F_OK);
        strbuf_truncate (&path, root);
        if (is_root)
            break;
        if (!root)
            return 0; /* there is none */
    }
    for (const char *at = folder + root; *at;) { /* and down again */
        strbuf_truncate (&path, 0);
        strbuf_add_bytes (&path, folder, (size_t) (at - folder));
        if (path.failed || ignore_read (ignore, path.length ? path.text : "/"))
            return -1;
        at++;
        at += strcspn (at, "/");
    }
    return 0;
}

void
ignore_truncate (struct ignore *ignore, size_t count)
{
    while (ignore->count > count) {
        struct ignore_rule *rule = &ignore->rules[--ignore->count];
        free (rule->folder);
        free (rule->pattern);
    }
    if (!count) {
        free (ignore->rules);
        *ignore = (struct ignore){ 0 };
    }
}
