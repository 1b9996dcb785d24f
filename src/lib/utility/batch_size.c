/* SPDX-License-Identifier: Apache-2.0 */
/* accel_find_executable_batch_size(): try, agree, try less. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_private.h"

#include <accel/utility.h>

enum { FIRST = 128, NO_MEMORY = 0, OTHER = 1, REASONS = 2 };

/* The function's error text may be unset: it is free to return a bare status. */
static enum accel_status
try_size (accel_batch_function function, size_t batch_size, void *user, struct accel_error *err)
{
    struct accel_error mine = { 0 };
    enum accel_status status = function (batch_size, user, &mine);
    if (status && !mine.text[0])
        accel_fail (&mine, status, "accel_find_executable_batch_size: the function failed with a batch of %zu: %s",
                    batch_size, accel_status_string (status));
    if (status && err)
        *err = mine;
    return status;
}

/* A process whose function failed for good reports its own reason, whatever the agreement comes to. */
static enum accel_status
agree (struct accel *acc, const struct comm_site *site, enum accel_status *tried, struct accel_error *err)
{
    int32_t failed[REASONS] = { 0 };
    failed[NO_MEMORY] = *tried == ACCEL_ERR_NOMEM;
    failed[OTHER] = *tried && *tried != ACCEL_ERR_NOMEM;
    enum accel_status status = comm_all_reduce (accel_world (acc), site, failed, failed, REASONS, ACCEL_INT32,
                                                ACCEL_MAX, *tried ? NULL : err);
    if (*tried && *tried != ACCEL_ERR_NOMEM)
        return *tried;
    if (status)
        return *tried ? *tried : status;
    if (failed[OTHER])
        return accel_fail (err, ACCEL_ERR_CALLBACK,
                           "accel_find_executable_batch_size at %s:%d: the function failed on another process",
                           site->file, site->line);
    *tried = failed[NO_MEMORY] ? ACCEL_ERR_NOMEM : ACCEL_OK;
    return ACCEL_OK;
}

/* Accelerate's int (size * 0.9), without its detour over floats. */
static size_t
less (size_t size)
{
    return size / 10 * 9 + size % 10 * 9 / 10;
}

enum accel_status
accel_find_executable_batch_size_at (const char *file, int line, struct accel *acc, size_t *batch_size,
                                     accel_batch_function function, void *user, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_FIND_EXECUTABLE_BATCH_SIZE };
    if (!batch_size || !function)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_find_executable_batch_size at %s:%d: %s is NULL", file, line,
                           batch_size ? "the function" : "batch_size");
    size_t first = *batch_size ? *batch_size : FIRST;
    for (size_t size = first; size; size = less (size)) {
        enum accel_status tried = try_size (function, size, user, err);
        enum accel_status status = acc ? agree (acc, &site, &tried, err) : ACCEL_OK;
        if (status || (tried && tried != ACCEL_ERR_NOMEM))
            return status ? status : tried;
        if (!tried) {
            *batch_size = size;
            return ACCEL_OK;
        }
    }
    return accel_fail (err, ACCEL_ERR_NOMEM,
                       "accel_find_executable_batch_size at %s:%d: no batch size from %zu down to 1 fits in memory",
                       file, line, first);
}
