/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a communicator. */
#ifndef LIB_COMM_OBJECT_H
#define LIB_COMM_OBJECT_H

#include "lib/base/object.h"
#include "lib/comm/bootstrap/bootstrap_object.h"
#include "lib/comm/ledger.h"
#include "lib/comm/watch/watch_object.h"
#include "lib/engines/engine.h"

#include <stdatomic.h>

/** The observer of the collectives of a world and of its groups.  The waist calls higher floors through it alone. */
struct comm_observer {
    /** @p call, which began at @p begin_ns of clock_ns(), has returned.  Runs on the thread that made the call. */
    void (*note) (struct comm_observer *observer, const struct accel_engine_call *call, int64_t begin_ns);
    /** The program's thread was in @p name since @p begin_ns, which is not a collective; it may contain some. */
    void (*note_span) (struct comm_observer *observer, const char *name, int64_t begin_ns);
    /** The world ends: free the observer. */
    void (*end) (struct comm_observer *observer);
};

enum { COMM_LINKS = 4 }; /* engines of one job */

/** An engine, and the memory that it serves. */
struct comm_link {
    const struct accel_engine *engine;
    void *transport;
    uint64_t devices; /* set of DLDeviceType of sites: whose calls it runs */
    bool is_open;
    bool is_named; /* by the program or its user */
};

/** Who says what the world's step is, for progress.h. */
struct comm_progress {
    const void *counted; /* the optimizer whose steps are; NULL: none yet */
    const void *other;   /* the one that came last, if it is another */
    bool is_logged;      /* the program says what the step is */
};

struct accel_comm {
    struct object object;
    /* What every call reads. */
    struct comm_link links[COMM_LINKS]; /* [link_count], that for host memory first; see links.h */
    int link_count;
    struct ledger *ledger;     /* the world's */
    uint64_t id;               /* the same on all members; 0: the world */
    int rank;
    int size;
    uint32_t calls;            /* collectives ever begun, so the number of the latest */
    atomic_bool reserved;      /* see comm_reserve() */
    atomic_bool is_broken;
    _Atomic (const char *) inside; /* the file of the call that a thread of the program is in; NULL: none */
    atomic_int inside_line;
    unsigned forks;            /* comm_forks of the process that made it */
    uint32_t *messages;        /* [2 * size], ever begun: sent to each rank, then received from each */
    struct accel_comm *parent; /* of a group; NULL: the world */
    struct comm_observer *observer; /* of the world alone; NULL: none */
    struct work_queue *queue;  /* of what was started; NULL: nothing ever was */
    atomic_uint pending;       /* works that are queued, running or in flight */
    bool has_group;            /* between work_group_begin() and work_group_end() */
    void *stream;              /* for the program's buffers on the device; NULL: the device's */
    const void *deferred;     /* whose failure it is that this process may still recover from; NULL: there is none */
    struct watch watch;        /* its source is the world's */
    struct ledger own_ledger;
    struct bootstrap bootstrap; /* of the world */
    struct comm_progress progress; /* of the world */
    DLDevice device; /* what this rank computes on */
    char refusal[ACCEL_ERROR_TEXT_SIZE]; /* of the world: why there is no engine for its memory */
    struct accel_error broken; /* why, once `is_broken`; written once, with work_lock() */
    char deferred_text[ACCEL_ERROR_TEXT_SIZE];
};

/** The communicator whose view @p watch is. */
static inline struct accel_comm *
comm_of_watch (const struct watch *watch)
{
    return (struct accel_comm *) ((uintptr_t) watch - offsetof (struct accel_comm, watch));
}

/** A communicator without an engine, for @p size ranks; of a group that of @p parent, else NULL.
 *  @return NULL without memory; else for comm_close() */
struct accel_comm *comm_create (struct accel_comm *parent, int rank, int size);

/** Begin to watch the members; of a group, rank i of which is @p ranks[i] in the parent.
 *  @return false without memory */
bool comm_watch (struct accel_comm *comm, const int *ranks, uint32_t timeout_ms);

/** Connect with the best engines, or those that @p job->engines names.  @param[out] comm  NULL on failure */
enum accel_status comm_open (struct accel_comm **comm, struct engine_job *job, struct accel_error *err);



/** Whether there is an engine that can run @p call; the message names both. */
enum accel_status comm_check_engine (const struct accel_comm *comm, const struct accel_engine_call *call,
                                     struct accel_error *err);

/** @return the engine for buffers on @p device, as sites name it; NULL: there is none */
const struct comm_link *comm_link_for (const struct accel_comm *comm, DLDevice device);

/** Note @p call in the ledger and run it, on this thread and now. */
enum accel_status comm_execute (struct accel_comm *comm, struct accel_engine_call *call, struct accel_error *err);

/** comm_execute() in two parts, around what the engine itself has in flight.
 *  @param[out] begin_ns  for comm_conclude()
 *  @param status, why  what the engine says
 *  @param[out] err  not NULL; the cause of the failure, which may be an earlier one  @{ */
enum accel_status comm_begin (struct accel_comm *comm, struct accel_engine_call *call, int64_t *begin_ns,
                              struct accel_error *err);
enum accel_status comm_conclude (struct accel_comm *comm, const struct accel_engine_call *call, int64_t begin_ns,
                                 enum accel_status status, const struct accel_error *why, struct accel_error *err);
/** @} */

/** Leave and free.  Accepts NULL. */
void comm_close (struct accel_comm *comm);

#endif
