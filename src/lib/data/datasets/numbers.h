/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in the middle of a text, quickly and without regard to the locale. */
#ifndef LIB_DATA_DATASETS_NUMBERS_H
#define LIB_DATA_DATASETS_NUMBERS_H

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * A decimal number, nan, inf or infinity (in any case), with optional sign, at the beginning of @p text, which ends
 * with a byte that belongs to no number.
 *
 * @param c_locale     for the numbers that need strtod_l()
 * @param[out] value   rounded correctly; infinite (and *overflow true) if it is too large
 * @return the byte after it, NULL if there is no number
 */
const char *number_real (const char *text, locale_t c_locale, double *value, bool *overflow);

/** The same for an integer. */
const char *number_int64 (const char *text, int64_t *value, bool *overflow);

#endif
