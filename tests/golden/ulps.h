/* SPDX-License-Identifier: Apache-2.0 */
/* How far numbers are from golden ones. */
#ifndef TESTS_ULPS_H
#define TESTS_ULPS_H

#include <math.h>
#include <string.h>

/* In units of the last place of @p wanted. */
static inline double
ulps (float got, float wanted)
{
    float size = fabsf (wanted);
    if ((isnan (got) && isnan (wanted)) || !memcmp (&got, &wanted, sizeof got))
        return 0;
    if (!isfinite (got) || !isfinite (wanted))
        return INFINITY;
    return fabs ((double) got - (double) wanted) / ((double) nextafterf (size, INFINITY) - (double) size);
}

#endif
