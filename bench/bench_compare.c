/* SPDX-License-Identifier: Apache-2.0 */
/* All kinds of collectives, on buffers of the library's own and on foreign ones, for compare.py, which compiles this
 * against two builds of the library and runs both in turns.  A rank of `accelerate launch`:
 *
 *   bench_compare [BLOCKS [LARGEST_BYTES]]
 *
 * Rank i is bound to processor i.  Prints a line for each case: name/buffers, bytes, and the microseconds of a call in
 * each block: the median of some batches, each as long as its slowest rank took. */
#include <config.h>

#include <accel/accel.h>

#include "bench/turns.h"

#include <string.h>
#include <time.h>

enum { MOST_BLOCKS = 200, MOST_BATCHES = 9, SLOTS = 8, SMALL = 64 << 10, LARGEST = 64 << 20, LARGEST_KIND = 16 << 20 };

static struct accel *acc;
static struct accel_comm *world;
static struct accel_error err;
static int rank, size;

static void
need (enum accel_status status)
{
    if (!status)
        return;
    fprintf (stderr, "bench_compare: %s\n", err.text);
    exit (EXIT_FAILURE);
}

static void
barrier (float *send, float *recv, size_t count)
{
    (void) send, (void) recv, (void) count;
    need (accel_comm_barrier (world, &err));
}

/* In place, as gradients are averaged. */
static void
all_reduce (float *send, float *recv, size_t count)
{
    (void) recv;
    need (accel_comm_all_reduce (world, send, send, count, ACCEL_FLOAT32, ACCEL_SUM, &err));
}

static void
all_gather (float *send, float *recv, size_t count)
{
    need (accel_comm_all_gather (world, send, recv, count, ACCEL_FLOAT32, &err));
}

static void
broadcast (float *send, float *recv, size_t count)
{
    (void) recv;
    need (accel_comm_broadcast (world, send, count, ACCEL_FLOAT32, 0, &err));
}

static void
reduce_scatter (float *send, float *recv, size_t count)
{
    need (accel_comm_reduce_scatter (world, send, recv, count, ACCEL_FLOAT32, ACCEL_SUM, &err));
}

static void
all_to_all (float *send, float *recv, size_t count)
{
    need (accel_comm_all_to_all (world, send, recv, count, ACCEL_FLOAT32, &err));
}

/* There and back, by the first two ranks. */
static void
send_recv (float *send, float *recv, size_t count)
{
    if (rank == 0)
        need (accel_comm_send (world, send, count, ACCEL_FLOAT32, 1, &err));
    if (rank < 2)
        need (accel_comm_recv (world, recv, count, ACCEL_FLOAT32, !rank, &err));
    if (rank == 1)
        need (accel_comm_send (world, send, count, ACCEL_FLOAT32, 0, &err));
}

static const struct kind {
    const char *name;
    void (*call) (float *send, float *recv, size_t count);
} kinds[] = {
    { "all-reduce", all_reduce }, { "all-gather", all_gather }, { "broadcast", broadcast },
    { "reduce-scatter", reduce_scatter }, { "all-to-all", all_to_all }, { "send-recv", send_recv },
};

static double
now_us (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec * 1e6 + (double) time.tv_nsec / 1e3;
}

static int
compare (const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Batches of some 200 us.  Small calls walk through several buffers; large ones find what this rank has just written,
 * as gradients are. */
static double
time_batch (const struct kind *kind, float *send, float *recv, size_t bytes)
{
    size_t calls = (size_t) (200 / (0.3 + (double) bytes * 2e-4)), count = bytes / sizeof *send;
    size_t slots = bytes <= SMALL ? SLOTS : 1;
    calls = calls < slots ? slots : calls;
    memset (send, 0, slots * bytes);
    need (accel_comm_barrier (world, &err));
    double began = now_us ();
    for (size_t i = 0; i < calls; i++)
        kind->call (send + i % slots * count, recv + i % slots * count * (size_t) size, count);
    return (now_us () - began) / (double) calls;
}

static void
measure (const struct kind *kind, const char *buffers, float *send, float *recv, size_t bytes, int blocks)
{
    double times[MOST_BATCHES], medians[MOST_BLOCKS];
    size_t batches = bytes > 1 << 20 ? 3 : MOST_BATCHES;
    for (int block = 0; block < blocks; block++) {
        turns_begin ();
        for (int i = bytes > 1 << 20 ? -1 : -2; i < (int) batches; i++)
            times[i < 0 ? 0 : i] = time_batch (kind, send, recv, bytes);
        need (accel_comm_all_reduce (world, times, times, batches, ACCEL_FLOAT64, ACCEL_MAX, &err));
        if (!rank)
            turns_end ();
        qsort (times, batches, sizeof *times, compare);
        medians[block] = times[batches / 2];
    }
    if (rank)
        return;
    printf ("%s/%s %zu", kind->name, buffers, bytes);
    for (int block = 0; block < blocks; block++)
        printf (" %.4f", medians[block]);
    putchar ('\n');
    fflush (stdout);
}

static void
measure_all (const char *buffers, float *send, float *recv, int blocks, size_t largest)
{
    static const size_t sizes[]
        = { 4, 64, 1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20 };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (sizes[i] <= largest && (!k || (sizes[i] <= LARGEST_KIND && i % 2 == 0)))
                measure (&kinds[k], buffers, send, recv, sizes[i], blocks);
}

/* What a buffer needs: one that gathers from all ranks the slots of a small size, or a large size; and the largest. */
static size_t
room_for (size_t largest)
{
    size_t small = SLOTS * SMALL * (size_t) size;
    size_t gathered = (largest < LARGEST_KIND ? largest : LARGEST_KIND) * (size_t) size;
    size_t room = small > gathered ? small : gathered;
    return room > largest ? room : largest;
}

int
main (int argc, char **argv)
{
    int blocks = argc > 1 ? atoi (argv[1]) : 20;
    size_t largest = argc > 2 ? strtoul (argv[2], NULL, 10) : LARGEST;
    const struct kind kind_barrier = { "barrier", barrier };
    void *own[2], *foreign[2];
    if (blocks < 1 || blocks > MOST_BLOCKS) {
        fprintf (stderr, "usage: bench_compare [BLOCKS [LARGEST_BYTES]] (under accelerate launch)\n");
        return 2;
    }
    turns_open ();
    need (accel_open (&acc, NULL, &err));
    world = accel_world (acc);
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    turns_bind (rank);
    size_t room = room_for (largest);
    for (int i = 0; i < 2; i++) {
        need (accel_alloc (acc, room, &own[i], &err));
        foreign[i] = malloc (room);
        if (!foreign[i])
            return EXIT_FAILURE;
        memset (own[i], 0, room);
        memset (foreign[i], 0, room);
    }
    measure (&kind_barrier, "-", own[0], own[1], 0, blocks);
    measure_all ("own", own[0], own[1], blocks, largest);
    measure_all ("foreign", foreign[0], foreign[1], blocks, largest);
    accel_close (acc);
    return 0;
}
