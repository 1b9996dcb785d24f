/* SPDX-License-Identifier: Apache-2.0 */
/* How the cores of a machine are divided among its ranks (--bind core and numa).  Pure: a topology in, CPUs out. */
#ifndef LAUNCH_PLAN_PLACEMENT_H
#define LAUNCH_PLAN_PLACEMENT_H

#include "launch/machine/topology.h"

#include <stdbool.h>

/** What a rank may use. */
struct placement {
    char cpus[TOPOLOGY_CPU_LIST]; /* "0-3,8-11" */
    int threads; /* that compute at the same time without sharing a core, within the control group's limit; >= 1 */
};

/**
 * Choose the place of a rank.  Consecutive ranks are neighbours, no rank has cores of two NUMA nodes, and the ranks of
 * a node use all of its cores.
 *
 * @param whole_node  a rank may use all CPUs of its node; otherwise its ranks divide the node's cores
 * @param ranks       that share the machine; 0 <= local_rank < ranks
 * @return NULL, or why ranks are better not bound
 */
const char *placement_choose (const struct topology *topology, bool whole_node, int local_rank, int ranks,
                              struct placement *placement);

/** The NUMA nodes of the CPUs in @p cpus, as a list: "0", "0-1"; "" if they are not known.
 * @param size  of @p nodes, at least 64 */
void placement_nodes (const struct topology *topology, const char *cpus, char *nodes, size_t size);

#endif
