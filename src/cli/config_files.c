/* SPDX-License-Identifier: Apache-2.0 */
/* Work on configuration files without questions; see config_files.h. */
#include <config.h>

#include "cli/config_files.h"

#include "config/check.h"
#include "config/file.h"
#include "config/load.h"
#include "config/mode.h"
#include "config/paths.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <stdio.h>
#include <string.h>

/* The file itself is rewritten, not our settings: what we do not use stays, and so do the types of values. */
static int
update (struct config *config, const char *path, struct filedoc *doc, struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    if (filedoc_read (doc, path, fail) || filedoc_apply (config, doc, fail) || filedoc_update (doc, fail))
        return -1;
    if (path_is_json (path) ? node_write_json (&doc->root, &text) : node_write_yaml (&doc->root, &text))
        return fail_nomem (fail);
    return io_write_file (path, text.text, text.length, 0644, fail);
}

int
config_files_update (struct config *config, const char *path, struct fail *fail)
{
    struct filedoc doc = { 0 };
    int result = update (config, path, &doc, fail);
    filedoc_release (&doc);
    if (!result)
        printf ("%s is up to date\n", path);
    return result;
}

int
config_files_show (struct config *config, const char *path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    if (!access (path, F_OK)) {
        config->file = strdup (path);
        if (!config->file)
            return fail_nomem (fail);
        if (config_read_file (config, path, fail))
            return -1;
    } else if (config->settings.config_file)
        return config_read_file (config, path, fail); /* says why it cannot be read */
    config_load_environment (config);
    if (config_resolve (config, fail))
        return -1;
    config_explain (config, true, &out);
    if (out.failed)
        return fail_nomem (fail);
    fputs (out.text ? out.text : "", stdout);
    return 0;
}

/* A key that the questionnaire always writes says nothing where it has its default. */
static bool
is_noise (const struct config *config, const struct option *row)
{
    AUTO_STRBUF struct strbuf value = { 0 };
    option_types[row->type].format (option_field_const (row, &config->settings), &value);
    const char *text = value.text ? value.text : "", *dflt = row->dflt ? row->dflt : "";
    return !strcmp (text, dflt) || (row->type == OPTION_TEXT && !strcmp (text, "main"));
}

static void
find_useless (const struct config *config, struct strlist *problems)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (config->origins[i].kind != ORIGIN_FILE)
            continue;
        const struct option_group_info *group = &option_groups[row->group];
        if (group->matters && !group->matters (&config->settings) && !is_noise (config, row))
            strlist_printf (problems, "%s:%d: %s has no effect without %s", config->file, config->origins[i].line,
                            row->key, group->mode);
    }
}

/* What is wrong as a whole, with the file before it. */
static void
note_failure (const char *path, const char *text, struct strlist *problems)
{
    static const char reading[] = "configuration file: ";
    if (!strncmp (text, reading, sizeof reading - 1))
        text += sizeof reading - 1;
    bool has_path = !strncmp (text, path, strlen (path));
    strlist_printf (problems, "%s%s%s", has_path ? "" : path, has_path ? "" : ": ", text);
}

static int
lint_file (const char *path, struct strlist *problems, struct fail *fail)
{
    struct config config;
    struct fail found = { 0 };
    int result = config_init (&config, fail);
    config.problems = problems;
    config.file = strdup (path);
    if (!result && !config.file)
        result = fail_nomem (fail);
    if (!result && (config_read_file (&config, path, &found) || config_resolve (&config, &found)
                    || config_check (&config, &found)))
        note_failure (path, found.text, problems);
    if (!result)
        find_useless (&config, problems);
    config_release (&config);
    return result;
}

int
config_files_lint (char **files, int count, struct fail *fail)
{
    AUTO_STRLIST struct strlist problems = { 0 };
    if (!count)
        return fail_set (fail, FAIL_USAGE, "no file given, use: accelerate config lint FILE...");
    for (int i = 0; i < count; i++)
        if (lint_file (files[i], &problems, fail))
            return -1;
    if (problems.failed)
        return fail_nomem (fail);
    for (size_t i = 0; i < problems.count; i++)
        printf ("%s\n", problems.items[i]);
    return problems.count != 0;
}
