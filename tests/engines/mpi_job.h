/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a program with one job on engine mpi: who it is, and how it ends if something is wrong. */
#ifndef TESTS_ENGINES_MPI_JOB_H
#define TESTS_ENGINES_MPI_JOB_H

#include <accel/accel.h>

#include <stdio.h>
#include <unistd.h>

static struct accel_error err;
static struct accel *acc;
static struct accel_comm *world;
static int rank;

static void
must (bool good, const char *what)
{
    if (good)
        return;
    fprintf (stderr, "rank %d: %s: %s\n", rank, what, err.text);
    _exit (1);
}

/* After this, all ranks have joined. */
static void
join_job (uint32_t timeout_ms)
{
    must (!accel_open (&acc, &(struct accel_options){ .timeout_ms = timeout_ms }, &err), "accel_open");
    world = accel_world (acc);
    rank = accel_comm_rank (world);
    must (!accel_comm_barrier (world, &err), "barrier");
}

#endif
