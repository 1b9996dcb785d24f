/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in the middle of a text; see numbers.h. */
#include <config.h>

#include "lib/data/datasets/numbers.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

/* Powers of ten that float64 holds exactly. */
static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

static bool
is_digit (char c)
{
    return c >= '0' && c <= '9';
}

static const char *
parse_word (const char *text, double *value)
{
    static const struct {
        const char *word;
        size_t length;
        double value;
    } words[] = { { "infinity", 8, INFINITY }, { "inf", 3, INFINITY }, { "nan", 3, NAN } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncasecmp (text, words[i].word, words[i].length)) {
            *value = words[i].value;
            return text + words[i].length;
        }
    return NULL;
}

/* Digits with at most one point: the first 19 or fewer significant ones as an integer, and where the point belongs. */
static const char *
parse_digits (const char *text, uint64_t *mantissa, int64_t *exponent, bool *all)
{
    const char *at = text, *point = NULL;
    uint64_t number = 0;
    int64_t shift = 0;
    bool some = false;
    *all = true;
    for (;; at++) {
        if (is_digit (*at)) {
            some = true;
            if (number < UINT64_C (1000000000000000000))
                number = number * 10 + (uint64_t) (*at - '0');
            else {
                *all = false;
                shift++;
            }
            shift -= point != NULL;
        } else if (*at == '.' && !point)
            point = at;
        else
            break;
    }
    *mantissa = number;
    *exponent = shift;
    return some ? at : NULL;
}

/* "e12" if it is there; an "e" without digits is left where it is. */
static const char *
parse_exponent (const char *text, int64_t *exponent)
{
    const char *at = text + 1;
    bool negative = *text && *at == '-';
    int64_t number = 0;
    if (*text != 'e' && *text != 'E')
        return text;
    at += *at == '-' || *at == '+';
    if (!is_digit (*at))
        return text;
    for (; is_digit (*at); at++)
        if (number < 1000000)
            number = number * 10 + (*at - '0');
    *exponent += negative ? -number : number;
    return at;
}

const char *
number_real (const char *text, locale_t c_locale, double *value, bool *overflow)
{
    const char *digits = text + (*text == '-' || *text == '+'), *end;
    uint64_t mantissa;
    int64_t exponent;
    bool all;
    *overflow = false;
    end = parse_digits (digits, &mantissa, &exponent, &all);
    if (!end) {
        end = parse_word (digits, value);
        if (end && *text == '-')
            *value = -*value;
        return end;
    }
    end = parse_exponent (end, &exponent);
    /* One rounding only: both operands are exact (W. D. Clinger, How to read floating point numbers accurately, 1990),
     * where the compiler computes float64 as such. */
    if (FLT_EVAL_METHOD == 0 && all && mantissa <= UINT64_C (1) << 53 && exponent >= -22 && exponent <= 22) {
        *value = exponent < 0 ? (double) mantissa / powers[-exponent] : (double) mantissa * powers[exponent];
        if (*text == '-')
            *value = -*value;
        return end;
    }
    *value = strtod_l (text, NULL, c_locale);
    *overflow = isinf (*value);
    return end;
}

const char *
number_int64 (const char *text, int64_t *value, bool *overflow)
{
    bool negative = *text == '-';
    const char *at = text + (negative || *text == '+');
    int64_t number = 0;
    *overflow = false;
    if (!is_digit (*at))
        return NULL;
    /* Counted downwards, if there is room for one more. */
    for (; is_digit (*at); at++) {
        *overflow |= __builtin_mul_overflow (number, (int64_t) 10, &number);
        *overflow |= __builtin_sub_overflow (number, (int64_t) (*at - '0'), &number);
    }
    if (!negative)
        *overflow |= __builtin_sub_overflow ((int64_t) 0, number, &number);
    *value = number;
    return at;
}
