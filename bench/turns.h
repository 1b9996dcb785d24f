/* SPDX-License-Identifier: Apache-2.0 */
/* Two builds of the library, measured in turns: both jobs run at the same time, and while one measures a block of some
 * milliseconds, the other sleeps.  So whatever the machine does hits both alike, however long it lasts.  The order is
 * A B B A A B B A, so a drift hits both alike, too.
 *
 * compare.py sets BENCH_TURNS to "FILE WHICH PROCESSES": an empty file that all processes share, 0 or 1, and how many
 * processes both jobs have together.  Without it, these functions do nothing. */
#ifndef BENCH_TURNS_H
#define BENCH_TURNS_H

#include "util/futex.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TURNS_SLICE_MS = 100, TURNS_PATIENCE_MS = 60000 };

struct turns_shared {
    _Atomic uint32_t ready; /* processes that wait for their first block */
    _Atomic uint32_t turn;  /* blocks measured, by both */
};

struct turns {
    struct turns_shared *shared; /* NULL: no turns */
    unsigned which;
    unsigned processes;
    unsigned blocks; /* of this process, begun */
};

static struct turns turns;

static inline void
turns_fail (const char *what)
{
    fprintf (stderr, "turns: %s\n", what);
    exit (EXIT_FAILURE);
}

/** Call this before any other of these functions.  @return whether there are turns */
static inline bool
turns_open (void)
{
    const char *told = getenv ("BENCH_TURNS");
    char file[256];
    if (!told)
        return false;
    if (sscanf (told, "%255s %u %u", file, &turns.which, &turns.processes) != 3)
        turns_fail ("BENCH_TURNS is not FILE WHICH PROCESSES");
    int fd = open (file, O_RDWR);
    if (fd < 0 || ftruncate (fd, sizeof *turns.shared))
        turns_fail ("cannot open the file of BENCH_TURNS");
    void *memory = mmap (NULL, sizeof *turns.shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        turns_fail ("cannot map the file of BENCH_TURNS");
    close (fd);
    turns.shared = memory;
    return true;
}

static inline void
turns_wait (_Atomic uint32_t *word, uint32_t least)
{
    uint32_t seen;
    for (int waited = 0; (seen = atomic_load (word)) < least; waited += TURNS_SLICE_MS) {
        if (waited > TURNS_PATIENCE_MS)
            turns_fail ("the other job does not come");
        futex_wait (word, seen, TURNS_SLICE_MS);
    }
}

/** Keep rank @p rank on the processor of that number: both builds' ranks run in the same places.  Ranks that are more
 *  than processors stay where they are. */
static inline void
turns_bind (int rank)
{
    cpu_set_t set;
    CPU_ZERO (&set);
    CPU_SET (rank, &set);
    (void) sched_setaffinity (0, sizeof set, &set);
}

/** Each process: wait until the other job's block is over.  What comes first finds cold caches: warm up. */
static inline void
turns_begin (void)
{
    if (!turns.shared)
        return;
    if (!turns.blocks) {
        atomic_fetch_add (&turns.shared->ready, 1);
        futex_wake (&turns.shared->ready);
        turns_wait (&turns.shared->ready, turns.processes);
    }
    turns_wait (&turns.shared->turn, 2 * turns.blocks + ((turns.blocks + turns.which) & 1));
    turns.blocks++;
}

/** One process of the job, when all have finished the block. */
static inline void
turns_end (void)
{
    if (!turns.shared)
        return;
    atomic_fetch_add (&turns.shared->turn, 1);
    futex_wake (&turns.shared->turn);
}

#endif
