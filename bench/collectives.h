/* SPDX-License-Identifier: Apache-2.0 */
/* How an all-reduce is measured, the same code for libaccel, MPI and gloo.
 *
 * In an iteration every rank writes new numbers into its buffers, all meet at a barrier, and one call is timed; small
 * calls are timed in batches that walk through several buffers, because a clock takes as long as they do.  An
 * iteration took as long as its slowest rank.  Every result is checked.  One line is printed for each size: name,
 * bytes, and the microseconds of every iteration. */
#ifndef BENCH_COLLECTIVES_H
#define BENCH_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFERS = 8, MOST_ITERATIONS = 200, LEAST_ITERATIONS = 7 };

/** What is measured: functions of one library. */
struct peer {
    const char *name;
    int rank;
    int size;
    bool in_place;
    void (*all_reduce) (const float *send, float *recv, size_t count);
    void (*barrier) (void);
    /** The maximum over all ranks, element by element. */
    void (*slowest) (double *times, size_t count);
    /** For measure_small(); in place. @{ */
    void (*broadcast) (float *data, size_t count, int root);
    void (*all_gather) (float *data, size_t count);
    /** @} */
};

/** [BUFFERS], each of the largest size to be measured that uses it; large sizes use the first only. */
struct buffers {
    float *send[BUFFERS];
    float *recv[BUFFERS];
};

static const size_t sizes[] = { 4, 64, 1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20 };

enum { SIZES = sizeof sizes / sizeof *sizes };

static inline double
now_us (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec * 1e6 + (double) time.tv_nsec / 1e3;
}

/* How many buffers a size walks through, and how many calls make a batch. */
static inline size_t
buffers_for (size_t bytes)
{
    return bytes <= 64 << 10 ? BUFFERS : 1;
}

static inline size_t
batch_for (size_t bytes)
{
    return bytes <= 4 << 10 ? 8 * BUFFERS : bytes <= 64 << 10 ? BUFFERS : 1;
}

/* Small whole numbers, whose sums are exact in whichever order they are made. */
static inline float
number (int rank, size_t iteration, size_t i)
{
    return (float) ((i + iteration + (size_t) rank * 3) % 8);
}

static inline void
fill (const struct peer *peer, const struct buffers *buffers, size_t count, size_t iteration)
{
    float period[8];
    for (size_t i = 0; i < 8; i++)
        period[i] = number (peer->rank, iteration, i);
    for (size_t b = 0; b < buffers_for (count * sizeof (float)); b++)
        for (size_t i = 0; i < count; i++)
            buffers->send[b][i] = period[i % 8];
}

/* In place a buffer that a batch reduced N times has been multiplied by the world size N - 1 times. */
static inline void
check (const struct peer *peer, const struct buffers *buffers, size_t count, size_t iteration)
{
    size_t bytes = count * sizeof (float), used = buffers_for (bytes);
    size_t times = peer->in_place ? batch_for (bytes) / used : 1, stride = count > 4096 ? 61 : 1;
    float expected[8];
    for (size_t i = 0; i < 8; i++) {
        expected[i] = 0;
        for (int rank = 0; rank < peer->size; rank++)
            expected[i] += number (rank, iteration, i);
        for (size_t t = 1; t < times; t++)
            expected[i] *= (float) peer->size;
    }
    for (size_t b = 0; b < used; b++)
        for (size_t i = 0; i < count; i += stride) {
            float got = (peer->in_place ? buffers->send : buffers->recv)[b][i];
            if (got != expected[i % 8]) {
                fprintf (stderr, "%s: rank %d: element %zu of %zu is %g, not %g\n", peer->name, peer->rank, i, count,
                         (double) got, (double) expected[i % 8]);
                abort ();
            }
        }
}

static inline double
iterate (const struct peer *peer, const struct buffers *buffers, size_t count, size_t iteration)
{
    size_t bytes = count * sizeof (float), batch = batch_for (bytes), used = buffers_for (bytes);
    fill (peer, buffers, count, iteration);
    peer->barrier ();
    double began = now_us ();
    for (size_t i = 0; i < batch; i++) {
        float *send = buffers->send[i % used];
        peer->all_reduce (send, peer->in_place ? send : buffers->recv[i % used], count);
    }
    double took = (now_us () - began) / (double) batch;
    check (peer, buffers, count, iteration);
    return took;
}

/* As many iterations as fit into @budget_us, of which the first two are not counted. */
static inline void
measure (const struct peer *peer, const struct buffers *buffers, size_t bytes, double budget_us)
{
    static double times[MOST_ITERATIONS];
    size_t count = bytes / sizeof (float), iterations;
    iterate (peer, buffers, count, 0);
    double began = now_us ();
    iterate (peer, buffers, count, 1);
    double each = now_us () - began;
    peer->slowest (&each, 1); /* so that all ranks choose the same number */
    iterations = (size_t) (budget_us / each);
    if (iterations > MOST_ITERATIONS)
        iterations = MOST_ITERATIONS;
    if (iterations < LEAST_ITERATIONS)
        iterations = LEAST_ITERATIONS;
    for (size_t i = 0; i < iterations; i++)
        times[i] = iterate (peer, buffers, count, i);
    peer->slowest (times, iterations);
    if (peer->rank)
        return;
    printf ("%s %zu", peer->name, bytes);
    for (size_t i = 0; i < iterations; i++)
        printf (" %.3f", times[i]);
    putchar ('\n');
}

/** Measure all sizes. */
static inline void
measure_all (const struct peer *peer, const struct buffers *buffers, double budget_us)
{
    for (size_t i = 0; i < SIZES; i++)
        measure (peer, buffers, sizes[i], budget_us);
}

/** The same for the sizes of @p list, which is an argv; none of them: all sizes. */
static inline void
measure_some (const struct peer *peer, const struct buffers *buffers, double budget_us, char **list)
{
    if (!*list)
        measure_all (peer, buffers, budget_us);
    for (; *list; list++) {
        size_t bytes = strtoul (*list, NULL, 10) / sizeof (float) * sizeof (float);
        if (bytes && bytes <= sizes[SIZES - 1])
            measure (peer, buffers, bytes, budget_us);
    }
}

/* ---- small broadcasts, all-gathers and barriers ---- */

enum { SMALL_CALLS = 64, SMALL_MOST = 16 << 10, SMALL_RANKS = 64 };

enum small { SMALL_BROADCAST, SMALL_ALL_GATHER, SMALL_BARRIER, SMALL_KINDS };

/* Ranks are roots in turns, so that each call waits for the one before. */
static inline void
call_small (const struct peer *peer, enum small kind, float *data, size_t count, size_t i)
{
    if (kind == SMALL_BROADCAST)
        peer->broadcast (data, count, (int) (i % (size_t) peer->size));
    else if (kind == SMALL_ALL_GATHER)
        peer->all_gather (data, count);
    else
        peer->barrier ();
}

static inline double
iterate_small (const struct peer *peer, enum small kind, float *data, size_t count, size_t iteration)
{
    float *own = data + (kind == SMALL_ALL_GATHER ? (size_t) peer->rank * count : 0);
    for (size_t i = 0; i < count; i++)
        own[i] = number (peer->rank, iteration, i);
    peer->barrier ();
    double began = now_us ();
    for (size_t i = 0; i < SMALL_CALLS; i++)
        call_small (peer, kind, data, count, i);
    double took = (now_us () - began) / SMALL_CALLS;
    for (size_t i = 0; kind != SMALL_BARRIER && i < count * (kind == SMALL_ALL_GATHER ? (size_t) peer->size : 1); i++)
        if (data[i] != number ((int) (i / count), iteration, i % count)) {
            fprintf (stderr, "%s: rank %d: element %zu is %g\n", peer->name, peer->rank, i, (double) data[i]);
            abort ();
        }
    return took;
}

/** Print a line for each kind and size: name, kind-bytes of a rank, and microseconds of a call in each iteration. */
static inline void
measure_small (const struct peer *peer, size_t iterations)
{
    static const char *const names[] = { "broadcast", "all-gather", "barrier" };
    static const size_t bytes[] = { 4, 64, 1 << 10, 4 << 10, SMALL_MOST };
    static float data[SMALL_MOST / sizeof (float) * SMALL_RANKS];
    static double times[MOST_ITERATIONS];
    if (peer->size > SMALL_RANKS || iterations > MOST_ITERATIONS)
        abort ();
    for (int kind = 0; kind < SMALL_KINDS; kind++)
        for (size_t s = 0; s < (kind == SMALL_BARRIER ? 1 : sizeof bytes / sizeof *bytes); s++) {
            size_t count = kind == SMALL_BARRIER ? 0 : bytes[s] / sizeof (float);
            for (size_t i = 0; i < 2 + iterations; i++) /* the first two are not counted */
                times[i < 2 ? 0 : i - 2] = iterate_small (peer, (enum small) kind, data, count, i);
            peer->slowest (times, iterations);
            if (peer->rank)
                continue;
            printf ("%s %s-%zu", peer->name, names[kind], count * sizeof (float));
            for (size_t i = 0; i < iterations; i++)
                printf (" %.3f", times[i]);
            putchar ('\n');
        }
}

/** The first buffer serves every size, the others those that walk through several. */
static inline size_t
buffer_bytes (int index)
{
    return index ? 64 << 10 : sizes[SIZES - 1];
}

/** Memory as a program gets it from malloc(), with its pages present. */
static inline float *
buffer_from_malloc (size_t bytes)
{
    void *memory = malloc (bytes);
    if (!memory)
        abort ();
    return (float *) memset (memory, 0, bytes); /* also compiled as C++ */
}

#endif
