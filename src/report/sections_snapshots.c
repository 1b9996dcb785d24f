/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms over steps, and images; see sections.h.
 *
 * A histogram is a column whose colour is stronger where more of its samples are.  All columns of a key have the same
 * rows, so each histogram is divided anew, as if the samples of a bin were spread evenly over it. */
#include <config.h>

#include "report/sections.h"

#include "report/chart.h"
#include "report/html.h"
#include "report/plot.h"
#include "util/cleanup.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 50 /* divides PLOT_SIDE, so that there are no seams */, SHADES = 6, MOST_FIGURES = 128 };

/* ---- keys ---- */

typedef const struct snapshot_list *list_of_run (const struct run *run);

static const struct snapshot_list *
histograms_of (const struct run *run)
{
    return &run->metrics.histograms;
}

static const struct snapshot_list *
images_of (const struct run *run)
{
    return &run->metrics.images;
}

/* @return NULL: the run has none under this key */
static const struct snapshots *
snapshots_of (const struct runs *runs, size_t run, list_of_run *list, const char *key)
{
    const struct snapshots *found = snapshots_find (list (&runs->items[run]), key);
    return found && found->count ? found : NULL;
}

/* Append a figure for each key of any run: in the order of the first run, then what others have besides. */
static void
add_figures (const struct runs *runs, list_of_run *list,
             void (*add) (const struct runs *runs, const char *key, struct strbuf *out), struct strbuf *out)
{
    size_t count = 0;
    for (size_t r = 0; r < runs->count; r++)
        for (size_t i = 0; i < list (&runs->items[r])->count; i++) {
            const char *key = list (&runs->items[r])->keys[i].key;
            size_t before = 0;
            while (before < r && !snapshots_of (runs, before, list, key))
                before++;
            if (before == r && snapshots_of (runs, r, list, key) && count++ < MOST_FIGURES)
                add (runs, key, out);
        }
    if (count > MOST_FIGURES)
        strbuf_printf (out, "<p class=\"note\">%zu more keys are not shown.</p>\n", count - MOST_FIGURES);
}

static bool
has_any (const struct runs *runs, list_of_run *list)
{
    for (size_t r = 0; r < runs->count; r++)
        if (list (&runs->items[r])->count)
            return true;
    return false;
}

/* Which run it is, if there are several, and "8 of 100 shown", if it has logged more. */
static void
add_heading (const struct runs *runs, size_t run, const struct snapshots *of, struct strbuf *out)
{
    if (runs->count == 1 && of->seen <= of->count)
        return;
    strbuf_add (out, "<p class=\"over\"><span>");
    if (runs->count > 1)
        section_name (runs, run, out);
    strbuf_add (out, "</span><span>");
    if (of->seen > of->count) {
        html_count (out, (int64_t) of->count);
        strbuf_add (out, " of ");
        html_count (out, (int64_t) of->seen);
        strbuf_add (out, " shown");
    }
    strbuf_add (out, "</span></p>\n");
}

/* ---- histograms ---- */

/* The rows of a figure: the values of all its runs. */
struct rows {
    double min, height; /* of a row */
};

static void
divide (const struct histogram *histogram, const struct rows *rows, double *samples)
{
    double width = (histogram->max - histogram->min) / (double) histogram->bin_count;
    for (size_t i = 0; i < ROWS; i++)
        samples[i] = 0;
    for (size_t b = 0; b < histogram->bin_count; b++) {
        double low = (histogram->min + width * (double) b - rows->min) / rows->height;
        double high = low + width / rows->height;
        size_t first = (size_t) fmin (fmax (low, 0), ROWS - 1), last = (size_t) fmin (fmax (high, 0), ROWS - 1);
        for (size_t row = first; row <= last; row++) {
            double share = fmin (high, (double) row + 1) - fmax (low, (double) row);
            samples[row] += first == last ? (double) histogram->bins[b]
                                          : (double) histogram->bins[b] * fmax (share, 0) / (high - low);
        }
    }
}

/* Append the cells of one shade in a column: neighbours together. */
static void
add_cells (const int *shades, int shade, double left, double width, struct strbuf *out)
{
    const size_t height = PLOT_SIDE / ROWS;
    for (size_t row = 0, end; row < ROWS; row = end) {
        end = row + 1;
        if (shades[row] != shade)
            continue;
        while (end < ROWS && shades[end] == shade)
            end++;
        strbuf_add_char (out, 'M');
        plot_add_place (left, (double) (PLOT_SIDE - height * end), out);
        strbuf_add_char (out, 'h');
        html_exact (out, width, 6);
        strbuf_printf (out, "v%zuh", height * (end - row));
        html_exact (out, -width, 6);
        strbuf_add_char (out, 'z');
    }
}

/* The weakest is for any sample at all, the strongest for the row that has most. */
static void
shade (const double *samples, int *shades)
{
    double most = 0;
    for (size_t row = 0; row < ROWS; row++)
        most = fmax (most, samples[row]);
    for (size_t row = 0; row < ROWS; row++)
        shades[row] = samples[row] > 0 ? (int) ceil (sqrt (samples[row] / most) * SHADES) : 0;
}

/* From the middle before its step to the middle after it. */
static void
find_edges (const struct snapshots *of, size_t i, const struct plot *plot, double *left, double *right)
{
    double step = (double) of->items[i].step;
    double before = i ? (step - (double) of->items[i - 1].step) / 2 : 0;
    double after = i + 1 < of->count ? ((double) of->items[i + 1].step - step) / 2 : before;
    before = i ? before : after;
    bool is_alone = of->count == 1;
    *left = plot_x (plot, fmax (is_alone ? plot->steps.min : step - before, plot->steps.min));
    *right = plot_x (plot, fmin (is_alone ? plot->steps.max : step + after, plot->steps.max));
    *left = round (*left * 10) / 10; /* as it is written, or there would be seams */
    *right = fmax (round (*right * 10) / 10, *left + 1);
}

static void
add_columns (const struct snapshots *of, const struct plot *plot, size_t run, struct strbuf *out)
{
    const struct rows rows = { plot->values.min, (plot->values.max - plot->values.min) / ROWS };
    struct strbuf paths[SHADES + 1] = { { 0 } };
    for (size_t i = 0; i < of->count; i++) {
        double samples[ROWS], left, right;
        int shades[ROWS];
        divide (of->items[i].histogram, &rows, samples);
        shade (samples, shades);
        find_edges (of, i, plot, &left, &right);
        for (int s = 1; s <= SHADES; s++)
            add_cells (shades, s, left, right - left, &paths[s]);
    }
    for (int s = 1; s <= SHADES; s++) {
        out->failed = out->failed || paths[s].failed;
        if (paths[s].length) {
            strbuf_printf (out, "<path class=\"cells h%d s%zu\" d=\"", s, run % CHART_COLOURS);
            strbuf_add (out, paths[s].text);
            strbuf_add (out, "\"/>\n");
        }
        strbuf_release (&paths[s]);
    }
}

static void
add_means (const struct runs *runs, size_t run, const struct snapshots *of, const struct plot *plot, struct strbuf *out)
{
    struct point means[HISTOGRAMS_KEPT];
    for (size_t i = 0; i < of->count; i++)
        means[i] = (struct point){ of->items[i].step, of->items[i].histogram->mean };
    strbuf_printf (out, "<path class=\"line centre s%zu\" d=\"", run % CHART_COLOURS);
    plot_add_shape (plot, means, of->count, out);
    strbuf_add_char (out, '"');
    plot_add_numbers (runs->items[run].name, means, of->count, out);
    strbuf_add (out, "/>");
}

/* The axes for the histograms of all runs. */
static struct plot
measure (const struct runs *runs, const char *key)
{
    struct extent extent = { 0 };
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t r = 0; r < runs->count; r++) {
        const struct snapshots *of = snapshots_of (runs, r, histograms_of, key);
        for (size_t i = 0; of && i < of->count; i++) {
            const struct histogram *histogram = of->items[i].histogram;
            if (!(histogram->count > 0))
                continue;
            extent.min = extent.finite ? fmin (extent.min, histogram->min) : histogram->min;
            extent.max = extent.finite ? fmax (extent.max, histogram->max) : histogram->max;
            extent.finite++;
        }
        first = of && of->items[0].step < first ? of->items[0].step : first;
        last = of && of->items[of->count - 1].step > last ? of->items[of->count - 1].step : last;
    }
    return (struct plot){ plot_steps (first, last), axis_for (&extent, false) };
}

static void
add_number (double value, struct strbuf *out)
{
    strbuf_add (out, "<td>");
    if (isfinite (value))
        html_number (out, value);
    strbuf_add (out, "</td>");
}

/* The latest one, in numbers. */
static void
add_row (const struct runs *runs, size_t run, const struct snapshots *of, struct strbuf *out)
{
    const struct histogram *last = of->items[of->count - 1].histogram;
    strbuf_add (out, "<tr><th scope=\"row\">");
    section_name (runs, run, out);
    strbuf_add (out, "</th>");
    add_number (last->count > 0 ? last->min : NAN, out);
    add_number (last->mean, out);
    add_number (last->count > 0 ? last->max : NAN, out);
    strbuf_add (out, "<td>");
    html_count (out, (int64_t) last->count);
    strbuf_add (out, "</td></tr>\n");
}

static void
add_histograms (const struct runs *runs, const char *key, struct strbuf *out)
{
    const struct plot plot = measure (runs, key);
    strbuf_add (out, "<figure class=\"chart\"><figcaption><h3>");
    html_text (out, key);
    strbuf_add (out, "</h3></figcaption>\n");
    for (size_t r = 0; r < runs->count; r++) {
        const struct snapshots *of = snapshots_of (runs, r, histograms_of, key);
        AUTO_STRBUF struct strbuf label = { 0 };
        if (!of)
            continue;
        add_heading (runs, r, of, out);
        strbuf_add (&label, "histograms of ");
        html_text (&label, key);
        strbuf_add (&label, " over steps");
        out->failed = out->failed || label.failed;
        plot_begin (&plot, "heat", label.text ? label.text : "", out);
        add_columns (of, &plot, r, out);
        add_means (runs, r, of, &plot, out);
        plot_end (&plot, out);
    }
    strbuf_add (out, "<table class=\"sums\"><thead><tr><th scope=\"col\">last one</th><th scope=\"col\">lowest</th>"
                     "<th scope=\"col\">mean</th><th scope=\"col\">highest</th><th scope=\"col\">samples</th></tr>"
                     "</thead><tbody>\n");
    for (size_t r = 0; r < runs->count; r++) {
        const struct snapshots *of = snapshots_of (runs, r, histograms_of, key);
        if (of)
            add_row (runs, r, of, out);
    }
    strbuf_add (out, "</tbody></table>\n</figure>\n");
}

void
section_histograms (const struct runs *runs, struct strbuf *out)
{
    if (!has_any (runs, histograms_of))
        return;
    section_begin ("histograms", "Histograms", out);
    strbuf_add (out, "<p class=\"note\">Each step is a column: the stronger its colour, the more of its samples have "
                     "this value. The line is their mean.</p>\n<div class=\"charts\">\n");
    add_figures (runs, histograms_of, add_histograms, out);
    strbuf_add (out, "</div>\n</section>\n");
}

/* ---- images ---- */

enum { SMALL = 160, LARGE = 400 /* pixels */ };

static void
add_image (const struct snapshot *image, const char *key, struct strbuf *out)
{
    strbuf_printf (out, "<div><img%s width=\"%u\" height=\"%u\" alt=\"", image->width < SMALL ? " class=\"small\"" : "",
                   (unsigned) image->width, (unsigned) image->height);
    html_text (out, key);
    strbuf_add (out, "\" src=\"data:image/png;base64,");
    strbuf_add (out, image->png);
    strbuf_add (out, "\"><small>step ");
    html_count (out, image->step);
    strbuf_printf (out, " · %u × %u</small></div>\n", (unsigned) image->width, (unsigned) image->height);
}

static void
add_images (const struct runs *runs, const char *key, struct strbuf *out)
{
    strbuf_add (out, "<figure class=\"chart wide\"><figcaption><h3>");
    html_text (out, key);
    strbuf_add (out, "</h3></figcaption>\n");
    for (size_t r = 0; r < runs->count; r++) {
        const struct snapshots *of = snapshots_of (runs, r, images_of, key);
        if (!of)
            continue;
        add_heading (runs, r, of, out);
        strbuf_printf (out, "<div class=\"images%s\">\n", of->items[0].width > LARGE ? " large" : "");
        for (size_t i = 0; i < of->count; i++)
            add_image (&of->items[i], key, out);
        strbuf_add (out, "</div>\n");
    }
    strbuf_add (out, "</figure>\n");
}

void
section_images (const struct runs *runs, struct strbuf *out)
{
    if (!has_any (runs, images_of))
        return;
    section_begin ("images", "Images", out);
    strbuf_add (out, "<div class=\"charts\">\n");
    add_figures (runs, images_of, add_images, out);
    strbuf_add (out, "</div>\n</section>\n");
}
