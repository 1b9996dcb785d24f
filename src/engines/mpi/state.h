/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "mpi": MPI in this process, its requests and the engine's threads. */
#ifndef ENGINES_MPI_STATE_H
#define ENGINES_MPI_STATE_H

#include "engines/mpi/shared_memory.h"
#include "engines/mpi/protocol.h"

#include <pthread.h>

struct operation;
struct communicator;
struct block;

/** A message that MPI has. */
struct posted {
    struct operation *operation;
    unsigned *block_left, *transfer_left;
    bool receives, is_data;
};

/** A bundle that MPI sends at once, although it may report that later. */
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
    int bundle;             /* the last one that was used */
    MPI_Request *requests; /* [request_count] */
    struct posted *posted;
    int *indices;
    int request_count, request_room;
    char *spare; /* a buffer for reductions that is not in use */
    size_t spare_bytes;
    struct operation *spare_operation; /* the memory of a call that is over, or NULL */
    size_t spare_operation_bytes;
    struct operation *abandoned; /* failed calls whose messages MPI still has */
    struct retired *retired; /* memory of groups that this rank has left */
    int can_share, all_can_share; /* ranks have memory with those of their host; MPI may use them after a timeout */
    bool (*set_yielding) (bool yields); /* of Open MPI; NULL: not looked for, or there is none */
    bool has_looked_for_yielding, was_yielding;
    int polling_depth; /* of world_suspend_yield() */
    pid_t watched;     /* the process of which the end is watched */
    atomic_bool is_over; /* MPI_Finalize() has begun, or exit(): threads of the engine must not call MPI any more */
    char error[256]; /* what MPI has complained about, once */
};

/** MPI_Init_thread() waits for all ranks and knows no deadline, so a thread of ours calls it, and accel_open() can give
 *  up.  The thread stays, because the same one has to call MPI_Finalize().  In between it does nothing, so MPI has one
 *  caller at a time.  An MPI with less than MPI_THREAD_SERIALIZED may insist that this is the thread that has
 *  initialized it, and is for the program to initialize. */
struct init_thread {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    bool has_begun;         /* MPI_Init_thread() has returned @code */
    bool must_end;          /* call MPI_Finalize() */
    bool is_over;           /* it has returned */
    int code;
};

/** How the process leaves MPI. */
struct finalization {
    pid_t pid; /* that has called MPI_Init(), or is in it; 0: the program has */
    uint32_t timeout_ms;
    int status;
    bool has_hosts; /* the last job had several */
    _Atomic int64_t deadline_ms;
    atomic_bool is_over;
};

/** See progress_thread.c. */
struct progress_thread {
    pthread_t thread;
    pthread_cond_t wake;
    pid_t pid; /* of the process that has the thread; 0: none */
    bool sleeps;
    bool watches_forks;
    atomic_bool is_inside; /* it has the lock */
    atomic_bool must_end;
};

/** See failure_detector.c. */
struct failure_detector {
    pthread_t thread;
    pid_t pid; /* of the process that has the thread; 0: none */
    int stop; /* readable: the thread has to end */
    struct pollfd *fds; /* [count + 1], the last one is stop */
    int *peers; /* [count], their ranks of MPI */
    int count;
};

/** All that the engine remembers between calls.  There is one, because a process has one MPI and is one rank of it. */
struct mpi_state {
    struct world world;
    struct host host;
    struct init_thread init;
    struct finalization final;
    struct progress_thread progress;
    struct failure_detector detector;
};

extern struct mpi_state mpi;

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
bool world_may_call (void);
/** Whether MPI leaves the processor to others whenever it has nothing to do, as Open MPI does if it was told that
 *  there are more processes than processors. */
bool world_yields_when_idle (void);
/** From now on, it does not: the engine knows better when; or it does again. */
void world_suspend_yield (bool keeps);
/** Start a thread that gets no signals: these are for the program's threads.  @return whether there is one */
bool world_start_thread (pthread_t *thread, void *(*run) (void *user));
/** Whether a thread of the engine may, with the lock: the program may call MPI at the same time. */
bool world_may_have_threads (void);
/** Before a thread of the engine is made: have it stopped when the process ends MPI, or itself, without accel_close().
 *  @return whether that will be seen */
bool world_watch_end (void);
const char *world_level_name (int level);

/** Before MPI_Init(): let MPI's own plug-ins find it. */
void world_export_symbols (void);
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

/* ---- progress_thread.c; with the lock ---- */

/** Something may have to move on without further calls. */
void progress_thread_wake (void);
/** Without the lock: whether the thread that moves it has it. */
bool progress_thread_is_inside (void);
/** End that thread; lets the lock go in between. */
void progress_thread_end (void);

#endif
