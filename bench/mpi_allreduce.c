/* SPDX-License-Identifier: Apache-2.0 */
/* The same all-reduces as bench_collectives, by MPI_Allreduce: what libaccel is compared with.
 *
 *   mpi_allreduce in|out BUDGET_MS [BYTES...]
 *   mpi_allreduce small ITERATIONS    MPI_Bcast, MPI_Allgather and MPI_Barrier */
#include <config.h>

#include "bench/collectives.h"

#include <mpi.h>

static void
all_reduce (const float *send, float *recv, size_t count)
{
    MPI_Allreduce (send == recv ? MPI_IN_PLACE : send, recv, (int) count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void
barrier (void)
{
    MPI_Barrier (MPI_COMM_WORLD);
}

static void
slowest (double *times, size_t count)
{
    MPI_Allreduce (MPI_IN_PLACE, times, (int) count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void
broadcast (float *data, size_t count, int root)
{
    MPI_Bcast (data, (int) count, MPI_FLOAT, root, MPI_COMM_WORLD);
}

static void
all_gather (float *data, size_t count)
{
    MPI_Allgather (MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, (int) count, MPI_FLOAT, MPI_COMM_WORLD);
}

int
main (int argc, char **argv)
{
    struct buffers buffers;
    MPI_Init (&argc, &argv);
    if (argc < 3) {
        fprintf (stderr, "usage: mpi_allreduce in|out|small BUDGET_MS [BYTES...] (under mpirun)\n");
        MPI_Abort (MPI_COMM_WORLD, 2);
    }
    bool is_small = !strcmp (argv[1], "small");
    for (int i = 0; i < BUFFERS && !is_small; i++) {
        buffers.send[i] = buffer_from_malloc (buffer_bytes (i));
        buffers.recv[i] = buffer_from_malloc (buffer_bytes (i));
    }
    struct peer peer = {
        .name = "mpi", .in_place = !strcmp (argv[1], "in"), .all_reduce = all_reduce, .barrier = barrier,
        .slowest = slowest, .broadcast = broadcast, .all_gather = all_gather,
    };
    MPI_Comm_rank (MPI_COMM_WORLD, &peer.rank);
    MPI_Comm_size (MPI_COMM_WORLD, &peer.size);
    if (is_small)
        measure_small (&peer, (size_t) atoi (argv[2]));
    else
        measure_some (&peer, &buffers, atof (argv[2]) * 1e3, argv + 3);
    for (int i = 0; i < BUFFERS && !is_small; i++) {
        free (buffers.send[i]);
        free (buffers.recv[i]);
    }
    MPI_Finalize ();
    return 0;
}
