/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of trackers and its thread; see tracking.h. */
#include <config.h>

#include "lib/track/tracking.h"

#include "lib/base/error.h"
#include "util/clock.h"
#include "util/threads.h"

#include <accel/utility.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLLECT_MS = 100,                          /* what comes in that time is written together */
    FLUSH_EACH = 4096,                         /* records */
    FIRST_PAUSE_MS = 1000, LAST_PAUSE_MS = 60000, /* between tries of a tracker that fails */
};

/* ---- the thread ---- */

static void
warn_of_loss (struct accel_tracker *tracker)
{
    if (tracker->has_lost)
        return;
    tracker->has_lost = true;
    accel_logger_log (NULL, ACCEL_LOG_WARNING, "tracker %s: there is no memory to keep more of what is logged: %s",
                      tracker->calls.name, tracker->err.text);
}

static void
note_failure (struct accel_tracker *tracker, const struct accel_error *err, enum accel_status status)
{
    bool first = !tracker->retry_ms;
    tracker->err = *err;
    if (!*err->text)
        accel_fail (&tracker->err, status, "%s", accel_status_string (status));
    if (first)
        accel_logger_log (NULL, ACCEL_LOG_WARNING, "tracker %s: %s; what is logged is kept, and written later",
                          tracker->calls.name, tracker->err.text);
    tracker->pause_ms = first                                  ? FIRST_PAUSE_MS
                        : tracker->pause_ms < LAST_PAUSE_MS / 2 ? 2 * tracker->pause_ms
                                                                : LAST_PAUSE_MS;
    tracker->retry_ms = clock_ms () + tracker->pause_ms;
}

static enum accel_status
pass_record (const struct accel_tracker_calls *calls, const struct record *record, struct accel_error *err)
{
    if (record->is_config)
        return calls->store_init_configuration
                   ? calls->store_init_configuration (calls->user, record->values, record->count, err)
                   : ACCEL_OK;
    return calls->log ? calls->log (calls->user, record->values, record->count, record->step, record->time, err)
                      : ACCEL_OK;
}

static enum accel_status
flush (struct accel_tracker *tracker, struct accel_error *err)
{
    enum accel_status status
        = tracker->is_dirty && tracker->calls.flush ? tracker->calls.flush (tracker->calls.user, err) : ACCEL_OK;
    tracker->is_dirty = tracker->is_dirty && status;
    return status;
}

/* Give a tracker what it has not taken.  One that fails gets no more before it has passed on what it has. */
static enum accel_status
pass_on (struct accel_tracker *tracker, struct accel_error *err)
{
    enum accel_status status = flush (tracker, err);
    unsigned taken = 0;
    for (struct record *next; !status && (next = atomic_load_explicit (&tracker->at->next, memory_order_acquire));) {
        if (next->targets & tracking_bit (tracker)) {
            status = pass_record (&tracker->calls, next, err);
            tracker->is_dirty = true;
        }
        if (!status)
            tracker->at = next;
        if (!status && ++taken % FLUSH_EACH == 0)
            status = flush (tracker, err);
    }
    return status ? status : flush (tracker, err);
}

static void
serve_tracker (struct accel_tracker *tracker)
{
    struct accel_error err = { 0 };
    enum accel_status status = pass_on (tracker, &err);
    if (status)
        note_failure (tracker, &err, status);
    else
        tracker->retry_ms = 0;
}

/* @return whether a tracker still needs @p record, or what comes after it. */
static struct accel_tracker *
find_user (struct tracking *its, const struct record *record)
{
    for (unsigned i = 0; i < its->count; i++)
        if (its->trackers[i].at == record)
            return &its->trackers[i];
    return NULL;
}

static void
free_head (struct tracking *its)
{
    struct record *old = its->head;
    its->head = old->next;
    atomic_fetch_sub (&its->bytes, old->bytes);
    free (old);
}

/* Free what all have taken.  A tracker that fails may keep half of the memory; the rest is for those that work. */
static void
trim (struct tracking *its)
{
    for (struct accel_tracker *user; its->head->next;) {
        while ((user = find_user (its, its->head))) {
            if (!user->retry_ms || atomic_load (&its->bytes) <= its->most_bytes / 2)
                return;
            user->at = its->head->next;
            user->lost += !!(user->at->targets & tracking_bit (user));
            warn_of_loss (user);
        }
        free_head (its);
    }
}

static void
serve_all (struct tracking *its, bool last)
{
    for (unsigned i = 0; i < its->count; i++)
        if (last || its->trackers[i].retry_ms <= clock_ms ())
            serve_tracker (&its->trackers[i]);
    trim (its);
}

/* With the lock: wait for a change, or so long. */
static void
wait_ms (struct tracking *its, int64_t ms)
{
    struct timespec until;
    clock_gettime (CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait (&its->changed, &its->lock, &until);
}

static bool
has_work (const struct tracking *its)
{
    for (unsigned i = 0; i < its->count; i++)
        if (its->trackers[i].retry_ms || its->trackers[i].at->next)
            return true;
    return false;
}

/* @return false if this was the last time. */
static bool
wait_for_work (struct tracking *its)
{
    pthread_mutex_lock (&its->lock);
    its->is_idle = true;
    while (!its->is_ending && !has_work (its))
        pthread_cond_wait (&its->changed, &its->lock);
    its->is_idle = false;
    if (!its->is_ending)
        wait_ms (its, COLLECT_MS);
    bool ending = its->is_ending;
    pthread_mutex_unlock (&its->lock);
    return !ending;
}

static bool
has_written_all (const struct tracking *its)
{
    bool all = !has_work (its) && !atomic_load (&its->refused);
    for (unsigned i = 0; i < its->count; i++)
        all = all && !its->trackers[i].lost;
    return all;
}

static void
finish_tracker (struct accel_tracker *tracker)
{
    uint64_t lost = tracker->lost + atomic_load (&tracker->tracking->refused);
    for (struct record *left = tracker->at; (left = left->next);)
        lost += !!(left->targets & tracking_bit (tracker));
    if (lost)
        accel_logger_log (NULL, ACCEL_LOG_WARNING, "tracker %s: lost the values of %llu calls: %s", tracker->calls.name,
                          (unsigned long long) lost, *tracker->err.text ? tracker->err.text : "out of memory");
    else if (tracker->retry_ms) /* it has taken all, but cannot pass it on */
        accel_logger_log (NULL, ACCEL_LOG_WARNING, "tracker %s: the end is not written: %s", tracker->calls.name,
                          tracker->err.text);
    if (tracker->calls.finish)
        tracker->calls.finish (tracker->calls.user);
}

static void
destroy (struct tracking *its)
{
    while (its->head)
        free_head (its);
    for (unsigned i = 0; i < its->count; i++)
        free ((char *) its->trackers[i].calls.name);
    pthread_cond_destroy (&its->changed);
    pthread_mutex_destroy (&its->lock);
    free (its);
}

static void *
serve (void *user)
{
    struct tracking *its = user;
    bool refused = false;
    for (bool more = true; more;) {
        more = wait_for_work (its);
        serve_all (its, !more);
        if (!refused && atomic_load (&its->refused)) {
            refused = true;
            accel_logger_log (NULL, ACCEL_LOG_WARNING, "there is no memory to keep more of what is logged");
        }
    }
    pthread_mutex_lock (&its->lock);
    its->is_written = has_written_all (its);
    pthread_mutex_unlock (&its->lock);
    for (unsigned i = 0; i < its->count; i++)
        finish_tracker (&its->trackers[i]);
    pthread_mutex_lock (&its->lock);
    its->is_over = true;
    bool ours = its->is_abandoned;
    pthread_cond_broadcast (&its->changed);
    pthread_mutex_unlock (&its->lock);
    if (ours)
        destroy (its);
    return NULL;
}

/* ---- the end of the process ---- */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tracking *all;

/* @return false if the thread is still at work after the time that it has: it then frees what it uses. */
static bool
end_thread (struct tracking *its)
{
    int64_t until = clock_ms () + its->finish_timeout_ms;
    if (its->is_joined)
        return true;
    pthread_mutex_lock (&its->lock);
    its->is_ending = true;
    pthread_cond_broadcast (&its->changed);
    for (int64_t left; !its->is_over && (left = until - clock_ms ()) > 0;)
        wait_ms (its, left);
    bool over = its->is_over, written = its->is_written;
    its->is_abandoned = !over;
    pthread_mutex_unlock (&its->lock);
    if (over)
        pthread_join (its->thread, NULL);
    else {
        accel_logger_log (NULL, ACCEL_LOG_WARNING,
                          written ? "trackers have written all that was logged, but have not finished in %u ms"
                                  : "trackers have not written all that was logged in %u ms: the rest is lost",
                          (unsigned) its->finish_timeout_ms);
        pthread_detach (its->thread);
    }
    its->is_joined = over;
    return over;
}

/* exit() without accel_end_training() or accel_close(), as accel_check() does. */
static void
end_all (void)
{
    pthread_mutex_lock (&all_lock);
    for (struct tracking **at = &all; *at;) {
        struct tracking *its = *at, *next = its->next; /* a thread that is given up frees its own */
        if (tracking_is_ours (its) && !end_thread (its))
            *at = next;
        else
            at = &its->next;
    }
    pthread_mutex_unlock (&all_lock);
}

static void
enlist (struct tracking *its)
{
    static bool watches;
    pthread_mutex_lock (&all_lock);
    watches = watches || !atexit (end_all);
    its->next = all;
    all = its;
    pthread_mutex_unlock (&all_lock);
}

/* @return false if end_all() has given it up: its thread frees it, or has. */
static bool
delist (const struct tracking *its)
{
    pthread_mutex_lock (&all_lock);
    struct tracking **at = &all;
    while (*at && *at != its)
        at = &(*at)->next;
    bool found = *at;
    if (found)
        *at = its->next;
    pthread_mutex_unlock (&all_lock);
    return found;
}

/* ---- for the job ---- */

struct tracking *
tracking_create (size_t most_bytes, uint32_t finish_timeout_ms)
{
    struct tracking *made = calloc (1, sizeof *made);
    struct record *first = made ? record_make (NULL, 0, NULL, 0) : NULL;
    pthread_condattr_t clock;
    if (!first) {
        free (made);
        return NULL;
    }
    made->process = getpid ();
    made->most_bytes = most_bytes;
    made->finish_timeout_ms = finish_timeout_ms;
    made->last_step = -1;
    made->head = made->tail = first;
    atomic_store (&made->bytes, first->bytes);
    pthread_mutex_init (&made->lock, NULL);
    pthread_condattr_init (&clock);
    pthread_condattr_setclock (&clock, CLOCK_MONOTONIC);
    pthread_cond_init (&made->changed, &clock);
    pthread_condattr_destroy (&clock);
    made->is_joined = true;
    enlist (made);
    return made;
}

enum accel_status
tracking_add (struct tracking *its, const struct accel_tracker_calls *calls, struct accel_error *err)
{
    if (its->count == MOST_TRACKERS)
        return accel_fail (err, ACCEL_ERR_INVALID, "too many trackers; the maximum is %d", MOST_TRACKERS);
    for (unsigned i = 0; i < its->count; i++)
        if (!strcmp (its->trackers[i].calls.name, calls->name))
            return accel_fail (err, ACCEL_ERR_INVALID, "duplicate tracker '%.60s'", calls->name);
    char *name = strdup (calls->name);
    if (!name)
        return accel_fail_nomem (err);
    struct accel_tracker *tracker = &its->trackers[its->count++];
    *tracker = (struct accel_tracker){ .tracking = its, .calls = *calls, .at = its->head };
    tracker->calls.name = name;
    return ACCEL_OK;
}

enum accel_status
tracking_start (struct tracking *its, struct accel_error *err)
{
    errno = thread_start (&its->thread, serve, its);
    if (errno)
        return accel_fail_errno (err, "cannot start the thread of trackers");
    its->is_joined = false;
    return ACCEL_OK;
}

bool
tracking_is_ours (const struct tracking *its)
{
    return its->process == getpid ();
}

void
tracking_log (struct tracking *its, struct record *record)
{
    if (!record || atomic_load (&its->bytes) + record->bytes > its->most_bytes) {
        atomic_fetch_add (&its->refused, 1);
        free (record);
        return;
    }
    atomic_fetch_add (&its->bytes, record->bytes);
    pthread_mutex_lock (&its->lock);
    atomic_store_explicit (&its->tail->next, record, memory_order_release);
    its->tail = record;
    bool wakes = its->is_idle;
    its->is_idle = false;
    pthread_mutex_unlock (&its->lock);
    if (wakes)
        pthread_cond_broadcast (&its->changed);
}

void
tracking_finish (struct tracking *its)
{
    int saved = errno;
    if (!its || !tracking_is_ours (its) || !delist (its))
        return;
    if (end_thread (its)) {
        for (unsigned i = 0; !its->is_over && i < its->count; i++) /* it had no thread */
            finish_tracker (&its->trackers[i]);
        destroy (its);
    }
    errno = saved;
}
