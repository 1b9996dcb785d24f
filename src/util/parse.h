/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsing: the whole text is the value or it is an error; no leading blanks, no silent overflow. */
#ifndef UTIL_PARSE_H
#define UTIL_PARSE_H

#include <stdbool.h>
#include <stdint.h>

enum parse_result {
    PARSE_OK,
    PARSE_MALFORMED, /* not a number, not a truth value */
    PARSE_RANGE,     /* a number, but out of the given or of any range */
};

/** A decimal integer with optional sign, min <= value <= max. */
enum parse_result parse_int64 (const char *text, int64_t min, int64_t max, int64_t *value);

/** A decimal floating-point number in the C locale; finite. */
enum parse_result parse_double (const char *text, double min, double max, double *value);

/** Accelerate's truth words in any case: y yes t true on 1, n no f false off 0. */
enum parse_result parse_bool (const char *text, bool *value);

#endif
