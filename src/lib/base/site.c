/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that begin with the call and where it is, and the hash of what ranks compare; see site.h. */
#include <config.h>

#include "lib/base/site.h"

#include "lib/base/error.h"
#include "util/hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum accel_status
comm_fail (const struct comm_site *site, enum accel_status status, struct accel_error *err, const char *format, ...)
{
    char text[ACCEL_ERROR_TEXT_SIZE];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    return accel_fail (err, status, "%s at %s:%d: %s", jobseg_call_name (site->call), site->file, site->line, text);
}

enum accel_status
comm_refuse (const struct comm_site *site, const char *what, struct accel_error *err)
{
    return comm_fail (site, ACCEL_ERR_INVALID, err, "%s", what);
}

enum accel_status
comm_no_memory (const struct comm_site *site, struct accel_error *err)
{
    return comm_fail (site, ACCEL_ERR_NOMEM, err, "out of memory");
}

enum accel_status
comm_fail_in (const struct comm_site *site, enum accel_status status, struct accel_error *err)
{
    accel_fail_in (err, status, "%s at %s:%d", jobseg_call_name (site->call), site->file, site->line);
    return status;
}

uint32_t
comm_form_hash (const struct comm_form *form)
{
    uint64_t hash = HASH_START, value;
    if (!form)
        return 0;
    memcpy (&value, &form->value, sizeof value);
    hash = hash_word (hash, form->argument);
    hash = hash_word (hash, value ^ value >> 32);
    for (int i = 0; form->tensor && i < form->tensor->ndim; i++)
        hash = hash_word (hash, (uint64_t) form->tensor->shape[i]);
    return (uint32_t) (hash ^ hash >> 32) | 1u;
}
