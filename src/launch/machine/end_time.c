/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a Slurm job; see end_time.h. */
#include <config.h>

#include "launch/machine/end_time.h"

#include "util/clock.h"
#include "util/parse.h"

#include <stdlib.h>

int64_t
end_time_find (int64_t before_s)
{
    enum { YEAR_S = 366 * 86400 }; /* without a limit, Slurm gives a year or more */
    const char *text = getenv ("SLURM_JOB_END_TIME");
    int64_t end_s, left_s;
    if (!text || parse_int64 (text, 0, INT64_MAX / 1000, &end_s) != PARSE_OK)
        return 0;
    left_s = end_s - (int64_t) time (NULL) - before_s;
    return left_s > 0 && left_s < YEAR_S ? clock_ms () + left_s * 1000 : 0;
}
