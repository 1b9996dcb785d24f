/* SPDX-License-Identifier: Apache-2.0 */
/* The trackers of a run, a queue of what was logged, and the thread that passes it on.
 *
 * Records have any size, so they are a list and not a ring.  Each tracker goes along it at its own speed, and a record
 * is freed after the last of them.  The thread is woken when it has nothing to do, and then collects for a moment: a
 * call that logs costs a copy, and seldom a system call. */
#ifndef LIB_TRACK_TRACKING_H
#define LIB_TRACK_TRACKING_H

#include "lib/track/record.h"

#include <pthread.h>

enum { MOST_TRACKERS = 32 };

struct accel_tracker {
    struct tracking *tracking;
    struct accel_tracker_calls calls; /* `name` is the tracker's own */
    struct record *at;                /* the last one that it has taken */
    int64_t retry_ms;                 /* when to call it again; 0: it has not failed */
    int64_t pause_ms;                 /* between the last two tries */
    bool is_dirty;                    /* it has taken something since the last flush */
    bool has_lost;                    /* the warning was given */
    uint64_t lost;                    /* records that it was not given */
    struct accel_error err;           /* of the last failure */
};

struct tracking {
    struct tracking *next; /* of all that are open in this process */
    int process;           /* whose thread it is: not that of a child */
    struct accel_tracker trackers[MOST_TRACKERS];
    unsigned count;
    struct record *head; /* taken by all */
    struct record *tail; /* of the thread that logs */
    int64_t last_step;   /* the highest that was logged; -1: none */
    size_t most_bytes;
    atomic_size_t bytes;     /* of all records */
    atomic_uint_fast64_t refused; /* records for which there was no memory */
    uint32_t finish_timeout_ms;

    pthread_t thread;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool is_idle;      /* the thread waits for the next record */
    bool is_ending;
    bool is_written;   /* all trackers have written all, and are only to be finished */
    bool is_over;      /* the thread no longer uses anything of this */
    bool is_abandoned; /* the job is closed, so the thread frees this */
    bool is_joined;
};

/** @return the bit of a tracker in a record's `targets`. */
static inline uint32_t
tracking_bit (const struct accel_tracker *tracker)
{
    return UINT32_C (1) << (tracker - tracker->tracking->trackers);
}

/** @return one without trackers; NULL: out of memory */
struct tracking *tracking_create (size_t most_bytes, uint32_t finish_timeout_ms);

/**
 * Add a tracker, before tracking_start().
 *
 * @param calls  copied; if this fails, the caller finishes it
 */
enum accel_status tracking_add (struct tracking *tracking, const struct accel_tracker_calls *calls,
                                struct accel_error *err);

/** Start the thread. */
enum accel_status tracking_start (struct tracking *tracking, struct accel_error *err);

/** @return whether this process has the thread. */
bool tracking_is_ours (const struct tracking *tracking);

/** Log a record, which is now the queue's; NULL: there was no memory for one. */
void tracking_log (struct tracking *tracking, struct record *record);

/** Let the thread pass on what is left, for as long as finish_timeout_ms, finish the trackers and free all.
 * Accepts NULL, preserves errno. */
void tracking_finish (struct tracking *tracking);

#endif
