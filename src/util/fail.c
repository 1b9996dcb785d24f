/* SPDX-License-Identifier: Apache-2.0 */
/* The error object of command, configuration and launcher; see fail.h. */
#include <config.h>

#include "util/fail.h"

#include "util/printable.h"
#include "util/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message is one line, and no orders to a terminal, whatever was put into it: file names and keys may hold both. */
static void
one_line (char *text)
{
    for (const char *next = text; *text; text += next - text) {
        size_t bad = printable_bad_bytes (text);
        utf8_next (&next);
        memset (text, bad == 1 && (unsigned char) *text >= 0x80 ? '?' : ' ', bad);
    }
}

int
fail_set (struct fail *fail, int status, const char *format, ...)
{
    if (!fail)
        return -1;
    va_list args;
    va_start (args, format);
    vsnprintf (fail->text, sizeof fail->text, format, args);
    va_end (args);
    one_line (fail->text);
    fail->status = status;
    return -1;
}

int
fail_prefix (struct fail *fail, const char *format, ...)
{
    if (!fail)
        return -1;
    char old[sizeof fail->text];
    memcpy (old, fail->text, sizeof old);
    va_list args;
    va_start (args, format);
    int length = vsnprintf (fail->text, sizeof fail->text, format, args);
    va_end (args);
    if (length >= 0 && (size_t) length < sizeof fail->text)
        snprintf (fail->text + length, sizeof fail->text - (size_t) length, ": %s", old);
    one_line (fail->text);
    return -1;
}

int
fail_nomem (struct fail *fail)
{
    return fail_set (fail, FAIL_GENERAL, "out of memory");
}
