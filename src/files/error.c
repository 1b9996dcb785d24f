/* SPDX-License-Identifier: Apache-2.0 */
/* The library's error object; see error.h. */
#include <config.h>

#include "files/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message is one line whatever was put into it. */
static void
one_line (char *text)
{
    for (; *text; text++)
        if (*text == '\n' || *text == '\r')
            *text = ' ';
}

enum accel_status
accel_fail (struct accel_error *err, enum accel_status code, const char *format, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start (args, format);
    vsnprintf (err->text, sizeof err->text, format, args);
    va_end (args);
    one_line (err->text);
    err->code = code;
    err->sys_errno = 0;
    return code;
}

enum accel_status
accel_fail_errno (struct accel_error *err, const char *format, ...)
{
    int number = errno;
    if (!err)
        return ACCEL_ERR_SYSTEM;
    va_list args;
    va_start (args, format);
    int length = vsnprintf (err->text, sizeof err->text, format, args);
    va_end (args);
    if (length >= 0 && (size_t) length < sizeof err->text)
        snprintf (err->text + length, sizeof err->text - (size_t) length, ": %s", strerror (number));
    one_line (err->text);
    err->code = ACCEL_ERR_SYSTEM;
    err->sys_errno = number;
    return ACCEL_ERR_SYSTEM;
}

enum accel_status
accel_fail_in (struct accel_error *err, enum accel_status code, const char *format, ...)
{
    if (!err)
        return code;
    char old[sizeof err->text];
    memcpy (old, err->text, sizeof old);
    va_list args;
    va_start (args, format);
    int length = vsnprintf (err->text, sizeof err->text, format, args);
    va_end (args);
    /* The old text is cut if the two do not fit; testing the result tells the compiler that this is meant. */
    if (length >= 0 && (size_t) length < sizeof err->text
        && snprintf (err->text + length, sizeof err->text - (size_t) length, ": %s", old) < 0)
        err->text[length] = '\0';
    one_line (err->text);
    return err->code;
}

enum accel_status
accel_fail_at (struct accel_error *err, size_t at, const char *of, const char *format, ...)
{
    char text[ACCEL_ERROR_TEXT_SIZE];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    return accel_fail (err, ACCEL_ERR_FORMAT, "byte %zu%s: %s", at, of, text);
}

enum accel_status
accel_fail_null (struct accel_error *err, const char *function, const char *name)
{
    return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", function, name);
}

enum accel_status
accel_fail_nomem (struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_NOMEM, "out of memory");
}
