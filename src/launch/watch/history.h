/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from several looks at a job: rates over seconds, shares of the last minute, and the latest values.
 * Reads nothing but the samples that it is given. */
#ifndef LAUNCH_WATCH_HISTORY_H
#define LAUNCH_WATCH_HISTORY_H

#include "launch/watch/sample.h"

enum { HISTORY_POINTS = 61 }; /* a minute, if samples are a second apart */

/** A rank as it was in one sample. */
struct history_point {
    uint64_t now_ns, step, step_ns, waited_ns, cpu_ns;
    uint32_t looks, awaited; /* since the sample before: how often was looked, and how often others waited for it */
    float values[JOBSEG_VALUES];
};

struct history_rank {
    struct history_point points[HISTORY_POINTS]; /* that of sample i is at i % HISTORY_POINTS */
    uint64_t call, call_ns; /* the call that it was in, and when it was first seen there */
    uint32_t looks, awaited; /* since the latest sample */
};

/** Of one job; {0} is an empty one. */
struct history {
    uint64_t inode; /* of the job */
    int rank_count;
    uint64_t samples;
    struct history_rank *ranks; /* [rank_count] */
};

/** What is known of a rank's pace; NAN where it is not. */
struct history_rates {
    double steps_per_second; /* over the last 10 s, or as far back as it takes; 0: there was none for long */
    double waiting;          /* share of the last 10 s that it was in calls that communicate */
    double awaited;          /* share of the last minute that others waited for it */
    double cpu;              /* processors that it used since the sample before */
};

/** @return 0, or -1 without memory */
int history_begin (struct history *history, const struct watch_job *job, struct fail *fail);
void history_release (struct history *history);

/** Between two samples, as often as may be: who is awaited.  @param awaited  as sample_find_awaited() says */
void history_look (struct history *history, const bool *awaited);

/** @param sample  of the same job */
void history_add (struct history *history, const struct sample *sample);

/** Of rank @p i in the latest sample, which is @p sample. */
void history_rates (const struct history *history, const struct sample *sample, int i, struct history_rates *rates);

/** The latest numbers of value @p value of rank @p i, oldest first.  @return how many, at most @p most */
int history_values (const struct history *history, int i, uint32_t value, float *numbers, int most);

/** Steps per second since the first one, from one look alone; NAN: it has made less than two. */
double history_average_pace (const struct sample_rank *rank, uint64_t now_ns);

#endif
