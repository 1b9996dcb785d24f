/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms; see histogram.h. */
#include <config.h>

#include "lib/track/histogram.h"

#include <math.h>

void
histogram_make (struct histogram *histogram, const struct accel_value *value)
{
    const float *samples = value->data;
    *histogram = (struct histogram){ 0 };
    for (size_t i = 0; i < value->count; i++) {
        double sample = (double) samples[i];
        if (!isfinite (sample))
            continue;
        if (!histogram->count || sample < histogram->min)
            histogram->min = sample;
        if (!histogram->count || sample > histogram->max)
            histogram->max = sample;
        histogram->count++;
        histogram->sum += sample;
        histogram->sum_squares += sample * sample;
    }
    double width = histogram->max - histogram->min;
    for (size_t i = 0; i < value->count; i++) {
        if (!isfinite (samples[i]))
            continue;
        int bin = width > 0 ? (int) (((double) samples[i] - histogram->min) / width * HISTOGRAM_BINS) : 0;
        histogram->bins[bin < HISTOGRAM_BINS ? bin : HISTOGRAM_BINS - 1]++;
    }
}

double
histogram_limit (const struct histogram *histogram, int bin)
{
    return bin == HISTOGRAM_BINS - 1 ? histogram->max
                                     : histogram->min + (histogram->max - histogram->min) * (bin + 1) / HISTOGRAM_BINS;
}
