/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a communicator are on which host.  Hosts have the order of their first ranks, and the ranks of a host
 * keep theirs, whatever ranks of other hosts are between them. */
#include <config.h>

#include "engines/mpi/topology.h"

#include <stdalign.h>
#include <stdlib.h>

/* Hosts get numbers in the order of their first ranks. */
static void
number_hosts (struct topology *topology, const int *labels, int size)
{
    for (int i = 0; i < size; i++) {
        int first = 0;
        while (labels[first] != labels[i])
            first++;
        topology->host_of[i] = first == i ? topology->hosts++ : topology->host_of[first];
    }
}

static void
put_in_order (struct topology *topology, int size)
{
    int at = 0;
    topology->is_sorted = true;
    for (int host = 0; host < topology->hosts; host++) {
        topology->begins[host] = at;
        for (int i = 0; i < size; i++) {
            if (topology->host_of[i] != host)
                continue;
            topology->is_sorted = topology->is_sorted && at == i;
            topology->local_rank_of[i] = at - topology->begins[host];
            topology->order[at++] = i;
        }
    }
    topology->begins[topology->hosts] = at;
}

/* From rank to rank, the ranks of a host send their rows to all other hosts.  In the chain of hosts, each row crosses
 * the busiest link once. */
static bool
saves_scatter (const struct topology *topology, int size)
{
    int most = 0;
    for (int host = 0; host < topology->hosts; host++) {
        int here = topology_size (topology, host), rows = here * (size - here);
        most = rows > most ? rows : most;
    }
    return topology->hosts == 1 || most > size;
}

struct topology *
topology_create (const int *labels, int size, int rank)
{
    size_t ranks = (size_t) size;
    struct topology *topology = aligned_alloc (alignof (struct topology), sizeof *topology);
    int *numbers = calloc (4 * ranks + 1, sizeof *numbers);
    if (!topology || !numbers) {
        free (topology);
        free (numbers);
        return NULL;
    }
    *topology = (struct topology){ .host_of = numbers, .local_rank_of = numbers + ranks, .order = numbers + 2 * ranks,
                                   .begins = numbers + 3 * ranks };
    number_hosts (topology, labels, size);
    put_in_order (topology, size);
    topology->saves_scatter = saves_scatter (topology, size);
    topology->here = topology->host_of[rank];
    topology->size = topology_size (topology, topology->here);
    topology->rank = topology->local_rank_of[rank];
    topology->counters = calloc ((size_t) topology->size, sizeof *topology->counters);
    topology->stages = calloc ((size_t) topology->size, sizeof *topology->stages);
    if (topology->counters && topology->stages) {
        topology->counters[0] = topology->size == 1 ? &topology->alone : NULL;
        return topology;
    }
    topology_destroy (topology);
    return NULL;
}

void
topology_destroy (struct topology *topology)
{
    if (!topology)
        return;
    free (topology->host_of);
    free (topology->counters);
    free (topology->stages);
    free (topology);
}

bool
topology_shares (const struct topology *topology, int rank)
{
    return topology_size (topology, topology->host_of[rank]) > 1;
}

bool
topology_shares_any (const struct topology *topology)
{
    return topology->begins[topology->hosts] > topology->hosts;
}
