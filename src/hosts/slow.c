/* SPDX-License-Identifier: Apache-2.0 */
/* The rule for slow links; see slow.h. */
#include <config.h>

#include "hosts/slow.h"

#include "util/cleanup.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int
by_size (const void *a, const void *b)
{
    double one = *(const double *) a, two = *(const double *) b;
    return one < two ? -1 : one > two;
}

/* The best link of host @i, in either direction; 0: none was measured. */
static double
best_of (const double *values, int count, int i, bool least)
{
    double best = 0;
    for (int j = 0; j < count; j++)
        for (int k = 0; k < 2; k++) {
            double value = k ? values[j * count + i] : values[i * count + j];
            if (i != j && value > 0 && (best <= 0 || (least ? value < best : value > best)))
                best = value;
        }
    return best;
}

/* The median of the hosts' best links; of an even number, the better one of the two in the middle. */
static double
find_usual (const double *values, int count, bool least)
{
    AUTO_FREE double *best = calloc ((size_t) count, sizeof *best);
    size_t known = 0;
    for (int i = 0; best && i < count; i++) {
        double value = best_of (values, count, i, least);
        if (value > 0)
            best[known++] = value;
    }
    if (!known)
        return 0;
    qsort (best, known, sizeof *best, by_size);
    return best[least ? (known - 1) / 2 : known / 2];
}

/* How many times slower than @usual; 0: not slow. */
static double
times_slower (double value, double usual, bool is_latency)
{
    if (value <= 0 || usual <= 0 || (is_latency && value <= SLOW_LEAST_MS))
        return 0;
    double times = is_latency ? value / usual : usual / value;
    return times > SLOW_FACTOR ? times : 0;
}

/* Whether all links of host @i that were measured, at least two, are slow. */
static bool
is_slow_host (const double *values, int count, int i, double usual, bool is_latency)
{
    int slow = 0;
    for (int j = 0; j < count; j++)
        for (int k = 0; k < 2; k++) {
            double value = k ? values[j * count + i] : values[i * count + j];
            if (i == j || value <= 0)
                continue;
            if (times_slower (value, usual, is_latency) <= 0)
                return false;
            slow += k;
        }
    return slow > 1;
}

/* Insert in the order of how slow they are. */
static void
insert (struct slow_link *found, size_t most, size_t count, const struct slow_link *link)
{
    size_t at = count < most ? count : most;
    while (at > 0 && found[at - 1].times < link->times) {
        if (at < most)
            found[at] = found[at - 1];
        at--;
    }
    if (at < most)
        found[at] = *link;
}

static size_t
find (const double *values, int count, bool is_latency, struct slow_link *found, size_t most, size_t already)
{
    double usual = find_usual (values, count, is_latency);
    AUTO_FREE bool *is_bad = calloc ((size_t) count, sizeof *is_bad);
    for (int i = 0; is_bad && i < count; i++) {
        is_bad[i] = is_slow_host (values, count, i, usual, is_latency);
        double best = best_of (values, count, i, is_latency);
        if (is_bad[i])
            insert (found, most, already++,
                    &(struct slow_link){ i, -1, times_slower (best, usual, is_latency), best, usual, is_latency });
    }
    /* The round trip is the same in both directions. */
    for (int i = 0; is_bad && i < count; i++)
        for (int j = is_latency ? i + 1 : 0; j < count; j++) {
            double value = values[i * count + j], times = times_slower (value, usual, is_latency);
            if (i != j && times > 0 && !is_bad[i] && !is_bad[j])
                insert (found, most, already++, &(struct slow_link){ i, j, times, value, usual, is_latency });
        }
    return already;
}

size_t
slow_find (const double *rates, const double *trips, int count, struct slow_link *found, size_t most)
{
    size_t so_far = find (rates, count, false, found, most, 0);
    return find (trips, count, true, found, most, so_far);
}
