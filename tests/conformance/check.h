/* SPDX-License-Identifier: Apache-2.0 */
/* What programs that are one rank of a test have in common: who they are, and how they say what is wrong.
 *
 * A program of several files includes this in one of them, with CHECK_SCOPE as nothing, and declares what the others
 * use.  CHECK_DETAIL is a string to add to every complaint, such as the text of the latest error. */
#ifndef TESTS_CONFORMANCE_CHECK_H
#define TESTS_CONFORMANCE_CHECK_H

#include <accel/accel.h>

#include <stdarg.h>
#include <stdio.h>

#ifndef CHECK_SCOPE
#define CHECK_SCOPE static
#endif
#ifndef CHECK_DETAIL
#define CHECK_DETAIL ""
#endif

CHECK_SCOPE struct accel *acc;
CHECK_SCOPE int rank, size, wrong;

__attribute__ ((format (printf, 2, 3))) CHECK_SCOPE bool
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
    fprintf (stderr, *CHECK_DETAIL ? " (%s)\n" : "%s\n", CHECK_DETAIL);
    funlockfile (stderr);
    va_end (args);
    return false;
}

#endif
