/* SPDX-License-Identifier: Apache-2.0 */
/* What was started on a communicator and is not over: the queue for its thread, and what an engine has in flight.  All
 * functions are called with work_lock(), which they let go while they are in the engine. */
#ifndef LIB_COMM_FLIGHT_H
#define LIB_COMM_FLIGHT_H

#include <accel/work.h>

#include "lib/comm/comm_object.h"
#include "lib/comm/links.h"
#include "lib/comm/lock.h"

#include <pthread.h>

struct accel_work {
    struct accel_comm *comm;
    struct accel_work *next;  /* in the queue */
    struct accel_work *later; /* of those that the program has not waited for, the one started next */
    struct accel_engine_call call;
    struct comm_site site;     /* the call's */
    void (*function) (void *user); /* not NULL: run this instead of the call */
    void *user;
    const struct comm_link *link; /* whose engine runs it */
    bool joins;               /* it is started together with `next` */
    bool is_grouped;          /* it is in a group that has not ended */
    bool is_taken;            /* somebody waits for it, or has */
    bool is_detached;         /* no thread waits for it any more: it is freed when it is over */
    bool is_started;          /* it has been started in that engine: */
    void *request;            /* its own name for it */
    int64_t begin_ns;         /* for comm_conclude() */
    unsigned process;         /* the fork that started it */
    bool over;                /* and `error` is the outcome */
    struct accel_error error; /* its code is ACCEL_OK after a success */
};

struct work_queue {
    struct accel_comm *comm;
    struct work_queue *next; /* of the process's */
    struct accel_work *head, **tail; /* for the thread */
    unsigned launches;   /* of these, and what the thread is at: calls on a device, and functions that may make some */
    unsigned started;    /* in flight, those that are not detached all in this engine: */
    const struct comm_link *started_on;
    unsigned detached;   /* of those in flight */
    bool in_engine;      /* some thread is in the engine because of these */
    unsigned process;    /* the fork that made it */
    bool has_thread;
    bool wakes;          /* `wake` is to be signalled when the lock is free */
    bool stop;           /* end when the queue is empty */
    pthread_t thread;
    pthread_cond_t wake; /* for the thread: there is work, or `stop` */
    pthread_cond_t over; /* for those that wait: some work is, or no thread is in the engine */
};

/** Of all communicators of this process, because accel_work_wait() gets no communicator, and a work that the program
 *  has waited for before must be found to be none. */
struct flight {
    struct work_queue *queues;
    struct accel_work *works, **last_work; /* that the program has not waited for, in the order of starts */
    pthread_cond_t launched; /* some `launches` are fewer */
};
extern struct flight flight;

/** Note a work that the program can wait for; it no longer can. @{ */
void flight_list (struct accel_work *work);
void flight_unlist (const struct accel_work *work);
/** @} */

/** Whether the engine of @p work, rather than a thread, runs it. */
bool flight_can_start (const struct accel_work *work);

/** Whether nothing is in flight that somebody waits for, or only in the engine of @p work. */
bool flight_may_join (const struct work_queue *queue, const struct accel_work *work);

/** Whether everything that was started before @p work is in flight in the same engine. */
bool flight_is_first (const struct work_queue *queue, const struct accel_work *work);

/** Start @p work, and those that it joins, in their engine, as one if it can.  No other thread may be in it. */
void flight_start (struct work_queue *queue, struct accel_work *work);

/** Wait for @p work, which is in flight, unless another thread does: then until that one has left the engine. */
void flight_finish (struct work_queue *queue, struct accel_work *work);

/** Wait for something that is in flight: what is not detached, if there is any. */
void flight_finish_oldest (struct work_queue *queue);

/** Wait until nothing is.  @param is_all  not even what is detached */
void flight_wait (struct work_queue *queue, bool is_all);

/** Whether @p work, which is in flight, is over; if another thread is in the engine, it is not. */
bool flight_is_over (struct accel_work *work);

/** Free what is detached and over. */
void flight_reap (struct work_queue *queue);

/** Let what this thread queues on @p stream from now on come after @p work, which is in flight or over.
 *  @return false: the engine cannot */
bool flight_order (struct work_queue *queue, struct accel_work *work, void *stream);

#endif
