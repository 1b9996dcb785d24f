/* SPDX-License-Identifier: Apache-2.0 */
/* The least that an all-reduce of two ranks, or of several, takes if none can read another one's memory.
 *
 *   bench_exchange [ROUNDS [RANKS]]
 *
 * Whatever the algorithm, each of N ranks has to copy as many bytes as the array has to where the others can read them
 * (what they add up of its array, and its Nth part of the results), and to read 2 (N - 1) / N times as many from there:
 * with two ranks, as many.  Threads on two processors do that and nothing else: no sums.  Where there are more than
 * processors, those that wait yield.  An array has new values in each round, which its thread writes before the clock
 * starts.  Copied are pieces, and the next one when all threads have the last; printed is the median of the fastest
 * size of pieces, and its fastest round.
 *
 * "mapped" is the same of arrays that all ranks have mapped, which nothing has to be copied from: each thread reads and
 * writes its Nth of every array, where it is. */
#include <config.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_THREADS = 16, PROCESSORS = 2, MOST_ROUNDS = 10000,
    PAGE = 4096, LEAST_PIECE = 16 << 10, MOST_PIECE = 4 << 20, FEW = 15, /* rounds of large arrays */
};

static const size_t sizes[] = { 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 25 << 20, 64 << 20 };

enum { SIZES = sizeof sizes / sizeof sizes[0], MOST = 64 << 20 };

struct bench {
    char *staged[MOST_THREADS], *own[MOST_THREADS]; /* what all read; what only one does */
    size_t bytes, piece;
    unsigned threads;
    unsigned rounds;
    bool is_mapped;
    double *us; /* of each round */
    atomic_uint arrived;
};

struct rank {
    struct bench *bench;
    unsigned index;
    int processor;
};

static double
now_us (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

static void
meet (struct bench *bench, unsigned *meetings)
{
    *meetings += bench->threads;
    atomic_fetch_add (&bench->arrived, 1);
    while ((int) (atomic_load (&bench->arrived) - *meetings) < 0)
        if (bench->threads > PROCESSORS)
            sched_yield ();
}

/* A stage is two pieces, which stay in caches: all have read the last but one when they meet after the last. */
static size_t
place (const struct bench *bench, size_t at)
{
    return at / bench->piece % 2 * bench->piece;
}

/* From each of the others, two parts of as many as there are ranks. */
static void
read_others (const struct bench *bench, unsigned index, size_t at)
{
    size_t part = bench->piece * 2 / bench->threads;
    for (unsigned i = 1; i < bench->threads; i++)
        memcpy (bench->own[index] + at, bench->staged[(index + i) % bench->threads] + place (bench, at), part);
}

static void
write_shares (const struct bench *bench, unsigned index)
{
    size_t words = bench->bytes / bench->threads / sizeof (uint64_t);
    for (unsigned i = 0; i < bench->threads; i++) {
        uint64_t *share = (uint64_t *) (void *) bench->own[(index + i) % bench->threads] + index * words;
        for (size_t k = 0; k < words; k++)
            share[k]++;
    }
}

static void
exchange (struct bench *bench, unsigned index, unsigned *meetings)
{
    char *to = bench->staged[index];
    for (size_t at = 0; at < bench->bytes; at += bench->piece) {
        memcpy (to + place (bench, at), bench->own[index] + at, bench->piece);
        meet (bench, meetings);
        read_others (bench, index, at);
    }
}

static void *
run (void *data)
{
    struct rank *rank = data;
    struct bench *bench = rank->bench;
    unsigned meetings = 0;
    cpu_set_t set;
    CPU_ZERO (&set);
    CPU_SET (rank->processor, &set);
    pthread_setaffinity_np (pthread_self (), sizeof set, &set);
    for (unsigned round = 0; round < bench->rounds; round++) {
        memset (bench->own[rank->index], (int) (round & 0x7f), bench->bytes);
        meet (bench, &meetings);
        double began = now_us ();
        if (bench->is_mapped)
            write_shares (bench, rank->index);
        else
            exchange (bench, rank->index, &meetings);
        meet (bench, &meetings);
        if (rank->index == 0)
            bench->us[round] = now_us () - began;
    }
    return NULL;
}

static int
compare (const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;
    return (left > right) - (left < right);
}

/* @return whether the threads could be started; the rounds are sorted. */
static int
measure (struct bench *bench, const int *processors)
{
    struct rank ranks[MOST_THREADS];
    pthread_t others[MOST_THREADS];
    bench->arrived = 0;
    for (unsigned i = 0; i < bench->threads; i++) {
        ranks[i] = (struct rank) { bench, i, processors[i % PROCESSORS] };
        if (i && pthread_create (&others[i], NULL, run, &ranks[i]))
            return 0;
    }
    run (&ranks[0]);
    for (unsigned i = 1; i < bench->threads; i++)
        pthread_join (others[i], NULL);
    qsort (bench->us, bench->rounds, sizeof *bench->us, compare);
    return 1;
}

static int
find_processors (int *processors)
{
    cpu_set_t set;
    int found = 0;
    if (sched_getaffinity (0, sizeof set, &set))
        return 0;
    for (int i = 0; i < CPU_SETSIZE && found < PROCESSORS; i++)
        if (CPU_ISSET (i, &set))
            processors[found++] = i;
    return found == PROCESSORS;
}

/* A line for arrays of @bytes. */
static int
show (struct bench *bench, size_t bytes, const int *processors)
{
    const unsigned rounds = bench->rounds;
    double best = 0, fastest = 0;
    size_t best_piece = 0, least = bytes < LEAST_PIECE ? bytes : LEAST_PIECE;
    bench->bytes = bytes;
    if (bytes > MOST_PIECE && rounds > FEW)
        bench->rounds = FEW;
    /* Pieces are a power of two, and 25 MiB is a multiple of those up to 1 MiB. */
    for (bench->piece = least; bench->piece <= MOST_PIECE && bytes % bench->piece == 0; bench->piece *= 2) {
        if (!measure (bench, processors))
            return 0;
        if (best_piece && bench->us[bench->rounds / 2] >= best)
            continue;
        best = bench->us[bench->rounds / 2];
        fastest = bench->us[0];
        best_piece = bench->piece;
    }
    bench->is_mapped = true;
    bool has_started = measure (bench, processors);
    double mapped = bench->us[bench->rounds / 2], mapped_fastest = bench->us[0];
    bench->is_mapped = false;
    bench->rounds = rounds;
    printf ("%10zu %13.1f %14.1f %11zu %13.1f %14.1f\n", bytes, best, fastest, best_piece, mapped, mapped_fastest);
    return has_started;
}

int
main (int argc, char **argv)
{
    int rounds = argc > 1 ? atoi (argv[1]) : 300, threads = argc > 2 ? atoi (argv[2]) : 2, processors[PROCESSORS];
    struct bench bench = { .rounds = rounds > 0 && rounds <= MOST_ROUNDS ? (unsigned) rounds : 300 };
    if (threads < 2 || threads > MOST_THREADS)
        return fprintf (stderr, "bench_exchange: from 2 to %d ranks\n", MOST_THREADS), 1;
    bench.threads = (unsigned) threads;
    bench.us = calloc (bench.rounds, sizeof *bench.us);
    for (unsigned i = 0; i < bench.threads; i++) {
        bench.staged[i] = aligned_alloc (PAGE, 2 * MOST_PIECE);
        bench.own[i] = aligned_alloc (PAGE, MOST);
        if (!bench.staged[i] || !bench.own[i] || !bench.us)
            return fputs ("bench_exchange: cannot allocate memory\n", stderr), 1;
        memset (bench.staged[i], 0, 2 * MOST_PIECE);
    }
    if (!find_processors (processors))
        return fputs ("bench_exchange: needs two processors\n", stderr), 1;
    puts ("     bytes   exchange us     fastest us   pieces of     mapped us     fastest us");
    for (unsigned i = 0; i < SIZES; i++)
        if (!show (&bench, sizes[i], processors))
            return fputs ("bench_exchange: cannot start a thread\n", stderr), 1;
    return 0;
}
