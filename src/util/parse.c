/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsing of numbers and truth values; see parse.h. */
#include <config.h>

#include "util/parse.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

static bool
is_digit (char c)
{
    return c >= '0' && c <= '9';
}

enum parse_result
parse_int64 (const char *text, int64_t min, int64_t max, int64_t *value)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!is_digit (*digits))
        return PARSE_MALFORMED;
    char *end;
    errno = 0;
    long long number = strtoll (text, &end, 10);
    if (*end)
        return PARSE_MALFORMED;
    if (errno == ERANGE || number < min || number > max)
        return PARSE_RANGE;
    *value = number;
    return PARSE_OK;
}

/* A program that uses the library may have set a locale whose decimal point is a comma.  newlocale() returns a constant
 * for "C", which needs no memory. */
static double
read_double (const char *text, char **end)
{
    locale_t c_locale = newlocale (LC_ALL_MASK, "C", (locale_t) 0);
    if (!c_locale)
        return strtod (text, end);
    double number = strtod_l (text, end, c_locale);
    freelocale (c_locale);
    return number;
}

enum parse_result
parse_double (const char *text, double min, double max, double *value)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!is_digit (*digits) && !(*digits == '.' && is_digit (digits[1])))
        return PARSE_MALFORMED;
    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
        return PARSE_MALFORMED;
    char *end;
    double number = read_double (text, &end);
    if (*end)
        return PARSE_MALFORMED;
    if (!isfinite (number) || number < min || number > max)
        return PARSE_RANGE;
    *value = number;
    return PARSE_OK;
}

enum parse_result
parse_bool (const char *text, bool *value)
{
    static const char *const words[2][6] = {
        { "n", "no", "f", "false", "off", "0" },
        { "y", "yes", "t", "true", "on", "1" },
    };
    for (int truth = 0; truth < 2; truth++)
        for (int i = 0; i < 6; i++)
            if (!strcasecmp (text, words[truth][i])) {
                *value = truth;
                return PARSE_OK;
            }
    return PARSE_MALFORMED;
}
