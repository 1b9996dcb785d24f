/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines in the order of the ranks. */
#include <config.h>

#include "lib/comm/comm_private.h"
#include "lib/state/log.h"

#include <stdarg.h>

enum accel_status
accel_log_in_order_at (const char *file, int line, struct accel *acc, struct accel_error *err,
                       int level, const char *format, ...)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_LOG_IN_ORDER };
    enum accel_status status = ACCEL_OK;
    for (int turn = 0; !status && turn < accel_num_processes (acc); turn++) {
        if (turn == accel_process_index (acc) && (level & LOG_LEVEL) >= log_level ()) {
            va_list args;
            va_start (args, format);
            log_write (acc, level, format, args);
            va_end (args);
        }
        status = comm_barrier (accel_world (acc), &site, err);
    }
    return status;
}
