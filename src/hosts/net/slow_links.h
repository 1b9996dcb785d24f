/* SPDX-License-Identifier: Apache-2.0 */
/* Which links between hosts are slow, compared with the others.  Pure. */
#ifndef HOSTS_NET_SLOW_LINKS_H
#define HOSTS_NET_SLOW_LINKS_H

#include <stddef.h>

/** How many times slower than usual a slow link is. */
#define SLOW_FACTOR 4.0

/** A round trip that is shorter than this is never slow, ms: it is as long as a busy processor lets a process wait. */
#define SLOW_LEAST_MS 2.0

struct slow_link {
    int from, to;      /* numbers of the hosts; to is -1: all links of `from` are slow */
    double times;      /* how many times slower than usual */
    double is, usual;  /* MB/s, or ms if `is_latency` */
    int is_latency;
};

/**
 * Find the slow links of @p count hosts.
 *
 * What is usual is the median of what each host reaches on its best link; so one bad host among three, which has part
 * in two links of three, does not make its own speed the usual one.  A link is slow if its rate is less than a
 * SLOW_FACTORth of the usual, or its round trip more than SLOW_FACTOR times as long and longer than SLOW_LEAST_MS.
 * If there are at least three hosts and every link of one is slow, that host is named instead of its links.
 *
 * @param rates   [count * count], MB/s from host i to host j at i * count + j; 0: not measured
 * @param trips   the same, ms; 0: not measured
 * @param loads   [count], processes that want to run for each processor of host i: if there are several, a process
 *                that measures gets only its share, so a rate may be as many times lower; NULL: not known
 * @param[out] found  [most], the slowest first
 * @return how many there are, which may be more than @p most
 */
size_t slow_links_find (const double *rates, const double *trips, const double *loads, int count,
                        struct slow_link *found, size_t most);

#endif
