/* SPDX-License-Identifier: Apache-2.0 */
/* The line that accel_log() prints about a step. */
#ifndef LIB_TRACK_STEP_LINE_H
#define LIB_TRACK_STEP_LINE_H

#include <accel/tracker.h>

/** How fast the run is, from the first step that was logged on. */
struct step_line {
    uint64_t steps; /* of the run; 0: nothing is printed */
    double tokens_per_step, flops_per_step, peak_flops; /* 0: not known */
    int64_t first, last; /* steps; -1: none was logged */
    int64_t first_ns;
};

/** @param options  zeros are the defaults */
struct step_line step_line_begin (const struct accel_tracker_options *options);

/**
 * Print the numbers among @p values; and, if @p step is a later one than all before, how fast the run is.
 *
 * @param now_ns  of a monotonic clock
 */
void step_line_print (struct step_line *line, const struct accel *acc, const struct accel_value *values, size_t count,
                      int64_t step, int64_t now_ns);

#endif
