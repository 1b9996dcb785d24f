/* SPDX-License-Identifier: Apache-2.0 */
/* How long a training step takes on GPUs, and how much of its all-reduces is hidden behind the backward pass, against
 * the order of torch's DDP (timeline.h), computed from the times of layers and all-reduces that are measured in the
 * same run.  Layers take as long as the all-reduce of a bucket, so an order that is not DDP's shows most.
 *
 * overlap = 1 - (step - the same step without averages) / (all-reduces alone): medians, of the slowest rank.  Its most
 * is the DDP order's, in which the last bucket has no layer to hide behind.
 *
 * With one rank there is nothing to average: what libaccel adds to the layers shows.  On the stand-in, times are those
 * of its clocks.  usage, in each rank: timeline small|full */
#define _GNU_SOURCE
#include "bench/gpu/gpu.h"

#include "bench/gpu/spin.h"
#include "bench/gpu/timeline.h"

#include <dlfcn.h>

enum { LAYER_NS = 1000000, STANDIN_NS = 20000000, COUNTS = 2 };
static const size_t counts[COUNTS] = { 8, TIMELINE_LAYERS };

/* ---- the stand-in's clocks ---- */

static void (*standin_spend) (cudaStream_t stream, int64_t ns);
static int64_t (*standin_host_ns) (int64_t more);

static void
find_standin (void)
{
    *(void **) &standin_spend = dlsym (RTLD_DEFAULT, "standin_spend");
    *(void **) &standin_host_ns = dlsym (RTLD_DEFAULT, "standin_host_ns");
    if (standin_spend)
        setenv ("STANDIN_COSTS", "collective=20000000", true); /* STANDIN_NS */
}

static int64_t
now (void)
{
    return standin_spend ? standin_host_ns (0) : (int64_t) (seconds () * 1e9);
}

static void
spend (cudaStream_t stream, int64_t ns)
{
    if (standin_spend)
        standin_spend (stream, ns);
    else
        spin (stream, ns);
}

/* ---- layers that use the memory of the GPU ---- */

static struct {
    void *to, *from;
    size_t bytes;
    double ns; /* of one copy */
} copied;

static void
copy_for (cudaStream_t stream, int64_t ns)
{
    for (double done = 0; done < (double) ns; done += copied.ns)
        CUDA (cudaMemcpyAsync (copied.to, copied.from, copied.bytes, cudaMemcpyDeviceToDevice, stream));
}

static void
copies_open (void)
{
    copied.bytes = (size_t) 64 << 20;
    copied.to = gpu_memory (copied.bytes);
    copied.from = gpu_memory (copied.bytes);
    copied.ns = 1;
    for (int turn = 0; turn < 2; turn++) { /* the first wakes the GPU */
        CUDA (cudaDeviceSynchronize ());
        int64_t begin = now ();
        copy_for (timeline_stream, 20);
        CUDA (cudaDeviceSynchronize ());
        copied.ns = turn ? (double) (now () - begin) / 20 : 1;
    }
}

static void
copies_close (void)
{
    CUDA (cudaFree (copied.to));
    CUDA (cudaFree (copied.from));
}

/* ---- measuring ---- */

static struct accel *acc;
static void *bucket; /* of `elements` */
static size_t elements;

/* @return of the slowest rank */
static double
slowest (int64_t ns)
{
    double value = (double) ns;
    MUST (accel_comm_all_reduce (accel_world (acc), &value, &value, 1, ACCEL_FLOAT64, ACCEL_MAX, &err));
    return value;
}

static void
reduce (size_t times)
{
    for (size_t i = 0; i < times && accel_num_processes (acc) > 1; i++)
        MUST (accel_comm_all_reduce (accel_world (acc), bucket, bucket, elements, ACCEL_FLOAT32, ACCEL_AVG, &err));
}

/* The ranks' streams are idle at the same time. */
static void
meet (void)
{
    CUDA (cudaDeviceSynchronize ());
    reduce (1);
    CUDA (cudaDeviceSynchronize ());
    MUST (accel_wait_for_everyone (acc, &err));
}

/* @return ns of all-reduces, one after the other */
static double
time_reduces (size_t times)
{
    meet ();
    int64_t begin = now ();
    reduce (times);
    CUDA (cudaStreamSynchronize (timeline_stream));
    return slowest (now () - begin);
}

/* @return ns of layers without libaccel */
static double
time_layers (const struct timeline *line)
{
    meet ();
    int64_t begin = now ();
    for (size_t i = 0; i < line->layers; i++)
        line->spend (timeline_stream, line->times.layer_ns);
    CUDA (cudaStreamSynchronize (timeline_stream));
    CUDA (cudaGetLastError ());
    return slowest (now () - begin);
}

/* @return ns of a step, or of one that averages nothing */
static double
time_step (struct timeline *line, bool averages)
{
    meet ();
    if (!averages)
        MUST (accel_no_sync (acc, line->model, &err));
    int64_t took = timeline_step (line);
    if (!averages)
        MUST (accel_no_sync_end (acc, line->model, &err));
    return slowest (took);
}

struct result {
    double step, queued, alone, reduces; /* ns; alone: without averages */
    struct timeline_times times;         /* measured */
};

/* All but tail_ns. */
static struct result
measure (struct timeline *line)
{
    double step[ROUNDS], queued[ROUNDS], alone[ROUNDS], reduces[ROUNDS], layers[ROUNDS];
    size_t count = line->layers;
    timeline_make (line);
    time_step (line, true); /* NCCL connects, states are made */
    time_step (line, false);
    for (int round = 0; round < rounds; round++) {
        layers[round] = time_layers (line);
        alone[round] = time_step (line, false);
        reduces[round] = time_reduces (count);
        step[round] = time_step (line, true);
        queued[round] = slowest (line->queued_ns);
    }
    timeline_end (line);
    struct result result = { median (step, rounds), median (queued, rounds), median (alone, rounds),
                             median (reduces, rounds), line->times };
    result.times.layer_ns = (int64_t) (median (layers, rounds) / (double) count);
    result.times.reduce_ns = (int64_t) (result.reduces / (double) count);
    return result;
}

/* ---- the table ---- */

static void
print_head (const struct timeline_times *times)
{
    bool reduces = accel_num_processes (acc) > 1;
    printf ("timeline: %d rank%s, layers of %.3f ms", accel_num_processes (acc), reduces ? "s" : "",
            (double) times->layer_ns / 1e6);
    if (reduces)
        printf (", all-reduces of %zu bytes in %.3f ms", elements * sizeof (float), (double) times->reduce_ns / 1e6);
    printf ("%s; all times in ms\n| %-49s |", standin_spend ? ", on the stand-in's clocks" : "", "Step");
    for (int i = 0; i < COUNTS; i++)
        printf (" %2zu layers | DDP's order |  queued | overlap, DDP's |", counts[i]);
    printf ("\n|---|");
    for (int i = 0; i < COUNTS; i++)
        printf ("---|---|---|---|");
    printf ("\n");
}

/* @return in %; @p step in ns */
static double
overlap (const struct result *result, double step)
{
    return 100 * (1 - (step - result->alone) / result->reduces);
}

static void
print_row (const char *name, const struct timeline_way *way, const struct result *results)
{
    printf ("| %-49s |", name);
    for (int i = 0; i < COUNTS; i++) {
        const struct result *result = &results[i];
        int64_t expected = timeline_expect (way, counts[i], &result->times);
        printf (" %9.3f | %11.3f | %7.3f |", result->step / 1e6, (double) expected / 1e6, result->queued / 1e6);
        if (accel_num_processes (acc) > 1)
            printf (" %5.1f, %5.1f %% |", overlap (result, result->step), overlap (result, (double) expected));
        else
            printf (" %14s |", "-");
    }
    printf ("\n");
}

static void
compare (const struct timeline_times *times)
{
    double pass[COUNTS] = { 0 }; /* the first way's, without averages */
    for (size_t w = 0; w <= TIMELINE_WAYS; w++) {
        bool copies = w == TIMELINE_WAYS;
        const struct timeline_way *way = &timeline_ways[copies ? 0 : w];
        struct result results[COUNTS];
        if (copies && standin_spend)
            break; /* there, copies take no time */
        if (way->hook == ACCEL_COMM_HOOK_POWER_SGD && !standin_spend)
            continue; /* the time of its all-reduces is not measured */
        if (accel_num_processes (acc) == 1 && (way->is_late || way->overlap))
            continue;
        for (int i = 0; i < COUNTS; i++) {
            struct timeline line = {
                .acc = acc,
                .way = way,
                .spend = copies ? copy_for : spend,
                .now = now,
                .times = *times,
                .layers = counts[i],
                .elements = elements,
            };
            results[i] = measure (&line);
            if (!w)
                pass[i] = results[i].alone;
            if (way->clips)
                results[i].times.tail_ns = (int64_t) (results[i].alone - pass[i]);
        }
        if (accel_is_main_process (acc))
            print_row (copies ? "the first, with layers that copy within the GPU" : way->name, way, results);
    }
}

int
main (int argc, char **argv)
{
    bool small = is_small (argc, argv);
    find_standin ();
    acc = open_on_gpu (NULL);
    CUDA (cudaSetDevice (accel_device (acc).device_id));
    elements = small ? 16 : 6553600; /* 25 MiB: DDP's buckets */
    bucket = gpu_memory (elements * sizeof (float));
    spend (timeline_stream, 1); /* loads the kernel */
    CUDA (cudaDeviceSynchronize ());
    struct timeline_times times = { .layer_ns = LAYER_NS };
    time_reduces (3);
    if (accel_num_processes (acc) > 1)
        times.layer_ns = times.reduce_ns = (int64_t) (time_reduces (20) / 20);
    if (standin_spend)
        times.layer_ns = STANDIN_NS;
    times.late_ns = times.layer_ns / 2 * 7;
    if (accel_is_main_process (acc))
        print_head (&times);
    if (!standin_spend)
        copies_open ();
    compare (&times);
    if (!standin_spend)
        copies_close ();
    CUDA (cudaFree (bucket));
    accel_close (acc);
    return 0;
}
