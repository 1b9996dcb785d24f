/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "mpi": communicators of libaccel, the control messages that wait for their calls, and the memory of groups. */
#ifndef ENGINES_MPI_COMMUNICATORS_H
#define ENGINES_MPI_COMMUNICATORS_H

#include "engines/mpi/calls.h"
#include "engines/mpi/state.h"

#include <stdatomic.h>

struct topology;

struct queue {
    struct message *first, **last;
    bool is_final; /* nothing more will come from that rank: it has given up, or was seen to end */
};

/** A communicator of libaccel. */
struct communicator {
    struct communicator *next;
    int size, rank;
    int64_t group;
    atomic_uint timeout_ms;
    struct operation *first;
    const struct operation *oldest; /* that is not over, when it was looked at last */
    int64_t seen_ms, waited_ms, looked_ms;
    int mismatches;      /* looks since a rank was seen that calls something else */
    int failed_looks;    /* looks in a row that said that the oldest call waits in vain */
    bool moved;          /* data has, since it was looked at last */
    atomic_bool gave_up;
    bool has_sent_gave_up;  /* to the other ranks */
    bool has_failed;     /* a call of it: others may know more of it than this rank */
    char reason[REASON_BYTES];
    int gave_up_rank;    /* a rank of the job that has given up, or -1 */
    char its_reason[REASON_BYTES];
    struct queue *queues; /* [size], of control messages that have come too early */
    struct queue *bundled; /* [size], the same from outboxes of other hosts, in the order of calls; without `last` */
    const struct header *direct; /* one of those that is where MPI has left it */
    uint64_t outbox_calls; /* calls that this rank has started with its outbox */
    uint64_t *matched;     /* [size] messages of outboxes that have found their call */
    uint32_t *pairs_to, *pairs_from; /* [size] control messages from rank to rank, started and matched */
    int *peers;           /* [size], ranks of MPI */
    struct topology *topology; /* NULL: nothing goes through the memory of hosts */
    uint64_t shared_at;   /* of a group: counters and a stage in the arena of this rank, or FOREIGN */
};

/* ---- communicator.c ---- */

struct communicator *comm_create (int size, int rank, int64_t group, uint32_t timeout_ms);
/** From now on it gets its messages. */
void comm_add (struct communicator *comm);
void comm_destroy (struct communicator *comm);
/** Drop messages for groups that were never joined. */
void comm_forget_unexpected (void);
void comm_start (struct communicator *comm, struct operation *operation);
struct operation *comm_oldest (const struct communicator *comm);
/** Tell the other ranks that this one has given up. */
void comm_send_gave_up (struct communicator *comm);
/** Everything in flight is over. */
void comm_fail (struct communicator *comm, enum accel_status status, const struct accel_error *err);
/** Move everything on.  @return whether data was moved, or a call ended */
bool comm_poll_all (void);
/** The same, and find out what will never end. */
bool comm_progress_all (void);

/* ---- group_memory.c ---- */

/** Before a large call: let the group have memory, if it has none yet. */
void group_memory_prepare (struct communicator *comm);
/** All ranks have come: find what they share.  @return whether each has memory; all ranks find the same */
bool group_memory_find (const struct operation *operation);
/** The group is destroyed; in a child of fork(), its parent still has it. */
void group_memory_leave (struct communicator *comm);
/** The job is closed before the group is destroyed. */
void group_memory_abandon (struct communicator *comm);
/** Give back what no rank reads any more; or forget it. @{ */
void group_memory_collect (void);
void group_memory_forget (void);
/** @} */

/* ---- outbox.c ---- */

/** Whether the control message of @p call goes by them. */
bool outbox_supports (const struct communicator *comm, const struct accel_engine_call *call);
/** Write what can be written. */
void outbox_post (struct communicator *comm);
/** Of calls that are SLICE_MS old, tell other hosts who has come, if some ranks of this one have not. */
void outbox_flush (struct communicator *comm);
/** @return whether the next control message of @p rank is this one, from its outbox */
bool outbox_peek (const struct communicator *comm, int rank, const struct header **header, const char **data);
/** It has found its call. */
void outbox_take (struct communicator *comm, int rank);
/** Whether the memory of this host has something new of a rank. */
bool outbox_has (const struct communicator *comm, int rank);
/** Take the message at @p at of a bundle.  @param[out] rank  whose it is  @return whether there was one */
bool outbox_unpack (struct communicator *comm, const struct message *bundle, size_t *at, int *rank);
/** Keep it, if no call has taken it. */
void outbox_keep (struct communicator *comm);
/** What has come for this host, and did not fit into its memory, may now. */
void outbox_publish (struct communicator *comm);

/** What the control message of @p operation says, with @p data bytes of data. */
static inline struct header
operation_header (const struct operation *operation, size_t data)
{
    const struct communicator *comm = operation->comm;
    const struct transfer *own = &operation->transfers[comm->rank];
    return (struct header){ .session = mpi.world.session, .group = comm->group, .signature = operation->mine,
                            .rank = comm->rank, .tag = operation->tag, .inline_bytes = (uint32_t) data,
                            .send_at = own->send_at, .recv_at = own->recv_at,
                            .shared_at = comm->shared_at, .collectives = comm->outbox_calls };
}

#endif
