/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the shm engine.
 *
 * After the slots of the job segment lie, for each rank, a block (its two posts), a stage (two pieces through which
 * buffers of the program's own are passed), and an arena (the memory of accel_alloc(), which every rank has mapped).
 *
 * Every synchronisation is a step: each rank publishes its step in its post of that parity, and waits for the same step
 * of all others.  A rank can be one step ahead of another but never two, because the second needs the other's first; so
 * two posts suffice and nothing is ever acknowledged.  The first step of a collective carries what the rank is calling,
 * so that disagreement is found before anything is read; later steps are bare. */
#ifndef LIB_ENGINES_SHM_PRIVATE_H
#define LIB_ENGINES_SHM_PRIVATE_H

#include "lib/engines/engine.h"
#include "util/clock.h"
#include "util/futex.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

enum {
    SHM_INLINE = 4096,          /* bytes that travel in the post itself */
    SHM_PIECE = 256 << 10,      /* bytes of a buffer that pass through a piece of a stage at once */
    SHM_PIECE_DIVIDED = 512 << 10, /* the same for all-reduces that are divided */
    SHM_PIECE_SMALL = 64 << 10, /* if small pieces are best, as many are used of it at most, */
    SHM_PIECE_LEAST = 16 << 10, /* and at least */
    SHM_MANY = 4,               /* ranks from which on all-reduces of more than a piece are divided */
    SHM_CACHED = 32 << 20,      /* more does not fit into caches; asking is useless, virtual machines tell the host's */
    SHM_HUGE = 2 << 20,         /* alignment of arenas and of large blocks in them: a huge page */
    SHM_SPINS_CROWDED = 100,    /* spinning keeps others from the processor */
    SHM_SLEEPS = 8,             /* waits that do not yield after a yield to another program, */
    SHM_SLEEP_DOUBLINGS = 7,    /* and how often as many again */
    SHM_SLICE_MS = 50,          /* sleep this long at most before looking whether peers live */
};

/** What a rank is in, and where its buffers are. */
struct shm_post {
    _Atomic uint32_t step; /* a futex; written last */
    uint32_t form;         /* comm_form_hash() */
    uint64_t count;
    uint8_t kind; /* enum accel_engine_kind */
    uint8_t call; /* enum jobseg_call */
    uint8_t dtype;
    uint8_t op;
    int32_t root;
    uint32_t small_pieces; /* pieces have to be equal: all do as rank 0 says */
    uint64_t send; /* offset from the first arena, or SHM_FOREIGN */
    uint64_t recv;
    unsigned char payload[SHM_INLINE];
} __attribute__ ((aligned (128)));

#define SHM_FOREIGN UINT64_MAX

/** What a rank sends to another: see pairs.c. */
struct shm_mail {
    _Atomic uint32_t full;            /* futex: which message, for whom; written last */
    _Atomic uint32_t taken;           /* futex: `full` as it was when the receiver had copied */
    _Atomic uint32_t receivers_sleep; /* not 0: a rank may sleep on `full` */
    _Atomic uint32_t sender_sleeps;   /* the sender on `taken` */
    uint64_t count;
    uint64_t arena; /* offset of all bytes from the first arena, or SHM_FOREIGN */
    uint64_t piece; /* where they pass through else: offset from the first stage */
    uint8_t dtype;
} __attribute__ ((aligned (128)));

struct shm_block {
    _Atomic uint32_t sleepers[2]; /* not 0: a rank may sleep on this post */
    _Atomic uint32_t failed;      /* in rank 0's block: not 0 once any rank has given up */
    _Atomic int processor;        /* where this rank ran when it published last */
    struct shm_mail mail;
    struct shm_post posts[2];
} __attribute__ ((aligned (128)));

/** Where things are in the segment, as local rank 0 laid them out. */
struct shm_layout {
    size_t blocks; /* offset in the file */
    size_t stages;
    size_t arenas;
    size_t arena_bytes;
    size_t end;
};

/** One rank's own allocations in its arena: private, in the order of addresses.  Free memory in an arena is zero. */
struct shm_arena {
    struct shm_extent {
        size_t offset;
        size_t bytes;
    } *extents;
    size_t count;
};

/** Waits that sleep instead of yielding. */
struct shm_sleeps {
    unsigned left;
    unsigned doublings; /* of the next ones */
};

struct shm {
    int rank;
    int size;
    struct shm *world;     /* of a group; NULL: this is it */
    int *members;          /* of a group: its ranks in the world; NULL: this is the world */
    int local_rank;        /* in the world */
    uint32_t step;
    uint32_t generation;
    atomic_uint timeout_ms;
    size_t led_groups;     /* groups that meet in this rank's arena, each in an allocation there */
    bool small_pieces;     /* what this rank would choose */
    bool crowded;          /* more ranks than processors: spinning would only keep the awaited from running */
    uint32_t mails;        /* messages, or pieces of them, ever sent */
    struct shm_sleeps sleeps;
    unsigned yielded;      /* how often a rank on the same processor was waited for */
    uint64_t pieces;       /* stage pieces ever used: the next one's parity */
    struct shm_block *blocks;
    unsigned char *stages;
    unsigned char *arenas;
    const void **sources;  /* [size], scratch of one collective */
    void **targets;
    pid_t pid;             /* a fork of this process must not speak for it */
    struct shm_layout layout;
    struct jobseg segment; /* the job's, not ours to close */
    struct jobseg_slot *slot;
    struct shm_arena arena;
};

/* ---- shm.c ---- */
enum accel_status shm_connect (struct shm *shm, const struct accel_engine_helpers *helpers, struct accel_error *err);

/* ---- layout.c ---- */
/** Local rank 0: size the file and choose the arenas. */
enum accel_status shm_lay_out (struct shm *shm, struct accel_error *err);
enum accel_status shm_map (struct shm *shm, struct accel_error *err);
/** Allocate `sources` and `targets`.  @return false without memory */
bool shm_make_scratch (struct shm *shm);
/** Accepts NULL, and what is only half made. */
void shm_destroy (struct shm *shm);

/* ---- wait.c ---- */
/** Let another thread have the processor.  @return false: sleep, and yield no more, because another program has it */
bool shm_yield (struct shm *shm);

static inline bool
shm_is_crowded (const struct shm *shm)
{
    return shm->crowded || shm->sleeps.left;
}

/** Wake ranks that sleep on the posts of this rank, which gives up or leaves. */
void shm_wake_all (struct shm *shm, bool failed);
/** Wake who sleeps on the post of @p parity, which is just published. */
void shm_wake (struct shm_block *block, uint32_t parity);
/** For the watch: whether @p rank has not published the current step. */
bool shm_awaits (void *transport, int rank);
/** Compare what all ranks, which have come, are calling.  @return ACCEL_OK where they agree */
enum accel_status shm_compare (const struct shm *shm, const struct accel_engine_call *call, struct accel_error *err);
/** Wait for one rank.
 *  @param deadline_ms  of the step: 0 until a first rank is waited for long, then when time is out */
enum accel_status shm_wait_for (struct shm *shm, int rank, const struct accel_engine_call *call, int64_t *deadline_ms,
                                struct accel_error *err);

/* ---- arena.c ---- */
enum accel_status shm_alloc (void *transport, void **memory, size_t bytes, struct accel_error *err);
void shm_free (void *transport, void *memory);
/** The offset of @p memory where all @p bytes of it lie in this rank's arena, else SHM_FOREIGN. */
uint64_t shm_offset (const struct shm *shm, const void *memory, size_t bytes);

/* ---- collectives.c ---- */
enum accel_status shm_run (void *transport, const struct accel_engine_call *call, struct accel_error *err);

/* ---- group.c ---- */
enum accel_status shm_make_group (void *transport, int size, int64_t *group_id, struct accel_error *err);
enum accel_status shm_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                                  struct accel_error *err);

/* ---- pairs.c ---- */
enum accel_status shm_send (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err);
enum accel_status shm_recv (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err);

static inline size_t
shm_round_up (size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/** Bytes that a piece has room for. */
static inline size_t
shm_piece_room (int size)
{
    return size < SHM_MANY ? SHM_PIECE : SHM_PIECE_DIVIDED;
}

/** The stage piece that @p rank fills next.  Two ranks exchange theirs: the one that has read a piece fills it next.
 * If reading took its lines over (reduce.h), writing them costs nothing more; otherwise it makes no difference. */
static inline unsigned char *
shm_piece_of (const struct shm *shm, int rank)
{
    uint64_t owner = shm->size == 2 ? (uint64_t) rank ^ (shm->pieces >> 1 & 1) : (uint64_t) rank;
    return shm->stages + (owner * 2 + (shm->pieces & 1)) * shm_piece_room (shm->size);
}

/** The one that is filled after it; not of two ranks, which swap theirs. */
static inline unsigned char *
shm_other_piece_of (const struct shm *shm, int rank)
{
    return shm->stages + ((uint64_t) rank * 2 + (~shm->pieces & 1)) * shm_piece_room (shm->size);
}

/** The rank that people know: in the world. */
static inline int
shm_world_rank (const struct shm *shm, int rank)
{
    return shm->members ? shm->members[rank] : rank;
}

static inline struct jobseg_slot *
shm_slot (const struct shm *shm, int rank)
{
    return jobseg_slot (&shm->segment, shm_world_rank (shm, rank));
}

/** Whether @p rank gave up in this generation, though it may have opened again since. */
static inline bool
shm_has_failed (const struct shm *shm, int rank)
{
    return atomic_load (&shm_slot (shm, rank)->failed_generation) == shm->generation;
}

/** The post in which this rank publishes its next step. */
static inline struct shm_post *
shm_next_post (struct shm *shm)
{
    shm->step++;
    return &shm->blocks[shm->rank].posts[shm->step & 1];
}

/** The post of @p rank at the current step. */
static inline struct shm_post *
shm_post_of (const struct shm *shm, int rank)
{
    return &shm->blocks[rank].posts[shm->step & 1];
}

/* The exchange and the load are both sequentially consistent, as are the sleeper's store and load in wait.c: either we
 * see the sleeper or it sees our step. */
static inline void
shm_publish (struct shm *shm, struct shm_post *post)
{
    struct shm_block *block = &shm->blocks[shm->rank];
    int processor = sched_getcpu ();
    if (atomic_load_explicit (&block->processor, memory_order_relaxed) != processor)
        atomic_store_explicit (&block->processor, processor, memory_order_relaxed);
    atomic_exchange (&post->step, shm->step);
    if (atomic_load (&block->sleepers[shm->step & 1]))
        shm_wake (block, shm->step & 1);
}

/** Wait until every rank has published the current step.  All late ones together have one timeout. */
static inline enum accel_status
shm_wait (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    int64_t deadline_ms = 0;
    uint32_t step = shm->step;
    struct shm_block *blocks = shm->blocks;
    for (int rank = 0; rank < shm->size; rank++)
        if (atomic_load_explicit (&blocks[rank].posts[step & 1].step, memory_order_acquire) != step) {
            enum accel_status status = shm_wait_for (shm, rank, call, &deadline_ms, err);
            if (status)
                return status;
        }
    return ACCEL_OK;
}

/** A bare step.  A rank that has given up published it before, so it is not missed, but may have changed since then
 * what this one was reading. */
static inline enum accel_status
shm_sync (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    shm_publish (shm, shm_next_post (shm));
    enum accel_status status = shm_wait (shm, call, err);
    if (!status && atomic_load_explicit (&shm->blocks->failed, memory_order_acquire))
        status = call->helpers->peer_failed (call->helpers->context, call, -1, err);
    return status;
}

#endif
