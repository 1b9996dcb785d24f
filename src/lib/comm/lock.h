/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of everything that several threads of one process write: queues of work, the ledger, what has broken. */
#ifndef LIB_COMM_LOCK_H
#define LIB_COMM_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/** For condition variables. */
extern pthread_mutex_t work_mutex;

/** Held for moments.  After comm_watch_forks(), a fork takes it, so that the child finds nothing half done.  @{ */

void work_lock (void);
void work_unlock (void);
/** @} */

/** How many forks lie between the first process and this one, from the first comm_watch_forks() on. */
extern unsigned comm_forks;

/** Begin to count, unless that was done before; with work_lock().  @return false without memory */
bool comm_watch_forks (void);

#endif
