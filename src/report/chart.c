/* SPDX-License-Identifier: Apache-2.0 */
/* Curves as SVG; see chart.h.
 *
 * The picture is stretched to any width: strokes keep theirs (vector-effect), and labels are HTML beside it, placed in
 * percent.  The curves are there without the script, which only shows values under the pointer. */
#include <config.h>

#include "report/chart.h"

#include "report/groups.h"
#include "report/html.h"
#include "util/cleanup.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { SIDE = 1000, DECADES = 2, LOG_TICKS = 5, MEAN_PARTS = 100, NOISE = 4 };

/* ---- axes ---- */

struct axis
axis_for (const struct extent *extent, bool may_be_log)
{
    double min = extent->finite ? extent->min : 0, max = extent->finite ? extent->max : 1;
    struct axis axis = { .is_log = may_be_log && min > 0 && max / pow (10, DECADES) >= min };
    if (axis.is_log) {
        double margin = exp ((log (max) - log (min)) * 0.04);
        axis.min = min / margin > 0 ? min / margin : min;
        axis.max = max * margin < INFINITY ? max * margin : max;
        return axis;
    }
    if (max - min <= fabs (max) * 1e-12) { /* all the same */
        double room = max != 0 ? fabs (max) / 10 : 1;
        axis.min = fmax (min - room, -1e308);
        axis.max = fmin (max + room, 1e308);
        return axis;
    }
    double margin = (max / 2 - min / 2) / 10;
    axis.min = min >= 0 && min < 0.4 * max ? 0 : fmax (min - margin, -1e308);
    axis.max = max <= 0 && max > 0.4 * min ? 0 : fmin (max + margin, 1e308);
    return axis;
}

double
axis_place (const struct axis *axis, double value)
{
    if (axis->is_log)
        return (log (value) - log (axis->min)) / (log (axis->max) - log (axis->min));
    return (value / 2 - axis->min / 2) / (axis->max / 2 - axis->min / 2);
}

static size_t
log_ticks (const struct axis *axis, double *ticks)
{
    int first = (int) ceil (log10 (axis->min) - 1e-9), last = (int) floor (log10 (axis->max) + 1e-9);
    int each = 1 + (last - first) / LOG_TICKS;
    size_t count = 0;
    for (int power = first; power <= last && count < AXIS_TICKS; power += each)
        ticks[count++] = pow (10, power);
    return count;
}

size_t
axis_ticks (const struct axis *axis, size_t wanted, double *ticks)
{
    if (axis->is_log)
        return log_ticks (axis, ticks);
    double rough = (axis->max / 2 - axis->min / 2) / (double) wanted * 2, power = pow (10, floor (log10 (rough)));
    double width = rough / power, each = (width <= 1.5 ? 1 : width <= 3 ? 2 : width <= 7 ? 5 : 10) * power;
    double first = ceil (axis->min / each - 1e-9);
    size_t count = 0;
    for (; count < AXIS_TICKS && (first + (double) count) * each <= axis->max + each * 1e-9; count++)
        ticks[count] = (first + (double) count) * each + 0.0;
    return count;
}

/* ---- what is drawn ---- */

/* All that the figure of a key has in common. */
struct chart {
    const struct runs *runs;
    const char *key;
    struct extent extent;
    int64_t first, last; /* steps */
    struct axis steps, values;
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
    chart->values = axis_for (&chart->extent, group_of (chart->key) == GROUP_LOSS);
    double first = (double) chart->first, last = (double) chart->last;
    chart->steps = (struct axis){ .min = first, .max = last > first ? last : first + fmax (1, fabs (first) / 1e3) };
}

static double
x_of (const struct chart *chart, double step)
{
    return axis_place (&chart->steps, step) * SIDE;
}

static double
y_of (const struct chart *chart, double value)
{
    return (1 - axis_place (&chart->values, value)) * SIDE;
}

static void
add_coordinates (double x, double y, struct strbuf *out)
{
    html_exact (out, round (x * 10) / 10, 6);
    strbuf_add_char (out, ' ');
    html_exact (out, round (y * 10) / 10, 6);
}

/* A gap where a value is not finite; a point between two gaps is a dot. */
static void
add_shape (const struct chart *chart, const struct point *points, size_t count, struct strbuf *out)
{
    bool is_open = false;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite (points[i].value)) {
            is_open = false;
            continue;
        }
        strbuf_add_char (out, is_open ? 'L' : 'M');
        add_coordinates (x_of (chart, (double) points[i].step), y_of (chart, points[i].value), out);
        if (!is_open && (i + 1 == count || !isfinite (points[i + 1].value)))
            strbuf_add (out, "h0.01");
        is_open = true;
    }
}

static void
add_numbers (const struct point *points, size_t count, struct strbuf *out)
{
    strbuf_add (out, " data-x=\"");
    for (size_t i = 0; i < count; i++)
        strbuf_printf (out, "%s%" PRId64, i ? " " : "", points[i].step);
    strbuf_add (out, "\" data-y=\"");
    for (size_t i = 0; i < count; i++) {
        strbuf_add (out, i ? " " : "");
        html_exact (out, points[i].value, 6);
    }
    strbuf_add_char (out, '"');
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
        add_coordinates (x_of (chart, (double) points[i].step), 16, out);
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
        add_coordinates (x_of (chart, (double) series->restarts[i]), 0, out);
        strbuf_printf (out, "V%d\"><title>restart: continued at step %" PRId64 "</title></path>", SIDE,
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
        double y = isfinite (points[i].value) ? y_of (chart, points[i].value) : NAN;
        way += isfinite (y) && isfinite (last) ? fabs (y - last) : 0;
        last = y;
    }
    return count > 2 * MEAN_PARTS && way > NOISE * SIDE;
}

static void
add_mean (const struct chart *chart, size_t run, const struct series *series, struct strbuf *out)
{
    struct point means[MEAN_PARTS + 2];
    size_t count = series_means (series, chart->first, chart->last, MEAN_PARTS, means);
    strbuf_add (out, "<path class=\"mean ");
    chart_class (run, out);
    strbuf_add (out, "\" d=\"");
    add_shape (chart, means, count, out);
    strbuf_add (out, "\"/>");
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
    add_shape (chart, sample, count, out);
    strbuf_add (out, "\" data-run=\"");
    html_text (out, chart->runs->items[run].name);
    strbuf_add_char (out, '"');
    add_numbers (sample, count, out);
    strbuf_add (out, "/>");
    if (has_mean)
        add_mean (chart, run, series, out);
    add_odd (chart, sample, count, out);
    strbuf_add_char (out, '\n');
}

static void
add_grid (const struct chart *chart, const double *ticks, size_t count, struct strbuf *out)
{
    strbuf_add (out, "<path class=\"grid\" d=\"");
    for (size_t i = 0; i < count; i++) {
        strbuf_add_char (out, 'M');
        add_coordinates (0, y_of (chart, ticks[i]), out);
        strbuf_printf (out, "H%d", SIDE);
    }
    strbuf_add (out, "\"/>\n");
}

static void
add_label (const char *side, double percent, double value, struct strbuf *out)
{
    strbuf_printf (out, "<span style=\"%s:", side);
    html_exact (out, round (percent * 100) / 100, 6);
    strbuf_add (out, "%\">");
    html_number (out, value);
    strbuf_add (out, "</span>");
}

static void
add_plot (const struct chart *chart, struct strbuf *out)
{
    double ticks[AXIS_TICKS];
    size_t count = axis_ticks (&chart->values, 5, ticks);
    strbuf_add (out, "<div class=\"plot\"><div class=\"ys\" aria-hidden=\"true\">");
    for (size_t i = 0; i < count; i++)
        add_label ("top", y_of (chart, ticks[i]) * 100 / SIDE, ticks[i], out);
    strbuf_add (out, "</div><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
    html_text (out, chart->key);
    strbuf_add (out, " over steps, from ");
    html_number (out, chart->extent.min);
    strbuf_add (out, " to ");
    html_number (out, chart->extent.max);
    strbuf_add (out, "\" data-from=\"");
    html_exact (out, chart->steps.min, 17);
    strbuf_add (out, "\" data-to=\"");
    html_exact (out, chart->steps.max, 17);
    strbuf_add (out, "\">\n");
    add_grid (chart, ticks, count, out);
    for (size_t i = 0; i < chart->runs->count; i++) {
        const struct series *series = metrics_find (&chart->runs->items[i].metrics, chart->key);
        if (series && series->count)
            add_curve (chart, i, series, out);
    }
    count = axis_ticks (&chart->steps, 5, ticks);
    strbuf_add (out, "</svg><div class=\"xs\" aria-hidden=\"true\">");
    for (size_t i = 0; i < count; i++)
        if (floor (ticks[i]) == ticks[i])
            add_label ("left", x_of (chart, ticks[i]) * 100 / SIDE, ticks[i], out);
    strbuf_add (out, "</div></div>\n");
}

static void
add_cell (double value, struct strbuf *out)
{
    strbuf_add (out, "<td>");
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
    add_cell (series->points[series->count - 1].value, out);
    add_cell (extent.finite ? extent.min : NAN, out);
    add_cell (extent.finite ? extent.max : NAN, out);
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
    strbuf_printf (out, "</h3><span>%s", chart.values.is_log ? "logarithmic" : "");
    if (chart.odd) {
        strbuf_printf (out, "%s<b class=\"warn\">", chart.values.is_log ? " · " : "");
        html_count (out, (int64_t) chart.odd);
        strbuf_printf (out, " value%s NaN or infinite</b>", chart.odd > 1 ? "s" : "");
    }
    strbuf_add (out, "</span></figcaption>\n");
    add_plot (&chart, out);
    add_table (&chart, out);
    strbuf_add (out, "</figure>\n");
}
