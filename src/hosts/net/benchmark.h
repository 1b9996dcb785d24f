/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the network between two hosts is: one listens, the other connects and measures, over TCP as programs do. */
#ifndef HOSTS_NET_BENCHMARK_H
#define HOSTS_NET_BENCHMARK_H

#include "hosts/net/address.h"

#include <stddef.h>
#include <sys/types.h>

/** A process that answers clients that have its key.  It ends with its parent, or at net_benchmark_stop(). */
struct net_benchmark {
    pid_t pid; /* 0: none */
    int port;
    char token[ADDRESS_TOKEN_BYTES]; /* it tells this to each client, so none takes another program for it */
    char key[ADDRESS_TOKEN_BYTES];   /* what it wants to hear before it does anything */
};

/** Start one.  @return 0, or -1 with @p fail set */
int net_benchmark_start (struct net_benchmark *benchmark, struct fail *fail);
void net_benchmark_stop (struct net_benchmark *benchmark);

/** Why nothing is known of a way. */
enum net_benchmark_trouble {
    NET_BENCHMARK_FINE,
    NET_BENCHMARK_REFUSED, /* the host, or a firewall, has answered that it admits no connection */
    NET_BENCHMARK_NO_ROUTE,
    NET_BENCHMARK_NO_ANSWER, /* nothing has come back from any address, or from a stranger */
    NET_BENCHMARK_STALLED, /* it connects, but bytes do not come through */
};

struct net_benchmark_result {
    char address[64];      /* that was used; "": none was reached */
    int64_t round_trip_ns; /* of a byte there and back; the shortest of many, for which no process had to wait long */
    double to, from;       /* bytes per second, there and back */
    enum net_benchmark_trouble trouble;
    char why[256];         /* why it is not known; "": it is */
};

/** Measure the way to @p benchmark, of which only port, token and key are used, at the first of @p addresses that
 * answers. Blocks, but not longer than @p limit_ms and a little. */
void net_benchmark_measure (const struct net_benchmark *benchmark, const struct strlist *addresses, int64_t limit_ms,
                            struct net_benchmark_result *result);

/* slow_links.c: which links between hosts are slow, compared with the others.  Pure. */

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
