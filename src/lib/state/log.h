/* SPDX-License-Identifier: Apache-2.0 */
/* The core of logging, for accel_open() and for the calls of accel/utility.h. */
#ifndef LIB_STATE_LOG_H
#define LIB_STATE_LOG_H

#include <accel/utility.h>

#include <stdarg.h>

/** Check the variable, where a bad word can still be refused. */
enum accel_status log_check_environment (struct accel_error *err);

/** Write one line to standard error, with one write(), whatever the level. */
ACCEL_PRINTF (3, 0) void log_write (const struct accel *acc, enum accel_log_level level, const char *format,
                                    va_list args);

#endif
