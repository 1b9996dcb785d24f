/* SPDX-License-Identifier: Apache-2.0 */
/* Work of a communicator that runs while the program computes: collectives that were started (accel/work.h), and
 * functions of the library's own. */
#ifndef LIB_COMM_WORK_H
#define LIB_COMM_WORK_H

#include "lib/comm/flight.h"

/** Start @p call, which has been checked.  @param[out] work  for accel_work_wait() */
enum accel_status work_start (struct accel_comm *comm, const struct accel_engine_call *call, struct accel_work **work,
                              struct accel_error *err);

/** Between these two, work_start() only notes calls, which begin at the end; an engine that can runs them as one.
 *  Nothing else is called on @p comm.  @{ */
void work_group_begin (struct accel_comm *comm);
void work_group_end (struct accel_comm *comm);
/** @} */

/**
 * Start @p function of the library, whose collectives are all on @p comm; for a chain of them with work between them.
 * It counts as a call on @p comm.  Only work_wait_idle() waits for it.
 *
 * @param work    any memory, which stays until then; may be started again while it runs
 * @param device  where its collectives are, as in a site: on a GPU, they come in the order of the starts there
 * @return false if there is no thread: nothing was started
 */
bool work_start_function (struct accel_comm *comm, struct accel_work *work, DLDevice device,
                          void (*function) (void *user), void *user);

/** Make the thread of @p comm, which has started something, unless there is one; with work_lock().
 *  @return false: there is none */
bool work_need_thread (struct accel_comm *comm);

/** Whether this thread is the one that runs the work of @p comm: its calls do not wait for it. */
bool work_is_own_thread (const struct accel_comm *comm);

/** Wait until nothing of @p comm is in flight, but for what is detached. */
void work_wait_idle (struct accel_comm *comm);

/** Wait until nothing of @p world and of its groups is in flight. */
void work_drain (struct accel_comm *world);

/** @p comm ends: finish what is in flight, of the world also that of its groups, and free what was not waited for. */
void work_end (struct accel_comm *comm);

#endif
