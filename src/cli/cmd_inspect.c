/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate inspect: the tensors of a checkpoint, or the differences between two. */
#include <config.h>

#include "cli/command.h"
#include "cli/inspect/inspect.h"
#include "cli/print.h"
#include "config/load.h"
#include "util/cleanup.h"

#include <stdio.h>

static int
check_words (const struct settings *settings, const struct strlist *words, struct fail *fail)
{
    size_t wanted = settings->diff ? 2 : 1;
    if (words->count < wanted)
        return fail_set (fail, FAIL_USAGE,
                         settings->diff ? "--diff needs two checkpoints: accelerate inspect --diff A B"
                                        : "nothing to inspect: accelerate inspect FILE|FOLDER");
    if (words->count > wanted)
        return fail_set (fail, FAIL_USAGE, "unexpected argument '%s'%s", words->items[wanted],
                         settings->diff ? "" : "; to compare two checkpoints: accelerate inspect --diff A B");
    if (settings->diff && (settings->norms || settings->verify))
        return fail_set (fail, FAIL_USAGE, "--%s cannot be combined with --diff", settings->norms ? "norms" : "verify");
    return 0;
}

static int
read_stats (struct tensors *tensors, struct stats *stats, struct fail *fail)
{
    struct progress progress = { .verb = "reading", .total = tensors->bytes };
    int result = 0;
    for (size_t i = 0; i < tensors->count && !result; i++)
        result = stats_read (tensors, i, &stats[i], &progress, fail);
    progress_end (&progress);
    return result;
}

/* Beside the table, which may be in a pipe. */
static int
note_nonfinite (const char *path, const char *nonfinite, struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_printf (&text, "%s is kept apart: parameter %s", path, nonfinite);
    if (text.failed)
        return fail_nomem (fail);
    print_note ("", text.text, "; jobs resume from it only if they are given its path");
    return 0;
}

static int
inspect_one (const struct settings *settings, struct tensors *tensors, const char *path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    AUTO_FREE struct stats *stats = NULL;
    AUTO_FREE char *nonfinite = NULL;
    struct findings findings = { 0 };
    if (tensors_open (tensors, path, TENSORS_OF_ALL, settings->follow_links, fail)
        || (settings->verify && inspect_verify (tensors, path, &findings, fail)))
        return -1;
    findings.nonfinite = nonfinite = inspect_find_nonfinite (path);
    if (settings->norms) {
        findings.stats = stats = calloc (tensors->count + 1, sizeof *stats);
        if (!stats)
            return fail_nomem (fail);
        if (read_stats (tensors, stats, fail))
            return -1;
    }
    if (nonfinite && !settings->json && note_nonfinite (path, nonfinite, fail))
        return -1;
    if (settings->json)
        inspect_show_json (tensors, path, &findings, &out);
    else
        inspect_show_table (tensors, path, &findings, isatty (STDOUT_FILENO), &out);
    return print_text (&out, fail);
}

static int
inspect_two (const struct settings *settings, struct tensors tensors[2], const char *const paths[2], struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    struct diff diff = { 0 };
    int result = 0;
    for (int i = 0; i < 2 && !result; i++)
        result = tensors_open (&tensors[i], paths[i], TENSORS_OF_ALL, settings->follow_links, fail);
    if (!result)
        result = inspect_compare (&tensors[0], &tensors[1], &diff, fail);
    if (!result && settings->json)
        inspect_show_diff_json (&diff, paths, &out);
    else if (!result)
        inspect_show_diff (&diff, paths, isatty (STDOUT_FILENO), &out);
    if (!result)
        result = print_text (&out, fail);
    free (diff.rows);
    return result ? result : diff.different != 0;
}

int
cmd_inspect (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct tensors tensors[2] = { 0 };
    int status = config_load_command (&config, COMMAND_INSPECT, argc, argv, SIZE_MAX, fail);
    if (!status)
        status = check_words (&config.settings, &config.words, fail);
    if (!status && config.settings.diff)
        status = inspect_two (&config.settings, tensors, (const char *const *) config.words.items, fail);
    else if (!status)
        status = inspect_one (&config.settings, &tensors[0], config.words.items[0], fail);
    for (int i = 0; i < 2; i++)
        tensors_close (&tensors[i]);
    return status;
}
