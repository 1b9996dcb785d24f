/* SPDX-License-Identifier: Apache-2.0 */
/* Open, say which engine connects this process, and try what an engine may lack.  Errors are one line each. */
#include <config.h>

#include <accel/accel.h>

#include "lib/comm/comm_object.h"

#include <stdio.h>

static void
say (const char *what, enum accel_status status, const struct accel_error *err)
{
    printf ("%s: %s\n", what, status ? err->text : "ok");
}

int
main (void)
{
    struct accel_error err = { 0 };
    struct accel *acc;
    double number = 3, sum[1];
    int32_t whole = 3;
    enum accel_status status = accel_open (&acc, NULL, &err);
    if (status) {
        fprintf (stderr, "status %d: %s\n", (int) status, err.text);
        return 1;
    }
    struct accel_comm *world = accel_world (acc);
    printf ("engine %s%s\n", accel_comm_engine (world), world->engine->awaits ? ", with awaits()" : "");
    say ("sum", accel_comm_all_reduce (world, &number, sum, 1, ACCEL_FLOAT64, ACCEL_SUM, &err), &err);
    printf ("sum is %g\n", sum[0]);
    say ("int32", accel_comm_all_reduce (world, &whole, &whole, 1, ACCEL_INT32, ACCEL_SUM, &err), &err);
    say ("broadcast", accel_comm_broadcast (world, &number, 1, ACCEL_FLOAT64, 0, &err), &err);
    say ("barrier", accel_comm_barrier (world, &err), &err);
    accel_close (acc);
    return 0;
}
