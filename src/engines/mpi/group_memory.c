/* SPDX-License-Identifier: Apache-2.0 */
/* What a group keeps in the memory of its hosts: counters and a stage of each rank, in the rank's own arena, from the
 * group's first large call on.  Control messages say where they are, so no rank waits for another.
 *
 * The other ranks of the host may still read them when this rank destroys the group.  So the memory is given back in
 * the first call after each of them has destroyed it, too; if one never does, when the job is closed.  Where a rank had
 * no memory for it, none has read any, and it is given back at once. */
#include <config.h>

#include "engines/mpi/communicators.h"
#include "engines/mpi/topology.h"

#include <stdlib.h>

/* Memory of a group that this rank has left. */
struct retired {
    struct retired *next;
    uint64_t at;
    uint64_t readers; /* the other ranks of the group on this host */
};

static struct counters *
counters_at (uint64_t at)
{
    return (struct counters *) (void *) (mpi.host.arenas + at);
}

void
group_memory_collect (void)
{
    struct retired **at = &mpi.world.retired;
    while (*at) {
        struct retired *left = *at;
        if (atomic_load_explicit (&counters_at (left->at)->left, memory_order_acquire) < left->readers) {
            at = &left->next;
            continue;
        }
        *at = left->next;
        arena_return (left->at);
        free (left);
    }
}

void
group_memory_forget (void)
{
    while (mpi.world.retired) {
        struct retired *left = mpi.world.retired;
        mpi.world.retired = left->next;
        arena_forget (left->at);
        free (left);
    }
}

void
group_memory_prepare (struct communicator *comm)
{
    if (!comm->group || comm->topology->size == 1 || comm->shared_at != FOREIGN)
        return;
    comm->shared_at = arena_take (sizeof (struct counters) + STAGE_BYTES);
}

bool
group_memory_find (const struct operation *operation)
{
    const struct communicator *comm = operation->comm;
    const struct topology *topology = comm->topology;
    if (!comm->group)
        return true;
    for (int i = 0; i < comm->size; i++)
        if (topology_shares (topology, i) && operation->transfers[i].shared_at == FOREIGN)
            return false;
    for (int i = 0; i < topology->size && topology->size > 1; i++) {
        int rank = topology_rank (topology, topology->here, i);
        topology->counters[i] = counters_at (operation->transfers[rank].shared_at);
        topology->stages[i] = (unsigned char *) (topology->counters[i] + 1);
    }
    return true;
}

void
group_memory_leave (struct communicator *comm)
{
    const struct topology *topology = comm->topology;
    if (!arena_is_own ())
        return;
    bool is_found = topology->counters[topology->rank] || comm->has_failed;
    if (!is_found && comm->shared_at != FOREIGN) {
        arena_return (comm->shared_at);
        comm->shared_at = FOREIGN;
    }
    struct retired *left = comm->shared_at == FOREIGN ? NULL : malloc (sizeof *left);
    for (int i = 0; i < topology->size && topology->size > 1; i++)
        if (i != topology->rank && topology->counters[i])
            atomic_fetch_add_explicit (&topology->counters[i]->left, 1, memory_order_release);
    if (left) {
        *left = (struct retired){ mpi.world.retired, comm->shared_at, (uint64_t) topology->size - 1 };
        mpi.world.retired = left;
    }
    group_memory_collect ();
}

void
group_memory_abandon (struct communicator *comm)
{
    if (comm->shared_at != FOREIGN)
        arena_forget (comm->shared_at);
    comm->shared_at = FOREIGN;
    topology_destroy (comm->topology);
    comm->topology = NULL;
}
