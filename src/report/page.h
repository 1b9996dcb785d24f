/* SPDX-License-Identifier: Apache-2.0 */
/* The page: one file that needs no other, and looks for none. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "report/run.h"

/** Append the page of one run, or of several side by side.  The same runs give the same bytes.
 *  @param[out] out  `failed` is set without memory */
void page_add (const struct runs *runs, struct strbuf *out);

#endif
