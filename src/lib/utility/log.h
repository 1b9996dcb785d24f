/* SPDX-License-Identifier: Apache-2.0 */
/* What accel_open() asks of logging. */
#ifndef LIB_UTILITY_LOG_H
#define LIB_UTILITY_LOG_H

#include <accel/utility.h>

/** Check the variable, where a bad word can still be refused. */
enum accel_status log_check_environment (struct accel_error *err);

#endif
