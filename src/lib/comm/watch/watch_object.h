/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom: a hang has a name, whichever engine moves the data.
 *
 * Everything here is computed from two things that each rank shows of itself: its ledger (which calls it has begun and
 * ended) and whether it lives.  Both are known of the ranks of this host alone (source.c). */
#ifndef LIB_COMM_WATCH_OBJECT_H
#define LIB_COMM_WATCH_OBJECT_H

#include "lib/engines/engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/** What the ranks of this host show of themselves.  Ranks are those of the world, which is on one host.  Any thread. */
struct watch_source {
    struct jobseg_slot *own; /* in which this rank shows what it does */
    struct jobseg segment;   /* the job's, not ours to close */
    uint32_t generation;
    int rank;
    int size;
    pthread_mutex_t lock; /* of `peers`: communicators may wait at the same time, in threads of their own */
    struct watch_peer {
        pid_t pid;
        int pidfd; /* -1: not available, ask with kill() */
    } peers[];
};

/** Where warnings of waits that take long go.  All zero: nowhere, because a launcher watches the ranks, or no warnings
 * were asked for. */
struct watch_warning {
    void (*say) (void *context, const char *text); /* "rank 0 has been waiting for 61 s in ...", any thread */
    void *context;
    uint32_t after_ms; /* the first time; later ones come after twice the time each */
};

/** One communicator's view.  All zero: a process alone, which never waits. */
struct watch {
    struct accel_engine_helpers helpers; /* what its engine gets; the context is this struct */
    struct watch_source *source;   /* the world's, not owned; NULL: ledgers of other hosts cannot be read */
    const struct accel_engine *engine; /* that for host memory, or the one that is being opened: asked whom it awaits */
    void *transport;
    /** The engine for calls on a device, and its transport.  NULL: there is only the one above. */
    const struct accel_engine *(*engine_of) (const struct watch *watch, DLDevice device, void **transport);
    const uint32_t *calls;         /* collectives that this rank has begun in the communicator */
    uint64_t comm;                 /* the number of the communicator in ledgers */
    int rank;
    int size;
    int *members;                  /* [size], ranks in the world; NULL: this is the world */
    atomic_uint timeout_ms;
    uint32_t generation;
    struct bootstrap *bootstrap;   /* for exchanges while opening; NULL: none */
    struct {
        uint64_t trace;
        uint64_t since_ns;
        int rounds;
    } cycle; /* senders that seem to wait for each other */
    struct watch_warning warning; /* the same for all communicators of a job */
    struct watch_wait {
        uint64_t sequence; /* of the call that waits; 0 without a ledger */
        uint32_t number;   /* the same, of its kind and root */
        int kind, root;
        int64_t since_ms, looked_ms, next_ms, pause_ms; /* CLOCK_MONOTONIC; the last is until the warning after that */
    } waits[2]; /* on the host; on a device, where another thread looks at what stays in flight */
};

/** Fill in `helpers`, but for exchange(), and their context; the other fields are the caller's. */
void watch_init (struct watch *watch);

/** The functions of struct accel_engine_helpers; @p context is a struct watch.  @{ */
enum accel_status watch_look (void *context, const struct accel_engine_call *call, struct accel_error *err);
enum accel_status watch_timed_out (void *context, const struct accel_engine_call *call, struct accel_error *err);
enum accel_status watch_mismatch (void *context, const struct accel_engine_call *call, int a, int b,
                                  struct accel_error *err);
enum accel_status watch_peer_failed (void *context, const struct accel_engine_call *call, int rank,
                                     struct accel_error *err);
/** @} */

/** The rank that people know: in the world. */
static inline int
watch_world_rank (const struct watch *watch, int rank)
{
    return watch->members ? watch->members[rank] : rank;
}

static inline const struct jobseg_slot *
watch_slot (const struct watch *watch, int rank)
{
    return jobseg_slot (&watch->source->segment, watch_world_rank (watch, rank));
}

/* ---- find.c ---- */
/** Where a rank is, seen from a call. */
enum watch_where {
    WATCH_BEFORE,  /* has not come to it */
    WATCH_IN,      /* has come and not left */
    WATCH_PAST,    /* has left it */
    WATCH_UNKNOWN, /* its ledger no longer goes back that far */
};

/** A call in another rank's ledger, as its record and what its hash was made of. */
struct watch_entry {
    struct jobseg_record record;
    struct jobseg_form form;
    char location[JOBSEG_FILE_NAME + 16]; /* "train.c:88" */
};

/**
 * Find @p call in the ledger of @p rank: the same collective; of a pair, the other end of the message.
 *
 * @param[out] entry  filled in if it was found: WATCH_IN, and WATCH_PAST if @p has_entry
 */
enum watch_where watch_find (const struct watch *watch, const struct accel_engine_call *call, int rank,
                             struct watch_entry *entry, bool *has_entry);

/** Find the newest collective (@p sends: message sent) of the communicator.  @return false if there is none */
bool watch_find_latest (const struct watch *watch, int rank, bool sends, struct jobseg_record *record);

/* ---- mismatch.c ---- */
/** @return whether two records of one collective agree. */
bool watch_agree (const struct jobseg_record *a, const struct jobseg_record *b);

/** ACCEL_ERR_PEER: what differs between the calls of ranks @p rank_a and @p rank_b. */
enum accel_status watch_report_mismatch (const struct watch *watch, int rank_a, const struct watch_entry *a, int rank_b,
                                         const struct watch_entry *b, struct accel_error *err);

/** "accel_gather at train.c:88" */
void watch_describe_site (const struct comm_site *site, char *text, size_t size);

/* ---- source.c ---- */
/** @return NULL without memory; the slots live as long as @p segment's mapping */
struct watch_source *watch_source_create (const struct jobseg *segment, int rank, int size, uint32_t generation);
/** From now on it is the process that has the slot of @p rank now whose end means that the rank is gone. */
void watch_source_follow (struct watch_source *source, int rank);
/** @return whether @p rank will never come, and why in @p text: "was killed by signal 9 (SIGKILL)" */
bool watch_source_is_gone (struct watch_source *source, int rank, char *text, size_t size);
/** @return whether @p rank gave up in this generation, though it may have opened again since */
bool watch_source_has_failed (const struct watch_source *source, int rank);
void watch_source_destroy (struct watch_source *source);

#endif
