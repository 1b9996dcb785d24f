/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "mpi": which ranks of a communicator are on which host, and what those of a host count for each other. */
#ifndef ENGINES_MPI_TOPOLOGY_H
#define ENGINES_MPI_TOPOLOGY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** What a rank tells the others of its host: counts of the pieces of all calls of a communicator, which only grow. */
struct counters {
    _Atomic uint64_t staged; /* pieces before this one can be read */
    _Atomic uint64_t done;   /* those that this rank carries, and come before this one, are reduced */
    _Atomic uint64_t taken;  /* this rank has what comes before this one */
    _Atomic uint64_t written; /* messages in its outbox */
    _Atomic uint64_t seen;   /* messages that it has read in the outbox of each other rank, and has written itself */
    _Atomic uint64_t read;   /* messages of each rank of the other hosts that it has read */
    _Atomic uint64_t broken; /* 1 + pieces of calls that have ended well here; the next call has failed; 0: none has */
    _Atomic uint64_t left;   /* other ranks of the host that have destroyed the group, and read here no more */
} __attribute__ ((aligned (128)));

/** Where the ranks of a communicator are, and what those of this host share. */
struct topology {
    int hosts;
    int here;       /* this host, in the order of their first ranks */
    int size, rank; /* of the ranks on it */
    bool is_sorted; /* ranks of a host follow each other, so a reduction can go from host to host in their order */
    bool saves_scatter; /* links carry less of a reduce-scatter if each host adds its rows */
    int *host_of, *local_rank_of; /* [ranks]; the place on the host */
    int *order;     /* [ranks] host by host */
    int *begins;    /* [hosts + 1] of each in that order */
    struct counters **counters; /* [size] */
    unsigned char **stages; /* [size] */
    struct counters alone;  /* of a rank that is alone on its host */
    uint64_t planned, finished; /* pieces of all calls */
};

/* ---- topology.c ---- */

/** @param labels  [size], equal for ranks that are on one host  @return NULL without memory */
struct topology *topology_create (const int *labels, int size, int rank);
void topology_destroy (struct topology *topology);
/** Whether rank @p rank is not alone on its host, and whether any is not. @{ */
bool topology_shares (const struct topology *topology, int rank);
bool topology_shares_any (const struct topology *topology);
/** @} */

static inline int
topology_size (const struct topology *topology, int host)
{
    return topology->begins[host + 1] - topology->begins[host];
}

/** The rank that is rank @p i of a host. */
static inline int
topology_rank (const struct topology *topology, int host, int i)
{
    return topology->order[topology->begins[host] + i];
}

/** @return local rank, or -1: it is on another host */
static inline int
topology_local_rank (const struct topology *topology, int rank)
{
    return topology->host_of[rank] == topology->here ? topology->local_rank_of[rank] : -1;
}

#endif
