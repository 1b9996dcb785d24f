/* SPDX-License-Identifier: Apache-2.0 */
/* The public side of option.h. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"

double
accel_exactly (double value)
{
    return value != 0 ? value : ACCEL_ZERO;
}

enum accel_status
flag_check (enum accel_flag given, const char *name, struct accel_error *err)
{
    if ((unsigned) given > ACCEL_NO)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for '%s'", name);
    return ACCEL_OK;
}
