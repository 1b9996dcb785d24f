/* SPDX-License-Identifier: Apache-2.0 */
/* Curves as SVG; see chart.h.  They are there without the script, which only shows values under the pointer. */
#include <config.h>

#include "report/chart.h"

#include "report/groups.h"
#include "report/html.h"
#include "report/plot.h"
#include "util/cleanup.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MEAN_PARTS = 100, NOISE = 4 };

/* All that the figure of a key has in common. */
struct chart {
    const struct runs *runs;
    const char *key;
    struct extent extent;
    int64_t first, last; /* steps */
    struct plot plot;
    size_t odd; /* values that are not finite */
    size_t points;
};

static void
measure (struct chart *chart)
{
    for (size_t i = 0; i < chart->runs->count; i++) {
        const struct series *series = metrics_find (&chart->runs->items[i].metrics, chart->key);
        if (!series || !series->count)
            continue;
        int64_t first = series->points[0].step, last = series->points[series->count - 1].step;
        chart->first = !chart->points || first < chart->first ? first : chart->first;
        chart->last = !chart->points || last > chart->last ? last : chart->last;
        chart->points += series->count;
        series_extend (series, &chart->extent);
    }
    chart->odd = chart->points - chart->extent.finite;
    chart->plot.values = axis_for (&chart->extent, group_of (chart->key) == GROUP_LOSS);
    chart->plot.steps = plot_steps (chart->first, chart->last);
}

/* Where values are not finite, at the upper edge. */
static void
add_odd (const struct chart *chart, const struct point *points, size_t count, struct strbuf *out)
{
    bool has_any = false;
    for (size_t i = 0; i < count; i++) {
        if (isfinite (points[i].value))
            continue;
        strbuf_add (out, has_any ? "" : "<path class=\"odd\" d=\"");
        strbuf_add_char (out, 'M');
        plot_add_place (plot_x (&chart->plot, (double) points[i].step), 16, out);
        strbuf_add (out, "h0.01");
        has_any = true;
    }
    strbuf_add (out, has_any ? "\"><title>NaN or infinite</title></path>" : "");
}

static void
add_restarts (const struct chart *chart, const struct series *series, struct strbuf *out)
{
    for (size_t i = 0; i < series->restart_count; i++) {
        strbuf_add (out, "<path class=\"mark\" d=\"M");
        plot_add_place (plot_x (&chart->plot, (double) series->restarts[i]), 0, out);
        strbuf_printf (out, "V%d\"><title>restart: continued at step %" PRId64 "</title></path>", PLOT_SIDE,
                       series->restarts[i]);
    }
}

void
chart_class (size_t run, struct strbuf *out)
{
    strbuf_printf (out, "s%zu%s", run % CHART_COLOURS, run >= CHART_COLOURS ? " dash" : "");
}

/* Whether it goes up and down several times its height, so that a mean shows more. */
static bool
is_noisy (const struct chart *chart, const struct point *points, size_t count)
{
    double way = 0, last = NAN;
    for (size_t i = 0; i < count; i++) {
        double y = isfinite (points[i].value) ? plot_y (&chart->plot, points[i].value) : NAN;
        way += isfinite (y) && isfinite (last) ? fabs (y - last) : 0;
        last = y;
    }
    return count > 2 * MEAN_PARTS && way > NOISE * PLOT_SIDE;
}

static void
add_mean (const struct chart *chart, size_t run, const struct series *series, struct strbuf *out)
{
    struct point means[MEAN_PARTS + 2];
    size_t count = series_means (series, chart->first, chart->last, MEAN_PARTS, means);
    strbuf_add (out, "<path class=\"mean ");
    chart_class (run, out);
    strbuf_add (out, "\" d=\"");
    plot_add_shape (&chart->plot, means, count, out);
    strbuf_add (out, "\"/>");
}

static bool
is_gap (const struct point *points, size_t count, size_t i)
{
    return i >= count || !isfinite (points[i].value);
}

/* Points between gaps, which the line alone would hardly show. */
static void
add_spots (const struct chart *chart, size_t run, const struct point *points, size_t count, struct strbuf *out)
{
    bool has_any = false;
    for (size_t i = 0; i < count; i++) {
        if (is_gap (points, count, i) || !is_gap (points, count, i - 1) || !is_gap (points, count, i + 1))
            continue;
        if (!has_any)
            strbuf_printf (out, "<path class=\"spot s%zu\" d=\"", run % CHART_COLOURS);
        strbuf_add_char (out, 'M');
        plot_add_place (plot_x (&chart->plot, (double) points[i].step), plot_y (&chart->plot, points[i].value), out);
        strbuf_add (out, "h0.01");
        has_any = true;
    }
    strbuf_add (out, has_any ? "\"/>" : "");
}

static void
add_curve (const struct chart *chart, size_t run, const struct series *series, struct strbuf *out)
{
    AUTO_FREE struct point *sample = malloc (3 * (CHART_PARTS + 2) * sizeof *sample);
    if (!sample) {
        out->failed = true;
        return;
    }
    size_t count = series_sample (series, chart->first, chart->last, CHART_PARTS, sample);
    add_restarts (chart, series, out);
    bool has_mean = is_noisy (chart, sample, count);
    strbuf_printf (out, "<path class=\"line %s", has_mean ? "noise " : "");
    chart_class (run, out);
    strbuf_add (out, "\" d=\"");
    plot_add_shape (&chart->plot, sample, count, out);
    strbuf_add_char (out, '"');
    plot_add_numbers (chart->runs->items[run].name, sample, count, out);
    strbuf_add (out, "/>");
    if (has_mean)
        add_mean (chart, run, series, out);
    add_spots (chart, run, sample, count, out);
    add_odd (chart, sample, count, out);
    strbuf_add_char (out, '\n');
}

static void
add_plot (const struct chart *chart, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf label = { 0 };
    html_text (&label, chart->key);
    strbuf_add (&label, " over steps, from ");
    html_number (&label, chart->extent.min);
    strbuf_add (&label, " to ");
    html_number (&label, chart->extent.max);
    out->failed = out->failed || label.failed;
    plot_begin (&chart->plot, "", label.text ? label.text : "", out);
    for (size_t i = 0; i < chart->runs->count; i++) {
        const struct series *series = metrics_find (&chart->runs->items[i].metrics, chart->key);
        if (series && series->count)
            add_curve (chart, i, series, out);
    }
    plot_end (&chart->plot, out);
}

/* @param is_known  or it is a dash */
static void
add_cell (bool is_known, double value, struct strbuf *out)
{
    strbuf_add (out, is_known ? "<td>" : "<td>–");
    if (is_known)
        html_number (out, value);
    strbuf_add (out, "</td>");
}

/* What the curve says, in numbers. */
static void
add_row (const struct chart *chart, size_t run, const struct series *series, struct strbuf *out)
{
    struct extent extent = { 0 };
    series_extend (series, &extent);
    strbuf_add (out, "<tr><th scope=\"row\"><i class=\"key ");
    chart_class (run, out);
    strbuf_add (out, "\"></i>");
    html_text (out, chart->runs->items[run].name);
    strbuf_add (out, "</th>");
    add_cell (true, series->points[series->count - 1].value, out);
    add_cell (extent.finite, extent.min, out);
    add_cell (extent.finite, extent.max, out);
    strbuf_add (out, "<td>");
    html_count (out, (int64_t) series->count);
    strbuf_add (out, "</td></tr>\n");
}

static void
add_table (const struct chart *chart, struct strbuf *out)
{
    strbuf_add (out, "<table class=\"sums\"><thead><tr><th scope=\"col\">run</th><th scope=\"col\">last</th>"
                     "<th scope=\"col\">lowest</th><th scope=\"col\">highest</th><th scope=\"col\">points</th></tr>"
                     "</thead><tbody>\n");
    for (size_t i = 0; i < chart->runs->count; i++) {
        const struct series *series = metrics_find (&chart->runs->items[i].metrics, chart->key);
        if (series && series->count)
            add_row (chart, i, series, out);
    }
    strbuf_add (out, "</tbody></table>\n");
}

void
chart_add (const struct runs *runs, const char *key, bool is_wide, struct strbuf *out)
{
    struct chart chart = { .runs = runs, .key = key };
    measure (&chart);
    strbuf_printf (out, "<figure class=\"chart%s\"><figcaption><h3><small>%s</small>", is_wide ? " wide" : "",
                   group_titles[group_of (key)]);
    html_text (out, key);
    strbuf_printf (out, "</h3><span>%s", chart.plot.values.is_log ? "logarithmic" : "");
    if (chart.odd) {
        strbuf_printf (out, "%s<b class=\"warn\">", chart.plot.values.is_log ? " · " : "");
        html_count (out, (int64_t) chart.odd);
        strbuf_printf (out, " value%s NaN or infinite</b>", chart.odd > 1 ? "s" : "");
    }
    strbuf_add (out, "</span></figcaption>\n");
    add_plot (&chart, out);
    add_table (&chart, out);
    strbuf_add (out, "</figure>\n");
}
