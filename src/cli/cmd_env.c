/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate env: what a report of a problem should contain.  It starts no program and shows no variable's value. */
#include <config.h>

#include "cli/command.h"
#include "cli/env/machine.h"
#include "cli/print.h"
#include "config/load.h"
#include "config/paths.h"
#include "config/text/json_text.h"
#include "util/cleanup.h"
#include "util/printable.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

/* All that is shown, before it is text or JSON. */
struct facts {
    struct strlist *values; /* [machine_fact_count] */
    json_t *gpus;           /* with --json; NULL: without memory, too */
    char *file;             /* configuration file: read, or looked for */
    bool was_given;         /* by --config_file */
    bool was_found;
};

/* Rows of the file, and values given otherwise, but not plain defaults. */
static bool
is_shown (const struct config *config, const struct option *row)
{
    return (row->properties & PROPERTY_FILE) && config->origins[row - options].kind != ORIGIN_DEFAULT;
}

/* A value that may be shown to others: keys are hidden, and so are the credentials in an address. */
static void
add_value (const struct config *config, const struct option *row, struct strbuf *out)
{
    if (row->properties & PROPERTY_SECRET) {
        strbuf_add (out, "(not shown)");
        return;
    }
    AUTO_STRBUF struct strbuf value = { 0 };
    option_types[row->type].format (option_field_const (row, &config->settings), &value);
    out->failed = out->failed || value.failed;
    text_hide_credentials (value.text ? value.text : "", out);
}

static void
add_fact (const struct machine_fact *fact, const struct strlist *values, struct strbuf *out)
{
    strbuf_printf (out, "- %s:", fact->name);
    if (!fact->is_list && !values->count)
        strbuf_add (out, " unknown\n");
    else if (fact->is_list)
        strbuf_add (out, values->count ? "\n" : " none\n");
    for (size_t i = 0; i < (fact->is_list ? values->count : values->count > 0); i++) {
        strbuf_add (out, fact->is_list ? "\t- " : " ");
        printable_add (out, values->items[i]);
        strbuf_add_char (out, '\n');
    }
}

static void
add_text (const struct facts *facts, const struct config *config, struct strbuf *out)
{
    strbuf_add (out, "\nCopy and paste the text below into your report:\n\n");
    for (size_t i = 0; i < machine_fact_count; i++)
        add_fact (&machine_facts[i], &facts->values[i], out);
    strbuf_printf (out, "- `Accelerate` %s: ", facts->was_given ? "config passed" : "default config");
    printable_add (out, facts->file);
    strbuf_add_char (out, '\n');
    if (!facts->was_found)
        strbuf_add (out, "\tNot found\n");
    for (size_t i = 0; i < option_count; i++) {
        if (!is_shown (config, &options[i]))
            continue;
        AUTO_STRBUF struct strbuf value = { 0 };
        add_value (config, &options[i], &value);
        out->failed = out->failed || value.failed;
        strbuf_printf (out, "\t- %s: ", options[i].key);
        printable_add (out, value.text ? value.text : "");
        strbuf_add (out, " (");
        config_show_origin (config, &options[i], out);
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
        add_value (config, &options[i], &value);
        config_format_origin (config, &options[i], &origin);
        json_object_set_new (object, options[i].key,
                             json_pack ("{s:o, s:o}", "value", json_text (value.text ? value.text : ""), "origin",
                                        json_text (origin.text ? origin.text : "")));
    }
    return object;
}

static json_t *
json_of_fact (const struct machine_fact *fact, const struct strlist *values)
{
    if (!fact->is_list)
        return json_text (values->count ? values->items[0] : "unknown");
    json_t *array = json_array ();
    for (size_t i = 0; i < values->count; i++)
        json_array_append_new (array, json_text (values->items[i]));
    return array;
}

static int
add_json (const struct facts *facts, const struct config *config, struct strbuf *out, struct fail *fail)
{
    json_t *root = json_object ();
    for (size_t i = 0; i < machine_fact_count; i++)
        json_object_set_new (root, machine_facts[i].key, json_of_fact (&machine_facts[i], &facts->values[i]));
    if (json_object_set (root, "gpu_devices", facts->gpus)) {
        json_decref (root);
        return fail_nomem (fail);
    }
    json_object_set_new (root, "config", json_pack ("{s:o, s:b, s:o}", "file", json_text (facts->file), "found",
                                                    facts->was_found, "settings", json_of_settings (config)));
    return json_add (out, root, JSON_INDENT (2)) ? fail_nomem (fail) : 0;
}

static int
print (struct facts *facts, const struct config *config, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    for (size_t i = 0; i < machine_fact_count; i++)
        if (facts->values[i].failed)
            return fail_nomem (fail);
    if (config->settings.json) {
        if (add_json (facts, config, &out, fail))
            return -1;
    } else
        add_text (facts, config, &out);
    return print_text (&out, fail);
}

static int
gather (struct facts *facts, bool json, struct fail *fail)
{
    AUTO_FREE struct machine *machine = malloc (sizeof *machine);
    facts->values = calloc (machine_fact_count, sizeof *facts->values);
    if (!machine || !facts->values)
        return fail_nomem (fail);
    machine_probe (machine);
    for (size_t i = 0; i < machine_fact_count; i++)
        machine_facts[i].find (machine, &facts->values[i]);
    facts->gpus = json ? machine_gpus_json (machine) : NULL;
    return 0;
}

static int
run (struct config *config, struct facts *facts, int argc, char **argv, struct fail *fail)
{
    if (config_load_command (config, COMMAND_ENV, argc, argv, 0, fail))
        return -1;
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
    if (gather (facts, config->settings.json, fail))
        return -1;
    return print (facts, config, result ? NULL : fail) ? -1 : result;
}

int
cmd_env (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct facts facts = { 0 };
    int status = run (&config, &facts, argc, argv, fail);
    for (size_t i = 0; facts.values && i < machine_fact_count; i++)
        strlist_release (&facts.values[i]);
    free (facts.values);
    json_decref (facts.gpus);
    free (facts.file);
    return status;
}
