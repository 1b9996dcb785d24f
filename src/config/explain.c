/* SPDX-License-Identifier: Apache-2.0 */
/* Settings with their origins; see explain.h. */
#include <config.h>

#include "config/explain.h"

#include "config/effect.h"
#include "config/text/json_text.h"
#include "config/values.h"
#include "util/printable.h"

#include <jansson.h>

/* A default is shown if it means something; what the user wrote, always. */
static bool
is_shown (const struct config *config, const struct option *row, bool keys_only)
{
    bool is_key = row->properties & PROPERTY_FILE, is_said = config->origins[row - options].kind != ORIGIN_DEFAULT;
    bool is_request = row->group == GROUP_OURS && !is_key; /* --dry_run and similar: the reader knows */
    if (config_is_absent (config, row) || is_request || (!is_key && (keys_only || !is_said)))
        return false;
    return is_said || effect_applies (config, row);
}

static void
add_value (const struct config *config, const struct option *row, struct strbuf *out)
{
    if (row->properties & PROPERTY_SECRET)
        strbuf_add (out, "(not shown)");
    else
        option_types[row->type].format (option_field_const (row, &config->settings), out);
}

void
explain_text (const struct config *config, bool keys_only, struct strbuf *out)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        AUTO_STRBUF struct strbuf value = { 0 };
        if (!is_shown (config, row, keys_only))
            continue;
        add_value (config, row, &value);
        out->failed = out->failed || value.failed;
        strbuf_printf (out, "%s: ", row->key);
        printable_add (out, value.text ? value.text : "");
        strbuf_add (out, "  (");
        config_show_origin (config, row, out);
        strbuf_add (out, effect_applies (config, row) ? ")\n" : "; no effect)\n");
    }
}

static json_t *
json_of_value (const struct config *config, const struct option *row)
{
    const void *field = option_field_const (row, &config->settings);
    AUTO_STRBUF struct strbuf text = { 0 };
    if (row->type == OPTION_FLAG)
        return json_boolean (*(const bool *) field);
    if (row->type == OPTION_INT && *(const int64_t *) field != SETTING_AUTO)
        return json_integer (*(const int64_t *) field);
    add_value (config, row, &text);
    return text.failed ? NULL : json_text (text.text ? text.text : "");
}

void
explain_json (const struct config *config, bool keys_only, struct strbuf *out)
{
    json_t *object = json_object ();
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        AUTO_STRBUF struct strbuf origin = { 0 };
        if (!is_shown (config, row, keys_only))
            continue;
        config_format_origin (config, row, &origin);
        json_t *entry = json_pack ("{s:o, s:o, s:b}", "value", json_of_value (config, row), "origin",
                                   json_text (origin.text ? origin.text : ""), "effect",
                                   effect_applies (config, row));
        if (origin.failed || json_object_set_new (object, row->key, entry))
            out->failed = true;
    }
    json_add (out, object, JSON_INDENT (2));
}
