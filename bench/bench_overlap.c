/* SPDX-License-Identifier: Apache-2.0 */
/* How much of an all-reduce's time a computation hides.  A rank of `accelerate launch`:
 *
 *   bench_overlap device|free|shared [ROUNDS]
 *
 * For each size, in turns: a blocking all-reduce; the computation alone; the computation, then the blocking call
 * ("both"); and the call started, the computation, the wait ("overlap").  The call adds both - compute if it blocks and
 * overlap - compute if it does not; "hidden" is the part of the former that the latter saves.  Times are medians of the
 * slowest rank's.  The computation takes three times as long as the blocking call.  Where that is long, there are fewer
 * rounds.
 *
 *   device  it takes no processor, as if a device did it: all ranks sleep
 *   free    it takes the first processor, which the ranks share; work in flight has the others
 *   shared  it takes any processor, which work in flight needs too: there is little to gain */
#include <config.h>

#include <accel/accel.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { MOST_ROUNDS = 201, LEAST_ROUNDS = 5, KINDS = 4, WARM = 3, MOST_US = 5000000 };
enum kind { BLOCKING, COMPUTING, ONE_THEN_OTHER, OVERLAPPED };

static const size_t sizes[] = { 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20 };

static struct accel *acc;
static struct accel_error err;
static float *buffer;
static bool sleeps;

static void
need (enum accel_status status)
{
    if (!status)
        return;
    fprintf (stderr, "bench_overlap: %s\n", err.text);
    exit (1);
}

static double
now_us (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec * 1e6 + (double) time.tv_nsec / 1e3;
}

/* Bind the calling thread to the first processor, or to all others; threads that it makes inherit this. */
static void
bind_to (const cpu_set_t *all, bool first)
{
    cpu_set_t set = *all;
    int cpu = 0;
    while (!CPU_ISSET (cpu, all))
        cpu++;
    if (first)
        CPU_ZERO (&set);
    if (first)
        CPU_SET (cpu, &set);
    else
        CPU_CLR (cpu, &set);
    if (sched_setaffinity (0, sizeof set, &set)) {
        fprintf (stderr, "bench_overlap: free needs two processors\n");
        exit (1);
    }
}

/* Work of a fixed amount, in registers. */
static void
spin (size_t steps)
{
    double x = 1;
    for (size_t i = 0; i < steps; i++) {
        x = x * 1.0000001 + 1e-9;
        __asm__ volatile ("" : "+x" (x));
    }
}

static double
steps_per_us (void)
{
    double least = 1e9;
    for (int i = 0; i < 20; i++) {
        double began = now_us ();
        spin (100000);
        double took = now_us () - began;
        least = took < least ? took : least;
    }
    return 100000 / least;
}

static void
compute (double us, double steps)
{
    if (sleeps)
        nanosleep (&(struct timespec){ .tv_sec = (time_t) (us / 1e6), .tv_nsec = (long) us % 1000000 * 1000 }, NULL);
    else
        spin ((size_t) (us * steps));
}

static double
measure (enum kind kind, size_t count, double us, double steps)
{
    struct accel_comm *world = accel_world (acc);
    struct accel_work *work = NULL;
    need (accel_comm_barrier (world, &err));
    double began = now_us ();
    if (kind == OVERLAPPED)
        need (accel_comm_all_reduce_start (&work, world, buffer, buffer, count, ACCEL_FLOAT32, ACCEL_MAX, &err));
    if (kind != BLOCKING)
        compute (us, steps);
    if (kind == OVERLAPPED)
        need (accel_work_wait (work, &err));
    if (kind == BLOCKING || kind == ONE_THEN_OTHER)
        need (accel_comm_all_reduce (world, buffer, buffer, count, ACCEL_FLOAT32, ACCEL_MAX, &err));
    double took = now_us () - began;
    need (accel_comm_all_reduce (world, &took, &took, 1, ACCEL_FLOAT64, ACCEL_MAX, &err)); /* the slowest rank's */
    return took;
}

static int
compare (const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double
median (double *times, int count)
{
    qsort (times, (size_t) count, sizeof *times, compare);
    return times[count / 2];
}

static void
measure_size (size_t bytes, int rounds, double steps)
{
    static double times[KINDS][MOST_ROUNDS];
    size_t count = bytes / sizeof (float);
    double us;
    for (int i = 0; i < LEAST_ROUNDS; i++)
        times[BLOCKING][i] = measure (BLOCKING, count, 0, 0);
    us = 3 * median (times[BLOCKING], LEAST_ROUNDS); /* the same on all ranks */
    int fitting = 4 * us * rounds > MOST_US ? (int) (MOST_US / (4 * us)) : rounds;
    if (fitting < rounds)
        rounds = fitting > LEAST_ROUNDS ? fitting : LEAST_ROUNDS;
    for (int i = -WARM; i < rounds; i++)
        for (int kind = 0; kind < KINDS; kind++)
            times[kind][i < 0 ? 0 : i] = measure ((enum kind) kind, count, us, steps);
    double middle[KINDS];
    for (int kind = 0; kind < KINDS; kind++)
        middle[kind] = median (times[kind], rounds);
    if (!accel_process_index (acc))
        printf ("%10zu %11.1f %11.1f %11.1f %11.1f %8.0f %%\n", bytes, middle[BLOCKING], middle[COMPUTING],
                middle[ONE_THEN_OTHER], middle[OVERLAPPED],
                100 * (middle[ONE_THEN_OTHER] - middle[OVERLAPPED]) / (middle[ONE_THEN_OTHER] - middle[COMPUTING]));
}

int
main (int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int rounds = argc > 2 ? atoi (argv[2]) : 31;
    cpu_set_t all;
    struct accel_work *work;
    void *memory;
    if ((strcmp (how, "device") && strcmp (how, "free") && strcmp (how, "shared")) || rounds < 1
        || rounds > MOST_ROUNDS) {
        fprintf (stderr, "usage: bench_overlap device|free|shared [ROUNDS] (under accelerate launch)\n");
        return 2;
    }
    sleeps = !strcmp (how, "device");
    prctl (PR_SET_TIMERSLACK, 1);
    need (accel_open (&acc, NULL, &err));
    need (accel_alloc (acc, sizes[sizeof sizes / sizeof *sizes - 1], &memory, &err));
    buffer = memory;
    double steps = steps_per_us ();
    if (!strcmp (how, "free")) {
        if (sched_getaffinity (0, sizeof all, &all))
            return 1;
        bind_to (&all, false);
    }
    need (accel_comm_barrier_start (&work, accel_world (acc), &err)); /* makes the thread */
    need (accel_work_wait (work, &err));
    if (!strcmp (how, "free"))
        bind_to (&all, true);
    if (!accel_process_index (acc))
        printf ("%s, %d ranks, %d rounds\n%10s %11s %11s %11s %11s %10s\n", how, accel_num_processes (acc), rounds,
                "bytes", "blocking us", "compute us", "both us", "overlap us", "hidden");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        measure_size (sizes[i], rounds, steps);
    accel_free (acc, memory);
    accel_close (acc);
    return 0;
}
