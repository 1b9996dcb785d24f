/* SPDX-License-Identifier: Apache-2.0 */
/* The core of logging, for accel_open() and for the calls of accel/utility.h. */
#ifndef LIB_STATE_LOG_H
#define LIB_STATE_LOG_H

#include <accel/utility.h>

#include <stdarg.h>

/** Check the variable, where a bad word can still be refused. */
enum accel_status log_check_environment (struct accel_error *err);

/** The bits of a level without what is added to it. */
enum { LOG_LEVEL = ACCEL_LOG_EVERYWHERE - 1 };

/** @return the level below which lines are dropped. */
int log_level (void);

/** Write one line to standard error, with one write(), whatever the level; ACCEL_LOG_ONCE counts. */
ACCEL_PRINTF (3, 0) void log_write (const struct accel *acc, int level, const char *format, va_list args);

#endif
