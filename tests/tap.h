/* SPDX-License-Identifier: Apache-2.0 */
/* Test Anything Protocol for C tests: ok() per case, done_testing() at the end; no plan counted by hand. */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count, tap_failed;

__attribute__ ((format (printf, 2, 3), unused)) static bool
ok (bool good, const char *format, ...)
{
    va_list args;
    va_start (args, format);
    printf ("%sok %d - ", good ? "" : "not ", ++tap_count);
    vprintf (format, args);
    putchar ('\n');
    va_end (args);
    fflush (stdout);
    tap_failed += !good;
    return good;
}

__attribute__ ((format (printf, 1, 2), unused)) static void
diag (const char *format, ...)
{
    va_list args;
    va_start (args, format);
    printf ("# ");
    vprintf (format, args);
    putchar ('\n');
    va_end (args);
    fflush (stdout);
}

__attribute__ ((format (printf, 1, 2), unused)) static void
skip (const char *format, ...)
{
    va_list args;
    va_start (args, format);
    printf ("ok %d # SKIP ", ++tap_count);
    vprintf (format, args);
    putchar ('\n');
    va_end (args);
    fflush (stdout);
}

__attribute__ ((unused)) static bool
is_text (const char *got, const char *wanted, const char *name)
{
    bool same = got && wanted ? !strcmp (got, wanted) : got == wanted;
    ok (same, "%s", name);
    if (!same)
        diag ("got '%s', wanted '%s'", got ? got : "(null)", wanted ? wanted : "(null)");
    return same;
}

/* The exit status for main(). */
__attribute__ ((unused)) static int
done_testing (void)
{
    printf ("1..%d\n", tap_count);
    return tap_failed != 0;
}

#endif
