/* SPDX-License-Identifier: Apache-2.0 */
/* Scalars as PyYAML reads and Python writes them; see scalar.h. */
#include <config.h>

#include "config/text/scalar.h"

#include "util/cleanup.h"
#include "util/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
scalar_add_float (struct strbuf *out, double value)
{
    char text[40], digits[24];
    if (!isfinite (value)) {
        strbuf_add (out, isnan (value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    int precision = 0;
    do
        snprintf (text, sizeof text, "%.*e", precision, value);
    while (strtod (text, NULL) != value && ++precision < 17);
    const char *from = text;
    if (*from == '-')
        strbuf_add_char (out, *from++);
    int count = 0;
    for (; *from != 'e'; from++)
        if (*from != '.' && *from != ',')
            digits[count++] = *from;
    digits[count] = '\0';
    int exponent = (int) strtol (from + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        strbuf_printf (out, "%c%s%se%s%02d", digits[0], count > 1 ? "." : "", digits + 1, exponent < 0 ? "-" : "+",
                       abs (exponent));
        return;
    }
    if (exponent < 0)
        strbuf_printf (out, "0.%.*s%s", -exponent - 1, "0000", digits);
    else if (exponent >= count - 1)
        strbuf_printf (out, "%s%.*s.0", digits, exponent - count + 1, "0000000000000000");
    else
        strbuf_printf (out, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
}

static bool
is_made_of (const char *text, const char *characters)
{
    return *text && strspn (text, characters) == strlen (text);
}

/* Digits of @base with '_' among them.  @return false if there are none, or more than Python accepts in a text */
static bool
read_digits (const char *text, const char *digits, int base, uint64_t *value)
{
    if (!is_made_of (text, digits))
        return false;
    *value = 0;
    for (; *text; text++) {
        if (*text == '_')
            continue;
        int digit = *text <= '9' ? *text - '0' : (*text | 32) - 'a' + 10;
        if (__builtin_mul_overflow (*value, (uint64_t) base, value)
            || __builtin_add_overflow (*value, (uint64_t) digit, value))
            return false;
    }
    return true;
}

/* Base 60, "1:30:00": YAML 1.1 takes it for a number, with digits after a point at the very end. */
static bool
read_sexagesimal (const char *text, double *value, bool *is_float)
{
    static const char digits[] = "0123456789";
    *value = 0;
    *is_float = strchr (text, '.');
    if (!strchr (text, ':') || (!*is_float && *text == '0'))
        return false;
    for (bool first = true;; first = false) {
        size_t length = strspn (text, digits);
        if (!length || (!first && length > 2))
            return false;
        if (text[length] == '.')
            length += 1 + strspn (text + length + 1, digits);
        if (text[length] && (text[length] != ':' || memchr (text, '.', length)))
            return false;
        double part = strtod (text, NULL);
        if (!first && part >= 60)
            return false;
        *value = *value * 60 + part;
        if (!text[length])
            return !first;
        text += length + 1;
    }
}

static bool
read_integer (const char *text, struct strbuf *out)
{
    const char *from = text + (*text == '-' || *text == '+'), *sign = *text == '-' ? "-" : "";
    uint64_t value;
    bool is_float;
    double sixty;
    bool good = from[0] == '0' && from[1] == 'b'   ? read_digits (from + 2, "01_", 2, &value)
                : from[0] == '0' && from[1] == 'x' ? read_digits (from + 2, "0123456789abcdefABCDEF_", 16, &value)
                : from[0] == '0' && from[1]        ? read_digits (from + 1, "01234567_", 8, &value)
                : from[0] == '_'                   ? false
                                                   : read_digits (from, "0123456789_", 10, &value);
    if (!good && read_sexagesimal (from, &sixty, &is_float) && !is_float) {
        value = (uint64_t) sixty;
        good = true;
    }
    if (good && out)
        strbuf_printf (out, "%s%" PRIu64, value ? sign : "", value);
    if (good || from[0] == '0' || from[0] == '_' || !is_made_of (from, "0123456789_"))
        return good;
    /* Larger than any number here, but Python has no limit. */
    if (out)
        strbuf_add (out, sign);
    for (; out && *from; from++)
        if (*from != '_')
            strbuf_add_char (out, *from);
    return true;
}

/* Digits, a point, digits; an exponent only with its sign.  1e3 and 1.0e3 are texts to PyYAML. */
static bool
has_form_of_float (const char *text)
{
    size_t before = strspn (text, "0123456789_");
    if (text[before] != '.' || *text == '_')
        return false;
    const char *rest = text + before + 1;
    size_t after = strspn (rest, "0123456789_");
    if (!before && (!after || *rest == '_'))
        return false;
    rest += after;
    if (*rest == 'e' || *rest == 'E') {
        if (rest[1] != '-' && rest[1] != '+')
            return false;
        rest += 2;
        size_t exponent = strspn (rest, "0123456789");
        if (!exponent)
            return false;
        rest += exponent;
    }
    return !*rest;
}

static bool
read_float (const char *text, struct strbuf *out)
{
    static const char *const infinities[] = { ".inf", ".Inf", ".INF", NULL };
    static const char *const nans[] = { ".nan", ".NaN", ".NAN", NULL };
    const char *from = text + (*text == '-' || *text == '+');
    double value, sign = *text == '-' ? -1 : 1;
    bool is_float;
    if (text_is_one_of (from, infinities))
        value = INFINITY;
    else if (text_is_one_of (text, nans))
        value = NAN;
    else if (has_form_of_float (from) && (from == text || *from != '.')) {
        AUTO_STRBUF struct strbuf plain = { 0 };
        for (; *from; from++)
            if (*from != '_')
                strbuf_add_char (&plain, *from);
        value = plain.text ? strtod (plain.text, NULL) : 0;
    } else if (!read_sexagesimal (from, &value, &is_float) || !is_float)
        return false;
    if (out)
        scalar_add_float (out, sign * value);
    return true;
}

/* 2001-12-14, with or without a time. */
static bool
is_date (const char *text)
{
    size_t year = strspn (text, "0123456789");
    if (year != 4 || text[4] != '-')
        return false;
    size_t month = strspn (text + 5, "0123456789");
    if (month < 1 || month > 2 || text[5 + month] != '-')
        return false;
    const char *day = text + 6 + month;
    size_t length = strspn (day, "0123456789");
    return (length == 2 && !day[2] && month == 2)
           || (length >= 1 && length <= 2 && day[length] && strchr ("Tt \t", day[length]) && strchr (day, ':'));
}

enum scalar_kind
scalar_read (const char *text, struct strbuf *out)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
    static const char *const truths[]
        = { "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", NULL };
    static const char *const lies[]
        = { "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", NULL };
    if (text_is_one_of (text, nulls))
        return SCALAR_NULL;
    bool is_true = text_is_one_of (text, truths);
    if (is_true || text_is_one_of (text, lies)) {
        if (out)
            strbuf_add (out, is_true ? "True" : "False");
        return SCALAR_BOOL;
    }
    if (read_integer (text, out))
        return SCALAR_INT;
    if (read_float (text, out))
        return SCALAR_FLOAT;
    if (out)
        strbuf_add (out, text);
    return is_date (text) ? SCALAR_DATE : SCALAR_TEXT;
}
