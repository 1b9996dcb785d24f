/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "mpi": a call while it runs, and the ways in which large ones go. */
#ifndef ENGINES_MPI_CALLS_H
#define ENGINES_MPI_CALLS_H

#include "engines/mpi/protocol.h"

struct communicator;
struct topology;

/** What one call sends to a rank and gets from it. */
struct transfer {
    const char *out;
    char *in;
    size_t out_bytes, in_bytes;
    unsigned left;  /* messages that MPI still has */
    int tag;        /* of that rank's data, once it has come */
    uint64_t send_at, recv_at, shared_at; /* its buffers, too, and its counters */
    bool is_used;   /* that rank takes part */
    bool has_come;  /* its control message has, and agrees */
    bool differs;   /* it calls something else */
    bool is_other;  /* namely another collective, of which no ledger needs to be read */
};

/** A part of the pieces of a reduction, one from each rank to each. */
struct block {
    unsigned left;     /* messages that MPI still has */
    unsigned unposted; /* ranks whose piece cannot be received yet, because they have not come */
};

/** A large reduction through the memory of this host. */
struct hier_reduce {
    uint64_t base;  /* number of its first piece */
    size_t pieces, piece; /* their number, and elements of each */
    size_t staged, taken; /* by this rank, so far */
    size_t next;    /* it receives what it carries of the pieces before this one */
    size_t begun, reduced, returned, finished; /* of the pieces that it carries */
    size_t carried[HIER_REDUCE_WINDOW]; /* the last ones that were begun */
    bool is_on;
    bool is_planned; /* all ranks have come, and base is known */
    bool is_direct;  /* the buffers are not in the arenas, so it goes from rank to rank */
};

/** A large broadcast or all-gather through the memory of this host. */
struct hier_bcast {
    size_t own, own_sent;  /* pieces of this rank's part */
    size_t next, oldest;   /* pieces before these are being received, and were received */
    size_t begun, passed, finished; /* of the pieces that this rank carries */
};

/** A call. */
struct operation {
    struct operation *next; /* in the order of starts */
    struct communicator *comm; /* NULL: of an abandoned call */
    struct topology *topology; /* the communicator's */
    const struct accel_engine_call *call;
    struct call_signature mine;
    int tag;
    unsigned missing;      /* ranks that have not come */
    char *control;         /* control messages, [1] or [size], or a bundle */
    bool goes_by_outbox;   /* its control message goes by the outbox, */
    bool is_posted;        /* and is there */
    int64_t posted_ms;
    bool is_flushed;       /* other hosts know who is missing here */
    uint64_t serial;       /* of those in the outbox */
    uint32_t *pairs;       /* [size] control messages that came before and went from rank to rank */
    char *rows;            /* of a reduction: what other ranks send */
    size_t rows_bytes;
    const void **sources;  /* [size], for the kernels */
    size_t blocks, begun, reduced, finished; /* of a large reduction; 0 blocks: everything else */
    size_t stride, limit, piece; /* elements: from part to part, of all, of a piece */
    struct block window[2 * HIER_REDUCE_WINDOW]; /* of calls without blocks, the first */
    struct hier_reduce hier;
    struct hier_bcast bcast;
    bool over;
    enum accel_status status;
    struct accel_error error;
    struct transfer transfers[]; /* [size] */
};

/* ---- operation.c ---- */

/** Prepare @p call.  @return NULL without memory */
struct operation *operation_create (struct communicator *comm, const struct accel_engine_call *call);
/** Send what needs no other rank. */
void operation_begin (struct operation *operation);
/** The control message of @p rank has come. */
void operation_match (struct operation *operation, int rank, const struct header *header, const char *data);
/** Do what can be done now; sets `over`. */
void operation_advance (struct operation *operation);
void operation_destroy (struct operation *operation);

/** Whether @p operation lacks something of @p rank. */
bool operation_awaits (const struct operation *operation, int rank);

/* ---- blocks.c ---- */

/** Cut a large reduction into blocks. */
void blocks_plan (struct operation *operation);
/** The pieces of @p rank can be received now. */
void blocks_match (struct operation *operation, int rank);
/** @return whether all blocks are finished */
bool blocks_advance (struct operation *operation);

/* ---- hier_bcast.c ---- */

/** Whether @p call goes through the memory of the hosts, if the buffers are there; all ranks find the same. */
bool hier_bcast_supports (const struct communicator *comm, const struct accel_engine_call *call);
/** Cut it into pieces. */
void hier_bcast_plan (struct operation *operation);
/** All ranks have come: whether their buffers are in the arenas. */
bool hier_bcast_is_possible (const struct operation *operation);
/** They are not. */
void hier_bcast_fall_back (struct operation *operation);
/** @return whether it is over */
bool hier_bcast_advance (struct operation *operation);

/* ---- hier_reduce.c ---- */

/** Whether @p call goes through the memory of the hosts; all ranks find the same. */
bool hier_reduce_supports (const struct communicator *comm, const struct accel_engine_call *call);
/** Cut it into pieces. */
void hier_reduce_plan (struct operation *operation);
/** @return whether it is over */
bool hier_reduce_advance (struct operation *operation);
/** A call has failed: tell the ranks of this host, before its buffers are freed. */
void hier_reduce_fail (const struct communicator *comm);
/** Whether rank @p rank of this host is not through with it. */
bool hier_reduce_awaits (const struct operation *operation, int rank);

#endif
