/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of one key, those of all runs together, as inline SVG. */
#ifndef REPORT_CHART_H
#define REPORT_CHART_H

#include "report/run.h"

enum { CHART_PARTS = 500, CHART_COLOURS = 8 };

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

/** Append the figure of @p key.  @param is_wide  it gets the whole width of the page */
void chart_add (const struct runs *runs, const char *key, bool is_wide, struct strbuf *out);

/** Append the class of a run's colour: "s3", and "s3 dash" of a ninth run on. */
void chart_class (size_t run, struct strbuf *out);

#endif
