/* SPDX-License-Identifier: Apache-2.0 */
/* What trackers cost: bench_track FOLDER [SCALARS [ROUNDS]]
 *
 * First the training thread: accel_log() of one number and of ten, while the thread of the trackers writes them.  A
 * call is timed by itself, because the program does other things between two steps; here it sleeps for 20 us.
 * Then the whole way: SCALARS scalars, each a call and a record, until the file of TensorBoard has them all. */
#include <accel/accel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 20000, KEYS = 10 };

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

static struct accel *
open_with (const char *folder, const char *log_with, const char *project)
{
    struct accel *acc;
    struct accel_options options = { .log_with = log_with };
    struct accel_project_configuration configuration = { .logging_dir = folder };
    struct accel_tracker_options trackers = { .queue_bytes = (size_t) 1 << 30, .finish_timeout_ms = 600000,
                                              .throughput = ACCEL_NO };
    accel_check (accel_open (&acc, &options, &err), &err);
    accel_check (accel_set_project_configuration (acc, &configuration, &err), &err);
    accel_check (accel_init_trackers (acc, project, NULL, 0, &trackers, &err), &err);
    return acc;
}

/* @param pause  between two calls; false: one after the other */
static void
measure_calls (const char *folder, const char *log_with, size_t count, bool pause)
{
    static const char *const keys[KEYS] = { "train/loss", "train/lr", "train/norm", "eval/loss", "eval/accuracy",
                                            "a/b", "a/c", "a/d", "a/e", "a/f" };
    static double took[CALLS];
    struct accel_value values[KEYS] = { 0 };
    struct accel *acc = open_with (folder, log_with, "calls");
    double all = 0;
    for (int i = 0; i < CALLS; i++) {
        for (size_t j = 0; j < count; j++) {
            values[j].key = keys[j];
            values[j].number = 1.0 / (i + 1);
        }
        double begin = seconds ();
        accel_check (accel_log (acc, values, count, i, &err), &err);
        took[i] = (seconds () - begin) * 1e6;
        all += took[i];
        if (pause)
            nanosleep (&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
    accel_close (acc);
    qsort (took, CALLS, sizeof *took, compare);
    printf ("%-24s %2zu values %-12s median %6.2f us  mean %6.2f  99 %% %6.2f  most %8.2f\n", log_with, count,
            pause ? "with pauses" : "in a row", took[CALLS / 2], all / CALLS, took[CALLS / 100 * 99], took[CALLS - 1]);
}

static void
measure_writing (const char *folder, int scalars)
{
    struct accel *acc = open_with (folder, "tensorboard", "writing");
    double begin = seconds ();
    for (int i = 0; i < scalars; i++)
        accel_check (accel_log_number (acc, "train/loss", 1.0 / (i + 1), i, &err), &err);
    double logged = seconds ();
    accel_check (accel_end_training (acc, &err), &err);
    double end = seconds ();
    printf ("libaccel: %d scalars in %.3f s, of which the program's thread %.3f s\n", scalars, end - begin,
            logged - begin);
    accel_close (acc);
}

int
main (int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    int scalars = argc > 2 ? atoi (argv[2]) : 1000000, rounds = argc > 3 ? atoi (argv[3]) : 3;
    if (scalars <= 0 || rounds <= 0) {
        fprintf (stderr, "bench_track FOLDER [SCALARS [ROUNDS]]\n");
        return 2;
    }
    for (int round = 0; argc <= 2 && round < rounds; round++)
        for (int pause = 1; pause >= 0; pause--) {
            measure_calls (folder, "tensorboard", 1, pause);
            measure_calls (folder, "tensorboard", KEYS, pause);
            measure_calls (folder, "tensorboard,jsonl,csv", KEYS, pause);
        }
    for (int round = 0; argc > 2 && round < rounds; round++)
        measure_writing (folder, scalars);
    return 0;
}
