/* SPDX-License-Identifier: Apache-2.0 */
/* How long a step takes on the clocks of the stand-in, where a layer's backward pass and a bucket's all-reduce take
 * 20 ms each: what the order of torch's DDP takes (bench/gpu/timeline.h).
 * usage: timeline [fp16], as each of several ranks; fp16: losses are scaled on the device, where the ranks agree about
 * a step in one more all-reduce */
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

int
main (int argc, char **argv)
{
    static const size_t layers[] = { 1, 8, TIMELINE_LAYERS };
    bool scales = argc > 1 && !strcmp (argv[1], "fp16");
    const struct accel_grad_scaler scaler = { .on_device = ACCEL_YES };
    const struct accel_options options = { .mixed_precision = scales ? "fp16" : "no", .grad_scaler = &scaler };
    struct accel *acc;
    setenv ("STANDIN_COSTS", "collective=20000000", true); /* reduce_ns below */
    MUST (accel_open (&acc, &options, &err));
    cudaSetDevice (accel_device (acc).device_id);
    for (size_t w = 0; w < TIMELINE_WAYS; w++)
        for (size_t l = 0; l < sizeof layers / sizeof *layers; l++) {
            struct timeline line = {
                .acc = acc,
                .way = &timeline_ways[w],
                .spend = standin_spend,
                .now = now,
                .times = { .layer_ns = 20000000, .reduce_ns = 20000000, .late_ns = 70000000 },
                .layers = layers[l],
                .elements = ELEMENTS,
            };
            if (scales && !line.way->clips)
                continue;
            line.times.tail_ns = scales ? line.times.reduce_ns : 0;
            int64_t took = 0, wanted = timeline_expect (line.way, layers[l], &line.times);
            timeline_make (&line);
            timeline_step (&line); /* NCCL connects */
            for (int step = 0; step < STEPS; step++) {
                int64_t now_took = timeline_step (&line);
                took = step && took != wanted ? took : now_took;
            }
            timeline_end (&line);
            ok (took == wanted, "%s, %zu layers: %.3f ms, not %.3f", line.way->name, layers[l], (double) took / 1e6,
                (double) wanted / 1e6);
        }
    accel_close (acc);
    ok (longest_us <= LONGEST_US, "no thread sleeps for more than %d us: %d", (int) LONGEST_US,
        (int) longest_us);
    return done_testing ();
}
