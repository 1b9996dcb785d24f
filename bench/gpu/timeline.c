/* SPDX-License-Identifier: Apache-2.0 */
/* How long a training step takes on GPUs, and how much of its all-reduces is hidden behind the backward pass, against
 * the order of torch's DDP (timeline.h), computed from the times of layers and all-reduces that are measured in the
 * same run.  Layers take as long as the all-reduce of a bucket of one, so an order that is not DDP's shows most; in
 * some rows, half and twice as long.  Sums over another communicator are compared with libaccel's order, in which they
 * come behind the bucket before them.
 *
 * overlap = 1 - (step - the same step without averages) / (all-reduces alone): medians, of the slowest rank.  Its most
 * is the DDP order's, in which the last bucket has no layer to hide behind.
 *
 * With one rank there is nothing to average: what libaccel adds to the layers shows.  On the stand-in, times are those
 * of its clocks.  usage, in each rank: timeline small|full [fp16]; fp16: losses are scaled on the device, and only rows
 * with a step of the optimizer, in which that shows */
#define _GNU_SOURCE
#include "bench/gpu/gpu.h"

#include "bench/gpu/spin.h"
#include "bench/gpu/timeline.h"

#include <dlfcn.h>

enum { LAYER_NS = 1000000, STANDIN_NS = 20000000, SHAPES = 3, MOST_TOGETHER = 3 };
static const struct shape {
    size_t layers, together; /* in a bucket; the first has 1 MiB at most, unless one layer has more */
} shapes[SHAPES] = { { 8, 1 }, { TIMELINE_LAYERS, 1 }, { TIMELINE_LAYERS, MOST_TOGETHER } };

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
static void *bucket;    /* of the gradients of MOST_TOGETHER layers */
static size_t elements; /* of a layer */

/* @return of the slowest rank */
static double
slowest (int64_t ns)
{
    double value = (double) ns;
    MUST (accel_comm_all_reduce (accel_world (acc), &value, &value, 1, ACCEL_FLOAT64, ACCEL_MAX, &err));
    return value;
}

static void
reduce (size_t times, size_t count)
{
    for (size_t i = 0; i < times && accel_num_processes (acc) > 1; i++)
        MUST (accel_comm_all_reduce (accel_world (acc), bucket, bucket, count, ACCEL_FLOAT32, ACCEL_AVG, &err));
}

/* The ranks' streams are idle at the same time. */
static void
meet (void)
{
    CUDA (cudaDeviceSynchronize ());
    reduce (1, elements);
    CUDA (cudaDeviceSynchronize ());
    MUST (accel_wait_for_everyone (acc, &err));
}

/* @return ns of each of all-reduces of @p count elements, one after the other */
static double
time_reduces (size_t times, size_t count)
{
    meet ();
    int64_t begin = now ();
    reduce (times, count);
    CUDA (cudaStreamSynchronize (timeline_stream));
    return slowest (now () - begin) / (double) times;
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

/* @return ns of the averages of a pass whose layers take no time: with a hook, that is more than all-reduces */
static double
time_averages (struct timeline *line)
{
    int64_t layer_ns = line->times.layer_ns, late_ns = line->times.late_ns;
    line->times.layer_ns = line->times.late_ns = 0;
    double with = time_step (line, true), without = time_step (line, false);
    line->times.layer_ns = layer_ns;
    line->times.late_ns = late_ns;
    return with - without;
}

struct result {
    double step, queued, alone, reduces; /* ns; alone: without averages; reduces: all averages alone */
    struct timeline_times times;         /* measured */
};

/* How long all-reduces take alone.  With a hook, it is measured for all buckets together. */
static void
measure_reduces (struct timeline *line, struct result *result)
{
    size_t buckets = timeline_buckets (line);
    double one[ROUNDS], more[ROUNDS], tiny[ROUNDS], all[ROUNDS];
    struct timeline_times *times = &result->times;
    for (int round = 0; round < rounds; round++) {
        one[round] = time_reduces (line->layers, elements);
        more[round] = line->together > 1 ? time_reduces (buckets, line->together * elements) - one[round] : 0;
        tiny[round] = line->way->finds_unused ? time_reduces (line->layers, line->layers) : 0;
        all[round] = line->way->hook ? time_averages (line) : 0;
    }
    times->reduce_ns = (int64_t) median (one, rounds);
    times->used_ns = line->way->sums ? times->reduce_ns : (int64_t) median (tiny, rounds);
    times->more_ns = line->together > 1 ? (int64_t) (median (more, rounds) / (double) (line->together - 1)) : 0;
    result->reduces = (double) times->reduce_ns * (double) buckets
                      + (double) times->more_ns * (double) (line->layers - buckets);
    if (!line->way->hook)
        return;
    result->reduces = median (all, rounds);
    times->reduce_ns = (int64_t) (result->reduces / (double) buckets);
    times->more_ns = 0;
}

/* All but tail_ns. */
static struct result
measure (struct timeline *line)
{
    double step[ROUNDS], queued[ROUNDS], alone[ROUNDS], layers[ROUNDS];
    struct result result = { .times = line->times };
    timeline_make (line);
    time_step (line, true); /* NCCL connects, states are made */
    time_step (line, false);
    measure_reduces (line, &result);
    for (int round = 0; round < rounds; round++) {
        layers[round] = time_layers (line);
        alone[round] = time_step (line, false);
        step[round] = time_step (line, true);
        queued[round] = slowest (line->queued_ns);
    }
    timeline_end (line);
    result.step = median (step, rounds);
    result.queued = median (queued, rounds);
    result.alone = median (alone, rounds);
    result.times.layer_ns = (int64_t) (median (layers, rounds) / (double) line->layers);
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
    printf ("%s; all times in ms\n| %-58s |", standin_spend ? ", on the stand-in's clocks" : "", "Step");
    for (int i = 0; i < SHAPES; i++)
        printf (" %2zu layers, %zu in a bucket | DDP's order |  queued | overlap, DDP's |", shapes[i].layers,
                shapes[i].together);
    printf ("\n|---|");
    for (int i = 0; i < SHAPES; i++)
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
print_row (const char *name, const struct result *result, double expected)
{
    if (name)
        printf ("| %-58s |", name);
    printf (" %23.3f | %11.3f | %7.3f |", result->step / 1e6, expected / 1e6, result->queued / 1e6);
    if (accel_num_processes (acc) > 1)
        printf (" %5.1f, %5.1f %% |", overlap (result, result->step), overlap (result, expected));
    else
        printf (" %14s |", "-");
}

/* Rows beside the ways: the first two with other layers. */
static const struct other {
    const char *name;
    size_t way;
    int64_t times, of; /* of the layers' time */
    bool copies;       /* layers do */
} others[] = {
    { "the first, with layers half as long", 0, 1, 2, false },
    { "the first, with layers twice as long", 0, 2, 1, false },
    { "the second, with layers half as long", 1, 1, 2, false },
    { "the second, with layers twice as long", 1, 2, 1, false },
    { "the first, with layers that copy within the GPU", 0, 1, 1, true },
};
enum { OTHERS = sizeof others / sizeof *others };

/* Whether NCCL may keep the order of launches itself, and run two collectives at a time. */
static bool
keeps_order (void)
{
    const char *order = getenv ("NCCL_LAUNCH_ORDER_IMPLICIT");
    return order && !strcmp (order, "1");
}

/* Whether a row has something to say on this machine. */
static bool
is_wanted (const struct timeline_way *way, const struct other *other, bool scales)
{
    if (other && other->copies && standin_spend)
        return false; /* there, copies take no time */
    if (scales)
        return !other && (way == timeline_ways || way->clips);
    if (way->sums && keeps_order ())
        return false; /* whether NCCL has room for two collectives at a time decides, which no formula here knows */
    return accel_num_processes (acc) > 1
           || !(way->is_late || way->overlap || way->sums || (other && !other->copies));
}

static void
compare (const struct timeline_times *times, bool scales)
{
    double pass[SHAPES] = { 0 }; /* the first way's, without averages */
    for (size_t row = 0; row < TIMELINE_WAYS + (size_t) OTHERS; row++) {
        const struct other *other = row < TIMELINE_WAYS ? NULL : &others[row - TIMELINE_WAYS];
        const struct timeline_way *way = &timeline_ways[other ? other->way : row];
        for (int i = 0; i < SHAPES && is_wanted (way, other, scales); i++) {
            struct timeline line = {
                .acc = acc,
                .way = way,
                .spend = other && other->copies ? copy_for : spend,
                .now = now,
                .times = *times,
                .layers = shapes[i].layers,
                .together = shapes[i].together,
                .elements = elements,
            };
            if (other)
                line.times.layer_ns = times->layer_ns * other->times / other->of;
            struct result result = measure (&line);
            if (!row)
                pass[i] = result.alone;
            if (way->clips)
                result.times.tail_ns = (int64_t) (result.alone - pass[i]);
            if (accel_is_main_process (acc))
                print_row (i ? NULL : other ? other->name : way->name, &result,
                           (double) timeline_expect (&line, &result.times));
        }
        if (accel_is_main_process (acc) && is_wanted (way, other, scales))
            printf ("\n");
    }
}

int
main (int argc, char **argv)
{
    bool small = is_small (argc, argv), scales = argc > 2 && !strcmp (argv[2], "fp16");
    const struct accel_grad_scaler scaler = { .on_device = ACCEL_YES };
    const struct accel_options options = { .mixed_precision = scales ? "fp16" : "no", .grad_scaler = &scaler };
    find_standin ();
    acc = open_with (&options);
    CUDA (cudaSetDevice (accel_device (acc).device_id));
    elements = small ? 16 : 6553600; /* 25 MiB: DDP's buckets */
    bucket = gpu_memory (MOST_TOGETHER * elements * sizeof (float));
    spend (timeline_stream, 1); /* loads the kernel */
    CUDA (cudaDeviceSynchronize ());
    struct timeline_times times = { .layer_ns = LAYER_NS };
    time_reduces (3, elements);
    if (accel_num_processes (acc) > 1)
        times.layer_ns = times.reduce_ns = (int64_t) time_reduces (20, elements);
    if (standin_spend)
        times.layer_ns = STANDIN_NS;
    times.late_ns = times.layer_ns / 2 * 7;
    if (accel_is_main_process (acc))
        print_head (&times);
    if (!standin_spend)
        copies_open ();
    compare (&times, scales);
    if (!standin_spend)
        copies_close ();
    CUDA (cudaFree (bucket));
    accel_close (acc);
    return 0;
}
