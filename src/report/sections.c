/* SPDX-License-Identifier: Apache-2.0 */
/* How the runs went, and their curves; see sections.h. */
#include <config.h>

#include "report/sections.h"

#include "report/chart.h"
#include "report/groups.h"
#include "report/html.h"
#include "report/launch.h"
#include "util/cleanup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHARTS = 240, LONG_NAME = 20 /* characters that need a wider column */ };

void
section_begin (const char *id, const char *title, struct strbuf *out)
{
    strbuf_printf (out, "<section aria-labelledby=\"%s\">\n<h2 id=\"%s\">%s</h2>\n", id, id, title);
}

void
section_name (const struct runs *runs, size_t run, struct strbuf *out)
{
    if (runs->count > 1) {
        strbuf_add (out, "<i class=\"key ");
        chart_class (run, out);
        strbuf_add (out, "\"></i>");
    }
    html_text (out, runs->items[run].name);
}

/* ---- facts of a run: one tile each, or columns if there are several runs ---- */

/* @return the first key of a group with values; NULL: there is none */
static const struct series *
first_of (const struct run *run, enum group group)
{
    for (size_t i = 0; i < run->metrics.count; i++)
        if (group_of (run->metrics.series[i].key) == group && run->metrics.series[i].count)
            return &run->metrics.series[i];
    return NULL;
}

/* @param word  what it is of the values of @p key */
static void
add_value (double value, const char *word, const char *key, struct strbuf *out)
{
    strbuf_add (out, isfinite (value) ? "<span>" : "<span class=\"warn\">");
    html_number (out, value);
    strbuf_printf (out, "</span><small>%s ", word);
    html_text (out, key);
    strbuf_add (out, "</small>");
}

static void
fact_end (const struct run *run, struct strbuf *out)
{
    static const char *const words[] = {
        [LAUNCH_UNKNOWN] = "", [LAUNCH_DONE] = "<b class=\"pill good\">finished</b>",
        [LAUNCH_FAILED] = "<b class=\"pill bad\">failed</b>", [LAUNCH_STOPPED] = "<b class=\"pill\">stopped</b>",
    };
    if (run->launch)
        strbuf_add (out, words[launch_end (run->launch)]);
}

static void
fact_ranks (const struct run *run, struct strbuf *out)
{
    json_int_t ranks = json_integer_value (json_object_get (run->launch, "world_size"));
    if (ranks > 0)
        html_count (out, ranks);
    else if (run->profile.count)
        html_count (out, (int64_t) run->profile.count);
}

static void
fact_step (const struct run *run, struct strbuf *out)
{
    bool has_any = false;
    int64_t last = 0;
    for (size_t i = 0; i < run->metrics.count; i++) {
        const struct series *series = &run->metrics.series[i];
        if (series->count && (!has_any || series->points[series->count - 1].step > last))
            last = series->points[series->count - 1].step;
        has_any = has_any || series->count;
    }
    if (has_any)
        html_count (out, last);
}

static void
fact_loss (const struct run *run, struct strbuf *out)
{
    const struct series *series = first_of (run, GROUP_LOSS);
    if (series)
        add_value (series->points[series->count - 1].value, "last", series->key, out);
}

/* The last one would often be that of a step that saved or evaluated. */
static void
fact_throughput (const struct run *run, struct strbuf *out)
{
    const struct series *series = first_of (run, GROUP_THROUGHPUT);
    struct point means[3];
    if (series && series_means (series, series->points[0].step, series->points[series->count - 1].step, 1, means))
        add_value (means[0].value, "mean", series->key, out);
}

/* When it began and how long it took: the launch, or from the first record to the last. */
static void
find_times (const struct run *run, double *begin, double *end)
{
    *begin = json_number_value (json_object_get (run->launch, "started"));
    *end = json_number_value (json_object_get (run->launch, "ended"));
    if (*begin > 0 && *end > 0)
        return;
    *begin = run->metrics.begin_s;
    *end = run->metrics.end_s;
}

/* Whether the run has logged before its launch, which has continued another one. */
static bool
is_continued (const struct run *run, double begin)
{
    return run->metrics.begin_s > 0 && run->metrics.begin_s < begin;
}

static void
fact_duration (const struct run *run, struct strbuf *out)
{
    double begin, end;
    find_times (run, &begin, &end);
    if (begin > 0 && end > begin) {
        launch_duration (end - begin, out);
        strbuf_add (out, is_continued (run, begin) ? "<small>of the last launch</small>" : "");
    }
}

static void
fact_start (const struct run *run, struct strbuf *out)
{
    double begin, end;
    find_times (run, &begin, &end);
    if (begin > 0)
        launch_time (is_continued (run, begin) ? run->metrics.begin_s : begin, out);
}

/* As the launcher counted them, or as often as steps went back. */
static int64_t
count_restarts (const struct run *run)
{
    int64_t count = json_integer_value (json_object_get (run->launch, "restart_count"));
    for (size_t i = 0; i < run->metrics.count; i++)
        if ((int64_t) run->metrics.series[i].restart_count > count)
            count = (int64_t) run->metrics.series[i].restart_count;
    return count;
}

static void
fact_restarts (const struct run *run, struct strbuf *out)
{
    if (run->launch || count_restarts (run))
        html_count (out, count_restarts (run));
}

static const struct fact {
    const char *title;
    void (*add) (const struct run *run, struct strbuf *out);
} facts[] = {
    { "Ended", fact_end },           { "Last step", fact_step }, { "Loss", fact_loss },
    { "Throughput", fact_throughput }, { "Ranks", fact_ranks },    { "Restarts", fact_restarts },
    { "Duration", fact_duration },   { "Started", fact_start },
};
enum { FACTS = sizeof facts / sizeof *facts };

static void
add_tiles (const struct run *run, struct strbuf *out)
{
    strbuf_add (out, "<dl class=\"tiles\">\n");
    for (size_t i = 0; i < FACTS; i++) {
        AUTO_STRBUF struct strbuf value = { 0 };
        facts[i].add (run, &value);
        out->failed = out->failed || value.failed;
        if (value.length)
            strbuf_printf (out, "<div><dt>%s</dt><dd>%s</dd></div>\n", facts[i].title, value.text);
    }
    strbuf_add (out, "</dl>\n");
}

/* Whether the fact is known of any run. */
static bool
is_known (const struct runs *runs, const struct fact *fact, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf value = { 0 };
    for (size_t r = 0; r < runs->count; r++)
        fact->add (&runs->items[r], &value);
    out->failed = out->failed || value.failed;
    return value.length;
}

static void
add_runs (const struct runs *runs, struct strbuf *out)
{
    bool known[FACTS], is_long = false;
    for (size_t r = 0; r < runs->count; r++)
        is_long = is_long || strlen (runs->items[r].name) > LONG_NAME;
    strbuf_printf (out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"rows%s\"><thead><tr>"
                   "<th scope=\"col\">Run</th>", is_long ? " long" : "");
    for (size_t i = 0; i < FACTS; i++)
        if ((known[i] = is_known (runs, &facts[i], out)))
            strbuf_printf (out, "<th scope=\"col\">%s</th>", facts[i].title);
    strbuf_add (out, "</tr></thead><tbody>\n");
    for (size_t r = 0; r < runs->count; r++) {
        strbuf_add (out, "<tr><th scope=\"row\">");
        section_name (runs, r, out);
        strbuf_add (out, "</th>");
        for (size_t i = 0; i < FACTS; i++) {
            if (!known[i])
                continue;
            strbuf_add (out, "<td>");
            facts[i].add (&runs->items[r], out);
            strbuf_add (out, "</td>");
        }
        strbuf_add (out, "</tr>\n");
    }
    strbuf_add (out, "</tbody></table></div>\n");
}

void
section_overview (const struct runs *runs, struct strbuf *out)
{
    section_begin ("overview", "Overview", out);
    if (runs->count == 1)
        add_tiles (&runs->items[0], out);
    else
        add_runs (runs, out);
    strbuf_add (out, "</section>\n");
}

/* ---- ends ---- */

static void
add_sentence (const json_t *report, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf sentence = { 0 };
    launch_sentence (report, &sentence);
    out->failed = out->failed || sentence.failed;
    html_text (out, sentence.text ? sentence.text : "");
}

static void
add_lines (const char *title, const json_t *lines, struct strbuf *out)
{
    size_t index;
    json_t *line;
    if (!json_array_size (lines))
        return;
    strbuf_printf (out, "<p>%s</p><pre tabindex=\"0\">", title);
    json_array_foreach ((json_t *) (uintptr_t) lines, index, line) {
        html_text (out, json_is_string (line) ? json_string_value (line) : "");
        strbuf_add_char (out, '\n');
    }
    strbuf_add (out, "</pre>\n");
}

static void
add_others (const json_t *others, struct strbuf *out)
{
    size_t index;
    json_t *other;
    if (!json_array_size (others))
        return;
    strbuf_add (out, "<p>The other ranks at that moment</p><table class=\"rows\"><tbody>\n");
    json_array_foreach ((json_t *) (uintptr_t) others, index, other) {
        const char *doing = json_string_value (json_object_get (other, "doing"));
        strbuf_printf (out, "<tr><th scope=\"row\">rank %" JSON_INTEGER_FORMAT "</th><td>",
                       json_integer_value (json_object_get (other, "rank")));
        html_text (out, doing ? doing : "");
        strbuf_add (out, "</td></tr>\n");
    }
    strbuf_add (out, "</tbody></table>\n");
}

static void
add_failure (const struct runs *runs, size_t run, struct strbuf *out)
{
    const json_t *report = runs->items[run].launch, *failure = json_object_get (report, "failure");
    strbuf_printf (out, "<div class=\"card %s\"><p class=\"sentence\">",
                   launch_end (report) == LAUNCH_FAILED ? "bad" : "");
    if (runs->count > 1) {
        section_name (runs, run, out);
        strbuf_add (out, ": ");
    }
    add_sentence (report, out);
    strbuf_add (out, "</p>\n");
    add_lines ("Its last lines on standard error", json_object_get (failure, "stderr"), out);
    add_lines ("Its traceback", json_object_get (failure, "traceback"), out);
    add_lines ("GPUs", json_object_get (failure, "gpus"), out);
    add_others (json_object_get (failure, "others"), out);
    add_others (json_object_get (report, "ranks"), out);
    strbuf_add (out, "</div>\n");
}

void
section_failures (const struct runs *runs, struct strbuf *out)
{
    bool has_any = false;
    for (size_t i = 0; i < runs->count; i++) {
        enum launch_end end = runs->items[i].launch ? launch_end (runs->items[i].launch) : LAUNCH_UNKNOWN;
        if (end != LAUNCH_FAILED && end != LAUNCH_STOPPED)
            continue;
        if (!has_any)
            section_begin ("end", "How it ended", out);
        has_any = true;
        add_failure (runs, i, out);
    }
    strbuf_add (out, has_any ? "</section>\n" : "");
}

static void
add_attempts (const struct runs *runs, size_t run, struct strbuf *out)
{
    size_t index;
    json_t *attempt;
    json_array_foreach (json_object_get (runs->items[run].launch, "restarts"), index, attempt) {
        strbuf_add (out, "<tr><th scope=\"row\">");
        if (runs->count > 1) {
            section_name (runs, run, out);
            strbuf_add (out, ", ");
        }
        strbuf_printf (out, "attempt %" JSON_INTEGER_FORMAT "</th><td>",
                       json_integer_value (json_object_get (attempt, "attempt")) + 1);
        add_sentence (attempt, out);
        strbuf_add (out, "</td></tr>\n");
    }
}

void
section_restarts (const struct runs *runs, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf rows = { 0 };
    for (size_t i = 0; i < runs->count; i++)
        add_attempts (runs, i, &rows);
    out->failed = out->failed || rows.failed;
    if (!rows.length)
        return;
    section_begin ("restarts", "Restarts", out);
    strbuf_add (out, "<table class=\"rows\"><tbody>\n");
    strbuf_add (out, rows.text);
    strbuf_add (out, "</tbody></table></section>\n");
}

/* ---- curves ---- */

/* A key of some run, and where it came first. */
struct key {
    const char *name;
    enum group group;
    size_t order;
};

static int
compare_names (const void *a, const void *b)
{
    const struct key *left = a, *right = b;
    int order = strcmp (left->name, right->name);
    return order ? order : (left->order > right->order) - (left->order < right->order);
}

static int
compare_keys (const void *a, const void *b)
{
    const struct key *left = a, *right = b;
    int order = (left->group > right->group) - (left->group < right->group);
    return order ? order : (left->order > right->order) - (left->order < right->order);
}

/* @return those of all runs, each once, in the order of the page; NULL: no memory */
static struct key *
list_keys (const struct runs *runs, size_t *count)
{
    size_t most = 1, all = 0;
    for (size_t r = 0; r < runs->count; r++)
        most += runs->items[r].metrics.count;
    struct key *keys = calloc (most, sizeof *keys);
    for (size_t r = 0; keys && r < runs->count; r++)
        for (size_t i = 0; i < runs->items[r].metrics.count; i++) {
            const char *name = runs->items[r].metrics.series[i].key;
            keys[all] = (struct key){ name, group_of (name), all };
            all++;
        }
    *count = 0;
    if (!keys)
        return NULL;
    qsort (keys, all, sizeof *keys, compare_names);
    for (size_t i = 0; i < all; i++)
        if (!*count || strcmp (keys[*count - 1].name, keys[i].name) != 0)
            keys[(*count)++] = keys[i];
    qsort (keys, *count, sizeof *keys, compare_keys);
    return keys;
}

void
section_curves (const struct runs *runs, struct strbuf *out)
{
    size_t count;
    AUTO_FREE struct key *keys = list_keys (runs, &count);
    if (!keys) {
        out->failed = true;
        return;
    }
    size_t shown = count < MOST_CHARTS ? count : MOST_CHARTS;
    if (!shown)
        return;
    section_begin ("curves", "Curves", out);
    strbuf_add (out, "<div class=\"charts\">\n");
    for (size_t i = 0; i < shown; i++)
        chart_add (runs, keys[i].name, keys[i].group == GROUP_LOSS && i == 0, out);
    strbuf_add (out, "</div>\n");
    if (shown < count)
        strbuf_printf (out, "<p class=\"note\">%zu more keys are not drawn.</p>\n", count - shown);
    strbuf_add (out, "</section>\n");
}
