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

/** The ranks of this host and their memory: counters, stages, arenas.  Everything with the lock. */
struct host {
    int size, rank; /* of this host; 0: nothing is shared */
    struct topology *topology; /* of the job */
    bool is_forwarder;
    bool has_forwarders; /* every host: they go on whatever the program does */
    bool is_near;   /* all hosts are on one machine */
    unsigned char *memory, *arenas;
    int pid;        /* whose arena it is: a child of fork() has it, too, but leaves it as it is */
    struct counters *counters; /* [size] */
    unsigned char *outboxes; /* gates, counts, then [world_size, OUTBOX_SLOTS] messages; NULL: there are none */
    size_t outbox_head; /* bytes before the messages */
    size_t outbox_inline, slot_bytes; /* of a message: data at most, and all of it */
    int most; /* ranks of a host */
    size_t bytes, arena_bytes;
    int world_size;
    struct process {
        int rank, pid;
        int host;
        bool is_forwarder; /* there: others find what comes from other hosts in the outboxes */
        int fd; /* to see it end; -1: of another host */
        bool has_ended; /* there, as one of its ranks has said */
    } *processes; /* [world_size], by rank of MPI */
    struct extent {
        size_t offset, bytes;
    } *extents; /* of this rank's arena, in the order of addresses */
    size_t extent_count, extent_room;
    int fd;
};

extern struct host mpi_host;

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

struct queue {
    struct message *first, **last;
    bool is_final; /* nothing more will come from that rank: it has given up, or was seen to end */
};

/** A communicator of libaccel. */
struct communicator {
    struct communicator *next;
    int size, rank;
    int64_t group;
    uint32_t timeout_ms;
    struct operation *first;
    const struct operation *oldest; /* that is not over, when it was looked at last */
    int64_t seen_ms, waited_ms, looked_ms;
    int disputes;        /* looks since a rank was seen that calls something else */
    int hopeless_looks;  /* looks in a row that said that the oldest call waits in vain */
    bool moved;          /* data has, since it was looked at last */
    atomic_bool gave_up;
    bool has_said_so;    /* to the other ranks */
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

/** A message that MPI has. */
struct posted {
    struct operation *operation;
    unsigned *block_left, *transfer_left;
    bool receives, is_data;
};

/** A bundle that MPI sends at once, although it may say so later. */
struct bundle {
    int count;
    MPI_Request requests[OUTBOX_RANKS];
    char bytes[CONTROL_BYTES];
};

/** MPI in this process.  Everything with the lock. */
struct world {
    pthread_mutex_t lock;
    MPI_Comm comm;  /* a duplicate of MPI_COMM_WORLD, kept until the process ends */
    bool has_comm;
    bool is_stuck;  /* a failed job has left messages behind that MPI would not give up */
    bool is_ours;   /* the program has not initialised MPI, and does not use it */
    int level;      /* of threads */
    pthread_t opener; /* the only thread that may call, if the level is low */
    int next_tag, last_tag;
    uint64_t session; /* 0: none is open */
    int rank;         /* of the job */
    uint32_t ended;   /* 1 + a rank of this host that was seen to end */
    bool is_crowded;  /* this host has more ranks than processors */
    int waiters;      /* threads that wait for a call */
    bool has_all;     /* a call has the control messages of all ranks, since MPI was asked last */
    int groups;
    const struct accel_engine_helpers *helpers; /* of the job */
    struct communicator *comms;
    struct message *unexpected; /* for groups that this rank has not joined yet */
    MPI_Request ring[RING];
    char *ring_bytes; /* [RING, control_most] */
    size_t control_most;
    int ring_head;
    struct bundle *bundles; /* [BUNDLES] */
    int bundle;             /* the last one that was taken */
    MPI_Request *requests; /* [request_count] */
    struct posted *posted;
    int *indices;
    int request_count, request_room;
    char *spare; /* a buffer for reductions that is not in use */
    size_t spare_bytes;
    struct operation *spare_operation; /* the memory of a call that is over, or NULL */
    size_t spare_operation_bytes;
    struct operation *abandoned; /* failed calls whose messages MPI still has */
    atomic_bool is_over; /* MPI_Finalize() has begun, or exit(): threads of the engine must not call MPI any more */
    char error[256]; /* what MPI has complained about, once */
};

extern struct world mpi_world;

/* Files use what is declared above them: places, host, arena, share, world, post, deaths, blocks, spread, tiers,
 * outboxes, flight, communicator, mover, mpi. */

static inline size_t
round_up (size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* ---- topology.c ---- */
/** @param labels  [size], equal for ranks that are on one host  @return NULL without memory */
struct topology *topology_create (const int *labels, int size, int rank);
void topology_destroy (struct topology *topology);
/** Whether rank @p rank is not alone on its host, and whether any is not. @{ */
bool topology_share (const struct topology *topology, int rank);
bool topology_share_any (const struct topology *topology);
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

/* ---- host.c ---- */
/** What a rank says of where it is. */
struct host_info {
    uint64_t machine; /* processes with the same number can open files of each other */
    uint64_t token;   /* in the memory */
    int32_t rank, size; /* on its host */
    int32_t pid, fd;
    int32_t has_threads, unused; /* whether the engine may have threads there */
};

/** Make the memory of this host, if this rank is the first one there.  @param[out] own  to be told to all */
void host_prepare (const struct accel_engine_job *job, struct host_info *own);
/** Attach to it.  @param all  of all ranks  @param peers  their ranks of MPI
 *  @return whether this rank can reduce hierarchically; if any cannot, none does, and all call host_unshare() */
bool host_attach (const struct accel_engine_job *job, const struct host_info *all, const int *peers);
/** All ranks are attached. */
void host_settle (void);
/** @return the process of rank @p peer of MPI if it has ended, as far as this host knows; otherwise NULL */
const struct process *host_find_ended (int peer);
/** Rank @p rank of the job has ended on another host. */
void host_note_ended (int rank);
/** Without the memory, ranks are still seen to end. */
void host_unshare (void);
void host_close (void);

/* ---- arena.c ---- */
enum accel_status arena_alloc (void *transport, void **memory, size_t bytes, struct accel_error *err);
void arena_free (void *transport, void *memory);
/** @return where @p bytes at @p memory are in the arenas of this host, or FOREIGN */
uint64_t arena_offset (const void *memory, size_t bytes);
/** Whether this is the process that opened the job, and not a child of it. */
bool arena_is_own (void);
/** The same with the lock, and only in the arena.  @return where, or FOREIGN */
uint64_t arena_take (size_t bytes);
void arena_return (uint64_t at);
/** The job ends, and others may still read there. */
void arena_forget (uint64_t at);

/* ---- group_memory.c ---- */
/** Before a large call: let the group have memory, if it has none yet. */
void group_memory_prepare (struct communicator *comm);
/** All ranks have come: find what they share.  @return whether each has memory; all ranks find the same */
bool group_memory_find (const struct operation *operation);
/** The group is destroyed; in a child of fork(), its parent still has it. */
void group_memory_leave (struct communicator *comm);
/** The job is closed before the group is destroyed. */
void group_memory_abandon (struct communicator *comm);
/** Give back what nobody reads any more; or forget it. @{ */
void group_memory_collect (void);
void group_memory_forget (void);
/** @} */

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
/** Whether libaccel knows widen() and narrow(); all ranks find the same. */
bool world_can_widen (const struct accel_engine_helpers *helpers);
/** Whether this thread may call MPI. */
bool world_is_mine (void);
/** Whether MPI leaves the processor to others whenever it has nothing to do, as Open MPI does where it was told that
 *  there are more processes than processors. */
bool world_shares_processors (void);
/** From now on, it does not: the engine knows better when; or it does again. */
void world_keep_processor (bool keeps);
/** Whether a thread of the engine may, with the lock: the program may call MPI at the same time. */
bool world_may_have_threads (void);
/** Before a thread of the engine is made: have it stopped when the process ends MPI, or itself, without accel_close().
 *  @return whether that will be seen */
bool world_watch_end (void);
const char *world_level_name (int level);

/** Before MPI_Init(): let MPI's own plug-ins find it. */
void world_show_symbols (void);
int64_t now_ns (void);
int64_t now_ms (void);

/* ---- post.c ---- */
/** Send, or receive, @p bytes at @p at as messages of MESSAGE_BYTES at most. @{ */
void post_send (struct operation *operation, int rank, struct block *block, const void *at, size_t bytes, int tag);
void post_recv (struct operation *operation, int rank, struct block *block, void *at, size_t bytes, int tag);
/** @} */
void post_control (struct operation *operation, int rank, const void *message, size_t bytes);
/** The same without a call; @p message stays as it is for ever. */
void post_final (int peer, const void *message, size_t bytes);
/** Memory for a message of @p bytes that MPI sends at once, so no call waits for it.  @return NULL: there is none */
char *bundle_take (size_t bytes);
/** Send it, to several ranks of MPI. */
void bundle_send (int peer, size_t bytes);
/** Find out what MPI has finished; sets `moved` of communicators. */
void post_test (void);
/** A failed call: take back what MPI has not begun to receive. */
void post_cancel (const struct operation *operation);
/** Begin and end receiving control messages. @{ */
bool ring_open (void);
void ring_close (void);
/** @} */
/** @return the next control message that has come, or NULL; to be freed */
struct message *ring_next (void);

/* ---- failure_detector.c ---- */
/** From now on, other hosts hear at once of ranks of this host that end.  Both without the lock; MPI is open. @{ */
void failure_detector_begin (void);
void failure_detector_end (void);
/** @} */

/* ---- blocks.c ---- */
/** Cut a large reduction into blocks. */
void blocks_plan (struct operation *operation);
/** The pieces of @p rank can be received now. */
void blocks_meet (struct operation *operation, int rank);
/** @return whether all blocks are finished */
bool blocks_advance (struct operation *operation);

/* ---- hier_bcast.c ---- */
/** Whether @p call goes through the memory of the hosts, if the buffers are there; all ranks find the same. */
bool hier_bcast_serve (const struct communicator *comm, const struct accel_engine_call *call);
/** Cut it into pieces. */
void hier_bcast_plan (struct operation *operation);
/** All ranks have come: whether their buffers are in the arenas. */
bool hier_bcast_can (const struct operation *operation);
/** They are not. */
void hier_bcast_fall_back (struct operation *operation);
/** @return whether it is over */
bool hier_bcast_advance (struct operation *operation);

/* ---- hier_reduce.c ---- */
/** Whether @p call goes through the memory of the hosts; all ranks find the same. */
bool hier_reduce_serve (const struct communicator *comm, const struct accel_engine_call *call);
/** Cut it into pieces. */
void hier_reduce_plan (struct operation *operation);
/** @return whether it is over */
bool hier_reduce_advance (struct operation *operation);
/** A call has failed: tell the ranks of this host, before its buffers are freed. */
void hier_reduce_fail (const struct communicator *comm);
/** Whether rank @p rank of this host is not through with it. */
bool hier_reduce_await (const struct operation *operation, int rank);

/* ---- outbox.c ---- */
/** Whether the control message of @p call goes by them. */
bool outbox_serve (const struct communicator *comm, const struct accel_engine_call *call);
/** Write what can be written. */
void outbox_post (struct communicator *comm);
/** Of calls that are SLICE_MS old, tell other hosts who has come, if some ranks of this one have not. */
void outbox_flush (struct communicator *comm);
/** @return whether the next control message of @p rank is this one, from its outbox */
bool outbox_peek (const struct communicator *comm, int rank, const struct header **header, const char **data);
/** It has found its call. */
void outbox_take (struct communicator *comm, int rank);
/** Whether the memory of this host has something new of a rank. */
bool outbox_have (const struct communicator *comm, int rank);
/** Take the message at @p at of a bundle.  @param[out] rank  whose it is  @return whether there was one */
bool outbox_unpack (struct communicator *comm, const struct message *bundle, size_t *at, int *rank);
/** Keep it, if no call has taken it. */
void outbox_keep (struct communicator *comm);
/** What has come for this host, and did not fit into its memory, may now. */
void outbox_publish (struct communicator *comm);

/* ---- operation.c ---- */
/** Prepare @p call.  @return NULL without memory */
struct operation *operation_create (struct communicator *comm, const struct accel_engine_call *call);
/** Send what needs nobody else. */
void operation_begin (struct operation *operation);
/** The control message of @p rank has come. */
void operation_meet (struct operation *operation, int rank, const struct header *header, const char *data);
/** Do what can be done now; sets `over`. */
void operation_advance (struct operation *operation);
void operation_destroy (struct operation *operation);

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

/** What the control message of @p operation says, with @p data bytes of data. */
static inline struct header
operation_header (const struct operation *operation, size_t data)
{
    const struct communicator *comm = operation->comm;
    const struct transfer *own = &operation->transfers[comm->rank];
    return (struct header){ .session = mpi_world.session, .group = comm->group, .signature = operation->mine,
                            .rank = comm->rank, .tag = operation->tag, .inline_bytes = (uint32_t) data,
                            .send_at = own->send_at, .recv_at = own->recv_at,
                            .shared_at = comm->shared_at, .collectives = comm->outbox_calls };
}

/** Whether @p operation lacks something of @p rank. */
bool operation_awaits (const struct operation *operation, int rank);

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
void comm_say_gave_up (struct communicator *comm);
/** Everything in flight is over. */
void comm_fail (struct communicator *comm, enum accel_status status, const struct accel_error *err);
/** Move everything on.  @return whether data was moved, or a call ended */
bool comm_move_all (void);
/** The same, and find out what will never end. */
bool comm_progress_all (void);

/* ---- progress_thread.c; with the lock ---- */
/** Something may have to move on without further calls. */
void progress_thread_wake (void);
/** Without the lock: whether the thread that moves it has it. */
bool progress_thread_is_inside (void);
/** End that thread; lets the lock go in between. */
void progress_thread_end (void);

#endif
