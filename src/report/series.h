/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that a run logged under one key, in the order of their steps. */
#ifndef REPORT_SERIES_H
#define REPORT_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct point {
    int64_t step;
    double value; /* may be infinite or NaN */
};

enum { SERIES_RESTARTS = 64 };

/** All zero but the key is an empty one. */
struct series {
    char *key;
    struct point *points; /* [count], each step higher than the one before */
    size_t count;
    int64_t restarts[SERIES_RESTARTS]; /* the steps at which it went back: the first ones */
    size_t restart_count;
};

/** Add a point.  If its step was reached before, the run was restarted from there: the new point takes the place of
 * those from this step on.  One at the last step replaces it.  @return false: out of memory */
bool series_add (struct series *series, struct point point);
void series_release (struct series *series);

/** What all finite points have in common. */
struct extent {
    double min, max;
    size_t finite; /* how many there are; 0: min and max mean nothing */
};
void series_extend (const struct series *series, struct extent *extent);

/**
 * Few points that look like all of them: of each part of the steps the lowest, the highest and one that is not finite,
 * and the very first and last.
 *
 * @param first, last  the steps that the parts divide  @param parts  at least 1
 * @param[out] sample  [3 * (parts + 2)]
 * @return how many
 */
size_t series_sample (const struct series *series, int64_t first, int64_t last, size_t parts, struct point *sample);

/** The means of the finite values in each part, at the means of their steps.  @param[out] means  [parts + 2] */
size_t series_means (const struct series *series, int64_t first, int64_t last, size_t parts, struct point *means);

#endif
