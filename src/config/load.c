/* SPDX-License-Identifier: Apache-2.0 */
/* From a command line to settings; see load.h. */
#include <config.h>

#include "config/load.h"

#include "config/check.h"
#include "config/file.h"
#include "config/mode.h"
#include "config/paths.h"
#include "config/table/opt_argv.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The first free word of launch is the program, to which the rest belongs, but for one "--" at once before or after its
 * name. */
static int
take_positional (struct config *config, struct argv_scan *scan, struct fail *fail)
{
    if (scan->command != COMMAND_LAUNCH) {
        strlist_add (&config->words, scan->value);
        return config->words.failed ? fail_nomem (fail) : 0;
    }
    config->program = strdup (scan->value);
    if (!config->program)
        return fail_nomem (fail);
    if (!scan->literal && scan->at < scan->argc && !strcmp (scan->argv[scan->at], "--"))
        scan->at++;
    config->program_args = scan->argv + scan->at;
    scan->at = scan->argc;
    return 0;
}

int
config_load_flags (struct config *config, enum option_command command, int argc, char **argv, struct fail *fail)
{
    struct argv_scan scan = { .command = command, .argc = argc, .argv = argv };
    enum argv_item item;
    while ((item = argv_next (&scan, fail)) != ARGV_END) {
        if (item == ARGV_BAD)
            return -1;
        if (item == ARGV_POSITIONAL && take_positional (config, &scan, fail))
            return -1;
        if (item == ARGV_OPTION
            && config_set (config, scan.row, scan.value, (struct origin){ ORIGIN_FLAG, 0 }, fail))
            return fail_prefix (fail, "--%s", scan.row->key);
    }
    if (!config->settings.cpu)
        return 0;
    if (command == COMMAND_CONFIG) /* an answer, like --use_cpu */
        return config_set (config, option_find ("use_cpu"), "true", (struct origin){ ORIGIN_FLAG, 0 }, fail);
    return config_compute (config, "use_cpu", "true", "cpu", fail);
}

int
config_load_command (struct config *config, enum option_command command, int argc, char **argv, size_t most,
                     struct fail *fail)
{
    if (config_init (config, fail) || config_load_flags (config, command, argc, argv, fail))
        return -1;
    return config->words.count <= most
               ? 0
               : fail_set (fail, FAIL_USAGE, "unexpected argument '%s'", config->words.items[most]);
}

int
config_load_file (struct config *config, struct fail *fail)
{
    struct stat info;
    if (config->settings.config_file) {
        config->file = strdup (config->settings.config_file);
        if (!config->file)
            return fail_nomem (fail);
    } else if (!config->settings.cpu) {
        AUTO_FREE char *path = NULL;
        if (path_of_default_file (&path, fail))
            return -1;
        if (stat (path, &info) || !S_ISREG (info.st_mode))
            return 0;
        config->file = path;
        path = NULL;
    }
    return config->file ? config_read_file (config, config->file, fail) : 0;
}

/* An invalid variable is left to the programs that read it: OMP_NUM_THREADS=4,2 is good OpenMP. */
void
config_load_environment (struct config *config)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        const char *text = row->properties & PROPERTY_FROM_ENV ? getenv (row->env) : NULL;
        if (text)
            config_set (config, row, text, (struct origin){ ORIGIN_ENVIRONMENT, 0 }, NULL);
    }
}

/* Flags after the invalid one may still say where, and whether, to report the error. */
static void
load_report_flags (struct config *config, int argc, char **argv)
{
    struct argv_scan scan = { .command = COMMAND_LAUNCH, .argc = argc, .argv = argv };
    const struct option *report = option_find ("failure_report"), *dry_run = option_find ("dry_run");
    enum argv_item item;
    while ((item = argv_next (&scan, NULL)) != ARGV_END && item != ARGV_POSITIONAL)
        if (item == ARGV_OPTION && (scan.row == report || scan.row == dry_run))
            config_set (config, scan.row, scan.value, (struct origin){ ORIGIN_FLAG, 0 }, NULL);
}

int
config_load_launch (struct config *config, int argc, char **argv, struct fail *fail)
{
    if (config_init (config, fail))
        return -1;
    if (config_load_flags (config, COMMAND_LAUNCH, argc, argv, fail)) {
        load_report_flags (config, argc, argv);
        return -1;
    }
    if (!config->program)
        return fail_set (fail, FAIL_USAGE, "no program given; use accelerate launch [options] PROGRAM [arguments]");
    if (config_load_file (config, fail))
        return -1;
    config_load_environment (config);
    if (config_resolve (config, fail))
        return -1;
    return config_check (config, fail);
}
