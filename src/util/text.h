/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of texts again and again, and paths that begin with ~. */
#ifndef UTIL_TEXT_H
#define UTIL_TEXT_H

#include "util/strbuf.h"

#include <stdarg.h>

/** Whether @p text ends in @p end. */
bool text_ends_in (const char *text, const char *end);

/** Whether @p text is among @p words, of which the last is NULL. */
bool text_is_one_of (const char *text, const char *const *words);

/** For arrays of char *: in the order of strcmp(). */
int text_compare (const void *a, const void *b);

/** In a number that printf() has written: a point, whatever the locale of the program has in its place. */
void text_use_point (char *number);

/** asprintf() and vasprintf() that return the text, for free(); NULL: out of memory. @{ */
char *text_printf (const char *format, ...) __attribute__ ((format (printf, 1, 2)));
char *text_vprintf (const char *format, va_list args) __attribute__ ((format (printf, 1, 0)));
/** @} */

/** Append @p path with the user's home folder in place of a leading "~" or "~/", if no shell has replaced it: in
 *  variables, files, and after the = of an option.  Other users' and variables stay. */
void home_add (struct strbuf *out, const char *path);

#endif
