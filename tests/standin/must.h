/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that speak TAP: what has to succeed, or the program ends. */
#ifndef TESTS_STANDIN_MUST_H
#define TESTS_STANDIN_MUST_H

#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>

static struct accel_error err;

static void
must (enum accel_status status, const char *what)
{
    if (!status)
        return;
    printf ("Bail out! %s: %s\n", what, err.text);
    exit (1);
}
#define MUST(call) must (call, #call)

#endif
