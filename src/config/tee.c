/* SPDX-License-Identifier: Apache-2.0 */
/* The words of --tee; see tee.h. */
#include <config.h>

#include "config/tee.h"

static bool
is_for_all (const char *spec)
{
    return spec[0] >= '0' && spec[0] <= '3' && !spec[1];
}

/* A rank has one digit, as in Accelerate. */
bool
tee_is_valid (const char *spec)
{
    if (is_for_all (spec))
        return true;
    for (;; spec += 4) {
        if (spec[0] < '0' || spec[0] > '9' || spec[1] != ':' || spec[2] < '0' || spec[2] > '3')
            return false;
        if (spec[3] != ',')
            return !spec[3];
    }
}

unsigned
tee_of_rank (const char *spec, int local_rank)
{
    if (!tee_is_valid (spec))
        return 0;
    if (is_for_all (spec))
        return (unsigned) (spec[0] - '0');
    unsigned bits = 0;
    for (;; spec += 4) {
        if (spec[0] - '0' == local_rank)
            bits = (unsigned) (spec[2] - '0');
        if (!spec[3])
            return bits;
    }
}

int
tee_greatest_rank (const char *spec)
{
    int greatest = -1;
    if (!tee_is_valid (spec) || is_for_all (spec))
        return greatest;
    for (;; spec += 4) {
        if (spec[0] - '0' > greatest)
            greatest = spec[0] - '0';
        if (!spec[3])
            return greatest;
    }
}
