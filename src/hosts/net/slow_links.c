/* SPDX-License-Identifier: Apache-2.0 */
/* The rule for slow links; see benchmark.h. */
#include <config.h>

#include "hosts/net/benchmark.h"

#include "util/cleanup.h"

#include <stdbool.h>
#include <stdlib.h>

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

/* Rates in MB/s, or round trips in ms: one for each pair of hosts. */
struct values {
    const double *all, *loads; /* as in slow_links_find() */
    int count;
    bool is_latency;
    double usual;
};

/* How many times less than all processors the busier of two hosts may give to a process that measures.  The shortest of
 * many round trips is hardly affected. */
static double
share_of (const struct values *values, int i, int j)
{
    double load = values->loads && !values->is_latency ? values->loads[i] : 1;
    if (values->loads && !values->is_latency && values->loads[j] > load)
        load = values->loads[j];
    return load > 1 ? load : 1;
}

/* How many times slower than usual the way from host @i to host @j is; 0: not slow. */
static double
times_slower (const struct values *values, int i, int j)
{
    double value = values->all[i * values->count + j], usual = values->usual;
    if (value <= 0 || usual <= 0 || (values->is_latency && value <= SLOW_LEAST_MS))
        return 0;
    double times = values->is_latency ? value / usual : usual / value;
    return times > SLOW_FACTOR * share_of (values, i, j) ? times : 0;
}

/* Whether all links of host @i that were measured, at least two, are slow.  @param[out] times  the best of them */
static bool
is_slow_host (const struct values *values, int i, double *times)
{
    int slow = 0;
    *times = 0;
    for (int j = 0; j < values->count; j++)
        for (int k = 0; k < 2; k++) {
            int from = k ? j : i, to = k ? i : j;
            if (i == j || values->all[from * values->count + to] <= 0)
                continue;
            double one = times_slower (values, from, to);
            if (one <= 0)
                return false;
            *times = slow && *times < one ? *times : one;
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
find (struct values *values, struct slow_link *found, size_t most, size_t already)
{
    int count = values->count;
    bool is_latency = values->is_latency;
    AUTO_FREE bool *is_bad = calloc ((size_t) count, sizeof *is_bad);
    values->usual = find_usual (values->all, count, is_latency);
    for (int i = 0; is_bad && i < count; i++) {
        double times, best = best_of (values->all, count, i, is_latency);
        is_bad[i] = is_slow_host (values, i, &times);
        if (is_bad[i])
            insert (found, most, already++, &(struct slow_link){ i, -1, times, best, values->usual, is_latency });
    }
    /* The round trip is the same in both directions. */
    for (int i = 0; is_bad && i < count; i++)
        for (int j = is_latency ? i + 1 : 0; j < count; j++) {
            double times = i != j ? times_slower (values, i, j) : 0, value = values->all[i * count + j];
            if (times > 0 && !is_bad[i] && !is_bad[j])
                insert (found, most, already++, &(struct slow_link){ i, j, times, value, values->usual, is_latency });
        }
    return already;
}

size_t
slow_links_find (const double *rates, const double *trips, const double *loads, int count, struct slow_link *found,
                 size_t most)
{
    struct values all_rates = { .all = rates, .loads = loads, .count = count };
    struct values all_trips = { .all = trips, .loads = loads, .count = count, .is_latency = true };
    size_t so_far = find (&all_rates, found, most, 0);
    return find (&all_trips, found, most, so_far);
}
