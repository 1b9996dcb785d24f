/* SPDX-License-Identifier: Apache-2.0 */
/* The order of launches on several communicators.  A kernel of NCCL's occupies its GPU while it waits for ranks, so:
 *
 * - Ranks that share two communicators have to launch what is on them in one order: each launch notes how many there
 *   were before on the other communicators, and ranks compare.
 * - On one GPU, a launch has to come after the one before it, by an event if they are on different streams, unless NCCL
 *   orders them itself (NCCL_LAUNCH_ORDER_IMPLICIT).
 *
 * Messages count for the second only: no more than two ranks know of one. */
#include <config.h>

#include "tests/standin/nccl_standin.h"

#include <stdlib.h>
#include <string.h>

struct ncclComm *nccl_comms;

/* The last launch on each device. */
static struct last {
    const struct ncclComm *comm; /* NULL: none */
    const char *name;
    struct use end;
} lasts[MOST_DEVICES];

static bool
orders_itself (void)
{
    const char *version = getenv ("STANDIN_NCCL_VERSION"), *order = getenv ("NCCL_LAUNCH_ORDER_IMPLICIT");
    return (version ? atoi (version) : NCCL_VERSION_CODE) >= 22600 && order && !strcmp (order, "1");
}

/* Whether its kernels wait for other ranks. */
static bool
counts (const struct ncclComm *comm)
{
    return comm && comm->count > 1 && !comm->aborted;
}

/* ---- between ranks ---- */

static bool
is_collective (const struct nccl_batch *batch)
{
    bool all = true;
    for (unsigned i = 0; i < batch->count; i++)
        all = all && batch->calls[i].asked.kind < NCCL_SEND;
    return all;
}

static struct nccl_launches *
launches_of (const struct ncclComm *comm, int rank)
{
    return &comm->shared->launches[rank];
}

/* What this rank has launched before. */
static void
note (const struct ncclComm *comm, struct nccl_launch *launch)
{
    const char *rank = getenv ("RANK");
    launch->process = rank ? atoi (rank) : comm->rank;
    launch->known = 0;
    for (const struct ncclComm *other = nccl_comms; other && launch->known < NCCL_BESIDE; other = other->next)
        if (other != comm && !other->gone && counts (other))
            launch->before[launch->known++] = (struct nccl_before){ other->shared->id,
                                                                    launches_of (other, other->rank)->count };
}

static void
compare (const struct ncclComm *comm, const struct nccl_call *call, uint64_t number, const struct nccl_launch *own,
         const struct nccl_launch *theirs)
{
    for (unsigned i = 0; i < own->known; i++)
        for (unsigned j = 0; j < theirs->known; j++) {
            uint64_t mine = own->before[i].count, its = theirs->before[j].count;
            if (own->before[i].comm != theirs->before[j].comm || mine == its)
                continue;
            int first = mine > its ? own->process : theirs->process;
            standin_report (&call->site, NULL,
                            "%s: ranks launch in different orders: rank %d launched number %llu of communicator %llx "
                            "before number %llu of communicator %llx, rank %d after it", call->name, first,
                            (unsigned long long) (mine < its ? mine : its) + 1,
                            (unsigned long long) own->before[i].comm, (unsigned long long) number,
                            (unsigned long long) comm->shared->id, mine > its ? theirs->process : own->process);
        }
}

/* Of two ranks, the one that comes later finds the other's note. */
static void
check_ranks (const struct nccl_batch *batch)
{
    const struct ncclComm *comm = batch->calls[0].comm;
    struct nccl_launches *own = launches_of (comm, comm->rank);
    uint64_t number = own->count + 1;
    struct nccl_launch *launch = &own->kept[number % NCCL_KEPT];
    if (!is_collective (batch))
        return;
    atomic_store (&launch->number, 0);
    note (comm, launch);
    atomic_store (&launch->number, number);
    own->count = number;
    for (int rank = 0; rank < comm->count; rank++) {
        struct nccl_launch *theirs = &launches_of (comm, rank)->kept[number % NCCL_KEPT];
        if (rank == comm->rank || atomic_load (&theirs->number) != number)
            continue;
        const struct nccl_launch copy = *theirs;
        if (atomic_load (&theirs->number) == number) /* still */
            compare (comm, &batch->calls[0], number, launch, &copy);
    }
}

/* ---- on a device ---- */

void
nccl_launch (const struct nccl_batch *batch)
{
    const struct ncclComm *comm = batch->calls[0].comm;
    const struct last *last = &lasts[comm->device];
    if (!counts (comm))
        return;
    if (last->comm != comm && counts (last->comm) && !orders_itself () && !standin_follows (batch->stream, &last->end))
        standin_report (&last->end.site, NULL,
                        "nothing orders %s on the device after %s of another communicator, which was launched before",
                        batch->calls[0].name, last->name);
    check_ranks (batch);
}

void
nccl_launched (const struct ncclComm *comm, const struct nccl_call *call, cudaStream_t stream)
{
    if (!counts (comm))
        return;
    lasts[comm->device] = (struct last){ .comm = comm, .name = call->name };
    standin_mark (stream, &lasts[comm->device].end);
    lasts[comm->device].end.site = call->site;
}
