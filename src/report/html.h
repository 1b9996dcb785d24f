/* SPDX-License-Identifier: Apache-2.0 */
/* Text and numbers on their way into HTML. */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include "util/strbuf.h"

#include <stdint.h>

/** Append @p text of a file so that it is nothing but text, between tags as well as in a quoted attribute.  Characters
 * that would not be seen, or change what is around them, appear as escapes (util/printable.h). */
void html_text (struct strbuf *out, const char *text);

/** Append a number for people: four digits, "12.3k", "4.56M". */
void html_number (struct strbuf *out, double value);

/** Append a number for the script and for shapes: as short as @p digits allow. */
void html_exact (struct strbuf *out, double value, int digits);

/** Append a whole number, with thin spaces between thousands. */
void html_count (struct strbuf *out, int64_t value);

#endif
