/* SPDX-License-Identifier: Apache-2.0 */
/* The histogram of samples: bins of the same width from the smallest sample to the largest. */
#ifndef LIB_TRACK_HISTOGRAM_H
#define LIB_TRACK_HISTOGRAM_H

#include <accel/tracker.h>

enum { HISTOGRAM_BINS = 64 };

struct histogram {
    uint64_t count; /* of finite samples; the others are left out */
    double min, max, sum, sum_squares;
    uint64_t bins[HISTOGRAM_BINS]; /* all in the first if all are the same */
};

/** @param value  an ACCEL_HISTOGRAM */
void histogram_make (struct histogram *histogram, const struct accel_value *value);

/** @return the upper end of a bin */
double histogram_limit (const struct histogram *histogram, int bin);

#endif
