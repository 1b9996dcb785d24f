/* SPDX-License-Identifier: Apache-2.0 */
/* How long a step takes on the clocks of the stand-in, where a layer's backward pass and a bucket's all-reduce take
 * 20 ms each: what the order of torch's DDP takes (bench/gpu/timeline.h).  usage: timeline, as each of several ranks */
#include <config.h>

#include "tests/must.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include "bench/gpu/timeline.h"

#include <stdlib.h>

enum { ELEMENTS = 16, STEPS = 3 };

static int64_t
now (void)
{
    return standin_host_ns (0);
}

int
main (void)
{
    static const size_t layers[] = { 1, 8, TIMELINE_LAYERS };
    struct accel *acc;
    setenv ("STANDIN_NCCL_NS", "20000000", true); /* reduce_ns below */
    MUST (accel_open (&acc, NULL, &err));
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
    return done_testing ();
}
