/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "mpi": what large calls through the memory of hosts have in common. */
#ifndef ENGINES_MPI_HIER_H
#define ENGINES_MPI_HIER_H

#include "engines/mpi/communicators.h"
#include "engines/mpi/topology.h"

static inline struct counters *
own_counters (const struct operation *operation)
{
    const struct topology *topology = operation->topology;
    return topology->counters[topology->rank];
}

/** Whether @p counter of a rank of this host says that it is past piece @p k. */
static inline bool
has_reached (const struct operation *operation, const _Atomic uint64_t *counter, size_t k)
{
    return atomic_load_explicit (counter, memory_order_acquire) > operation->hier.base + k;
}

/** Whether all ranks of this host have got piece @p k. */
static inline bool
all_have_taken (const struct operation *operation, size_t k)
{
    const struct topology *topology = operation->topology;
    for (int local = 0; local < topology->size; local++)
        if (!has_reached (operation, &topology->counters[local]->taken, k))
            return false;
    return true;
}

/** Set a counter of this rank to @p pieces of the call. */
static inline void
set_counter (struct operation *operation, _Atomic uint64_t *counter, size_t pieces)
{
    atomic_store_explicit (counter, operation->hier.base + pieces, memory_order_release);
    operation->comm->moved = true;
}

/** The rank of a host that carries piece @p k: @p owner, if it is there, or each in turn.  @p owner  -1: none */
static inline int
carrier_of (const struct operation *operation, int host, size_t k, int owner)
{
    const struct topology *topology = operation->topology;
    if (owner >= 0 && topology->host_of[owner] == host)
        return owner;
    return topology_rank (topology, host, (int) (k % (size_t) topology_size (topology, host)));
}

#endif
