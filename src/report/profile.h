/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of each rank went, from the file of accel_profile_stop() (accel_utility(3)). */
#ifndef REPORT_PROFILE_H
#define REPORT_PROFILE_H

#include "util/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_interval {
    double begin, time;
};

/** All in microseconds.  Their sum is `total`, but for rounding. */
struct profile_rank {
    double total;      /* from the first to the last event */
    double compute;    /* in none of the others */
    double data;       /* in spans that are about data, by their names */
    double collective; /* in collectives, after all ranks had come */
    double wait;       /* in collectives, for the rank that came last */
    double blamed;     /* that others waited for this rank; not of `total` */
    uint64_t steps;
    bool is_there;     /* it has events */
    double begin, end;
    struct profile_interval *parts; /* [part_count], collectives and spans about data, but those inside another */
    size_t part_count;
};

/** A call of the program. */
struct profile_call {
    char *name, *at; /* at: FILE:LINE */
    uint64_t count;
    double time, longest;
};

enum { PROFILE_RANKS = 1 << 16, PROFILE_CALLS = 4096 };

/** All zero is none. */
struct profile {
    struct profile_rank *ranks; /* [count] */
    size_t count;
    struct profile_call *calls; /* [call_count], those that took longest first */
    size_t call_count, hint;
    uint64_t skipped;
};

/** @param[out] profile  for profile_release(), also after a failure */
int profile_read (struct profile *profile, const char *path, struct fail *fail);
void profile_release (struct profile *profile);

/** Whether a span of this name is about data: it has one of the words data, batch, load, fetch and input. */
bool profile_is_data (const char *name);

#endif
