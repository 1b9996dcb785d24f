/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers share; see target.h. */
#include <config.h>

#include "tests/fuzz/target.h"

#include "config/text/tree.h"
#include "config/update.h"
#include "config/write.h"

static const char *
text_of (const struct strbuf *buf)
{
    return buf->text ? buf->text : "";
}

void
fuzz_compare (const char *what, const struct strbuf *before, const struct strbuf *after)
{
    if (!strcmp (text_of (before), text_of (after)))
        return;
    fprintf (stderr, "%s differs:\n%s\n---- and then ----\n%s\n", what, text_of (before), text_of (after));
    abort ();
}

void
fuzz_check_message (const struct fail *fail)
{
    bool is_good = fail->text[0] && fail->status;
    for (const char *at = fail->text; *at; at++)
        is_good = is_good && (unsigned char) *at >= ' ' && *at != 127;
    if (is_good)
        return;
    fprintf (stderr, "a bad message: '%s', status %d\n", fail->text, fail->status);
    abort ();
}

void
fuzz_list_settings (const struct config *config, const struct config *given, struct strbuf *out)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (!(row->properties & PROPERTY_FILE) || (given && given->origins[i].kind != ORIGIN_FILE))
            continue;
        strbuf_printf (out, "%s: ", row->key);
        if (!config_is_absent (config, row))
            option_types[row->type].format (option_field_const (row, &config->settings), out);
        strbuf_add_char (out, '\n');
    }
}

/* Settings of a text that must be good. */
static void
read_again (const char *what, bool as_json, const struct strbuf *text, const struct config *given, struct strbuf *out)
{
    struct filedoc doc = { .path = "again" };
    struct config config;
    struct fail fail = { 0 };
    if (config_init (&config, &fail) || (as_json ? json_read : yaml_read) (&doc, text->text, text->length, &fail)
        || filedoc_apply (&config, &doc, &fail)) {
        fprintf (stderr, "%s: what was written is not read: %s\n%s\n", what, fail.text, text_of (text));
        abort ();
    }
    fuzz_list_settings (&config, given, out);
    filedoc_release (&doc);
    config_release (&config);
}

void
fuzz_write_settings (const struct config *config)
{
    for (int as_json = 0; as_json < 2; as_json++) {
        AUTO_STRBUF struct strbuf text = { 0 }, before = { 0 }, after = { 0 };
        struct fail fail = { 0 };
        if (config_write_text (config, as_json, &text, &fail))
            abort ();
        fuzz_list_settings (config, NULL, &before);
        read_again ("settings", as_json, &text, NULL, &after);
        fuzz_compare (as_json ? "settings written as JSON" : "settings written as YAML", &before, &after);
    }
}

/* The file as config update leaves it: what was given has the same values. */
static void
write_updated (struct filedoc *doc, const struct config *config)
{
    for (int as_json = 0; as_json < 2; as_json++) {
        AUTO_STRBUF struct strbuf text = { 0 }, before = { 0 }, after = { 0 };
        if ((as_json ? node_write_json : node_write_yaml) (&doc->root, &text))
            abort ();
        fuzz_list_settings (config, config, &before);
        read_again ("update", as_json, &text, config, &after);
        fuzz_compare (as_json ? "a file updated as JSON" : "a file updated as YAML", &before, &after);
    }
}

void
fuzz_file (const uint8_t *data, size_t size, bool is_json)
{
    AUTO_FREE char *text = malloc (size + 1);
    struct filedoc doc = { .path = "f" };
    struct config config;
    struct fail fail = { 0 };
    if (!text || config_init (&config, &fail))
        abort ();
    if (size)
        memcpy (text, data, size);
    text[size] = '\0';
    if ((is_json ? json_read : yaml_read) (&doc, text, size, &fail) || filedoc_apply (&config, &doc, &fail)) {
        fuzz_check_message (&fail);
    } else {
        fuzz_write_settings (&config);
        if (filedoc_update (&doc, &fail))
            fuzz_check_message (&fail);
        else
            write_updated (&doc, &config);
    }
    filedoc_release (&doc);
    config_release (&config);
}
