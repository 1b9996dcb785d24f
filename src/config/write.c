/* SPDX-License-Identifier: Apache-2.0 */
/* Settings to the text of a configuration file, as PyYAML's safe_dump or Python's json.dump would write it. */
#include <config.h>

#include "config/write.h"

#include "config/file_keys.h"
#include "config/text/scalar.h"
#include "config/text/yaml_text.h"
#include "util/cleanup.h"
#include "util/parse.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* Accelerate refuses keys that it does not know, and drops empty sections: write ours, and sections' keys, only where
 * the user gave a value. */
static bool
is_written (const struct config *config, const struct option *row)
{
    if (!(row->properties & PROPERTY_FILE) || config_is_absent (config, row))
        return false;
    bool is_given = config->origins && config->origins[row - options].kind != ORIGIN_DEFAULT;
    bool is_aws = !strcmp (config->settings.compute_environment, "AMAZON_SAGEMAKER");
    return is_given
           || (!config->only_given && file_has_key (is_aws, row->key) && !row->section
               && !(row->properties & PROPERTY_EXTENSION));
}

static const char *
top_name (const struct option *row)
{
    return row->section ? row->section : row->key;
}

static int
by_name (const void *a, const void *b)
{
    const struct option *one = *(const struct option *const *) a, *two = *(const struct option *const *) b;
    int order = strcmp (top_name (one), top_name (two));
    return order ? order : strcmp (one->key, two->key);
}

/* Names of backends are in upper case in files, as Accelerate's library expects them. */
static void
format_value (const struct option *row, const struct settings *settings, struct strbuf *text)
{
    option_types[row->type].format (option_field_const (row, settings), text);
    for (char *at = text->text; at && *at && row->spelling == SPELL_UPPER; at++)
        *at = (char) toupper ((unsigned char) *at);
}

/* What Python calls True and False is YAML's true and false; every other word is the text or number that it was. */
static void
write_truth (const char *text, struct strbuf *out)
{
    if (!strcmp (text, "True") || !strcmp (text, "False"))
        strbuf_add (out, *text == 'T' ? "true" : "false");
    else if (scalar_read (text, NULL) == SCALAR_INT)
        strbuf_add (out, text);
    else
        yaml_add_text (out, text);
}

static void
write_list (const struct strlist *list, const char *section, struct strbuf *out)
{
    strbuf_add (out, list->count ? "\n" : " []\n");
    for (size_t i = 0; i < list->count; i++) {
        strbuf_printf (out, "%s- ", section ? "  " : "");
        yaml_add_text (out, list->items[i]);
        strbuf_add_char (out, '\n');
    }
}

static void
write_triple (const char *text, struct strbuf *out)
{
    for (const char *at = text; *at;) {
        char word[8] = "";
        size_t length = strcspn (at, ",");
        memcpy (word, at, length < sizeof word ? length : sizeof word - 1);
        strbuf_add (out, "\n  - ");
        write_truth (word, out);
        at += length + (at[length] == ',');
    }
    strbuf_add_char (out, '\n');
}

/* What was a number where it came from; read again, it has to be the same one. */
static bool
add_float (const char *text, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf longer = { 0 };
    AUTO_STRBUF struct strbuf again = { 0 };
    yaml_add_float (&longer, text);
    if (longer.failed || scalar_read (longer.text, &again) != SCALAR_FLOAT || again.failed || strcmp (again.text, text))
        return false;
    strbuf_add (out, longer.text);
    return true;
}

/* A choice between numbers, such as fsdp_version, is a number to Accelerate. */
static bool
is_number_of_list (const struct option *row, const char *text)
{
    return row->choices && scalar_read (text, NULL) == SCALAR_INT;
}

/* The rest of the line "key:", and what belongs to it. */
static void
write_value (const struct option *row, const void *field, const char *text, const char *section, struct strbuf *out)
{
    if (row->type == OPTION_LIST) {
        write_list (field, section, out);
        return;
    }
    if (row->type == OPTION_TRIPLE) {
        write_triple (text, out);
        return;
    }
    strbuf_add_char (out, ' ');
    const char *tag = option_types[row->type].yaml_tag;
    if (is_number_of_list (row, text))
        strbuf_add (out, text);
    else if (!strcmp (tag, "truth"))
        write_truth (text, out);
    else if (!strcmp (tag, "plain") && add_float (text, out))
        ;
    else if (!strcmp (tag, "str") || (!strcmp (tag, "plain") && scalar_read (text, NULL) == SCALAR_TEXT))
        yaml_add_text (out, text);
    else
        strbuf_add (out, text);
    strbuf_add_char (out, '\n');
}

static void
write_yaml (const struct config *config, const struct option *const *rows, size_t count, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    const char *section = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct option *row = rows[i];
        if (row->section && (!section || strcmp (section, row->section)))
            strbuf_printf (out, "%s:\n", row->section);
        section = row->section;
        strbuf_truncate (&text, 0);
        format_value (row, &config->settings, &text);
        strbuf_printf (out, "%s%s:", section ? "  " : "", row->key);
        write_value (row, option_field_const (row, &config->settings), text.text ? text.text : "", section, out);
    }
    out->failed = out->failed || text.failed;
}

static json_t *
json_of_list (const struct strlist *list)
{
    json_t *array = json_array ();
    for (size_t i = 0; array && i < list->count; i++)
        json_array_append_new (array, json_string (list->items[i]));
    return array;
}

static json_t *
json_of_truth (const char *text)
{
    if (!strcmp (text, "True") || !strcmp (text, "False"))
        return json_boolean (*text == 'T');
    return scalar_read (text, NULL) == SCALAR_INT ? json_integer (*text - '0') : json_string (text);
}

/* Other spellings of a number, such as 1e-0, were texts where they came from. */
static bool
is_python_float (const char *text, double *value)
{
    AUTO_STRBUF struct strbuf again = { 0 };
    if (parse_double (text, -HUGE_VAL, HUGE_VAL, value) != PARSE_OK)
        return false;
    scalar_add_float (&again, *value);
    return !again.failed && !strcmp (again.text, text);
}

static json_t *
json_of_text (const struct option *row, const char *text)
{
    const char *tag = option_types[row->type].yaml_tag;
    int64_t whole;
    double any;
    if (!strcmp (tag, "truth"))
        return json_of_truth (text);
    if ((!strcmp (tag, "plain") || is_number_of_list (row, text))
        && parse_int64 (text, INT64_MIN, INT64_MAX, &whole) == PARSE_OK)
        return json_integer (whole);
    if (!strcmp (tag, "plain") && is_python_float (text, &any))
        return json_real (any);
    if (strcmp (tag, "triple"))
        return json_string (text);
    json_t *array = json_array ();
    for (const char *at = text; array && *at;) {
        char word[8] = "";
        size_t length = strcspn (at, ",");
        memcpy (word, at, length < sizeof word ? length : sizeof word - 1);
        json_array_append_new (array, json_of_truth (word));
        at += length + (at[length] == ',');
    }
    return array;
}

static json_t *
json_of_row (const struct option *row, const struct settings *settings)
{
    const void *field = option_field_const (row, settings);
    if (row->type == OPTION_FLAG)
        return json_boolean (*(const bool *) field);
    if (row->type == OPTION_INT && *(const int64_t *) field != SETTING_AUTO)
        return json_integer (*(const int64_t *) field);
    if (row->type == OPTION_LIST)
        return json_of_list (field);
    AUTO_STRBUF struct strbuf text = { 0 };
    format_value (row, settings, &text);
    if (text.failed)
        return NULL;
    return json_of_text (row, text.text ? text.text : "");
}

static int
write_json (const struct config *config, const struct option *const *rows, size_t count, struct strbuf *out)
{
    json_t *root = json_object ();
    int failed = !root;
    for (size_t i = 0; i < count && !failed; i++) {
        json_t *parent = root;
        if (rows[i]->section && !(parent = json_object_get (root, rows[i]->section))) {
            failed = json_object_set_new (root, rows[i]->section, json_object ());
            parent = json_object_get (root, rows[i]->section);
        }
        failed = failed || json_object_set_new (parent, rows[i]->key, json_of_row (rows[i], &config->settings));
    }
    AUTO_FREE char *text = failed ? NULL : json_dumps (root, JSON_INDENT (2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
    json_decref (root);
    if (!text)
        return -1;
    strbuf_printf (out, "%s\n", text);
    return 0;
}

int
config_write_text (const struct config *config, bool as_json, struct strbuf *out, struct fail *fail)
{
    AUTO_FREE const struct option **rows = calloc (option_count, sizeof *rows);
    size_t count = 0;
    if (!rows)
        return fail_nomem (fail);
    for (size_t i = 0; i < option_count; i++)
        if (is_written (config, &options[i]))
            rows[count++] = &options[i];
    qsort (rows, count, sizeof *rows, by_name);
    int result = 0;
    if (as_json)
        result = write_json (config, rows, count, out);
    else
        write_yaml (config, rows, count, out);
    return result || out->failed ? fail_nomem (fail) : 0;
}
