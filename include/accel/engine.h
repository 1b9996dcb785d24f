/* SPDX-License-Identifier: Apache-2.0 */
/* Engines: what moves the data of collectives.  For those who write one, as a module of their own package; programs
 * that use libaccel do not need this header.
 *
 * A module is a shared library accel_engine_NAME.so that defines ACCEL_API const struct accel_engine accel_engine, a
 * table of functions.  libaccel checks every argument, keeps the ledger and remembers failures, so an engine only moves
 * data and waits.  What it needs from libaccel it gets as a second table, struct accel_engine_helpers: a module links
 * nothing of libaccel, and works in programs that are linked statically too.
 *
 * Both sides may be of different releases.  A change that breaks engines changes ACCEL_ENGINE_ABI, and libaccel refuses
 * modules with another number.  Everything else is added at the end of a structure whose `size` says where it ends:
 * libaccel ignores what it does not know, takes what a shorter table lacks for zero, and an engine compares the `size`
 * of the job and of the helpers before it uses a member whose comment names a later version. */
#ifndef ACCEL_ENGINE_H
#define ACCEL_ENGINE_H

#include <accel/comm.h>

ACCEL_BEGIN_DECLS

#define ACCEL_ENGINE_ABI 1

/** The module's one symbol, a const struct accel_engine. */
#define ACCEL_ENGINE_SYMBOL "accel_engine"

/** What is moved: enum name, words for messages. */
#define ACCEL_ENGINE_KIND_MAP(X)           \
    X (BARRIER, "a barrier")               \
    X (ALL_REDUCE, "all-reduce")           \
    X (ALL_GATHER, "all-gather")           \
    X (BROADCAST, "broadcast")             \
    X (REDUCE_SCATTER, "reduce-scatter")   \
    X (ALL_TO_ALL, "all-to-all")           \
    X (SEND, "send") /* these two take two ranks: root is the other one */ \
    X (RECV, "receive")

/** Engines compare the kinds of all ranks, never the fields that a kind does not use. */
enum accel_engine_kind {
#define X(name, text) ACCEL_ENGINE_##name,
    ACCEL_ENGINE_KIND_MAP (X)
#undef X
    ACCEL_ENGINE_KIND_COUNT
};

/** The bit of a kind, an element type or a DLDeviceType in the sets of struct accel_engine. */
#define ACCEL_ENGINE_BIT(number) (UINT64_C (1) << (number))
/** All bits below @p count: every kind of this release, say. */
#define ACCEL_ENGINE_BITS(count) (ACCEL_ENGINE_BIT (count) - 1)

struct accel_engine_call;

/**
 * What the library does for an engine: words for every kind of hang, an exchange while opening, and arithmetic.  Ranks
 * are those of the communicator that the call belongs to.  Functions that take a context get `context` first.  `err`
 * may be NULL.
 *
 * An engine waits in slices of 50 ms at most, and between them asks look().  What it waits for may come while look()
 * reads the ledgers of others, so the engine tests once more before it returns an error from here.
 */
struct accel_engine_helpers {
    uint32_t size; /**< sizeof (struct accel_engine_helpers) in libaccel */
    void *context;

    /** Is it certain that waiting in @p call is in vain?  A rank that has not come is gone; ranks that have come call
     *  something else; of a pair: the partner waits for all ranks, sends another count or type, or sends in a cycle.
     *  @return ACCEL_OK: continue to wait.  About a microsecond per rank */
    enum accel_status (*look) (void *context, const struct accel_engine_call *call, struct accel_error *err);

    /** ACCEL_ERR_TIMEOUT: who is missing in @p call, and what each does instead. */
    enum accel_status (*timed_out) (void *context, const struct accel_engine_call *call, struct accel_error *err);

    /** ACCEL_ERR_PEER: ranks @p a and @p b, which have both come to @p call, call different things; the words say what
     *  differs.  For engines that compare calls on their own, because it is faster. */
    enum accel_status (*mismatch) (void *context, const struct accel_engine_call *call, int a, int b,
                                   struct accel_error *err);

    /** ACCEL_ERR_PEER: a rank gave up while this one was at work in @p call.  @param rank  -1: find out which */
    enum accel_status (*peer_failed) (void *context, const struct accel_engine_call *call, int rank,
                                      struct accel_error *err);

    /** While opening: give every rank @p bytes (<= 256) of each, in rank order.  It has a deadline, and fails if a rank
     *  gives up.  Between several hosts, the engine for host memory carries it, so that one gets ACCEL_ERR_UNSUPPORTED.
     *  @param[out] all  [size, bytes] */
    enum accel_status (*exchange) (void *context, const void *mine, void *all, size_t bytes, struct accel_error *err);

    /** Fill @p err, keeping it one line.  @return @p status, so that `return helpers->fail (...)` is one line */
    enum accel_status (*fail) (struct accel_error *err, enum accel_status status, const char *format, ...)
        ACCEL_PRINTF (3, 4);

    /** Reduce element by element in the order of the sources, with the bits that libaccel's own engines give.
     *  @param sources  [count_of_sources], each [count]; an average divides by their number
     *  @param target   [count]; may be equal to a source, but not overlap it otherwise */
    void (*reduce) (enum accel_dtype dtype, enum accel_op op, const void *const *sources, int count_of_sources,
                    void *target, size_t count);

    /** 16-bit floats become float32, and back, rounded.  reduce() widens all sources and narrows the result once; an
     *  engine that reduces in steps keeps float32 in between.  @{ */
    void (*widen) (float *target, const void *source, enum accel_dtype dtype, size_t count);
    void (*narrow) (void *target, enum accel_dtype dtype, const float *source, size_t count);
    /** @} */
};

/** The processes to connect. */
struct accel_engine_job {
    uint32_t size; /**< sizeof (struct accel_engine_job) in libaccel */
    int rank;
    int world_size;
    int local_rank;
    int local_world_size; /**< processes of the job on this host; world_size if it has one host */
    uint32_t timeout_ms;  /**< longest wait for peers */
    const struct accel_engine_helpers *helpers; /**< of the world; they live as long as the transport */

    DLDevice device; /**< what this rank computes on, if it is a GPU */

};

/** One collective, complete and checked.  Members are as in accel/comm.h: send and recv may be equal. */
struct accel_engine_call {
    const struct accel_engine_helpers *helpers; /**< of the communicator that runs it */
    const void *site; /**< for the helpers: what the program called, and where */
    const void *send; /**< of a broadcast and of a receive: NULL */
    void *recv;       /**< of a broadcast: the buffer; of a send: NULL */
    size_t count;
    size_t element_bytes;
    enum accel_engine_kind kind;
    enum accel_dtype dtype;
    enum accel_op op;
    int root;        /**< of a send or receive: the other rank; -1: none */
    uint32_t public_call; /**< which function the program called; to be compared, except in pairs */
    uint32_t form;   /**< a hash of what else ranks must agree on, except in pairs; compare it like the members above */
    uint32_t number; /**< which collective of the communicator this is, from 1, the same on all ranks; of a pair: which
                      *   message from the one to the other */
    uint64_t sequence; /**< for the helpers: which record of this rank's ledger */
    DLDevice device; /**< where the buffers are; one of the engine's `devices` */
    void *stream;    /**< of the device: where earlier work and the result are queued; NULL on the host */
};

enum {
    ACCEL_ENGINE_MULTI_HOST = 1 << 0,     /**< connects processes of more than one host */
    ACCEL_ENGINE_SINGLE_PROCESS = 1 << 1, /**< connects one process only, which is not watched */
    ACCEL_ENGINE_ASYNC_PROGRESS = 1 << 2, /**< what start() has begun moves on without further calls, as on a GPU */
};

/** An engine.  Functions run on one thread at a time per transport, except for give_up(). */
struct accel_engine {
    uint32_t abi;     /**< ACCEL_ENGINE_ABI */
    uint32_t size;    /**< sizeof (struct accel_engine) */
    const char *name; /**< that of the file: accel_engine_NAME.so */

    uint64_t kinds;   /**< set of enum accel_engine_kind that run() knows; others are refused for it */
    uint64_t reduces; /**< set of enum accel_dtype that it can reduce; it moves all types */
    uint64_t devices; /**< set of DLDeviceType of the memory that it reads and writes */
    uint64_t flags;   /**< such as ACCEL_ENGINE_MULTI_HOST */

    /** Say whether it could connect @p job, and if not, why: "finds no device".  Does not wait.  NULL: it always can,
     *  apart from what `flags` say. */
    enum accel_status (*probe) (const struct accel_engine_job *job, struct accel_error *err);

    /** Connect; waits for all.  @param[out] transport  passed to all the others */
    enum accel_status (*open) (void **transport, struct accel_engine_job *job, struct accel_error *err);

    /** Leave, without waiting for other ranks. */
    void (*close) (void *transport);

    /** Wake ranks that wait for this one, which will not come.  May be called while another thread is in another
     *  function; calls no helper.  NULL: they notice at their next look(). */
    void (*give_up) (void *transport, const char *reason);

    /** Zeroed memory, aligned to 64 bytes, that makes collectives fast.  NULL, both: any memory is as good. */
    enum accel_status (*alloc) (void *transport, void **memory, size_t bytes, struct accel_error *err);
    void (*free) (void *transport, void *memory);

    /** Choose an id for a group of @p size ranks; called on the first of them.
     *  @param[out] group_id  >= 0; all ranks of the group pass it to join_group() */
    enum accel_status (*make_group) (void *transport, int size, int64_t *group_id, struct accel_error *err);

    /** Be rank @p rank of a group, rank i of which is @p ranks[i] here; does not wait.  @param[out] group  like
     *  the transport of open(), and closed before @p transport */
    enum accel_status (*join_group) (void *transport, const int *ranks, int size, int rank, int64_t group_id,
                                     void **group, struct accel_error *err);

    /** Run one collective; returns when the buffers may be used again.  Nothing that was started is in flight on
     *  @p transport then. */
    enum accel_status (*run) (void *transport, const struct accel_engine_call *call, struct accel_error *err);

    /* All members from here on are optional. */

    /** Whether the collective that this rank is in, the oldest of those in flight, still lacks something from @p rank.
     *  Without it, look() takes a rank for late as long as its ledger does not show that it has finished.  An engine
     *  with ACCEL_ENGINE_ASYNC_PROGRESS may say yes if it cannot know: look() then reads the ledgers of ranks that
     *  left. */
    bool (*awaits) (void *transport, int rank);

    /* Collectives that do not block.  Without these three, libaccel makes a thread for each communicator that calls
     * run().  With them, an engine also needs awaits() and give_up(), and libaccel makes no thread,
     * unless works of several engines have to wait for each other.
     *
     * A job has one engine for host memory, and may have others for other memory.  Of these others, libaccel uses the
     * three functions only with ACCEL_ENGINE_ASYNC_PROGRESS: while this rank waits in one engine, other ranks may wait
     * for its works in another.
     *
     * Any number may be in flight, on several transports.  All of them must move on while any rank is in any function
     * of the engine, whichever work it is waiting for: another rank may wait for another one first.  An engine whose
     * works move on in these functions alone therefore moves those of all its transports, whose functions may run at
     * the same time on different threads.  The oldest call of a transport is the one to look() at.
     *
     * After one has failed, or give_up() was called, test() finds everything in flight on the transport over, wait()
     * returns at once, and no buffer is touched any more. */

    /** Begin @p call, which stays as it is until wait() has returned, without waiting for other ranks.  All ranks start
     *  the calls of a transport in the same order; of messages, any two ranks start theirs in the same order.  Calls
     *  on a device are started in the order of the program, on all transports: one after the other, they never wait in
     *  a circle of ranks.
     *  @param[out] work  for test() and wait() */
    enum accel_status (*start) (void *transport, const struct accel_engine_call *call, void **work,
                                struct accel_error *err);

    /** Whether @p work is over, successfully or not; does not wait.  Called again and again, it looks and lets time run
     *  out as wait() does. */
    bool (*test) (void *transport, void *work);

    /** Wait until @p work is over, as run() does, and free it.  Called once for each, in any order. */
    enum accel_status (*wait) (void *transport, void *work, struct accel_error *err);

    /** Around several start() that belong together, which the engine may then run as one: messages with several ranks,
     *  the tensors of one call of the program, or what it starts in a group (accel_group_begin()).  Except for
     *  messages, all ranks have the same groups.  No other function of @p transport is called between them.  What goes
     *  wrong is reported by wait().  NULL, both: they make no difference. */
    void (*coalesce_begin) (void *transport);
    void (*coalesce_end) (void *transport);

    /** Whether only the thread that called open() may call other functions of @p transport than give_up() and close().
     *  Needs start(); libaccel then never calls it on a thread of its own, so a start may wait for works in other
     *  engines of the job.  NULL: any thread may, one at a time. */
    bool (*has_one_thread) (void *transport);

    /** Make groups, all of them at once, where that takes the ranks of @p transport that will be in none, too.  Called
     *  on each rank, in the same order as start(), between make_group() and join_group(), with the same @p group_id.
     *  Does not wait.  NULL: groups need no such call.  A barrier of libaccel's follows.
     *  @param group_id  of the group that this rank will join; -1: of none
     *  @param rank      the rank in that group */

    enum accel_status (*split) (void *transport, int64_t group_id, int rank, struct accel_error *err);

    /** What is queued on @p stream from now on comes after @p work.  Does not wait for the device, nor for other ranks,
     *  unless the engine is still connecting them, but until @p work is queued there.  Needs start() and
     *  ACCEL_ENGINE_ASYNC_PROGRESS; libaccel then calls test() every now and then until @p work is over, and wait().
     *  free() may come before.  NULL, or an error: the host waits.
     *  @param stream  of the device, as in struct accel_engine_call */
    enum accel_status (*order) (void *transport, void *work, void *stream, struct accel_error *err);

    /** The longest wait for peers is @p timeout_ms from now on, in place of that of the job; groups that are joined
     *  later have it, too.  May be called while another thread is in another function.  NULL: it cannot be changed. */
    void (*set_timeout) (void *transport, uint32_t timeout_ms);
};

ACCEL_END_DECLS

#endif
