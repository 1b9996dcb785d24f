/* SPDX-License-Identifier: Apache-2.0 */
/* Which CPUs are threads of one core, and which are near the same memory; see topology.h. */
#include <config.h>

#include "launch/machine/topology.h"

#include "util/cleanup.h"
#include "util/procfs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { CPUS_MOST = 8192, NODES_MOST = 1024 }; /* more than Linux supports */

struct cpus {
    cpu_set_t sets[CPUS_MOST / CPU_SETSIZE];
};

static bool
read_list (const char *root, const char *folder, int number, const char *name, char *text, size_t size)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%s/sys/devices/system/%s%d/%s", root, folder, number, name);
    return procfs_read_line (path, text, size);
}

/* A CPU is asked about its core unless a CPU of the same core was. */
static void
find_cores (const char *root, int *cores, const struct cpus *allowed)
{
    char text[TOPOLOGY_CPU_LIST];
    for (int cpu = 0; cpu < CPUS_MOST; cpu++) {
        struct cpus siblings = { 0 };
        if (!CPU_ISSET_S ((size_t) cpu, sizeof *allowed, allowed->sets) || cores[cpu] >= 0)
            continue;
        cores[cpu] = cpu;
        if (!read_list (root, "cpu/cpu", cpu, "topology/thread_siblings_list", text, sizeof text))
            continue;
        cpu_list_mark (text, siblings.sets, sizeof siblings);
        int first = 0;
        while (first < cpu && !CPU_ISSET_S ((size_t) first, sizeof siblings, siblings.sets))
            first++;
        for (int other = cpu; other < CPUS_MOST; other++)
            if (CPU_ISSET_S ((size_t) other, sizeof siblings, siblings.sets))
                cores[other] = first;
        cores[cpu] = first;
    }
}

static void
find_nodes (const char *root, int *nodes)
{
    char text[TOPOLOGY_CPU_LIST], path[PATH_MAX];
    struct cpus online = { 0 };
    snprintf (path, sizeof path, "%s/sys/devices/system/node/online", root);
    if (!procfs_read_line (path, text, sizeof text))
        return;
    cpu_list_mark (text, online.sets, sizeof online);
    for (int node = 0; node < NODES_MOST; node++) {
        struct cpus members = { 0 };
        if (!CPU_ISSET_S ((size_t) node, sizeof online, online.sets)
            || !read_list (root, "node/node", node, "cpulist", text, sizeof text))
            continue;
        cpu_list_mark (text, members.sets, sizeof members);
        for (int cpu = 0; cpu < CPUS_MOST; cpu++)
            if (CPU_ISSET_S ((size_t) cpu, sizeof members, members.sets))
                nodes[cpu] = node;
    }
}

static int
compare (const void *a, const void *b)
{
    const struct topology_place *left = a, *right = b;
    if (left->node != right->node)
        return left->node < right->node ? -1 : 1;
    if (left->core != right->core)
        return left->core < right->core ? -1 : 1;
    return left->cpu - right->cpu;
}

int
topology_probe_places (const char *root, struct topology *topology)
{
    AUTO_FREE int *cores = malloc (CPUS_MOST * sizeof *cores);
    AUTO_FREE int *nodes = calloc (CPUS_MOST, sizeof *nodes);
    struct cpus allowed = { 0 };
    if (!cores || !nodes)
        return -1;
    for (int cpu = 0; cpu < CPUS_MOST; cpu++)
        cores[cpu] = -1;
    cpu_list_mark (topology->cpu_list, allowed.sets, sizeof allowed);
    find_cores (root, cores, &allowed);
    find_nodes (root, nodes);
    topology->places = calloc ((size_t) CPU_COUNT_S (sizeof allowed, allowed.sets) + 1, sizeof *topology->places);
    if (!topology->places)
        return -1;
    for (int cpu = 0; cpu < CPUS_MOST; cpu++)
        if (CPU_ISSET_S ((size_t) cpu, sizeof allowed, allowed.sets))
            topology->places[topology->place_count++]
                = (struct topology_place){ .cpu = cpu, .core = cores[cpu], .node = nodes[cpu] };
    qsort (topology->places, (size_t) topology->place_count, sizeof *topology->places, compare);
    return 0;
}
