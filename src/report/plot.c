/* SPDX-License-Identifier: Apache-2.0 */
/* Axes, and what is on them; see plot.h.
 *
 * The picture is stretched to any width: strokes keep theirs (vector-effect), and labels are HTML beside it, placed in
 * percent. */
#include <config.h>

#include "report/plot.h"

#include "report/html.h"
#include "util/cleanup.h"
#include "util/utf8.h"

#include <inttypes.h>
#include <math.h>

enum { DECADES = 2, LOG_TICKS = 5, TICKS = 5, DIGIT_WIDTH = 7, LABEL_GAP = 14 /* pixels */ };

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

struct axis
plot_steps (int64_t first, int64_t last)
{
    double min = (double) first, max = (double) last, room = max > min ? 0 : fmax (1, fabs (min) / 1e3);
    return (struct axis){ .min = min - room, .max = max + room };
}

/* ---- shapes ---- */

double
plot_x (const struct plot *plot, double step)
{
    return axis_place (&plot->steps, step) * PLOT_SIDE;
}

double
plot_y (const struct plot *plot, double value)
{
    return (1 - axis_place (&plot->values, value)) * PLOT_SIDE;
}

void
plot_add_place (double x, double y, struct strbuf *out)
{
    html_exact (out, round (x * 10) / 10, 6);
    strbuf_add_char (out, ' ');
    html_exact (out, round (y * 10) / 10, 6);
}

void
plot_add_shape (const struct plot *plot, const struct point *points, size_t count, struct strbuf *out)
{
    bool is_open = false;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite (points[i].value)) {
            is_open = false;
            continue;
        }
        strbuf_add_char (out, is_open ? 'L' : 'M');
        plot_add_place (plot_x (plot, (double) points[i].step), plot_y (plot, points[i].value), out);
        if (!is_open && (i + 1 == count || !isfinite (points[i + 1].value)))
            strbuf_add (out, "h0.01");
        is_open = true;
    }
}

void
plot_add_numbers (const char *run, const struct point *points, size_t count, struct strbuf *out)
{
    strbuf_add (out, " data-run=\"");
    html_text (out, run);
    strbuf_add (out, "\" data-x=\"");
    for (size_t i = 0; i < count; i++)
        strbuf_printf (out, "%s%" PRId64, i ? " " : "", points[i].step);
    strbuf_add (out, "\" data-y=\"");
    for (size_t i = 0; i < count; i++) {
        strbuf_add (out, i ? " " : "");
        html_exact (out, points[i].value, 6);
    }
    strbuf_add_char (out, '"');
}

/* ---- the frame ---- */

static void
add_label (const char *side, double percent, double value, struct strbuf *out)
{
    strbuf_printf (out, "<span style=\"%s:", side);
    html_exact (out, round (percent * 100) / 100, 6);
    strbuf_add (out, "%\">");
    html_number (out, value);
    strbuf_add (out, "</span>");
}

/* @return its characters */
static size_t
longest_label (const double *ticks, size_t count)
{
    size_t longest = 0;
    for (size_t i = 0; i < count; i++) {
        AUTO_STRBUF struct strbuf label = { 0 };
        size_t length = 0;
        html_number (&label, ticks[i]);
        for (const char *at = label.text ? label.text : ""; *at; length++)
            utf8_next (&at);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void
add_grid (const struct plot *plot, const double *ticks, size_t count, struct strbuf *out)
{
    strbuf_add (out, "<path class=\"grid\" d=\"");
    for (size_t i = 0; i < count; i++) {
        strbuf_add_char (out, 'M');
        plot_add_place (0, plot_y (plot, ticks[i]), out);
        strbuf_printf (out, "H%d", PLOT_SIDE);
    }
    strbuf_add (out, "\"/>\n");
}

void
plot_begin (const struct plot *plot, const char *kind, const char *label, struct strbuf *out)
{
    double ticks[AXIS_TICKS];
    size_t count = axis_ticks (&plot->values, TICKS, ticks);
    strbuf_printf (out, "<div class=\"plot%s%s\" style=\"margin-left:%zupx\"><div class=\"ys\" aria-hidden=\"true\">",
                   *kind ? " " : "", kind, LABEL_GAP + DIGIT_WIDTH * longest_label (ticks, count));
    for (size_t i = 0; i < count; i++)
        add_label ("top", plot_y (plot, ticks[i]) * 100 / PLOT_SIDE, ticks[i], out);
    strbuf_add (out, "</div><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
    strbuf_add (out, label);
    strbuf_add (out, "\" data-from=\"");
    html_exact (out, plot->steps.min, 17);
    strbuf_add (out, "\" data-to=\"");
    html_exact (out, plot->steps.max, 17);
    strbuf_add (out, "\">\n");
    add_grid (plot, ticks, count, out);
}

void
plot_end (const struct plot *plot, struct strbuf *out)
{
    double ticks[AXIS_TICKS];
    size_t count = axis_ticks (&plot->steps, TICKS, ticks);
    strbuf_add (out, "</svg><div class=\"xs\" aria-hidden=\"true\">");
    for (size_t i = 0; i < count; i++)
        if (floor (ticks[i]) == ticks[i])
            add_label ("left", plot_x (plot, ticks[i]) * 100 / PLOT_SIDE, ticks[i], out);
    strbuf_add (out, "</div></div>\n");
}
