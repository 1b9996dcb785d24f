/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the stand-in for NCCL: nccl_meet.c (memory that the ranks of a communicator share, and who is in it),
 * nccl_move.c (what a call does, piece by piece), nccl_order.c (launches on several communicators), nccl_reduce.c
 * (arithmetic) and nccl.c (the functions of the interface).  README.md says what it checks. */
#ifndef TESTS_STANDIN_NCCL_STANDIN_H
#define TESTS_STANDIN_NCCL_STANDIN_H

#include "tests/standin/cuda/standin.h"

#include <nccl.h>
#include <stdatomic.h>

/* ncclBfloat16, as in engines/nccl/nccl_private.h */
#define NCCL_BFLOAT16 ((ncclDataType_t) 9)

enum { NCCL_RANKS = 8, NCCL_CHUNK = 64 << 10, NCCL_GROUP = 128, NCCL_BUFFERS = 64, NCCL_WORDS = 200,
       NCCL_BESIDE = 16, NCCL_KEPT = 256 };

enum nccl_kind {
    NCCL_ALL_REDUCE,
    NCCL_BROADCAST,
    NCCL_REDUCE,
    NCCL_ALL_GATHER,
    NCCL_REDUCE_SCATTER,
    NCCL_SEND,
    NCCL_RECV
};

/** What ranks have to agree on. */
struct nccl_asked {
    uint64_t count;
    int32_t kind, type, op, root;
};

/** A place for one piece of data at a time. */
struct nccl_place {
    _Atomic uint64_t written, read; /* pieces so far; of a rank's place, what that rank has read of all */
    struct nccl_asked asked;
    int64_t began_ns; /* on the rank's stream */
    char data[NCCL_CHUNK];
};

/** What a rank has launched of a communicator; of the latest ones, how much on others there was before. */
struct nccl_launches {
    uint64_t count;
    struct nccl_launch {
        _Atomic uint64_t number; /* from 1 */
        int process;
        unsigned known;
        struct nccl_before {
            uint64_t comm, count;
        } before[NCCL_BESIDE];
    } kept[NCCL_KEPT];
};

/** What the ranks of a communicator share. */
struct nccl_shared {
    uint64_t magic;
    uint64_t id; /* no other one's */
    struct nccl_member {
        _Atomic int pid; /* 0: has not come */
        int fd;          /* of its offer for the next split */
        _Atomic unsigned splits, splits_done, connects;
        int colour, key;
        char bus[32];
    } members[NCCL_RANKS];
    struct nccl_place places[NCCL_RANKS];           /* by rank: what it gives to all */
    struct nccl_place copy_streams[NCCL_RANKS][NCCL_RANKS]; /* from rank to rank */
    struct nccl_launches launches[NCCL_RANKS];
};

struct nccl_batch;

struct ncclComm {
    struct ncclComm *next;
    struct nccl_shared *shared;
    int fd, rank, count, device;
    bool blocking, aborted, gone, finalized, is_connected;
    struct site made, ended;
    unsigned in_flight;  /* batches on streams */
    uint64_t turns, turn; /* of collectives: given out, and whose it is */
    uint64_t pieces;      /* of collectives, so far */
    uint64_t sends[NCCL_RANKS], sent[NCCL_RANKS], recvs[NCCL_RANKS], received[NCCL_RANKS];
    ncclResult_t state;   /* ncclInProgress: one of these is under way */
    bool is_meeting;
    struct nccl_batch *late; /* to be put on its stream */
    unsigned polls;          /* until then */
    struct ncclComm **child; /* of a split; NULL: there is none */
    bool is_splitting, has_offered;
    bool is_unborn;            /* written where the program wants it, but its parent has not said so */
    struct ncclComm *newborn;
    unsigned splits;
    int colour, key;
    struct site begun; /* what is under way */
    struct {
        void *memory;
        size_t bytes;
    } buffers[NCCL_BUFFERS]; /* registered */
    char words[NCCL_WORDS];
};

struct nccl_call {
    struct ncclComm *comm;
    const char *name;
    struct site site;
    struct nccl_asked asked;
    const void *read, *written; /* addresses; NULL: nothing is */
    const char *send; /* where they really are */
    char *recv;
    cudaStream_t stream;
    uint64_t turn;
    size_t piece, pieces; /* of this call */
    bool is_written, over;
};

/** Calls that one GroupEnd puts on one stream. */
struct nccl_batch {
    struct nccl_call calls[NCCL_GROUP];
    unsigned count;
    cudaStream_t stream;
    int64_t issued_ns;
};

extern pthread_mutex_t nccl_lock; /* of all but what is shared */
unsigned nccl_random (unsigned below);
void nccl_note (struct site *site);

/* ---- nccl_meet.c ---- */
/** The number of this process, among all that can meet. */
int nccl_self (void);
/** Memory that others can find by process and descriptor; -1: there is none. */
int nccl_offer (void);
struct nccl_shared *nccl_attach (int pid, int fd);
struct sockaddr_in;
/** NCCL_COMM_ID: rank 0 says there which process and descriptor it is, and the others ask, for 10 s.  @{ */
bool nccl_parse_address (const char *text, struct sockaddr_in *address);
bool nccl_listen (const char *text, int fd, int count);
bool nccl_ask (const char *text, int *pid, int *fd);
/** @} */
/** Continue meeting or splitting; sets `state`. */
void nccl_meet (struct ncclComm *comm);
void nccl_split (struct ncclComm *comm);
struct ncclComm *nccl_comm_make (struct nccl_shared *shared, int fd, int rank, int count, bool blocking);

/* ---- nccl_move.c ---- */
size_t nccl_width (ncclDataType_t type);
/** Bytes that a call reads and writes.  @{ */
size_t nccl_reads (const struct nccl_call *call);
size_t nccl_writes (const struct nccl_call *call);
/** @} */
/** For standin_poll(): a struct nccl_batch, which is freed at the end. */
enum standin_progress nccl_move (void *batch);

/* ---- nccl_order.c ---- */
extern struct ncclComm *nccl_comms; /* all that were made; none is freed */
/** A batch goes to its stream: check the order; and has gone there.  @{ */
void nccl_launch (const struct nccl_batch *batch);
void nccl_launched (const struct ncclComm *comm, const struct nccl_call *call, cudaStream_t stream);
/** @} */

/* ---- nccl_reduce.c ---- */
/** In the order of the sources; 16-bit floats in float32, rounded once. */
void nccl_reduce (ncclDataType_t type, ncclRedOp_t op, const void *const *sources, int count_of_sources, void *target,
                  size_t count);

#endif
