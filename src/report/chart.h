/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of one key, those of all runs together, as inline SVG. */
#ifndef REPORT_CHART_H
#define REPORT_CHART_H

#include "report/run.h"

enum { CHART_PARTS = 500, CHART_COLOURS = 8 };

/** Append the figure of @p key.  @param is_wide  it gets the whole width of the page */
void chart_add (const struct runs *runs, const char *key, bool is_wide, struct strbuf *out);

/** Append the class of a run's colour: "s3", and "s3 dash" of a ninth run on. */
void chart_class (size_t run, struct strbuf *out);

#endif
