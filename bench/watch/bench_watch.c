/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs a rank to be watched: bench_watch calls|logs|stops|steps [COUNT]; watch.sh runs it.
 *
 * calls: nanoseconds of a collective of one process.  Under a launcher, the ledger, the sign of life and the time spent
 * waiting are written for each; alone, nothing is.
 * logs: nanoseconds of an accel_log() of three numbers without trackers, which writes them to the slot.
 * stops: nanoseconds of a barrier, alone and with accel_should_stop() behind it, in turns.
 * steps: microseconds of a step of 2 ms of computing and a barrier, COUNT times. */
#include <accel/accel.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct accel_error err;

static double
seconds (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static int
compare (const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* A fixed amount of work, however long it takes. */
static void
compute (void)
{
    static volatile uint64_t number = 1;
    for (int i = 0; i < 1000000; i++)
        number = number * 6364136223846793005u + 1;
}

static void
measure_calls (struct accel *acc, int count)
{
    enum { BATCH = 10000 };
    double best = 1;
    for (int i = 0; i < count; i++) {
        double begin = seconds ();
        for (int j = 0; j < BATCH; j++)
            accel_check (accel_comm_barrier (accel_world (acc), &err), &err);
        double took = (seconds () - begin) / BATCH;
        best = took < best ? took : best;
    }
    printf ("%.2f\n", best * 1e9);
}

static void
measure_logs (struct accel *acc, int count)
{
    enum { BATCH = 1000 };
    const struct accel_value values[] = { { .key = "loss", .number = 1 }, { .key = "lr", .number = 0.1 },
                                          { .key = "norm", .number = 2 } };
    double best = 1;
    for (int i = 0; i < count; i++) {
        double begin = seconds ();
        for (int j = 0; j < BATCH; j++)
            accel_check (accel_log (acc, values, 3, (int64_t) i * BATCH + j, &err), &err);
        double took = (seconds () - begin) / BATCH;
        best = took < best ? took : best;
    }
    printf ("%.2f\n", best * 1e9);
}

static void
measure_stops (struct accel *acc, int count)
{
    enum { BATCH = 1000 };
    double best[2] = { 1, 1 };
    bool stops;
    for (int i = 0; i < 2 * count; i++) {
        double begin = seconds ();
        for (int j = 0; j < BATCH; j++) {
            accel_check (accel_comm_barrier (accel_world (acc), &err), &err);
            if (i % 2)
                accel_check (accel_should_stop (acc, &stops, &err), &err);
        }
        double took = (seconds () - begin) / BATCH;
        best[i % 2] = took < best[i % 2] ? took : best[i % 2];
    }
    accel_print (acc, "%.2f %.2f\n", best[0] * 1e9, best[1] * 1e9);
}

static void
measure_steps (struct accel *acc, int count)
{
    double *took = calloc ((size_t) count, sizeof *took), all = 0;
    if (!took)
        exit (1);
    for (int i = 0; i < count; i++) {
        double begin = seconds ();
        compute ();
        accel_check (accel_comm_barrier (accel_world (acc), &err), &err);
        took[i] = (seconds () - begin) * 1e6;
        all += took[i];
    }
    qsort (took, (size_t) count, sizeof *took, compare);
    accel_print (acc, "%.2f %.2f\n", took[count / 2], all / count);
    free (took);
}

int
main (int argc, char **argv)
{
    struct accel *acc;
    const char *what = argc > 1 ? argv[1] : "calls";
    int count = argc > 2 ? atoi (argv[2]) : 1000;
    accel_check (accel_open (&acc, NULL, &err), &err);
    if (!strcmp (what, "calls"))
        measure_calls (acc, count);
    else if (!strcmp (what, "logs"))
        measure_logs (acc, count);
    else if (!strcmp (what, "stops"))
        measure_stops (acc, count);
    else
        measure_steps (acc, count);
    accel_close (acc);
    return 0;
}
