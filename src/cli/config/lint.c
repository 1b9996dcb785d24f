/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate config lint: what is wrong in files, has no effect, or contradicts itself; see files.h. */
#include <config.h>

#include "cli/config/files.h"

#include "config/check.h"
#include "config/conditions.h"
#include "config/effect.h"
#include "config/file.h"
#include "config/mode.h"
#include "util/cleanup.h"
#include "util/printable.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static void
find_without_effect (const struct config *config, struct strlist *problems)
{
    for (size_t i = 0; i < option_count; i++) {
        struct no_effect why;
        if (config->origins[i].kind == ORIGIN_FILE && effect_is_missing (config, &options[i], &why))
            strlist_printf (problems, "%s:%d: %s %s%s", config->file, config->origins[i].line, options[i].key,
                            why.text, why.mode);
    }
}

/* The program's library accepts these words in any case, and the numbers that PyTorch's enumerations have. */
static bool
is_known_word (const struct option *row, const char *text)
{
    if (*text && strspn (text, "0123456789") == strlen (text))
        return true;
    for (size_t i = 0; row->words[i]; i++)
        if (!strcasecmp (row->words[i], text))
            return true;
    return false;
}

/* Words that launch passes on as they are, but that no program will accept. */
static void
find_unknown_words (const struct config *config, struct strlist *problems)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        struct fail why = { 0 };
        if (config->origins[i].kind != ORIGIN_FILE || row->type != OPTION_TEXT || !row->words)
            continue;
        const char *text = *(char *const *) option_field_const (row, &config->settings);
        if (text && !is_known_word (row, text)) {
            option_refuse_word (row, row->words, text, &why);
            strlist_printf (problems, "%s:%d: %s: %s", config->file, config->origins[i].line, row->key, why.text);
        }
    }
}

/* A file for SageMaker: what launch needs. */
static void
check_sagemaker (const struct config *config, struct strlist *problems)
{
    static const char *const needed[] = { "ec2_instance_type", "iam_role_name" };
    if (!when_sagemaker (&config->settings))
        return;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (config_origin (config, needed[i]).kind == ORIGIN_DEFAULT)
            strlist_printf (problems, "%s: missing key for SageMaker: %s", config->file, needed[i]);
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
    AUTO_CONFIG struct config config = { 0 };
    struct fail found = { 0 };
    if (config_init (&config, fail))
        return -1;
    config.problems = problems;
    config.file = strdup (path);
    if (!config.file)
        return fail_nomem (fail);
    if (config_read_file (&config, path, &found) || config_resolve (&config, &found) || config_check (&config, &found))
        note_failure (path, found.text, problems);
    find_unknown_words (&config, problems);
    find_without_effect (&config, problems);
    check_sagemaker (&config, problems);
    return 0;
}

int
config_files_lint (char **files, int count, struct fail *fail)
{
    AUTO_STRLIST struct strlist problems = { 0 };
    if (!count)
        return fail_set (fail, FAIL_USAGE, "no file given; use accelerate config lint FILE...");
    for (int i = 0; i < count; i++)
        if (lint_file (files[i], &problems, fail))
            return -1;
    if (problems.failed)
        return fail_nomem (fail);
    for (size_t i = 0; i < problems.count; i++) {
        printable_put (stdout, problems.items[i]);
        putchar ('\n');
    }
    return problems.count != 0;
}
