/* SPDX-License-Identifier: Apache-2.0 */
/* Times; see when.h. */
#include <config.h>

#include "aws/when.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* Whether a text begins as @p form says: '0' is a digit, 'a' a letter, and other characters are themselves. */
static bool
has_form (const char *text, const char *form)
{
    for (; *form; form++, text++)
        if (*form == '0'   ? !isdigit ((unsigned char) *text)
            : *form == 'a' ? !isalpha ((unsigned char) *text)
                           : *text != *form)
            return false;
    return true;
}

static int
number (const char *text, size_t digits)
{
    int value = 0;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (text[i] - '0');
    return value;
}

/* @param time  "04:40:06" */
static int64_t
seconds (int year, int month, int day, const char *time)
{
    struct tm when = { .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = number (time, 2),
                       .tm_min = number (time + 3, 2), .tm_sec = number (time + 6, 2) };
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || when.tm_hour > 23 || when.tm_min > 59
        || when.tm_sec > 60)
        return -1;
    return timegm (&when);
}

int64_t
when_iso (const char *text)
{
    if (!has_form (text, "0000-00-00T00:00:00"))
        return -1;
    const char *zone = text + 19;
    if (*zone == '.')
        zone += 1 + strspn (zone + 1, "0123456789");
    if (strcmp (zone, "Z") != 0 && strcmp (zone, "UTC") != 0 && strcmp (zone, "+00:00") != 0)
        return -1;
    return seconds (number (text, 4), number (text + 5, 2), number (text + 8, 2), text + 11);
}

int64_t
when_http (const char *text)
{
    static const char months[][4]
        = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    if (!has_form (text, "aaa, 00 aaa 0000 00:00:00 GMT"))
        return -1;
    for (int i = 0; i < 12; i++)
        if (!strncmp (text + 8, months[i], 3))
            return seconds (number (text + 12, 4), i + 1, number (text + 5, 2), text + 17);
    return -1;
}
