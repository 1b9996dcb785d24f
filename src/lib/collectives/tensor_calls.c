/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives under Accelerate's names: on tensors, and on who runs or writes when. */
#include <config.h>

#include "lib/collectives/tensors.h"
#include "lib/collectives/verify.h"
#include "lib/state/log.h"
#include "lib/state/state_object.h"

#include <stdarg.h>

enum accel_status
accel_gather_at (const char *file, int line, struct accel_tensor *out, struct accel *acc, const DLTensor *tensor,
                 struct accel_error *err)
{
    const struct comm_site *site = SITE (GATHER);
    enum accel_status status = comm_verify_tensor (acc, site, tensor, err);
    return status ? status : comm_gather_tensor (acc, site, tensor, out, err);
}

enum accel_status
accel_reduce_at (const char *file, int line, struct accel *acc, DLTensor *tensor, enum accel_op op, double scale,
                 struct accel_error *err)
{
    const struct comm_site *site = SITE (REDUCE);
    enum accel_status status = comm_verify_tensor (acc, site, tensor, err);
    return status ? status : comm_reduce_tensor (acc, site, tensor, op, scale, err);
}

enum accel_status
accel_reduce_number_at (const char *file, int line, struct accel *acc, double *number, enum accel_op op,
                        struct accel_error *err)
{
    const struct comm_site *site = SITE (REDUCE_NUMBER);
    double result;
    enum accel_status status
        = comm_all_reduce (accel_world (acc), site, number, number ? &result : NULL, 1, ACCEL_FLOAT64, op, err);
    if (!status)
        *number = result;
    return status;
}

enum accel_status
accel_broadcast_at (const char *file, int line, struct accel *acc, DLTensor *tensor, int from_process,
                    struct accel_error *err)
{
    const struct comm_site *site = SITE (BROADCAST);
    enum accel_status status = comm_verify_tensor (acc, site, tensor, err);
    return status ? status : comm_broadcast_tensor (acc, site, tensor, from_process, err);
}

enum accel_status
accel_wait_for_everyone_at (const char *file, int line, struct accel *acc, struct accel_error *err)
{
    return comm_barrier (accel_world (acc), SITE (WAIT_FOR_EVERYONE), err);
}

/* One barrier on each rank: after the task for those that go first, before it for the others. */
static enum accel_status
run_first (struct accel *acc, const struct comm_site *site, bool first, accel_task task, void *user,
           struct accel_error *err)
{
    if (!acc || !task)
        return comm_refuse (site, acc ? "the task is NULL" : "the job is NULL", err);
    if (first)
        task (user);
    enum accel_status status = comm_barrier (accel_world (acc), site, err);
    if (!status && !first)
        task (user);
    return status;
}

enum accel_status
accel_main_process_first_at (const char *file, int line, struct accel *acc, accel_task task, void *user,
                             struct accel_error *err)
{
    return run_first (acc, SITE (MAIN_PROCESS_FIRST), accel_is_main_process (acc), task, user, err);
}

enum accel_status
accel_local_main_process_first_at (const char *file, int line, struct accel *acc, accel_task task, void *user,
                                   struct accel_error *err)
{
    return run_first (acc, SITE (LOCAL_MAIN_PROCESS_FIRST), accel_is_local_main_process (acc), task, user, err);
}

enum accel_status
accel_check_trigger_at (const char *file, int line, struct accel *acc, bool *fired, struct accel_error *err)
{
    const struct comm_site *site = SITE (CHECK_TRIGGER);
    uint8_t raised = acc && acc->trigger;
    if (!fired)
        return comm_refuse (site, "fired is NULL", err);
    enum accel_status status
        = comm_all_reduce (accel_world (acc), site, &raised, &raised, 1, ACCEL_UINT8, ACCEL_MAX, err);
    if (status)
        return status;
    if (raised)
        acc->trigger = false;
    *fired = raised;
    return ACCEL_OK;
}

enum accel_status
accel_logger_log_in_order_at (const char *file, int line, struct accel *acc, struct accel_error *err,
                              int level, const char *format, ...)
{
    const struct comm_site *site = SITE (LOG_IN_ORDER);
    enum accel_status status = ACCEL_OK;
    for (int turn = 0; !status && turn < accel_num_processes (acc); turn++) {
        if (turn == accel_process_index (acc) && (level & LOG_LEVEL) >= log_level ()) {
            va_list args;
            va_start (args, format);
            log_write (acc, level, format, args);
            va_end (args);
        }
        status = comm_barrier (accel_world (acc), site, err);
    }
    return status;
}
