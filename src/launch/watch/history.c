/* SPDX-License-Identifier: Apache-2.0 */
/* Rates and shares from samples; see history.h. */
#include <config.h>

#include "launch/watch/history.h"

#include <math.h>
#include <stdlib.h>

#define SECOND UINT64_C (1000000000)
#define SHORT_NS (10 * SECOND)
#define LONG_NS (60 * SECOND)

int
history_begin (struct history *history, const struct watch_job *job, struct fail *fail)
{
    *history = (struct history){ .inode = job->inode, .rank_count = job->rank_count };
    history->ranks = calloc ((size_t) job->rank_count, sizeof *history->ranks);
    return history->ranks ? 0 : fail_nomem (fail);
}

void
history_release (struct history *history)
{
    free (history->ranks);
    *history = (struct history){ 0 };
}

void
history_look (struct history *history, const bool *awaited)
{
    for (int i = 0; i < history->rank_count; i++) {
        history->ranks[i].looks++;
        history->ranks[i].awaited += awaited[i];
    }
}

/* A call that is not over has not been added to what the rank has waited. */
static uint64_t
waited_so_far (struct history_rank *its, const struct sample_rank *rank, uint64_t now_ns)
{
    if (rank->call != its->call) {
        its->call = rank->call;
        its->call_ns = now_ns;
    }
    return rank->waited_ns + (its->call ? now_ns - its->call_ns : 0);
}

void
history_add (struct history *history, const struct sample *sample)
{
    for (int i = 0; i < history->rank_count && i < sample->count; i++) {
        struct history_rank *its = &history->ranks[i];
        const struct sample_rank *rank = &sample->ranks[i];
        struct history_point *point = &its->points[history->samples % HISTORY_POINTS];
        *point = (struct history_point){
            .now_ns = rank->now_ns, .step = rank->step, .step_ns = rank->step_ns, .cpu_ns = rank->cpu_ns,
            .waited_ns = waited_so_far (its, rank, rank->now_ns), .looks = its->looks, .awaited = its->awaited,
        };
        for (uint32_t j = 0; j < JOBSEG_VALUES; j++)
            point->values[j] = j < rank->value_count ? (float) rank->values[j].value : NAN;
        its->looks = its->awaited = 0;
    }
    history->samples++;
}

/* The point @back samples before the latest one; NULL: there is none any more. */
static const struct history_point *
point_before (const struct history *history, int i, uint64_t back)
{
    if (back >= history->samples || back >= HISTORY_POINTS)
        return NULL;
    return &history->ranks[i].points[(history->samples - 1 - back) % HISTORY_POINTS];
}

/* The oldest point that is at most @span_ns older than the latest one. */
static const struct history_point *
point_within (const struct history *history, int i, uint64_t span_ns)
{
    const struct history_point *latest = point_before (history, i, 0), *oldest = latest, *point;
    for (uint64_t back = 1; (point = point_before (history, i, back)); back++)
        if (latest->now_ns - point->now_ns <= span_ns)
            oldest = point;
    return oldest;
}

/* A rank whose next step is late has become slower. */
static double
pace (uint64_t step, uint64_t step_ns, uint64_t later_step, uint64_t later_ns, uint64_t now_ns)
{
    if (later_step <= step || later_ns <= step_ns || !step_ns)
        return NAN;
    uint64_t steps = later_step - step, since = now_ns > later_ns ? now_ns - later_ns : 0;
    bool is_late = since / 3 > (later_ns - step_ns) / steps;
    if (is_late && since > LONG_NS)
        return 0;
    return (double) steps / ((double) (later_ns - step_ns + (is_late ? since : 0)) / (double) SECOND);
}

double
history_average_pace (const struct sample_rank *rank, uint64_t now_ns)
{
    return pace (rank->first_step, rank->first_ns, rank->step, rank->step_ns, now_ns);
}

static double
share (uint64_t part, uint64_t whole)
{
    return !whole ? NAN : part >= whole ? 1 : (double) part / (double) whole;
}

void
history_rates (const struct history *history, const struct sample *sample, int i, struct history_rates *rates)
{
    *rates = (struct history_rates){ NAN, NAN, NAN, NAN };
    const struct history_point *latest = point_before (history, i, 0), *before = point_before (history, i, 1);
    if (!latest)
        return;
    for (uint64_t back = 2; before && before->now_ns == latest->now_ns; back++)
        before = point_before (history, i, back); /* its host has not said anything since */
    for (uint64_t span = SHORT_NS; span <= LONG_NS && isnan (rates->steps_per_second); span += LONG_NS - SHORT_NS) {
        const struct history_point *old = point_within (history, i, span);
        rates->steps_per_second = pace (old->step, old->step_ns, latest->step, latest->step_ns, sample->now_ns);
    }
    if (isnan (rates->steps_per_second))
        rates->steps_per_second = history_average_pace (&sample->ranks[i], sample->now_ns);
    const struct history_point *old = point_within (history, i, SHORT_NS);
    if (latest->waited_ns >= old->waited_ns)
        rates->waiting = share (latest->waited_ns - old->waited_ns, latest->now_ns - old->now_ns);
    if (before && latest->cpu_ns >= before->cpu_ns && latest->now_ns > before->now_ns)
        rates->cpu = (double) (latest->cpu_ns - before->cpu_ns) / (double) (latest->now_ns - before->now_ns);
    uint64_t looks = 0, awaited = 0;
    const struct history_point *point;
    for (uint64_t back = 0; (point = point_before (history, i, back)); back++) {
        looks += point->looks;
        awaited += point->awaited;
    }
    rates->awaited = share (awaited, looks);
}

int
history_values (const struct history *history, int i, uint32_t value, float *numbers, int most)
{
    int count = 0;
    for (uint64_t back = (uint64_t) most; back-- > 0;) {
        const struct history_point *point = point_before (history, i, back);
        if (point)
            numbers[count++] = point->values[value];
    }
    return count;
}
