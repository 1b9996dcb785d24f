/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of everything that several threads of one process write: queues of work, the ledger, what has broken. */
#ifndef LIB_COMM_LOCK_H
#define LIB_COMM_LOCK_H

#include <pthread.h>

/** For condition variables. */
extern pthread_mutex_t work_mutex;

/** Held for moments.  A fork takes it, so that the child finds nothing half done.  @{ */
void work_lock (void);
void work_unlock (void);
/** @} */

#endif
