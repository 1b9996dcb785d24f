/* SPDX-License-Identifier: Apache-2.0 */
/* From a command line to settings; see load.h. */
#include <config.h>

#include "config/load.h"

#include "config/check.h"
#include "config/file.h"
#include "config/mode.h"
#include "config/opt_argv.h"
#include "config/paths.h"
#include "util/cleanup.h"
#include "util/printable.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int
config_init (struct config *config, struct fail *fail)
{
    *config = (struct config){ 0 };
    config->origins = calloc (option_count, sizeof *config->origins);
    if (!config->origins)
        return fail_nomem (fail);
    for (size_t i = 0; i < option_count; i++)
        if (config_reset (config, &options[i], fail))
            return fail_prefix (fail, "default of %s", options[i].key);
    return 0;
}

int
config_reset (struct config *config, const struct option *row, struct fail *fail)
{
    void *field = option_field (row, &config->settings);
    option_types[row->type].release (field);
    memset (field, 0, row->field_size);
    config->origins[row - options] = (struct origin){ 0 };
    return row->dflt ? option_types[row->type].parse (row, row->dflt, false, field, fail) : 0;
}

void
config_release (struct config *config)
{
    if (!config)
        return;
    for (size_t i = 0; i < option_count; i++)
        option_types[options[i].type].release (option_field (&options[i], &config->settings));
    free (config->origins);
    free (config->file);
    free (config->program);
    *config = (struct config){ 0 };
}

int
config_set (struct config *config, const struct option *row, const char *text, struct origin origin, struct fail *fail)
{
    struct origin *old = &config->origins[row - options];
    origin.file_place = origin.kind == ORIGIN_FILE ? ++config->file_keys : old->file_place;
    if (origin.kind >= old->kind) {
        void *field = option_field (row, &config->settings);
        if (option_types[row->type].parse (row, text, origin.kind == ORIGIN_FILE, field, fail))
            return -1;
        *old = origin;
        return 0;
    }
    /* A value that does not count must be right all the same: it would count the next time. */
    old->file_place = origin.file_place;
    struct settings unused = { 0 };
    void *field = option_field (row, &unused);
    int result = option_types[row->type].parse (row, text, origin.kind == ORIGIN_FILE, field, fail);
    option_types[row->type].release (field);
    return result;
}

int
config_compute (struct config *config, const char *key, const char *text, const char *because, struct fail *fail)
{
    struct origin cause = config_origin (config, because);
    return config_set (config, option_find (key), text, (struct origin){ ORIGIN_COMPUTED, cause.line }, fail);
}

bool
config_is_on (const struct config *config, const char *key, enum origin_kind kind)
{
    const struct option *row = option_find (key);
    return config->origins[row - options].kind == kind && *(const bool *) option_field_const (row, &config->settings);
}

struct origin
config_origin (const struct config *config, const char *key)
{
    const struct option *row = option_find (key);
    return row && config->origins ? config->origins[row - options] : (struct origin){ 0 };
}

void
config_format_origin (const struct config *config, const struct option *row, struct strbuf *out)
{
    struct origin origin = config->origins ? config->origins[row - options] : (struct origin){ 0 };
    static const char *const words[] = { "default", "environment", "", "flag", "computed" };
    if (origin.kind == ORIGIN_FILE || (origin.kind == ORIGIN_COMPUTED && origin.line)) {
        strbuf_add (out, config->file ? config->file : "file");
        if (origin.line)
            strbuf_printf (out, ":%d", origin.line);
    } else
        strbuf_add (out, words[origin.kind]);
}

bool
config_is_absent (const struct config *config, const struct option *row)
{
    if (row->dflt)
        return false;
    if (config->origins)
        return config->origins[row - options].kind == ORIGIN_DEFAULT;
    AUTO_STRBUF struct strbuf text = { 0 };
    option_types[row->type].format (option_field_const (row, &config->settings), &text);
    return !text.length || !strcmp (text.text, "0");
}

void
config_show_origin (const struct config *config, const struct option *row, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf raw = { 0 };
    config_format_origin (config, row, &raw);
    out->failed = out->failed || raw.failed;
    printable_add (out, raw.text ? raw.text : "");
}

/* The first free word; launch leaves the rest to the program, but for one "--" at once before or after its name. */
static int
take_positional (struct config *config, struct argv_scan *scan, struct fail *fail)
{
    if (config->program)
        return fail_set (fail, FAIL_USAGE, "unexpected argument '%s'", scan->value);
    config->program = strdup (scan->value);
    if (!config->program)
        return fail_nomem (fail);
    if (scan->command != COMMAND_LAUNCH)
        return 0;
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

int
config_load_launch (struct config *config, int argc, char **argv, struct fail *fail)
{
    if (config_init (config, fail) || config_load_flags (config, COMMAND_LAUNCH, argc, argv, fail))
        return -1;
    if (!config->program)
        return fail_set (fail, FAIL_USAGE, "no program given; use accelerate launch [options] PROGRAM [arguments]");
    if (config_load_file (config, fail))
        return -1;
    config_load_environment (config);
    if (config_resolve (config, fail))
        return -1;
    return config_check (config, fail);
}
