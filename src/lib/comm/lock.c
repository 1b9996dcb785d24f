/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of the waist. */
#include <config.h>

#include "lib/comm/lock.h"

pthread_mutex_t work_mutex = PTHREAD_MUTEX_INITIALIZER;

void
work_lock (void)
{
    pthread_mutex_lock (&work_mutex);
}

void
work_unlock (void)
{
    pthread_mutex_unlock (&work_mutex);
}
