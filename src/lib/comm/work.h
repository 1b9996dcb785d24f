/* SPDX-License-Identifier: Apache-2.0 */
/* Work of a communicator that runs while the program computes: collectives that were started (accel/work.h), and
 * functions of the library's own. */
#ifndef LIB_COMM_WORK_H
#define LIB_COMM_WORK_H

#include <accel/work.h>

#include "lib/comm/comm_object.h"
#include "lib/comm/links.h"
#include "lib/comm/lock.h"

struct accel_work {
    struct accel_comm *comm;
    struct accel_work *next;  /* in the queue */
    struct accel_work *later; /* of those that the program has not waited for, the one started next */
    struct accel_engine_call call;
    struct comm_site site;     /* the call's */
    void (*function) (void *user); /* not NULL: run this instead of the call */
    void *user;
    const struct comm_link *link; /* whose engine runs it */
    bool is_taken;            /* somebody waits for it, or has */
    bool is_detached;         /* no thread waits for it any more: it is freed when it is over */
    bool is_started;          /* it has been started in that engine: */
    void *request;            /* its own name for it */
    int64_t begin_ns;         /* for comm_conclude() */
    unsigned process;         /* the fork that started it */
    bool over;                /* and `error` is the outcome */
    struct accel_error error; /* its code is ACCEL_OK after a success */
};

/** Start @p call, which has been checked.  @param[out] work  for accel_work_wait() */
enum accel_status work_start (struct accel_comm *comm, const struct accel_engine_call *call, struct accel_work **work,
                              struct accel_error *err);

/** Whether calls at @p site, which is on a device, need not be waited for on the host. */
bool work_can_order (const struct accel_comm *comm, const struct comm_site *site);

/** accel_work_wait() for the library's own: @p work is over and freed also where it may be repeated. */
enum accel_status work_finish (struct accel_work *work, struct accel_error *err);

/** Run @p call, which has been checked, at such a site: what is queued on the device from now on comes after it. */
enum accel_status work_run (struct accel_comm *comm, const struct accel_engine_call *call, struct accel_error *err);

/** Around several work_start() that the engine may run together.  Nothing else is called between them.  @{ */
void work_coalesce_begin (struct accel_comm *comm);
void work_coalesce_end (struct accel_comm *comm);
/** @} */

/**
 * Start @p function of the library, whose collectives are all on @p comm; for a chain of them with work between them.
 * It counts as a call on @p comm.  Only work_wait_idle() waits for it.
 *
 * @param work  any memory, which stays until then; may be started again while it runs
 * @return false if there is no thread: nothing was started
 */
bool work_start_function (struct accel_comm *comm, struct accel_work *work, void (*function) (void *user), void *user);

/** Whether this thread is the one that runs the work of @p comm: its calls do not wait for it. */

bool work_is_own_thread (const struct accel_comm *comm);

/** Wait until nothing of @p comm is in flight, but for what is detached. */
void work_wait_idle (struct accel_comm *comm);

/** Wait until nothing of @p world and of its groups is in flight. */
void work_drain (struct accel_comm *world);

/** @p comm ends: finish what is in flight, of the world also that of its groups, and free what was not waited for. */
void work_end (struct accel_comm *comm);

#endif
