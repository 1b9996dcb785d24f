/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration, environment, texts and notes; see sections.h. */
#include <config.h>

#include "report/sections.h"

#include "report/html.h"
#include "util/cleanup.h"
#include "util/printable.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

/* A key has a value in each run: one row. */
struct table {
    const struct runs *runs;
    const char *member; /* of the report of the launch; NULL: what the program stored */
    const char *title, *id;
};

static const json_t *
object_of (const struct table *table, size_t run)
{
    const struct run *its = &table->runs->items[run];
    return table->member ? json_object_get (its->launch, table->member) : its->metrics.config;
}

/* A setting has its origin beside it. */
static const json_t *
value_of (const json_t *entry)
{
    return json_is_object (entry) && json_object_get (entry, "value") ? json_object_get (entry, "value") : entry;
}

static void
add_value (const json_t *entry, bool is_bytes, struct strbuf *out)
{
    const json_t *value = value_of (entry);
    const char *origin = json_string_value (json_object_get (entry, "origin"));
    if (!entry) {
        strbuf_add (out, "<td class=\"text none\">–</td>");
        return;
    }
    strbuf_add (out, "<td class=\"text\">");
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION (15);
    AUTO_FREE char *text = json_is_string (value) ? NULL : json_dumps (value, flags);
    if (is_bytes && json_integer_value (value) > 0)
        bytes_add (out, (uint64_t) json_integer_value (value));
    else
        html_text (out, json_is_string (value) ? json_string_value (value) : text ? text : "");
    if (origin) {
        strbuf_add (out, "<small>");
        html_text (out, origin);
        strbuf_add (out, json_is_false (json_object_get (entry, "effect")) ? ", no effect</small>" : "</small>");
    }
    strbuf_add (out, "</td>");
}

static bool
differs (const struct table *table, const char *key)
{
    const json_t *first = value_of (json_object_get (object_of (table, 0), key));
    for (size_t i = 1; i < table->runs->count; i++) {
        const json_t *other = value_of (json_object_get (object_of (table, i), key));
        if (!first != !other || (first && !json_equal (first, other)))
            return true;
    }
    return false;
}

static void
add_row (const struct table *table, const char *key, struct strbuf *out)
{
    strbuf_add (out, "<tr><th scope=\"row\">");
    html_text (out, key);
    strbuf_add (out, "</th>");
    for (size_t i = 0; i < table->runs->count; i++)
        add_value (json_object_get (object_of (table, i), key), text_ends_in (key, "_bytes"), out);
    strbuf_add (out, "</tr>\n");
}

/* Whether a run before @run has the key. */
static bool
is_known (const struct table *table, size_t run, const char *key)
{
    while (run-- > 0)
        if (json_object_get (object_of (table, run), key))
            return true;
    return false;
}

/* The keys of all runs, sorted, each once. */
static void
list_keys (const struct table *table, struct strlist *keys)
{
    const char *key;
    json_t *value;
    for (size_t i = 0; i < table->runs->count; i++)
        json_object_foreach ((json_t *) (uintptr_t) object_of (table, i), key, value)
            if (!is_known (table, i, key))
                strlist_add (keys, key);
    if (keys->count)
        qsort (keys->items, keys->count, sizeof *keys->items, text_compare);
}

static void
add_rows (const struct table *table, const struct strlist *keys, bool different, struct strbuf *out)
{
    strbuf_add (out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"rows config\">");
    if (table->runs->count > 1) {
        strbuf_add (out, "<thead><tr><th scope=\"col\">key</th>");
        for (size_t i = 0; i < table->runs->count; i++) {
            strbuf_add (out, "<th scope=\"col\">");
            section_name (table->runs, i, out);
            strbuf_add (out, "</th>");
        }
        strbuf_add (out, "</tr></thead>");
    }
    strbuf_add (out, "<tbody>\n");
    for (size_t i = 0; i < keys->count; i++)
        if (differs (table, keys->items[i]) == different)
            add_row (table, keys->items[i], out);
    strbuf_add (out, "</tbody></table></div>\n");
}

/* Of several runs first what differs. */
static void
add_table (const struct table *table, struct strbuf *out)
{
    AUTO_STRLIST struct strlist keys = { 0 };
    size_t different = 0, same = 0;
    list_keys (table, &keys);
    out->failed = out->failed || keys.failed;
    for (size_t i = 0; i < keys.count; i++)
        *(differs (table, keys.items[i]) ? &different : &same) += 1;
    if (!different && !same)
        return;
    section_begin (table->id, table->title, out);
    if (different) {
        strbuf_add (out, "<h3>Differences</h3>\n");
        add_rows (table, &keys, true, out);
    }
    if (same && table->runs->count > 1)
        strbuf_printf (out, "<details><summary>%zu the same in all runs</summary>\n", same);
    if (same)
        add_rows (table, &keys, false, out);
    strbuf_add (out, same && table->runs->count > 1 ? "</details></section>\n" : "</section>\n");
}

void
section_config (const struct runs *runs, struct strbuf *out)
{
    add_table (&(struct table){ runs, NULL, "Configuration of the program", "config" }, out);
    add_table (&(struct table){ runs, "configuration", "Configuration of the launch", "launch" }, out);
}

void
section_environment (const struct runs *runs, struct strbuf *out)
{
    add_table (&(struct table){ runs, "environment", "Environment", "environment" }, out);
}

void
section_texts (const struct runs *runs, struct strbuf *out)
{
    bool has_any = false;
    for (size_t r = 0; r < runs->count; r++)
        for (size_t i = 0; i < runs->items[r].metrics.text_count; i++) {
            const struct metrics_text *text = &runs->items[r].metrics.texts[i];
            if (!has_any) {
                section_begin ("texts", "Texts", out);
                strbuf_add (out, "<table class=\"rows\"><tbody>\n");
            }
            has_any = true;
            strbuf_add (out, "<tr><th scope=\"row\">");
            section_name (runs, r, out);
            strbuf_add (out, "</th><td class=\"text\">");
            html_text (out, text->key);
            strbuf_add (out, "<small>step ");
            html_count (out, text->step);
            strbuf_add (out, "</small></td><td class=\"text\">");
            html_text (out, text->text);
            strbuf_add (out, "</td></tr>\n");
        }
    strbuf_add (out, has_any ? "</tbody></table></section>\n" : "");
}

/* ---- what was left out, and where it is all from ---- */

static void
add_left_out (uint64_t count, const char *words, struct strbuf *out)
{
    if (!count)
        return;
    strbuf_printf (out, "<li>%s: ", words);
    html_count (out, (int64_t) count);
    strbuf_add (out, "</li>\n");
}

static void
add_notes (const struct run *run, struct strbuf *out)
{
    const char *const paths[] = { run->metrics_path, run->profile_path, run->launch_path };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i]) {
            strbuf_add (out, "<li>from <code>");
            html_text (out, paths[i]);
            strbuf_add (out, "</code></li>\n");
        }
    if (run->metrics_path && !run->metrics.records)
        strbuf_add (out, "<li>nothing was logged</li>\n");
    if (run->metrics.skipped) {
        strbuf_add (out, "<li>lines left out because they are not valid: ");
        html_count (out, (int64_t) run->metrics.skipped);
        strbuf_add (out, ", the first is line ");
        html_count (out, (int64_t) run->metrics.first_skipped);
        strbuf_add (out, "</li>\n");
    }
    add_left_out (run->profile.skipped, "events of the profile left out because they are not valid", out);
    add_left_out (run->metrics.values_bad, "values left out because they are neither numbers, texts, "
                  "histograms nor images", out);
    add_left_out (run->metrics.images_bad, "images left out because they are not files in PNG, or larger than 4 MB",
                  out);
    add_left_out (run->metrics.images.left, "more images", out);
    add_left_out (run->metrics.histograms.left, "histograms of further keys", out);
    add_left_out (run->metrics.texts_left, "more texts", out);
    add_left_out (run->metrics.keys_left, "values of further keys, which were left out", out);
}

void
section_notes (const struct runs *runs, struct strbuf *out)
{
    section_begin ("notes", "Notes", out);
    for (size_t i = 0; i < runs->count; i++) {
        if (runs->count > 1) {
            strbuf_add (out, "<h3>");
            section_name (runs, i, out);
            strbuf_add (out, "</h3>\n");
        }
        strbuf_add (out, "<ul class=\"notes\">\n");
        add_notes (&runs->items[i], out);
        strbuf_add (out, "</ul>\n");
    }
    strbuf_add (out, "</section>\n");
}
