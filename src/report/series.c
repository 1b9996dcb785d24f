/* SPDX-License-Identifier: Apache-2.0 */
/* Points in the order of their steps, and few that look like many; see series.h. */
#include <config.h>

#include "report/series.h"

#include "util/array.h"

#include <math.h>
#include <stdlib.h>

bool
series_add (struct series *series, struct point point)
{
    size_t kept = series->count;
    while (kept && series->points[kept - 1].step >= point.step)
        kept--;
    bool went_back = series->count && series->points[series->count - 1].step > point.step;
    if (went_back && series->restart_count < SERIES_RESTARTS)
        series->restarts[series->restart_count++] = point.step;
    if (kept == series->count && !array_room (&series->points, kept, sizeof *series->points))
        return false;
    /* The array's room is that of `count`, which must not become smaller than what array_room() knows: a later
     * reallocation at a power of two that was passed before would only shrink to the same size. */
    series->points[kept] = point;
    series->count = kept + 1;
    return true;
}

void
series_release (struct series *series)
{
    free (series->key);
    free (series->points);
    *series = (struct series){ 0 };
}

void
series_extend (const struct series *series, struct extent *extent)
{
    for (size_t i = 0; i < series->count; i++) {
        double value = series->points[i].value;
        if (!isfinite (value))
            continue;
        if (!extent->finite || value < extent->min)
            extent->min = value;
        if (!extent->finite || value > extent->max)
            extent->max = value;
        extent->finite++;
    }
}

/* Of one part: places in the series. */
struct part {
    size_t low, high, odd; /* SIZE_MAX: none */
};

static void
look_at (struct part *part, const struct point *points, size_t i)
{
    if (!isfinite (points[i].value)) {
        part->odd = part->odd == SIZE_MAX ? i : part->odd;
        return;
    }
    if (part->low == SIZE_MAX || points[i].value < points[part->low].value)
        part->low = i;
    if (part->high == SIZE_MAX || points[i].value > points[part->high].value)
        part->high = i;
}

static int
compare_places (const void *a, const void *b)
{
    size_t left = *(const size_t *) a, right = *(const size_t *) b;
    return (left > right) - (left < right);
}

/* Each place once, in order, and none before *next. */
static size_t
put_places (const struct point *points, size_t *places, size_t count, size_t *next, struct point *sample)
{
    size_t put = 0;
    qsort (places, count, sizeof *places, compare_places);
    for (size_t i = 0; i < count; i++)
        if (places[i] != SIZE_MAX && places[i] >= *next) {
            sample[put++] = points[places[i]];
            *next = places[i] + 1;
        }
    return put;
}

/* The end of the part that point @i begins. */
static size_t
part_end (const struct series *series, size_t i, int64_t first, int64_t last, size_t parts)
{
    double width = ((double) last - (double) first + 1) / (double) parts;
    double number = floor (((double) series->points[i].step - (double) first) / width);
    double end = (double) first + (number + 1) * width;
    for (i++; i < series->count && (double) series->points[i].step < end; i++)
        ;
    return i;
}

size_t
series_sample (const struct series *series, int64_t first, int64_t last, size_t parts, struct point *sample)
{
    const struct part empty = { SIZE_MAX, SIZE_MAX, SIZE_MAX };
    size_t put = 0, next = 0;
    for (size_t i = 0; i < series->count;) {
        struct part part = empty;
        size_t edge = i == 0 ? 0 : SIZE_MAX;
        for (size_t stop = part_end (series, i, first, last, parts); i < stop; i++)
            look_at (&part, series->points, i);
        size_t end = i == series->count ? i - 1 : SIZE_MAX;
        size_t places[] = { edge, part.low, part.high, part.odd, end };
        put += put_places (series->points, places, sizeof places / sizeof *places, &next, sample + put);
    }
    return put;
}

size_t
series_means (const struct series *series, int64_t first, int64_t last, size_t parts, struct point *means)
{
    size_t put = 0;
    for (size_t i = 0, stop; i < series->count; i = stop) {
        double count = 0, steps = 0, value = 0;
        stop = part_end (series, i, first, last, parts);
        for (size_t k = i; k < stop; k++) {
            if (!isfinite (series->points[k].value))
                continue;
            count++;
            steps += ((double) series->points[k].step - (double) series->points[i].step - steps) / count;
            value += (series->points[k].value - value) / count;
        }
        if (count > 0)
            means[put++] = (struct point){ series->points[i].step + (int64_t) steps, value };
    }
    return put;
}
