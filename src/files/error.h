/* SPDX-License-Identifier: Apache-2.0 */
/* Filling struct accel_error: the first function that knows the cause writes the text, callers pass it on. */
#ifndef FILES_ERROR_H
#define FILES_ERROR_H

#include <accel/base.h>

/** Fill @p err (nullable), keeping it one line.  @return @p code, so that `return accel_fail (...)` is one line. */
enum accel_status accel_fail (struct accel_error *err, enum accel_status code, const char *format, ...)
    ACCEL_PRINTF (3, 4);

/** The same for a failed system call: appends ": " and the words for errno, and keeps errno in @p err. */
enum accel_status accel_fail_errno (struct accel_error *err, const char *format, ...) ACCEL_PRINTF (2, 3);

/** Put "PREFIX: " before the text of @p err.  @return err's code, or @p code if @p err is NULL. */
enum accel_status accel_fail_in (struct accel_error *err, enum accel_status code, const char *format, ...)
    ACCEL_PRINTF (3, 4);

/** Make @p err say that nothing failed, without writing all of its text as an initializer would. */
static inline void
accel_error_clear (struct accel_error *err)
{
    err->code = ACCEL_OK;
    err->sys_errno = 0;
    err->text[0] = '\0';
}

/** Fail with ACCEL_ERR_FORMAT at a byte of a text: "byte AT OF: ". */
enum accel_status accel_fail_at (struct accel_error *err, size_t at, const char *of, const char *format, ...)
    ACCEL_PRINTF (4, 5);

/** "out of memory", as all callers say it.  @return ACCEL_ERR_NOMEM */
enum accel_status accel_fail_nomem (struct accel_error *err);

/** Refuse an argument: "FUNCTION: NAME is NULL".  @return ACCEL_ERR_INVALID */
enum accel_status accel_fail_null (struct accel_error *err, const char *function, const char *name);

#endif
