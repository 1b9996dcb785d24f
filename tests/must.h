/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that speak TAP: what has to succeed, or the program ends. */
#ifndef TESTS_MUST_H
#define TESTS_MUST_H

#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>

static struct accel_error err;

__attribute__ ((unused)) static void
must (enum accel_status status, const char *what)
{
    if (!status)
        return;
    printf ("Bail out! %s: %s\n", what, err.text);
    exit (1);
}
/* A call that fills in `err`. */
#define MUST(...) must ((__VA_ARGS__), #__VA_ARGS__)

#endif
