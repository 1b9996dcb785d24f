/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces of libaccel on its own buffers and on foreign ones, and memcpy() of as many bytes by all ranks at once.
 * A rank of `accelerate launch`; collectives.sh runs it in turns with mpi_allreduce and makes the table.
 *
 *   bench_collectives in|out BUDGET_MS [BYTES...]    of these sizes, and no copies
 *   bench_collectives small ITERATIONS    small broadcasts, all-gathers and barriers */
#include <config.h>

#include "bench/collectives.h"

#include <accel/accel.h>

static struct accel *acc;

static void
need (enum accel_status status, const struct accel_error *err)
{
    if (!status)
        return;
    fprintf (stderr, "bench_collectives: %s\n", err->text);
    exit (1);
}

static void
all_reduce (const float *send, float *recv, size_t count)
{
    struct accel_error err;
    need (accel_comm_all_reduce (accel_world (acc), send, recv, count, ACCEL_FLOAT32, ACCEL_SUM, &err), &err);
}

static void
barrier (void)
{
    struct accel_error err;
    need (accel_comm_barrier (accel_world (acc), &err), &err);
}

static void
broadcast (float *data, size_t count, int root)
{
    struct accel_error err;
    need (accel_comm_broadcast (accel_world (acc), data, count, ACCEL_FLOAT32, root, &err), &err);
}

static void
all_gather (float *data, size_t count)
{
    struct accel_error err;
    const float *own = data + (size_t) accel_process_index (acc) * count;
    need (accel_comm_all_gather (accel_world (acc), own, data, count, ACCEL_FLOAT32, &err), &err);
}

static void
slowest (double *times, size_t count)
{
    struct accel_error err;
    need (accel_comm_all_reduce (accel_world (acc), times, times, count, ACCEL_FLOAT64, ACCEL_MAX, &err), &err);
}

static float *
own_buffer (size_t bytes)
{
    struct accel_error err;
    void *memory = NULL;
    need (accel_alloc (acc, bytes, &memory, &err), &err);
    memset (memory, 0, bytes);
    return memory;
}

static void
measure_copies (const struct peer *peer, const struct buffers *buffers, size_t bytes)
{
    static double times[MOST_ITERATIONS];
    size_t batch = batch_for (bytes), used = buffers_for (bytes), iterations = bytes > 1 << 20 ? 7 : 50;
    for (size_t i = 0; i < iterations; i++) {
        fill (peer, buffers, bytes / sizeof (float), i);
        barrier ();
        double began = now_us ();
        for (size_t k = 0; k < batch; k++) {
            memcpy (buffers->recv[k % used], buffers->send[k % used], bytes);
            __asm__ volatile ("" ::: "memory");
        }
        times[i] = (now_us () - began) / (double) batch;
    }
    slowest (times, iterations);
    if (peer->rank)
        return;
    printf ("memcpy %zu", bytes);
    for (size_t i = 0; i < iterations; i++)
        printf (" %.3f", times[i]);
    putchar ('\n');
}

static void
measure_reduces (struct peer *peer, double budget_us, char **list)
{
    struct buffers own, foreign;
    for (int i = 0; i < BUFFERS; i++) {
        own.send[i] = own_buffer (buffer_bytes (i));
        own.recv[i] = own_buffer (buffer_bytes (i));
        foreign.send[i] = buffer_from_malloc (buffer_bytes (i));
        foreign.recv[i] = buffer_from_malloc (buffer_bytes (i));
    }
    measure_some (peer, &own, budget_us, list);
    peer->name = "foreign";
    measure_some (peer, &foreign, budget_us, list);
    for (size_t i = 0; i < SIZES && !*list; i++)
        measure_copies (peer, &foreign, sizes[i]);
    for (int i = 0; i < BUFFERS; i++) {
        accel_free (acc, own.send[i]);
        accel_free (acc, own.recv[i]);
        free (foreign.send[i]);
        free (foreign.recv[i]);
    }
}

int
main (int argc, char **argv)
{
    struct accel_error err;
    if (argc < 3) {
        fprintf (stderr, "usage: bench_collectives in|out|small BUDGET_MS [BYTES...] (under accelerate launch)\n");
        return 2;
    }
    need (accel_open (&acc, NULL, &err), &err);
    struct peer peer = {
        .name = "own", .rank = accel_process_index (acc), .size = accel_num_processes (acc),
        .in_place = !strcmp (argv[1], "in"), .all_reduce = all_reduce, .barrier = barrier, .slowest = slowest,
        .broadcast = broadcast, .all_gather = all_gather,
    };
    if (!strcmp (argv[1], "small"))
        measure_small (&peer, (size_t) atoi (argv[2]));
    else
        measure_reduces (&peer, atof (argv[2]) * 1e3, argv + 3);
    accel_close (acc);
    return 0;
}
