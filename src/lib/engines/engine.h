/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine is: a table of functions with an ABI number and a size.  comm.c has checked every argument, written
 * the ledger and dealt with a broken communicator before it calls one. */
#ifndef LIB_ENGINES_ENGINE_H
#define LIB_ENGINES_ENGINE_H

#include <accel/comm.h>

#include "lib/base/identity.h"
#include "lib/base/site.h"
#include "util/jobseg.h"

enum { ENGINE_ABI = 1 };

struct engine_call;

/**
 * What the library does for an engine: words for every kind of hang, and a first exchange between ranks.  Each function
 * takes @p context first.  Ranks are those of the communicator that the call belongs to.
 *
 * An engine waits in slices of 50 ms at most, and between them asks look().  What it waits for may come while look()
 * reads the ledgers of others, so the engine tests once more before it returns an error from here.
 */
struct engine_helpers {
    uint32_t size; /* sizeof (struct engine_helpers); a newer, larger one has more functions at its end */
    void *context;

    /** Is it certain that waiting in @p call is in vain?  A rank that has not come is gone; ranks that have come call
     *  something else; of a pair: the partner waits for all ranks, sends another count or type, or sends in a cycle.
     *  @return ACCEL_OK: go on waiting.  About a microsecond per rank */
    enum accel_status (*look) (void *context, const struct engine_call *call, struct accel_error *err);

    /** ACCEL_ERR_TIMEOUT: who is missing in @p call, and what each does instead. */
    enum accel_status (*time_is_out) (void *context, const struct engine_call *call, struct accel_error *err);

    /** ACCEL_ERR_PEER: ranks @p a and @p b, which have both come to @p call, call different things; the words say what
     *  differs.  For engines that compare calls on their own, because it is faster. */
    enum accel_status (*differ) (void *context, const struct engine_call *call, int a, int b, struct accel_error *err);

    /** ACCEL_ERR_PEER: a rank gave up while this one was at work in @p call.  @param rank  -1: find out which */
    enum accel_status (*blame) (void *context, const struct engine_call *call, int rank, struct accel_error *err);

    /** While opening: give every rank @p bytes (<= 256) of each, in rank order, with deadline and verdicts.
     *  @param[out] all  [size, bytes] */
    enum accel_status (*exchange) (void *context, const void *mine, void *all, size_t bytes, struct accel_error *err);
};

/** The processes to connect. */
struct engine_job {
    struct identity identity;
    const char *engine; /* the only one to try, or NULL */
    uint32_t timeout_ms;
    struct jobseg segment; /* the job's on this host; none: a process alone without a launcher, or several hosts */
    uint32_t generation;   /* the round of opening that all ranks are in */
    const struct engine_helpers *helpers; /* of the world: for exchange() */
};

/** What is moved.  Engines compare the kinds of all ranks, never the fields that a kind does not use. */
enum engine_kind {
    ENGINE_BARRIER,
    ENGINE_ALL_REDUCE,
    ENGINE_ALL_GATHER,
    ENGINE_BROADCAST,
    ENGINE_REDUCE_SCATTER,
    ENGINE_ALL_TO_ALL,
    ENGINE_SEND, /* these two take two ranks: root is the other one */
    ENGINE_RECV,
};

/** One collective, complete.  80 bytes: from 81 on, gcc clears it with a "rep stos",
 *  which takes 6 ns of the 40 ns of a call. */
struct engine_call {
    const struct engine_helpers *helpers; /* of the communicator that runs it */
    const struct comm_site *site;
    const void *send; /* of a broadcast and of ENGINE_RECV: NULL */
    void *recv;       /* of a broadcast: the buffer; of ENGINE_SEND: NULL */
    size_t count;
    size_t element_bytes;
    enum engine_kind kind;
    enum accel_dtype dtype;
    enum accel_op op;
    int root; /* -1: none */
    uint32_t form;   /* comm_form_hash() of the site's; to be compared as the fields above are, but for pairs */
    uint32_t number; /* which collective of the communicator this is, from 1, the same on all ranks; of a pair: which
                      * message from the one to the other */
    uint64_t sequence; /* of this rank's ledger; 0: nothing is recorded */
};

struct engine {
    uint32_t abi;  /* ENGINE_ABI */
    uint32_t size; /* sizeof (struct engine) */
    const char *name;
    bool alone; /* it connects one process only, which has nobody to meet and is not watched */

    /** Say whether it could connect @p job, and if not, why. */
    enum accel_status (*probe) (const struct engine_job *job, struct accel_error *err);

    /** Connect; waits for all.  @param[out] transport  handed to all the others */
    enum accel_status (*open) (void **transport, struct engine_job *job, struct accel_error *err);

    /** Leave; waits for nobody. */
    void (*close) (void *transport);

    /** Tell whoever waits for this rank that it will not come. */
    void (*give_up) (void *transport, const char *reason);

    /** Zeroed memory, aligned to 64 bytes, that makes collectives fast. */
    enum accel_status (*alloc) (void *transport, void **memory, size_t bytes, struct accel_error *err);
    void (*free) (void *transport, void *memory);

    /** Find memory where a group of @p size ranks will meet.  @param[out] place  >= 0; what join_group() is given */
    enum accel_status (*make_group) (void *transport, int size, int64_t *place, struct accel_error *err);

    /** Be rank @p rank of a group, rank i of which is @p ranks[i] here; waits for nobody.  @param[out] group  like
     *  the transport of open(), and to be closed before @p transport */
    enum accel_status (*join_group) (void *transport, const int *ranks, int size, int rank, int64_t place, void **group,
                                     struct accel_error *err);

    /** Run one collective. */
    enum accel_status (*run) (void *transport, const struct engine_call *call, struct accel_error *err);

    /** May be NULL.  Whether the collective that this rank is in still lacks something from @p rank.  Without it,
     *  engine_helpers.look() takes a rank for late as long as its ledger does not show that it has finished. */
    bool (*awaits) (void *transport, int rank);
};

/** Engines in the order of preference, ended by NULL. */
extern const struct engine *const engines[];

#endif
