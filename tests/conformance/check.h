/* SPDX-License-Identifier: Apache-2.0 */
/* What programs that are one rank of a test have in common: who they are, and how they say what is wrong. */
#ifndef TESTS_CONFORMANCE_CHECK_H
#define TESTS_CONFORMANCE_CHECK_H

#include <accel/accel.h>

#include <stdarg.h>
#include <stdio.h>

static struct accel *acc;
static int rank, size, wrong;

__attribute__ ((format (printf, 2, 3))) static bool
check (bool good, const char *format, ...)
{
    va_list args;
    if (good)
        return true;
    wrong++;
    va_start (args, format);
    flockfile (stderr);
    fprintf (stderr, "rank %d: ", rank);
    vfprintf (stderr, format, args);
    putc ('\n', stderr);
    funlockfile (stderr);
    va_end (args);
    return false;
}

#endif
