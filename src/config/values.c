/* SPDX-License-Identifier: Apache-2.0 */
/* Settings, and where each came from; see values.h. */
#include <config.h>

#include "config/values.h"

#include "util/printable.h"

#include <stdlib.h>
#include <string.h>

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
    free (config->deferred);
    strlist_release (&config->words);
    node_release (&config->additional_args);
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

int
config_compute_number (struct config *config, const char *key, int64_t value, const char *because, struct fail *fail)
{
    char text[24];
    snprintf (text, sizeof text, "%lld", (long long) value);
    return config_compute (config, key, text, because, fail) ? fail_prefix (fail, "%s", key) : 0;
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
