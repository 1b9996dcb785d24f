/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate env: what a report of a problem should contain.  It starts nothing and shows no variable's value. */
#include <config.h>

#include "cli/command.h"
#include "cli/machine.h"
#include "config/load.h"
#include "config/paths.h"
#include "util/cleanup.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* All that is shown, before it is text or JSON. */
struct facts {
    struct strlist names, values;
    char *file;        /* configuration file: read, or looked for */
    bool was_given;    /* by --config_file */
    bool was_found;
};

static void
gather_build (struct facts *facts)
{
    char self[PATH_MAX] = "unknown";
    ssize_t length = readlink ("/proc/self/exe", self, sizeof self - 1);
    if (length > 0)
        self[length] = '\0';
    strlist_add (&facts->names, "`Accelerate` version");
    strlist_add (&facts->values, PACKAGE_VERSION " (in C)");
    strlist_add (&facts->names, "`accelerate` location");
    strlist_add (&facts->values, self);
    strlist_add (&facts->names, "Line editing");
    strlist_add (&facts->values, READLINE_STATE);
}

/* Rows of the file, and what was given otherwise: defaults nobody chose are not news. */
static bool
is_shown (const struct config *config, const struct option *row)
{
    return (row->properties & PROPERTY_FILE) && config->origins[row - options].kind != ORIGIN_DEFAULT;
}

static void
print_text (const struct facts *facts, const struct config *config, struct strbuf *out)
{
    strbuf_add (out, "\nCopy and paste the text below into your report:\n\n");
    for (size_t i = 0; i < facts->names.count; i++)
        strbuf_printf (out, "- %s: %s\n", facts->names.items[i], facts->values.items[i]);
    strbuf_printf (out, "- `Accelerate` %s: %s\n", facts->was_given ? "config passed" : "default config", facts->file);
    if (!facts->was_found)
        strbuf_add (out, "\tNot found\n");
    for (size_t i = 0; i < option_count; i++) {
        if (!is_shown (config, &options[i]))
            continue;
        strbuf_printf (out, "\t- %s: ", options[i].key);
        option_types[options[i].type].format (option_field_const (&options[i], &config->settings), out);
        strbuf_add (out, " (");
        config_format_origin (config, &options[i], out);
        strbuf_add (out, ")\n");
    }
}

static json_t *
json_of_settings (const struct config *config)
{
    json_t *object = json_object ();
    for (size_t i = 0; i < option_count; i++) {
        if (!is_shown (config, &options[i]))
            continue;
        AUTO_STRBUF struct strbuf value = { 0 };
        AUTO_STRBUF struct strbuf origin = { 0 };
        option_types[options[i].type].format (option_field_const (&options[i], &config->settings), &value);
        config_format_origin (config, &options[i], &origin);
        json_object_set_new (object, options[i].key,
                             json_pack ("{s:s, s:s}", "value", value.text ? value.text : "", "origin",
                                        origin.text ? origin.text : ""));
    }
    return object;
}

static int
print_json (const struct facts *facts, const struct config *config, struct strbuf *out, struct fail *fail)
{
    json_t *root = json_object ();
    for (size_t i = 0; i < facts->names.count; i++)
        json_object_set_new (root, facts->names.items[i], json_string (facts->values.items[i]));
    json_object_set_new (root, "config", json_pack ("{s:s, s:b, s:o}", "file", facts->file, "found", facts->was_found,
                                                    "settings", json_of_settings (config)));
    AUTO_FREE char *text = root ? json_dumps (root, JSON_INDENT (2)) : NULL;
    json_decref (root);
    if (!text)
        return fail_nomem (fail);
    strbuf_printf (out, "%s\n", text);
    return 0;
}

static int
print (struct facts *facts, const struct config *config, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    if (facts->names.failed || facts->values.failed)
        return fail_nomem (fail);
    if (config->settings.json) {
        if (print_json (facts, config, &out, fail))
            return -1;
    } else
        print_text (facts, config, &out);
    if (out.failed)
        return fail_nomem (fail);
    fputs (out.text, stdout);
    return 0;
}

static int
run (struct config *config, struct facts *facts, int argc, char **argv, struct fail *fail)
{
    if (config_init (config, fail) || config_load_flags (config, COMMAND_ENV, argc, argv, fail))
        return -1;
    if (config->program)
        return fail_set (fail, FAIL_USAGE, "unexpected argument '%s'", config->program);
    /* A file that cannot be read is what the report is about: the facts come all the same, and the error after them. */
    int result = config_load_file (config, fail);
    facts->was_given = config->settings.config_file != NULL;
    facts->was_found = config->file && !access (config->file, F_OK);
    if (config->file)
        facts->file = strdup (config->file);
    else if (path_of_default_file (&facts->file, fail))
        return -1;
    if (!facts->file)
        return fail_nomem (fail);
    gather_build (facts);
    machine_describe (&facts->names, &facts->values);
    return print (facts, config, result ? NULL : fail) ? -1 : result;
}

int
cmd_env (int argc, char **argv, struct fail *fail)
{
    struct config config = { 0 };
    struct facts facts = { 0 };
    int status = run (&config, &facts, argc, argv, fail);
    config_release (&config);
    strlist_release (&facts.names);
    strlist_release (&facts.values);
    free (facts.file);
    return status;
}
