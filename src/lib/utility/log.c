/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines in the order of the ranks, and those that are written once. */
#include <config.h>

#include "lib/comm/comm_private.h"
#include "lib/state/log.h"
#include "util/hash.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum accel_status
accel_log_in_order_at (const char *file, int line, struct accel *acc, struct accel_error *err,
                       enum accel_log_level level, const char *format, ...)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_LOG_IN_ORDER };
    enum accel_status status = ACCEL_OK;
    for (int turn = 0; !status && turn < accel_num_processes (acc); turn++) {
        if (turn == accel_process_index (acc) && level >= accel_log_level ()) {
            va_list args;
            va_start (args, format);
            log_write (acc, level, format, args);
            va_end (args);
        }
        status = comm_barrier (accel_world (acc), &site, err);
    }
    return status;
}

/* Two texts of one program are not expected to have the same hash.  The latest 1024 texts are remembered: what warns of
 * something new each time must not take memory for ever. */
static bool
is_new (uint64_t hash)
{
    enum { MOST = 1024 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t seen[MOST];
    static size_t count;
    bool found = false;
    pthread_mutex_lock (&lock);
    for (size_t i = 0; i < count && i < MOST && !found; i++)
        found = seen[i] == hash;
    if (!found)
        seen[count++ % MOST] = hash;
    pthread_mutex_unlock (&lock);
    return !found;
}

void
accel_log_warning_once (const struct accel *acc, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start (args, format);
    int length = format ? vasprintf (&text, format, args) : -1;
    va_end (args);
    if (length < 0)
        return;
    if (is_new (hash_bytes (HASH_START, text, (size_t) length)))
        accel_log (acc, ACCEL_LOG_WARNING, "%s", text);
    free (text);
}
