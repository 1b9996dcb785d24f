/* SPDX-License-Identifier: Apache-2.0 */
/* Steps per second, tokens per second and the share of the peak; see throughput.h. */
#include <config.h>

#include "lib/track/throughput.h"

enum { EACH_NS = 1000000000 };

struct throughput
throughput_begin (const struct accel_tracker_options *options)
{
    return (struct throughput){ .is_on = options->throughput != ACCEL_NO, .tokens_per_step = options->tokens_per_step,
                                .flops_per_step = options->flops_per_step, .peak_flops = options->peak_flops,
                                .step = -1 };
}

size_t
throughput_measure (struct throughput *throughput, int64_t step, int64_t now_ns, struct accel_value *values)
{
    int64_t steps = step - throughput->step, ns = now_ns - throughput->at_ns;
    bool first = throughput->step < 0;
    size_t count = 0;
    if (!throughput->is_on || steps <= 0 || (!first && ns < EACH_NS))
        return 0;
    throughput->step = step;
    throughput->at_ns = now_ns;
    if (first)
        return 0;
    double rate = (double) steps / (double) ns * 1e9;
    values[count++] = (struct accel_value){ .key = "steps_per_second", .number = rate };
    if (throughput->tokens_per_step > 0)
        values[count++] = (struct accel_value){ .key = "tokens_per_second",
                                                .number = rate * throughput->tokens_per_step };
    if (throughput->flops_per_step > 0 && throughput->peak_flops > 0)
        values[count++] = (struct accel_value){ .key = "mfu", .number = rate * throughput->flops_per_step
                                                                        / throughput->peak_flops };
    return count;
}
