/* SPDX-License-Identifier: Apache-2.0 */
/* A training loop that averages its gradients by MPI, written by hand: what libaccel is compared with.
 *
 *   mpi_train tensor|flat PARAMETERS STEPS
 *
 * tensor: one MPI_Allreduce for each tensor; flat: all gradients are in one array, one MPI_Allreduce. */
#include "bench/train.h"

#include <mpi.h>

int
main (int argc, char **argv)
{
    struct network network;
    int rank, size;
    MPI_Init (&argc, &argv);
    if (argc != 4) {
        fprintf (stderr, "usage: mpi_train tensor|flat PARAMETERS STEPS (under mpirun)\n");
        MPI_Abort (MPI_COMM_WORLD, 2);
    }
    MPI_Comm_rank (MPI_COMM_WORLD, &rank);
    MPI_Comm_size (MPI_COMM_WORLD, &size);
    bool flat = !strcmp (argv[1], "flat");
    int steps = atoi (argv[3]);
    double *times = must (calloc ((size_t) steps + 1, sizeof *times)), reduced = 0;
    network_make (&network, strtoul (argv[2], NULL, 10));
    size_t all = network.parameters;
    float *value = floats (all), *grad = floats (all), *mean = floats (all), *square = floats (all), loss = 0;
    for (size_t i = 0, at = 0; i < TENSORS; at += network.count[i++]) {
        network.value[i] = value + at;
        network.grad[i] = grad + at;
    }
    network_start (&network);
    for (int step = 0; step < steps; step++) {
        double began = now_us ();
        int first = (step * size + rank) * network.batch % SAMPLES;
        loss = network_gradients (&network, network.inputs + first * network.width[0],
                                  network.targets + first * network.width[LAYERS], network.batch, 1 / (float) size);
        double before = now_us ();
        if (flat)
            MPI_Allreduce (MPI_IN_PLACE, grad, (int) all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; !flat && i < TENSORS; i++)
            MPI_Allreduce (MPI_IN_PLACE, network.grad[i], (int) network.count[i], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        reduced += now_us () - before;
        adamw_o3 (value, grad, mean, square, all, 1e-3F, step + 1);
        memset (grad, 0, all * sizeof *grad);
        times[step] = now_us () - began;
    }
    MPI_Allreduce (MPI_IN_PLACE, &loss, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (!rank) {
        char name[32];
        snprintf (name, sizeof name, "mpi-%s", argv[1]);
        print_times (name, all, times + 2, (size_t) steps - 2);
        printf ("loss-%s %zu %.7g\nreduce-%s %zu %.3f\n", name, all, (double) (loss / (float) size), name, all,
                reduced / steps);
    }
    free (value);
    free (grad);
    free (mean);
    free (square);
    free (times);
    network_free (&network);
    MPI_Finalize ();
    return 0;
}
