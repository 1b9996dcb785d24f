/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as JSON, for tools that check or document it; see emit.h. */
#include <config.h>

#include "config/emit/emit.h"
#include "config/text/json_text.h"

#include <jansson.h>

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
