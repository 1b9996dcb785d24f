/* SPDX-License-Identifier: Apache-2.0 */
/* Axes, and shapes and labels on them: what all plots over steps have in common. */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include "report/series.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

/** An axis for values from `min` to `max`. */
struct axis {
    double min, max; /* finite, min < max; of a logarithmic one > 0 */
    bool is_log;
};

/** For values of this extent.  @param may_be_log  it is, if they are positive and span two decades */
struct axis axis_for (const struct extent *extent, bool may_be_log);

/** @return where @p value is, from 0 (min) to 1 (max), if it is within the axis */
double axis_place (const struct axis *axis, double value);

enum { AXIS_TICKS = 12 };

/** @param[out] ticks  [AXIS_TICKS], ascending, each within the axis  @param wanted  about so many, at most 6
 *  @return how many */
size_t axis_ticks (const struct axis *axis, size_t wanted, double *ticks);

enum { PLOT_SIDE = 1000 }; /* width and height of the picture, which is stretched to those of the plot */

/** Both axes of a plot. */
struct plot {
    struct axis steps, values;
};

/** The axis of steps from @p first to @p last, also if it is one step. */
struct axis plot_steps (int64_t first, int64_t last);

/** Where a step or a value is in the picture. @{ */
double plot_x (const struct plot *plot, double step);
double plot_y (const struct plot *plot, double value);
/** @} */

/** Append "X Y". */
void plot_add_place (double x, double y, struct strbuf *out);

/** Append the opening tags of a plot with the labels of its values and its grid, or the closing ones with the labels
 * of its steps.  Between them, shapes are appended.
 * @param kind  a class besides "plot"; or ""  @param label  what it shows, as HTML  @{ */
void plot_begin (const struct plot *plot, const char *kind, const char *label, struct strbuf *out);
void plot_end (const struct plot *plot, struct strbuf *out);
/** @} */

/** Append the path through @p points: a gap where a value is not finite; a point between two gaps is a dot. */
void plot_add_shape (const struct plot *plot, const struct point *points, size_t count, struct strbuf *out);

/** Append the attributes from which the script shows the values under the pointer.  @param run  its name */
void plot_add_numbers (const char *run, const struct point *points, size_t count, struct strbuf *out);

#endif
