/* SPDX-License-Identifier: Apache-2.0 */
/* The public side of option.h. */
#include <config.h>

#include "lib/base/option.h"

double
accel_exactly (double value)
{
    return value != 0 ? value : ACCEL_ZERO;
}
