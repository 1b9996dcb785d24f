/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a run is: from the steps that are logged, and what the program says that a step costs. */
#ifndef LIB_TRACK_THROUGHPUT_H
#define LIB_TRACK_THROUGHPUT_H

#include <accel/tracker.h>

enum { THROUGHPUT_VALUES = 3 };

struct throughput {
    bool is_on;
    double tokens_per_step, flops_per_step, peak_flops; /* 0: not known */
    int64_t step; /* of the last measurement; -1: none */
    int64_t at_ns;
};

/** @param options  zeros are the defaults */
struct throughput throughput_begin (const struct accel_tracker_options *options);

/**
 * A step is logged.  Measures if it is at least a second after the last measurement, or the first, and a later step:
 * calls for another count of steps, such as that of an evaluation, do not disturb it.
 *
 * @param now_ns       of a monotonic clock
 * @param[out] values  [THROUGHPUT_VALUES]
 * @return how many values there are
 */
size_t throughput_measure (struct throughput *throughput, int64_t step, int64_t now_ns, struct accel_value *values);

#endif
