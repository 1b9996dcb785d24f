/* SPDX-License-Identifier: Apache-2.0 */
/* Text for a person's eyes: what a terminal would obey instead of showing appears as an escape.  Besides: words of
 * command lines, sizes, and addresses without their passwords. */
#ifndef UTIL_PRINTABLE_H
#define UTIL_PRINTABLE_H

#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/**
 * How many bytes the character at @p text has if it must not reach a terminal as it is: control characters (C0, DEL and
 * C1), those that change the direction or the line of the text around them, and single bytes that are not UTF-8.
 *
 * @return 0 for every other character and at the end of the text
 */
size_t printable_bad_bytes (const char *text);

/** Whether all of @p text can be shown as it is. */
bool printable_is_clean (const char *text);

enum { PRINTABLE_BYTES = 20 }; /* of one character as it is shown, the terminating 0 included */

/** Put the first character of *text into @p shown (PRINTABLE_BYTES), as C and shells escape it if it cannot be shown
 *  (\n, \t, \x1b), and move to the next.  @return @p shown */
const char *printable_next (const char **text, char *shown);

/** Append all of @p text in that way.  A backslash stays as it is. */
void printable_add (struct strbuf *out, const char *text);

/** Print it.  Needs no memory. */
void printable_put (FILE *out, const char *text);

/** Append a word as one would type it in a shell: in quotes only if it needs them. */
void shell_word_add (struct strbuf *out, const char *word);

/** Append a number of bytes in decimal units: "1.2 GB". */
void bytes_add (struct strbuf *out, uint64_t bytes);

/** Append @p text with "***" for everything between "://" and "@" of each address in it. */
void text_hide_credentials (const char *text, struct strbuf *out);

#endif
