/* SPDX-License-Identifier: Apache-2.0 */
/* How long a step takes on the clocks of the stand-in: what the order of torch's DDP takes (bench/gpu/timeline.h), to
 * the nanosecond, in each way and with each shape of the table here.
 * In ways in which the program does not wait, neither does the host.
 * usage: timeline [fp16 | sums], as each of several ranks; fp16: losses are scaled on the device, where the ranks agree
 * about a step in one more all-reduce; sums: only the way in which layers have sums of their own. */
#include <config.h>

#include "tests/must.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include "bench/gpu/timeline.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ELEMENTS = 16, STEPS = 3 };

static int64_t
now (void)
{
    return standin_host_ns (0);
}

/* In place of the C library's, also for modules: what a thread that waits for a GPU asks for is no longer than this,
 * which a machine that is busy does not change. */
enum { LONGEST_US = 500 };
static useconds_t longest_us;

__attribute__ ((visibility ("default"))) int
usleep (useconds_t us)
{
    useconds_t before = __atomic_load_n (&longest_us, __ATOMIC_RELAXED);
    while (us > before
           && !__atomic_compare_exchange_n (&longest_us, &before, us, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return nanosleep (&(struct timespec){ us / 1000000, (long) (us % 1000000) * 1000 }, NULL);
}

#define MS INT64_C (1000000)

/* Layers, how many fill a bucket, and what each of them and each all-reduce takes. */
static const struct shape {
    size_t layers, together;
    int64_t layer_ns, reduce_ns, late_ns;
    bool apart;
    bool has_bytes; /* bytes take time, too, 1 ns each, in ways that reduce nothing but gradients as they are */
} shapes[] = {
    { 1, 1, 20 * MS, 20 * MS, 70 * MS, .apart = true },
    { 8, 1, 20 * MS, 20 * MS, 70 * MS, .apart = true },
    { TIMELINE_LAYERS, 1, 20 * MS, 20 * MS, 70 * MS, .apart = true },
    { 8, 1, 20 * MS, 7 * MS, 70 * MS, .apart = false },
    { 8, 1, 7 * MS, 20 * MS, 10 * MS, .apart = false }, /* rank 1 is late by less than all-reduces are behind */
    { 8, 2, 20 * MS, 20 * MS, 70 * MS, .has_bytes = true },
    { TIMELINE_LAYERS, 5, 20 * MS, 7 * MS, 30 * MS, .apart = true, .has_bytes = true },
    { TIMELINE_LAYERS, 5, 7 * MS, 50 * MS, 30 * MS, .has_bytes = true },
    { 8, 8, 20 * MS, 20 * MS, 70 * MS, .apart = false },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct timeline_times
times_of (const struct shape *shape, const struct timeline_way *way, bool has_bytes, bool scales)
{
    bool is_power = way->hook == ACCEL_COMM_HOOK_POWER_SGD;
    int64_t layer_bytes = has_bytes ? ELEMENTS * (int64_t) sizeof (float) : 0;
    return (struct timeline_times){
        .layer_ns = shape->layer_ns,
        .reduce_ns = shape->reduce_ns * (is_power ? 2 : 1) + layer_bytes,
        .more_ns = layer_bytes,
        .used_ns = shape->reduce_ns,
        .late_ns = shape->late_ns,
        .tail_ns = scales ? shape->reduce_ns : 0,
    };
}

static void
compare (struct timeline *line, const struct shape *shape, bool scales)
{
    const struct timeline_way *way = line->way;
    bool has_bytes = shape->has_bytes && !way->hook && !way->finds_unused && !way->sums && !scales;
    char costs[80];
    snprintf (costs, sizeof costs, "collective=%lld network=%d", (long long) shape->reduce_ns, has_bytes);
    setenv ("STANDIN_COSTS", costs, true);
    line->times = times_of (shape, way, has_bytes, scales);
    line->layers = shape->layers;
    line->together = shape->together;
    line->apart = shape->apart;
    line->elements = ELEMENTS;
    int64_t took = 0, queued = 0, wanted = timeline_expect (line, &line->times);
    timeline_make (line);
    timeline_step (line); /* NCCL connects */
    for (int step = 0; step < STEPS; step++) {
        int64_t now_took = timeline_step (line);
        took = step && took != wanted ? took : now_took;
        queued += line->queued_ns;
    }
    timeline_end (line);
    ok (took == wanted, "%s, %zu layers of %lld ms in %zu buckets of %lld ms: %lld ns, in DDP's order %lld", way->name,
        shape->layers, (long long) (shape->layer_ns / MS), timeline_buckets (line), (long long) (shape->reduce_ns / MS),
        (long long) took, (long long) wanted);
    if (!way->waits)
        ok (!queued, "%s, %zu layers: the host waits for nothing: %lld ns", way->name, shape->layers,
            (long long) queued);
}

int
main (int argc, char **argv)
{
    bool scales = argc > 1 && !strcmp (argv[1], "fp16"), sums = argc > 1 && !scales;
    const struct accel_grad_scaler scaler = { .on_device = ACCEL_YES };
    const struct accel_options options = { .mixed_precision = scales ? "fp16" : "no", .grad_scaler = &scaler };
    struct accel *acc;
    MUST (accel_open (&acc, &options, &err));
    cudaSetDevice (accel_device (acc).device_id);
    for (size_t i = 0; i < TIMELINE_WAYS * (size_t) SHAPES; i++) {
        struct timeline line = { .acc = acc, .way = &timeline_ways[i / SHAPES], .spend = standin_spend, .now = now };
        line.is_kept = getenv ("NCCL_LAUNCH_ORDER_IMPLICIT");
        if ((!scales || line.way->clips) && (!sums || line.way->sums))
            compare (&line, &shapes[i % SHAPES], scales);
    }
    accel_close (acc);
    ok (longest_us <= LONGEST_US, "no thread sleeps for more than %d us: %d", (int) LONGEST_US,
        (int) longest_us);
    return done_testing ();
}
