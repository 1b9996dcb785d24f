/* SPDX-License-Identifier: Apache-2.0 */
/* Cores for ranks; see placement.h. */
#include <config.h>

#include "launch/plan/placement.h"

#include <stdint.h>
#include <string.h>

/* Whether the place is the first of its core. */
static bool
begins_core (const struct topology *topology, int i)
{
    const struct topology_place *place = &topology->places[i];
    return i == 0 || place->core != place[-1].core || place->node != place[-1].node;
}

static int
count_cores (const struct topology *topology)
{
    int cores = 0;
    for (int i = 0; i < topology->place_count; i++)
        cores += begins_core (topology, i);
    return cores;
}

/* The node of core @core, counted from 0 in the order of the places. */
static int
node_of_core (const struct topology *topology, int core)
{
    for (int i = 0; i < topology->place_count; i++)
        if (begins_core (topology, i) && core-- == 0)
            return topology->places[i].node;
    return -1;
}

/* The core in the middle of an equal share of all cores decides: nodes get ranks as they have cores. */
static int
node_of_rank (const struct topology *topology, int cores, int rank, int ranks)
{
    return node_of_core (topology, (int) ((2 * (int64_t) rank + 1) * cores / (2 * (int64_t) ranks)));
}

const char *
placement_choose (const struct topology *topology, bool whole_node, int local_rank, int ranks,
                  struct placement *placement)
{
    int cores = count_cores (topology), node, own_cores = 0, own_ranks = 0, before = 0, core = -1;
    cpu_set_t cpus[8];
    CPU_ZERO_S (sizeof cpus, cpus);
    if (strstr (topology->cpu_list, "...") || !cores)
        return "the CPUs that the launcher may use are not known";
    if (cores < ranks)
        return "there are fewer cores than ranks";
    node = node_of_rank (topology, cores, local_rank, ranks);
    for (int i = 0; i < topology->place_count; i++)
        own_cores += topology->places[i].node == node && begins_core (topology, i);
    if (whole_node && own_cores == cores)
        return "all cores are in one NUMA node";
    for (int rank = 0; rank < ranks; rank++) {
        bool is_near = node_of_rank (topology, cores, rank, ranks) == node;
        own_ranks += is_near;
        before += is_near && rank < local_rank;
    }
    int first = whole_node ? 0 : before * own_cores / own_ranks;
    int end = whole_node ? own_cores : (before + 1) * own_cores / own_ranks;
    for (int i = 0; i < topology->place_count; i++) {
        if (topology->places[i].node != node)
            continue;
        core += begins_core (topology, i);
        if (core >= first && core < end)
            CPU_SET_S ((size_t) topology->places[i].cpu, sizeof cpus, cpus);
    }
    cpu_list_write (cpus, sizeof cpus, placement->cpus, sizeof placement->cpus);
    placement->threads = whole_node ? own_cores / own_ranks : end - first;
    int limit = topology->quota / ranks;
    if (topology->quota && placement->threads > limit)
        placement->threads = limit > 1 ? limit : 1;
    return strstr (placement->cpus, "...") ? "the list of CPUs is too long" : NULL;
}

void
placement_nodes (const struct topology *topology, const char *cpus, char *nodes, size_t size)
{
    cpu_set_t marked[8], found[8];
    CPU_ZERO_S (sizeof marked, marked);
    CPU_ZERO_S (sizeof found, found);
    cpu_list_mark (cpus, marked, sizeof marked);
    for (int i = 0; i < topology->place_count; i++)
        if (CPU_ISSET_S ((size_t) topology->places[i].cpu, sizeof marked, marked))
            CPU_SET_S ((size_t) topology->places[i].node, sizeof found, found);
    cpu_list_write (found, sizeof found, nodes, size);
}
