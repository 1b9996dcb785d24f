/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in options whose default is not 0: 0 asks for the default, ACCEL_ZERO and ACCEL_NONE for none. */
#ifndef LIB_BASE_OPTION_H
#define LIB_BASE_OPTION_H

#include <accel/base.h>

#include <math.h>

/** @return whether the program has set @p value: anything but 0, which has no sign as ACCEL_ZERO has. */
static inline bool
option_is_given (double value)
{
    return value != 0 || signbit (value);
}

/** @return @p given, +0 if it is ACCEL_ZERO, or @p standard if it is 0. */
static inline double
option_or (double given, double standard)
{
    return !option_is_given (given) ? standard : given != 0 ? given : 0;
}

/** The same for counts: 0 if @p given is ACCEL_NONE. */
static inline uint32_t
option_count_or (uint32_t given, uint32_t standard)
{
    return !given ? standard : given == ACCEL_NONE ? 0 : given;
}

/** @return whether @p given is on; @p standard if it is ACCEL_DEFAULT. */
static inline bool
flag_or (enum accel_flag given, bool standard)
{
    return given ? given == ACCEL_YES : standard;
}

/** Refuse what is not a value of the enum.  @param name  of the option */
enum accel_status flag_check (enum accel_flag given, const char *name, struct accel_error *err);

#endif
