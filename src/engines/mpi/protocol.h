/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "mpi": how it works, and what ranks send to each other.  Of libaccel it
 * includes accel/engine.h alone.
 *
 * MPI carries bytes between two ranks; everything else is here, because MPI's own collectives know no 16-bit floats,
 * add in an order of their own, and cannot say that another rank calls something else.  A call begins with a control
 * message from each rank to each other one, which says what is called and holds up to INLINE_BYTES of data.  Larger
 * data follows in messages of its own.  Reductions go in pieces to the rank that owns a part of the result, are added
 * there in the order of ranks by libaccel's kernels, and go back to all: each byte is sent as often as in a ring, and
 * the bits are those of engine shm, the same in every run.
 *
 * On several hosts, ranks of one host share memory.  Control messages of the world's collectives go through it, and
 * those of a host go to other hosts together, where they may go through the memory again (outbox.c).  So do large
 * all-reduces and reduce-scatters (hier_reduce.c), broadcasts and all-gathers of the world (hier_bcast.c): each byte
 * crosses a link once in each direction, not once for each rank.
 *
 * One communicator of MPI serves all groups.  Control messages name their group, so a group is made without waiting.
 * Its large calls go through memory like those of the world, at addresses that it finds when they begin
 * (group_memory.c); its control messages go from rank to rank.
 *
 * MPI is called with the engine's lock, by one thread at a time, which is MPI_THREAD_SERIALIZED.  With less, only the
 * thread that opened the job may call. */
#ifndef ENGINES_MPI_PROTOCOL_H
#define ENGINES_MPI_PROTOCOL_H

#include <accel/engine.h>

#include <mpi.h>

/* MPICH's MPI_STATUSES_IGNORE is the address 1, which GCC takes for an array that is too short. */
#if defined MPICH_VERSION && defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/** What ranks compare.  As bytes, so without padding. */
struct call_signature {
    uint64_t count;
    int32_t kind, root;
    int16_t dtype, op;
    uint32_t public_call, form, number;
};

/** What a control message begins with. */
struct header {
    uint64_t session; /* one accel_open() of all ranks */
    int64_t group;    /* the group; 0: the world */
    struct call_signature signature;
    int32_t rank;     /* the sender, in the group */
    int32_t tag;      /* of its messages with data; the next one is the call's, too */
    uint32_t inline_bytes;
    uint32_t ended;   /* of GAVE_UP and ENDED: 1 + the rank of the job that the sender has seen to end */
    uint64_t send_at, recv_at; /* the sender's buffers in the arenas of its host, or FOREIGN */
    uint64_t shared_at;   /* and what it keeps there for the group */
    uint64_t collectives; /* messages of the sender's outbox that come before this one */
};

#define FOREIGN UINT64_MAX

/** Number of the first call in the outboxes: what has only 32 bits of it overflows in each job, not only after days. */
#define OUTBOX_FIRST (UINT32_MAX - UINT64_C (40))

enum {
    LINE = 64,
    SLICE_MS = 50,
    PAUSE_MS = 1000,      /* longer than this between two looks, the program was computing */
    CONTROL_BYTES = 4000, /* of a control message: below the size that MPI sends at once everywhere */
    INLINE_BYTES = CONTROL_BYTES - sizeof (struct header),
    RING = 16,            /* control messages that can be delivered while this rank computes */
    WINDOW = 3,           /* blocks of a reduction in flight */
    HIER_REDUCE_WINDOW = 4, /* pieces that a rank carries between hosts at once */
    HIER_REDUCE_STAGED = 8, /* pieces of a buffer of the program's own that can be ahead */
    HIER_REDUCE_PARTS = 4, /* pieces of a small buffer */
    HIER_REDUCE_PIECE = 256 << 10,
    /* For what a rank gives, and what it gets: */
    STAGE_BYTES = (HIER_REDUCE_STAGED + HIER_REDUCE_WINDOW) * HIER_REDUCE_PIECE,
    HIER_REDUCE_PIECE_NEAR = 128 << 10, /* on one machine, from HIER_REDUCE_NEAR_LEAST on: hosts share its caches */
    HIER_REDUCE_NEAR_LEAST = 2 << 20,
    HIER_REDUCE_PIECE_LEAST = 16 << 10,
    HIER_BCAST_LEAST = 64 << 10, /* bytes of a part */
    SCATTER_LEAST = 256 << 10, /* bytes of a row of a reduce-scatter */
    HIER_REDUCE_LEAST = 32 << 10, /* bytes, for each link of the chain of hosts; less goes from rank to rank */
    MESSAGE_BYTES = 64 << 20, /* of one message: counts in MPI are int, and each one that arrives is progress */
    PIECE_MOST = 256 << 10,   /* bytes of a reduction that one rank sends to another at once */
    PIECE_LEAST = 16 << 10,
    PIECES_BYTES = 4 << 20,   /* that those of all ranks should not exceed */
    TAG_HELLO = 1,
    TAG_CONTROL = 2,
    TAG_FIRST = 4, /* of data; even */
    OUTBOX_SLOTS = 8,
    OUTBOX_INLINE = 16 << 10,      /* data of a message in an outbox */
    OUTBOX_INLINE_ALL = 64 << 10,  /* that of all ranks should not exceed */
    BUNDLES = 8,       /* bundles that MPI may still have */
    OUTBOX_HOST = 30,  /* ranks of a host, and of the job, with outboxes */
    OUTBOX_RANKS = 64,
    GAVE_UP = -1,  /* a kind of control message: the rank will not come any more, and says why */
    ENDED = -2,    /* another one: a rank of the sender's host has ended */
    BUNDLE = -3,   /* another one: the control messages of several ranks */
    REASON_BYTES = 512,
};

/** A control message that has arrived before its call. */
struct message {
    struct message *next;
    int from; /* rank of MPI */
    struct header header;
    char data[];
};

static inline size_t
round_up (size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/** The gate of call @p serial, through which no rank has passed. */
static inline uint64_t
outbox_gate (uint64_t serial)
{
    return (serial + 1) << 32;
}

static inline bool
call_is_pair (const struct accel_engine_call *call)
{
    return call->kind == ACCEL_ENGINE_SEND || call->kind == ACCEL_ENGINE_RECV;
}

static inline bool
call_reduces (const struct accel_engine_call *call)
{
    return call->kind == ACCEL_ENGINE_ALL_REDUCE || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
}

#endif
