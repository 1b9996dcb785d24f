/* SPDX-License-Identifier: Apache-2.0 */
/* Text and numbers in HTML; see html.h. */
#include <config.h>

#include "report/html.h"

#include "util/printable.h"
#include "util/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void
html_text (struct strbuf *out, const char *text)
{
    static const char special[] = "&<>\"'`";
    static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#96;" };
    char shown[PRINTABLE_BYTES];
    while (*text) {
        const char *found = strchr (special, *text);
        if (found) {
            strbuf_add (out, names[found - special]);
            text++;
        } else
            strbuf_add (out, printable_next (&text, shown));
    }
}

/* 1e-09 is 1e-9. */
static void
shorten_exponent (char *text)
{
    char *zero = strchr (text, 'e');
    if (zero && zero[2] == '0')
        memmove (zero + 2, zero + 3, strlen (zero + 3) + 1);
}

void
html_number (struct strbuf *out, double value)
{
    static const char suffixes[] = "kMGTP";
    double size = fabs (value);
    char text[40];
    if (!isfinite (value)) {
        strbuf_add (out, isnan (value) ? "NaN" : value > 0 ? "∞" : "−∞");
        return;
    }
    int power = size < 9999.5 ? 0 : (int) (log10 (size) / 3);
    if (power >= 1 && power <= 5)
        value /= pow (1000, power);
    snprintf (text, sizeof text, "%.4g", value);
    text_use_point (text);
    shorten_exponent (text);
    strbuf_add (out, *text == '-' ? "−" : "");
    strbuf_add (out, text + (*text == '-'));
    if (power >= 1 && power <= 5)
        strbuf_add_char (out, suffixes[power - 1]);
}

void
html_exact (struct strbuf *out, double value, int digits)
{
    char text[40];
    snprintf (text, sizeof text, "%.*g", digits, value);
    text_use_point (text);
    strbuf_add (out, text);
}

void
html_count (struct strbuf *out, int64_t value)
{
    char text[24];
    snprintf (text, sizeof text, "%" PRId64, value);
    for (size_t i = 0, length = strlen (text); i < length; i++) {
        strbuf_add_char (out, text[i]);
        if (text[i] != '-' && i + 1 < length && (length - i - 1) % 3 == 0)
            strbuf_add (out, "\xe2\x80\x89");
    }
}
