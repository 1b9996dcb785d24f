/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in place on GPUs by libaccel and by NCCL itself: the cost of each if they are queued one after the other,
 * as in training, and if the host waits for each.  In turns; medians of the slowest rank.  NCCL is loaded, like the
 * engine's.  With one rank nothing travels: what libaccel adds to a call shows.  usage, in each rank: collectives
 * small|full */
#include "bench/gpu/gpu.h"

#include <dlfcn.h>
#include <nccl.h>

static struct {
    __typeof__ (&ncclGetUniqueId) get_id;
    __typeof__ (&ncclCommInitRankConfig) init;
    __typeof__ (&ncclAllReduce) all_reduce;
    __typeof__ (&ncclAllGather) all_gather;
    __typeof__ (&ncclReduceScatter) reduce_scatter;
    __typeof__ (&ncclBroadcast) broadcast;
    __typeof__ (&ncclGroupStart) group_start;
    __typeof__ (&ncclGroupEnd) group_end;
    __typeof__ (&ncclCommDestroy) destroy;
    ncclComm_t comm;
    cudaStream_t stream;
} raw;

static struct accel *acc;
static int ranks, rank;

static void
must_nccl (ncclResult_t result, const char *what)
{
    if (!result)
        return;
    fprintf (stderr, "%s: error %d of NCCL\n", what, (int) result);
    exit (1);
}
#define NCCL(call) must_nccl (call, #call)

static void
load_raw (void)
{
    const struct {
        void *place;
        const char *name;
    } functions[] = {
        { &raw.get_id, "ncclGetUniqueId" },
        { &raw.init, "ncclCommInitRankConfig" },
        { &raw.all_reduce, "ncclAllReduce" },
        { &raw.all_gather, "ncclAllGather" },
        { &raw.reduce_scatter, "ncclReduceScatter" },
        { &raw.broadcast, "ncclBroadcast" },
        { &raw.group_start, "ncclGroupStart" },
        { &raw.group_end, "ncclGroupEnd" },
        { &raw.destroy, "ncclCommDestroy" },
    };
    void *library = dlopen ("libnccl.so.2", RTLD_NOW);
    if (!library)
        must_nccl (ncclSystemError, dlerror ());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym (library, functions[i].name);
        if (!function)
            must_nccl (ncclSystemError, functions[i].name);
        memcpy (functions[i].place, &function, sizeof function);
    }
}

static void
open_raw (void)
{
    ncclUniqueId id = { { 0 } };
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    load_raw ();
    if (accel_is_main_process (acc))
        NCCL (raw.get_id (&id));
    MUST (accel_comm_broadcast (accel_world (acc), &id, sizeof id, ACCEL_UINT8, 0, &err));
    CUDA (cudaSetDevice (accel_device (acc).device_id));
    CUDA (cudaStreamCreateWithFlags (&raw.stream, cudaStreamNonBlocking));
    NCCL (raw.init (&raw.comm, ranks, id, rank, &config));
}

/* ---- what is compared ---- */

enum { PARTS = 32 }; /* of a group */

/* Both @p buffer [count]; count is a multiple of ranks and of PARTS. */
struct collective {
    const char *name;
    void (*ours) (float *buffer, size_t count);
    void (*theirs) (float *buffer, size_t count);
};

static void
our_all_reduce (float *buffer, size_t count)
{
    MUST (accel_comm_all_reduce (accel_world (acc), buffer, buffer, count, ACCEL_FLOAT32, ACCEL_AVG, &err));
}

static void
their_all_reduce (float *buffer, size_t count)
{
    NCCL (raw.all_reduce (buffer, buffer, count, ncclFloat, ncclAvg, raw.comm, raw.stream));
}

static void
our_reduce (float *buffer, size_t count)
{
    const int64_t shape[] = { (int64_t) count };
    struct accel_tensor tensor;
    MUST (accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, shape, &err));
    tensor.dl.device = accel_device (acc);
    tensor.dl.data = buffer;
    MUST (accel_reduce (acc, &tensor.dl, ACCEL_AVG, 1, &err));
}

static void
our_all_gather (float *buffer, size_t count)
{
    size_t row = count / (size_t) ranks;
    MUST (accel_comm_all_gather (accel_world (acc), buffer + row * (size_t) rank, buffer, row, ACCEL_FLOAT32, &err));
}

static void
their_all_gather (float *buffer, size_t count)
{
    size_t row = count / (size_t) ranks;
    NCCL (raw.all_gather (buffer + row * (size_t) rank, buffer, row, ncclFloat, raw.comm, raw.stream));
}

static void
our_reduce_scatter (float *buffer, size_t count)
{
    size_t row = count / (size_t) ranks;
    MUST (accel_comm_reduce_scatter (accel_world (acc), buffer, buffer + row * (size_t) rank, row, ACCEL_FLOAT32,
                                     ACCEL_AVG, &err));
}

static void
their_reduce_scatter (float *buffer, size_t count)
{
    size_t row = count / (size_t) ranks;
    NCCL (raw.reduce_scatter (buffer, buffer + row * (size_t) rank, row, ncclFloat, ncclAvg, raw.comm, raw.stream));
}

static void
our_broadcast (float *buffer, size_t count)
{
    MUST (accel_comm_broadcast (accel_world (acc), buffer, count, ACCEL_FLOAT32, 0, &err));
}

static void
their_broadcast (float *buffer, size_t count)
{
    NCCL (raw.broadcast (buffer, buffer, count, ncclFloat, 0, raw.comm, raw.stream));
}

/* One after the other: a group of starts, as NCCL's, belongs around the first loop. */
static void
our_parts (float *buffer, size_t count)
{
    struct accel_work *works[PARTS];
    MUST (accel_group_begin (accel_world (acc), &err));
    for (size_t i = 0; i < PARTS; i++) {
        float *part = buffer + i * (count / PARTS);
        MUST (accel_comm_all_reduce_start (&works[i], accel_world (acc), part, part, count / PARTS, ACCEL_FLOAT32,
                                           ACCEL_AVG, &err));
    }
    MUST (accel_group_end (accel_world (acc), &err));
    for (size_t i = 0; i < PARTS; i++)
        MUST (accel_work_wait (works[i], &err));
}

static void
their_parts (float *buffer, size_t count)
{
    NCCL (raw.group_start ());
    for (size_t i = 0; i < PARTS; i++)
        their_all_reduce (buffer + i * (count / PARTS), count / PARTS);
    NCCL (raw.group_end ());
}

static const struct collective collectives[] = {
    { "all-reduce", our_all_reduce, their_all_reduce },
    { "all-reduce, accel_reduce()", our_reduce, their_all_reduce },
    { "all-gather", our_all_gather, their_all_gather },
    { "reduce-scatter", our_reduce_scatter, their_reduce_scatter },
    { "broadcast", our_broadcast, their_broadcast },
    { "32 all-reduces in a group", our_parts, their_parts },
};

/* ---- measuring ---- */

/* @return seconds that each takes on the slowest rank */
static double
measure (void (*call) (float *, size_t), float *buffer, size_t count, size_t times, bool waits)
{
    MUST (accel_comm_barrier (accel_world (acc), &err));
    CUDA (cudaDeviceSynchronize ());
    double begin = seconds ();
    for (size_t i = 0; i < times; i++) {
        call (buffer, count);
        if (waits)
            CUDA (cudaDeviceSynchronize ());
    }
    CUDA (cudaDeviceSynchronize ());
    double each = (seconds () - begin) / (double) times;
    MUST (accel_comm_all_reduce (accel_world (acc), &each, &each, 1, ACCEL_FLOAT64, ACCEL_MAX, &err));
    return each;
}

static void
compare (const struct collective *collective, float *buffer, size_t bytes)
{
    const size_t count = bytes / sizeof (float) / (size_t) (PARTS * ranks) * (size_t) (PARTS * ranks);
    double ours[2][ROUNDS], theirs[2][ROUNDS];
    measure (collective->theirs, buffer, count, 2, false);
    double each = measure (collective->ours, buffer, count, 2, true);
    size_t times = repeats (each);
    for (int round = 0; round < rounds; round++)
        for (int waits = 0; waits < 2; waits++) {
            ours[waits][round] = measure (collective->ours, buffer, count, times, waits);
            theirs[waits][round] = measure (collective->theirs, buffer, count, times, waits);
        }
    if (!accel_is_main_process (acc))
        return;
    printf ("| %-33s | %9zu |", collective->name, bytes);
    for (int waits = 0; waits < 2; waits++) {
        double our = median (ours[waits], rounds), their = median (theirs[waits], rounds);
        printf (" %10.1f | %10.1f | %5.1f %% |", our * 1e6, their * 1e6, their / our * 100);
    }
    printf ("\n");
}

int
main (int argc, char **argv)
{
    bool small = is_small (argc, argv);
    size_t first = small ? 1024 : 4096, last = small ? 4096 : (size_t) 1 << 28;
    acc = open_on_gpu (NULL);
    ranks = accel_num_processes (acc);
    rank = accel_process_index (acc);
    open_raw ();
    float *buffer = gpu_memory (last);
    if (accel_is_main_process (acc))
        printf ("collectives: %d rank%s, buffers of float32; speed in %% of NCCL's (%s)\n"
                "| %-33s | bytes     | queued, us | NCCL's     |   speed | waited, us | NCCL's     |   speed |\n"
                "|---|---|---|---|---|---|---|---|\n",
                ranks, ranks > 1 ? "s" : "",
                ranks > 1 ? "goal: 95 % from 1 MiB" : "nothing travels: what libaccel adds to a call shows",
                "collective");
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        for (size_t bytes = first; bytes <= last; bytes *= 4)
            compare (&collectives[i], buffer, bytes);
    CUDA (cudaFree (buffer));
    NCCL (raw.destroy (raw.comm));
    CUDA (cudaStreamDestroy (raw.stream));
    accel_close (acc);
    return 0;
}
