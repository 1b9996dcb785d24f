/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "mpi", the inside.  A module: of libaccel it includes accel/engine.h alone.
 *
 * MPI carries bytes between two ranks; everything else is here, because MPI's own collectives know no 16-bit floats,
 * add in an order of their own, and cannot say that another rank calls something else.  A call begins with a control
 * message from each rank to each other one, which says what is called and holds up to INLINE_BYTES of data.  Larger
 * data follows in messages of its own.  Reductions go in pieces to the rank that owns a part of the result, are added
 * there in the order of ranks by libaccel's kernels, and go back to all: each byte is sent as often as in a ring, and
 * the bits are those of engine shm, the same in every run.
 *
 * One communicator of MPI serves all groups.  Control messages name their group, so a group is made without waiting.
 *
 * MPI is called with the engine's lock, by one thread at a time, which is MPI_THREAD_SERIALIZED.  With less, only the
 * thread that opened the job may call. */
#ifndef ENGINES_MPI_PRIVATE_H
#define ENGINES_MPI_PRIVATE_H

#include <accel/engine.h>

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

/* MPICH's MPI_STATUSES_IGNORE is the address 1, which GCC takes for an array that is too short. */
#if defined MPICH_VERSION && defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/** What ranks compare.  As bytes, so without padding. */
struct called {
    uint64_t count;
    int32_t kind, root;
    int16_t dtype, op;
    uint32_t public_call, form, number;
};

/** What a control message begins with. */
struct header {
    uint64_t session; /* one accel_open() of all ranks */
    int64_t place;    /* the group; 0: the world */
    struct called called;
    int32_t rank;     /* the sender, in the group */
    int32_t tag;      /* of its messages with data; the next one is the call's, too */
    uint32_t inline_bytes;
    uint32_t spare;
};

enum {
    SLICE_MS = 50,
    PAUSE_MS = 1000,      /* longer than this between two looks, the program was computing */
    CONTROL_BYTES = 4000, /* of a control message: below the size that MPI sends at once everywhere */
    INLINE_BYTES = CONTROL_BYTES - sizeof (struct header),
    RING = 16,            /* control messages that can be delivered while this rank computes */
    WINDOW = 3,           /* blocks of a reduction in flight */
    MESSAGE_BYTES = 64 << 20, /* of one message: counts in MPI are int, and each one that arrives is progress */
    PIECE_MOST = 256 << 10,   /* bytes of a reduction that one rank sends to another at once */
    PIECE_LEAST = 16 << 10,
    PIECES_BYTES = 4 << 20,   /* that those of all ranks should not exceed */
    TAG_HELLO = 1,
    TAG_CONTROL = 2,
    TAG_FIRST = 4, /* of data; even */
};

/** A control message that has arrived before its call. */
struct message {
    struct message *next;
    int from; /* rank of MPI */
    struct header header;
    char data[];
};

/** What one call sends to a rank and gets from it. */
struct leg {
    const char *out;
    char *in;
    size_t out_bytes, in_bytes;
    unsigned left;  /* messages that MPI still has */
    int tag;        /* of that rank's data, once it has come */
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

/** A call. */
struct flight {
    struct flight *next; /* in the order of starts */
    struct team *team; /* NULL: of a ghost */
    const struct accel_engine_call *call;
    struct called mine;
    int tag;
    unsigned missing;      /* ranks that have not come */
    char *control;         /* control messages, [1] or [size] */
    char *rows;            /* of a reduction: what other ranks send */
    size_t rows_bytes;
    const void **sources;  /* [size], for the kernels */
    size_t blocks, begun, reduced, finished; /* of a large reduction; 0 blocks: everything else */
    size_t stride, limit, piece; /* elements: from part to part, of all, of a piece */
    struct block window[WINDOW]; /* of calls without blocks, the first */
    bool over;
    enum accel_status status;
    struct accel_error error;
    struct leg legs[]; /* [size] */
};

struct queue {
    struct message *first, **last;
};

/** A communicator of libaccel. */
struct team {
    struct team *next;
    int size, rank;
    int64_t place;
    uint32_t timeout_ms;
    struct flight *first;
    const struct flight *oldest; /* that is not over, when it was looked at last */
    int64_t seen_ms, waited_ms, looked_ms;
    int disputes;        /* looks since a rank was seen that calls something else */
    int verdicts;        /* looks in a row that said that the oldest call waits in vain */
    bool moved;          /* data has, since it was looked at last */
    atomic_bool gave_up;
    struct queue *queues; /* [size], of control messages that have come too early */
    int *peers;           /* [size], ranks of MPI */
};

/** A message that MPI has. */
struct note {
    struct flight *flight;
    unsigned *block_left, *leg_left;
    bool receives, is_data;
};

/** MPI in this process.  Everything with the lock. */
struct world {
    pthread_mutex_t lock;
    MPI_Comm comm;  /* a duplicate of MPI_COMM_WORLD, kept until the process ends */
    bool has_comm;
    bool is_stuck;  /* a failed job has left messages behind that MPI would not give up */
    int level;      /* of threads */
    pthread_t opener; /* the only thread that may call, if the level is low */
    int next_tag, last_tag;
    uint64_t session; /* 0: none is open */
    int rank;         /* of the job */
    bool is_crowded;  /* this host has more ranks than processors */
    int groups;
    struct team *teams;
    struct message *orphans; /* for groups that this rank has not joined yet */
    MPI_Request ring[RING];
    char (*ring_bytes)[CONTROL_BYTES];
    int ring_head;
    MPI_Request *requests; /* [request_count] */
    struct note *notes;
    int *indices;
    int request_count, request_room;
    char *spare; /* a buffer for reductions that is not in use */
    size_t spare_bytes;
    struct flight *ghosts; /* failed calls whose messages MPI still has */
    char error[256]; /* what MPI has complained about, once */
};

extern struct world mpi_world;

/* Files use what is declared above them: world, post, blocks, flight, team, mpi. */

/* ---- world.c ---- */
/** Whether MPI could connect the job, as far as the variables of its launchers say. */
enum accel_status world_probe (const struct accel_engine_job *job, struct accel_error *err);
/** Start MPI, unless the program has, and meet the others.
 *  @param[out] peers  [job->world_size], the rank of MPI of each rank */
enum accel_status world_open (const struct accel_engine_job *job, int *peers, struct accel_error *err);
/** Note the first failure of MPI.  @return whether @p code is success */
bool world_check (int code, const char *call);
/** Say what it was; MPI is not used any more. */
enum accel_status world_fail (const struct accel_engine_helpers *helpers, struct accel_error *err);
/** Whether this thread may call MPI. */
bool world_is_mine (void);
const char *world_level_name (int level);

/** Before MPI_Init(): let MPI's own plug-ins find it. */
void world_show_symbols (void);
int64_t now_ms (void);

/* ---- post.c ---- */
/** Send, or receive, @p bytes at @p at as messages of MESSAGE_BYTES at most. @{ */
void post_send (struct flight *flight, int rank, struct block *block, const void *at, size_t bytes, int tag);
void post_recv (struct flight *flight, int rank, struct block *block, void *at, size_t bytes, int tag);
/** @} */
void post_control (struct flight *flight, int rank, const void *message, size_t bytes);
/** Find out what MPI has finished; sets `moved` of teams. */
void post_test (void);
/** A failed call: take back what MPI has not begun to receive. */
void post_cancel (const struct flight *flight);
/** Begin and end receiving control messages. @{ */
bool ring_open (void);
void ring_close (void);
/** @} */
/** @return the next control message that has come, or NULL; to be freed */
struct message *ring_next (void);

/* ---- blocks.c ---- */
/** Cut a large reduction into blocks. */
void blocks_plan (struct flight *flight);
/** The pieces of @p rank can be received now. */
void blocks_meet (struct flight *flight, int rank);
/** @return whether all blocks are finished */
bool blocks_advance (struct flight *flight);

/* ---- flight.c ---- */
/** Prepare @p call.  @return NULL without memory */
struct flight *flight_create (struct team *team, const struct accel_engine_call *call);
/** Send what needs nobody else. */
void flight_begin (struct flight *flight);
/** The control message of @p rank has come. */
void flight_meet (struct flight *flight, int rank, const struct message *message);
/** Do what can be done now; sets `over`. */
void flight_advance (struct flight *flight);
void flight_destroy (struct flight *flight);

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

/* ---- team.c ---- */
struct team *team_create (int size, int rank, int64_t place, uint32_t timeout_ms);
/** From now on it gets its messages. */
void team_add (struct team *team);
void team_destroy (struct team *team);
/** Drop messages for groups that were never joined. */
void team_forget_orphans (void);
void team_start (struct team *team, struct flight *flight);
struct flight *team_oldest (const struct team *team);
/** Everything in flight is over. */
void team_fail (struct team *team, enum accel_status status, const struct accel_error *err);
/** Move everything on, and find out what will never end.  @return whether data was moved */
bool team_progress_all (void);

#endif
