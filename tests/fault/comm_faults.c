/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job in which one does what it should not; run by comm_faults.sh.
 *
 *   comm_faults WHAT CULPRIT    the rank CULPRIT does WHAT, the others go on as agreed
 *
 * Whoever gets an error prints it, "RANK STATUS TEXT", after a comment with the time that it took, tries again, and
 * prints "RANK again" where the same error comes back at once. */
#include <config.h>

#include <accel/accel.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct accel *acc;
static struct accel_comm *world;
static struct accel_error err;
static int rank;
static float values[70000], sums[70000];

static long
now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void
say (long since, enum accel_status status)
{
    printf ("# rank %d after %ld ms\n%d %d %s\n", rank, now_ms () - since, rank, (int) status, err.text);
    fflush (stdout);
}

/* What all should do now: a sum of few or many numbers, or a barrier. */
static enum accel_status
agreed (const char *what)
{
    if (!strncmp (what, "big-", 4))
        return accel_comm_all_reduce (world, values, sums, 70000, ACCEL_FLOAT32, ACCEL_SUM, &err);
    if (!strncmp (what, "root", 4))
        return accel_comm_broadcast (world, values, 100, ACCEL_FLOAT32, 0, &err);
    if (!strncmp (what, "count", 5) || !strncmp (what, "dtype", 5) || !strncmp (what, "op", 2))
        return accel_comm_all_reduce (world, values, sums, 64, ACCEL_FLOAT32, ACCEL_SUM, &err);
    return accel_comm_barrier (world, &err);
}

/* What the culprit does instead. */
static enum accel_status
misbehave (const char *what)
{
    const char *how = strncmp (what, "big-", 4) ? what : what + 4;
    if (!strcmp (how, "exit"))
        exit (7);
    if (!strcmp (how, "abort"))
        abort ();
    if (!strcmp (how, "kill"))
        raise (SIGKILL);
    if (!strcmp (how, "close")) {
        accel_close (acc);
        acc = NULL;
        sleep (2); /* it lives on: only what it said counts */
        exit (0);
    }
    if (!strcmp (how, "late")) {
        sleep (3);
        exit (0);
    }
    if (!strcmp (how, "call"))
        return accel_wait_for_everyone (acc, &err);
    if (!strcmp (how, "count"))
        return accel_comm_all_reduce (world, values, sums, 60, ACCEL_FLOAT32, ACCEL_SUM, &err);
    if (!strcmp (how, "dtype"))
        return accel_comm_all_reduce (world, values, sums, 64, ACCEL_INT32, ACCEL_SUM, &err);
    if (!strcmp (how, "op"))
        return accel_comm_all_reduce (world, values, sums, 64, ACCEL_FLOAT32, ACCEL_MAX, &err);
    if (!strcmp (how, "root"))
        return accel_comm_broadcast (world, values, 100, ACCEL_FLOAT32, 1, &err);
    fprintf (stderr, "comm_faults: what is '%s'?\n", how);
    exit (99);
}

int
main (int argc, char **argv)
{
    int culprit = argc > 2 ? atoi (argv[2]) : 0;
    long begin = now_ms ();
    signal (SIGTERM, SIG_IGN); /* the launcher ends the others; here they shall speak first */
    if (!strcmp (argv[1], "unborn") && atoi (getenv ("RANK")) == culprit) {
        sleep (2); /* or the launcher's SIGTERM comes before the others ignore it */
        return 5;
    }
    enum accel_status status = accel_open (&acc, NULL, &err);
    if (status) {
        rank = getenv ("RANK") ? atoi (getenv ("RANK")) : 0;
        say (begin, status);
        return 0;
    }
    world = accel_world (acc);
    rank = accel_process_index (acc);
    for (int i = 0; i < 5; i++)
        if (accel_comm_barrier (world, &err)
            || accel_comm_all_reduce (world, values, sums, 1000, ACCEL_FLOAT32, ACCEL_SUM, &err))
            return 98;
    begin = now_ms ();
    status = rank == culprit ? misbehave (argv[1]) : agreed (argv[1]);
    if (status) {
        struct accel_error first = err;
        say (begin, status);
        begin = now_ms ();
        if (agreed (argv[1]) == first.code && !strcmp (err.text, first.text) && now_ms () - begin < 1000)
            printf ("%d again\n", rank);
        fflush (stdout);
    }
    accel_close (acc);
    return 0;
}
