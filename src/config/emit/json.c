/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as JSON, for tools that check or document it, and as a JSON schema (draft 2020-12) of the
 * configuration file, for editors; see emit.h. */
#include <config.h>

#include "config/emit/emit.h"
#include "config/file_keys.h"
#include "config/text/json_text.h"
#include "util/cleanup.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

static json_t *
json_of_choices (const struct option *row)
{
    json_t *list = json_array ();
    for (size_t i = 0; row->choices && row->choices[i]; i++)
        json_array_append_new (list, json_string (row->choices[i]));
    return list;
}

static json_t *
json_of_option (const struct option *row)
{
    json_t *object = json_pack (
        "{s:s, s:s, s:s*, s:s*, s:s, s:b, s:b, s:b, s:s*, s:s, s:s}", "key", row->key, "type",
        option_types[row->type].name, "default", row->dflt, "section", row->section, "group",
        option_groups[row->group].title, "flag", !(row->properties & PROPERTY_NO_FLAG), "file",
        (row->properties & PROPERTY_FILE) != 0, "extension", (row->properties & PROPERTY_EXTENSION) != 0, "environment",
        row->env, "help", row->help, "doc", row->doc);
    if (object && row->choices)
        json_object_set_new (object, "choices", json_of_choices (row));
    if (object && row->type == OPTION_INT) {
        json_object_set_new (object, "min", json_integer (row->min));
        json_object_set_new (object, "max", json_integer (row->max));
    }
    return object;
}

int
emit_json (struct strbuf *out, struct fail *fail)
{
    json_t *list = json_array ();
    for (size_t i = 0; i < option_count; i++)
        json_array_append_new (list, json_of_option (&options[i]));
    if (json_array_size (list) < option_count) {
        json_decref (list);
        return fail_nomem (fail);
    }
    return json_add (out, list, JSON_INDENT (2)) ? fail_nomem (fail) : 0;
}

/* ---- the schema ----
 *
 * It accepts what the reader accepts (file.c), as far as a schema can say it: words in any case, numbers and booleans
 * as such or as texts.  Editors apply it to YAML too, whose readers make booleans of yes and no. */

#define TRUTH "([yY]([eE][sS])?|[nN][oO]?|[tT]([rR][uU][eE])?|[fF]([aA][lL][sS][eE])?|[oO][nN]|[oO][fF][fF]|[01])"
#define TRUTH_PATTERN "^" TRUTH "$"
#define TRIPLE_PATTERN "^[ (\\[]*" TRUTH "([ ,)\\]]+[ (\\[]*" TRUTH "){2}[ ,)\\]]*$"

static json_t *
with_null (json_t *schema)
{
    return json_pack ("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
}

/* "^([Nn][Oo]|...)$" */
static json_t *
pattern_of_words (const char *const *words)
{
    AUTO_STRBUF struct strbuf pattern = { 0 };
    strbuf_add (&pattern, "^(");
    for (size_t i = 0; words[i]; i++) {
        strbuf_add (&pattern, i ? "|" : "");
        for (const char *at = words[i]; *at; at++)
            if (isalpha ((unsigned char) *at))
                strbuf_printf (&pattern, "[%c%c]", toupper ((unsigned char) *at), tolower ((unsigned char) *at));
            else
                strbuf_printf (&pattern, "%s%c", *at == '.' ? "\\" : "", *at);
    }
    strbuf_add (&pattern, ")$");
    return pattern.failed ? NULL : json_string (pattern.text);
}

static json_t *
examples_of_words (const char *const *words)
{
    json_t *list = json_array ();
    for (size_t i = 0; words[i]; i++)
        json_array_append_new (list, json_string (words[i]));
    return list;
}

/* Words as an enumeration, which editors complete, or in any case; `no` may be false, and numbers numbers. */
static json_t *
schema_of_words (const char *const *words)
{
    json_t *list = examples_of_words (words), *any = json_array ();
    for (size_t i = 0; words[i]; i++)
        if (!strcmp (words[i], "no") || !strcmp (words[i], "NO"))
            json_array_append_new (list, json_false ());
        else if (strspn (words[i], "0123456789") == strlen (words[i]))
            json_array_append_new (list, json_integer (strtoll (words[i], NULL, 10)));
    json_array_append_new (any, json_pack ("{s:o}", "enum", list));
    json_array_append_new (any, json_pack ("{s:s, s:o}", "type", "string", "pattern", pattern_of_words (words)));
    return json_pack ("{s:o}", "anyOf", any);
}

static json_t *
schema_of_truth (void)
{
    return json_pack ("{s:s}", "$ref", "#/$defs/truth");
}

static json_t *
define_truth (void)
{
    return json_pack ("{s:[{s:s}, {s:[i, i]}, {s:s, s:s}]}", "anyOf", "type", "boolean", "enum", 0, 1, "type", "string",
                      "pattern", TRUTH_PATTERN);
}

static json_t *
schema_of_number (const struct option *row)
{
    bool is_whole = row->type == OPTION_INT || !row->decimals;
    AUTO_STRBUF struct strbuf pattern = { 0 };
    strbuf_printf (&pattern, "^[%s+]?%s$", row->min < 0 ? "-" : "",
                   is_whole ? "[0-9]+" : "([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][-+]?[0-9]+)?");
    json_t *number = json_pack ("{s:s, s:I}", "type", is_whole ? "integer" : "number", "minimum",
                                (json_int_t) row->min);
    if (row->type == OPTION_INT)
        json_object_set_new (number, "maximum", json_integer (row->max));
    json_t *text = json_pack ("{s:s, s:s}", "type", "string", "pattern", pattern.failed ? NULL : pattern.text);
    json_t *any = json_pack ("[o, o]", number, text);
    if (row->words)
        json_array_append_new (any, json_pack ("{s:o}", "enum", examples_of_words (row->words)));
    return json_pack ("{s:o}", "anyOf", any);
}

static json_t *
schema_of_list (json_t *item, int count)
{
    json_t *list = json_pack ("{s:s, s:o}", "type", "array", "items", item);
    if (count) {
        json_object_set_new (list, "minItems", json_integer (count));
        json_object_set_new (list, "maxItems", json_integer (count));
    }
    return list;
}

/* A text; a bare number of YAML is one, too, but a truth value is a mistake. */
static json_t *
schema_of_text (const struct option *row)
{
    if (!row->words)
        return json_pack ("{s:[s, s]}", "type", "string", "number");
    /* PyTorch's enumerations have numbers, too. */
    return json_pack ("{s:[o, {s:s}, {s:s, s:s}]}", "anyOf", schema_of_words (row->words), "type", "integer", "type",
                      "string", "pattern", "^[0-9]*$");
}

static json_t *
schema_of_type (const struct option *row)
{
    if (row->choices)
        return schema_of_words (row->choices);
    switch (row->type) {
    case OPTION_FLAG:
    case OPTION_PYTHON_BOOL:
    case OPTION_SWITCH: return schema_of_truth ();
    case OPTION_TRUTH:
        return row->words ? json_pack ("{s:[o, o]}", "anyOf", schema_of_truth (), schema_of_words (row->words))
                          : schema_of_truth ();
    case OPTION_INT:
    case OPTION_NUMBER: return schema_of_number (row);
    case OPTION_TRIPLE:
        return json_pack ("{s:[o, o, {s:s, s:s}]}", "anyOf", schema_of_list (schema_of_truth (), 3),
                          schema_of_truth (), "type", "string", "pattern", TRIPLE_PATTERN);
    case OPTION_LIST:
        return json_pack ("{s:[o, {s:s}]}", "anyOf",
                          schema_of_list (json_pack ("{s:[s, s, s]}", "type", "string", "number", "boolean"), 0),
                          "type", "string");
    default: return schema_of_text (row);
    }
}

static json_t *
schema_of_key (const struct option *row)
{
    json_t *schema = with_null (schema_of_type (row));
    if (!strcmp (row->key, "num_processes")) /* an old way to say nothing */
        json_array_append_new (json_object_get (schema, "anyOf"), json_pack ("{s:i}", "const", -1));
    json_object_set_new (schema, "description", json_string (row->doc));
    if (row->dflt)
        json_object_set_new (schema, "default", row->type == OPTION_FLAG ? json_boolean (!strcmp (row->dflt, "true"))
                             : row->type == OPTION_INT ? json_integer (strtoll (row->dflt, NULL, 10))
                                                       : json_string (row->dflt));
    return schema;
}

/* A key of a section may leave out the section's name, if that is before it. */
static const char *
short_name (const struct option *row)
{
    const char *end = row->section ? strstr (row->section, "_config") : NULL;
    size_t length = end ? (size_t) (end - row->section) : row->section ? strlen (row->section) : 0;
    bool is_before = length && !strncmp (row->key, row->section, length) && row->key[length] == '_';
    return is_before ? row->key + length + 1 : NULL;
}

static json_t *
section_of (json_t *properties, const char *name)
{
    json_t *section = json_object_get (properties, name);
    if (section)
        return json_object_get (section, "properties");
    json_object_set_new (properties, name, json_pack ("{s:[s, s], s:{}, s:b}", "type", "object", "null", "properties",
                                                      "additionalProperties", 0));
    return json_object_get (json_object_get (properties, name), "properties");
}

/* Keys that only some kind of file has: the other kind's schema says false to them. */
static json_t *
keys_not_for (bool is_sagemaker)
{
    json_t *object = json_object ();
    for (size_t i = 0; i < option_count; i++) {
        const char *name = options[i].section ? options[i].section : options[i].key;
        if ((options[i].properties & PROPERTY_FILE) && !file_has_key (is_sagemaker, name))
            json_object_set_new (object, name, json_false ());
    }
    static const char *const parallel[] = { "DATA_PARALLEL", "MODEL_PARALLEL", NULL };
    static const char *const aws[] = { "NO", "DATA_PARALLEL", "MODEL_PARALLEL", NULL };
    json_object_set_new (object, "distributed_type",
                         is_sagemaker ? with_null (schema_of_words (aws))
                                      : json_pack ("{s:{s:s, s:o}}", "not", "type", "string", "pattern",
                                                   pattern_of_words (parallel)));
    return json_pack ("{s:o}", "properties", object);
}

static json_t *
add_rest (json_t *properties)
{
    static const char *const ignored[] = { "additional_args", "fp16" }; /* read, and without a meaning */
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        json_object_set_new (properties, ignored[i], json_true ());
    json_object_set_new (section_of (properties, "mpirun_config"), "mpirun_ccl", json_true ());
    const char *section, *key;
    for (size_t i = 0; (key = file_old_name (i, &section)); i++)
        json_object_set_new (section_of (properties, section), key,
                             schema_of_key (option_find (file_new_name (section, key))));
    for (size_t i = 0; (key = file_deepspeed_key (i)); i++)
        json_object_set_new (section_of (properties, "deepspeed_config"), key, json_true ());
    json_t *sagemaker = json_pack ("{s:{s:{s:s, s:s}}, s:[s]}", "properties", "compute_environment", "type", "string",
                                   "pattern", "^[Aa][Mm][Aa][Zz][Oo][Nn]_[Ss][Aa][Gg][Ee][Mm][Aa][Kk][Ee][Rr]$",
                                   "required", "compute_environment");
    return json_pack ("{s:s, s:s, s:s, s:s, s:o, s:b, s:o, s:o, s:o, s:{s:o}}", "$schema",
                      "https://json-schema.org/draft/2020-12/schema", "title", "Configuration file of accelerate",
                      "description", "See accelerate-config(5).", "type", "object", "properties", properties,
                      "additionalProperties", 0, "if", sagemaker, "then", keys_not_for (true), "else",
                      keys_not_for (false), "$defs", "truth", define_truth ());
}

int
emit_schema (struct strbuf *out, struct fail *fail)
{
    json_t *properties = json_object ();
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        const char *name = short_name (row);
        if (!(row->properties & PROPERTY_FILE))
            continue;
        json_t *parent = row->section ? section_of (properties, row->section) : properties;
        json_object_set_new (parent, row->key, schema_of_key (row));
        if (name && option_find_in_file (row->section, name) == row)
            json_object_set_new (parent, name, schema_of_key (row));
    }
    json_object_set_new (properties, "dynamo_backend", schema_of_key (option_find ("dynamo_backend"))); /* old files */
    return json_add (out, add_rest (properties), JSON_INDENT (2)) ? fail_nomem (fail) : 0;
}
