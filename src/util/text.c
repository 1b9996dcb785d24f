/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to texts; see text.h. */
#include <config.h>

#include "util/text.h"

#include <langinfo.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
text_ends_in (const char *text, const char *end)
{
    size_t length = strlen (text), wanted = strlen (end);
    return length >= wanted && !strcmp (text + length - wanted, end);
}

bool
text_is_one_of (const char *text, const char *const *words)
{
    while (*words && strcmp (text, *words) != 0)
        words++;
    return *words;
}

int
text_compare (const void *a, const void *b)
{
    return strcmp (*(char *const *) a, *(char *const *) b);
}

void
text_use_point (char *number)
{
    const char *point = nl_langinfo (RADIXCHAR); /* for several threads, which localeconv() is not */
    char *found = *point ? strstr (number, point) : NULL;
    if (found) {
        *found = '.';
        memmove (found + 1, found + strlen (point), strlen (found + strlen (point)) + 1);
    }
}

char *
text_vprintf (const char *format, va_list args)
{
    char *text = NULL;
    return vasprintf (&text, format, args) < 0 ? NULL : text; /* C libraries differ in what they leave there */
}

char *
text_printf (const char *format, ...)
{
    va_list args;
    va_start (args, format);
    char *text = text_vprintf (format, args);
    va_end (args);
    return text;
}

void
home_add (struct strbuf *out, const char *path)
{
    if (path[0] == '~' && (!path[1] || path[1] == '/')) {
        const char *home = getenv ("HOME");
        const struct passwd *user = home ? NULL : getpwuid (getuid ());
        if (home || user) {
            strbuf_add (out, home ? home : user->pw_dir);
            path++;
        }
    }
    strbuf_add (out, path);
}
