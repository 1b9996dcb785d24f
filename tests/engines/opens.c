/* SPDX-License-Identifier: Apache-2.0 */
/* Open, say which engine connects this process, and try what an engine may lack.  Errors are one line each.
 *
 *   opens [FILE]
 *
 * With FILE, ranks but the first make their first call when it is there. */
#include <config.h>

#include <accel/accel.h>

#include "lib/comm/comm_object.h"

#include <stdio.h>
#include <unistd.h>

static void
say (const char *what, enum accel_status status, const struct accel_error *err)
{
    printf ("%s: %s\n", what, status ? err->text : "ok");
}

/* A newer library has kinds that this engine does not. */
static void
try_unknown_kind (struct accel_comm *world)
{
    struct accel_error err = { 0 };
    void *work;
    struct accel_engine_call call = {
        .helpers = &world->watch.helpers, .site = &(struct comm_site){ .file = __FILE__ }, .root = -1,
        .kind = (enum accel_engine_kind) 40,
    };
    enum accel_status status = world->links->engine->run (world->links->transport, &call, &err);
    say ("kind 40", status == ACCEL_ERR_UNSUPPORTED ? status : ACCEL_OK, &err);
    if (world->links->engine->start && world->size > 1) {
        status = world->links->engine->start (world->links->transport, &call, &work, &err);
        say ("kind 40, started", status == ACCEL_ERR_UNSUPPORTED ? status : ACCEL_OK, &err);
    }
}

int
main (int argc, char **argv)
{
    struct accel_error err = { 0 };
    struct accel *acc;
    struct accel_work *work;
    double number = 3, sum[1];
    int32_t whole = 3;
    enum accel_status status = accel_open (&acc, NULL, &err);
    if (status) {
        fprintf (stderr, "status %d: %s\n", (int) status, err.text);
        return 1;
    }
    struct accel_comm *world = accel_world (acc);
    printf ("engine %s%s%s\n", accel_comm_engine (world), world->links->engine->awaits ? ", with awaits()" : "",
            world->links->engine->start ? ", with start()" : "");
    while (argc > 1 && accel_comm_rank (world) && access (argv[1], F_OK))
        usleep (10000);
    say ("sum", accel_comm_all_reduce (world, &number, sum, 1, ACCEL_FLOAT64, ACCEL_SUM, &err), &err);
    printf ("sum is %g\n", sum[0]);
    say ("int32", accel_comm_all_reduce (world, &whole, &whole, 1, ACCEL_INT32, ACCEL_SUM, &err), &err);
    say ("broadcast", accel_comm_broadcast (world, &number, 1, ACCEL_FLOAT64, 0, &err), &err);
    say ("barrier", accel_comm_barrier (world, &err), &err);
    status = accel_comm_barrier_start (&work, world, &err);
    say ("started", status ? status : accel_work_wait (work, &err), &err);
    say ("timeout", accel_comm_set_timeout (world, 60000, &err), &err);
    try_unknown_kind (world);
    accel_close (acc);
    return 0;
}
