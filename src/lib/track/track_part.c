/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of accel/tracker.h. */
#include <config.h>

#include "lib/track/track_part.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/comm/progress.h"
#include "lib/state/state_object.h"
#include "lib/track/kinds.h"
#include "lib/track/step_line.h"
#include "lib/track/throughput.h"
#include "lib/track/tracking.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/strbuf.h"
#include "util/suggest.h"

#include <accel/checkpoint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUEUE_BYTES = 64 << 20, FINISH_TIMEOUT_MS = 10000 };

struct track_part {
    struct part part;
    uint32_t chosen;          /* bit i: row i of `kinds` is in log_with */
    bool all;                 /* so is every tracker that can work */
    struct tracking *running; /* NULL: none; always on ranks but 0 */
    struct throughput throughput;
    struct step_line line;
};

static const struct tracker_kind *const kinds[] = {
#define X(name) &tracker_##name,
    TRACKER_MAP (X)
#undef X
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct track_part *
track_of (const struct accel *acc)
{
    return (struct track_part *) (void *) part_find (acc, &part_track);
}

/* ---- log_with ---- */

static enum accel_status
refuse_name (const char *name, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf names = { 0 };
    struct suggest suggest = { .wanted = name };
    char space[80];
    for (int i = 0; i < KINDS; i++) {
        strbuf_printf (&names, "%s, ", kinds[i]->name);
        suggest_consider (&suggest, kinds[i]->name);
    }
    return accel_fail (err, ACCEL_ERR_INVALID, "log_with: unknown tracker '%.40s'%s: expected %sor all", name,
                       suggest_text (&suggest, "", space, sizeof space), names.text ? names.text : "");
}

static enum accel_status
choose (struct track_part *its, const char *name, struct accel_error *err)
{
    if (!strcmp (name, "all")) {
        its->all = true;
        return ACCEL_OK;
    }
    for (int i = 0; i < KINDS; i++)
        if (!strcmp (name, kinds[i]->name)) {
            its->chosen |= UINT32_C (1) << i;
            return ACCEL_OK;
        }
    return refuse_name (name, err);
}

static enum accel_status
open_track (struct part *part, const struct accel_options *options, struct accel_error *err)
{
    struct track_part *its = (struct track_part *) (void *) part;
    if (!options || !options->log_with)
        return ACCEL_OK;
    AUTO_FREE char *names = strdup (options->log_with);
    enum accel_status status = names ? ACCEL_OK : accel_fail_nomem (err);
    for (char *rest = NULL, *at = names, *name; !status && (name = strtok_r (at, ", ", &rest)); at = NULL)
        status = choose (its, name, err);
    return status;
}

/* ---- starting ---- */

/* @return whether it is to be started; fails if it cannot be. */
static enum accel_status
is_wanted (const struct track_part *its, int kind, const struct accel_tracker_run *run, bool *wanted,
           struct accel_error *err)
{
    bool named = its->chosen & UINT32_C (1) << kind, can = run->logging_dir || !kinds[kind]->requires_logging_dir;
    bool configured = !kinds[kind]->is_configured || kinds[kind]->is_configured ();
    *wanted = named || (its->all && can && configured);
    if (named && !can)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "tracker '%s' needs a logging_dir: call accel_set_project_configuration first",
                           kinds[kind]->name);
    return ACCEL_OK;
}

/* Start a tracker and add it. */
static enum accel_status
start (struct tracking *tracking, const struct accel_tracker_calls *calls, const struct accel_tracker_run *run,
       struct accel_error *err)
{
    struct accel_error why = { 0 };
    enum accel_status status = calls->start ? calls->start (calls->user, run, &why) : ACCEL_OK;
    if (status)
        accel_fail (err, status, "tracker '%.60s': %s", calls->name,
                    *why.text ? why.text : accel_status_string (status));
    else
        status = tracking_add (tracking, calls, err);
    if (status && calls->finish)
        calls->finish (calls->user);
    return status;
}

static enum accel_status
start_all (const struct track_part *its, struct tracking *tracking, const struct accel_tracker_run *run,
           const struct accel_tracker_calls *own, size_t own_count, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int i = 0; i < KINDS && !status; i++) {
        bool wanted;
        struct accel_tracker_calls calls = { .name = kinds[i]->name };
        status = is_wanted (its, i, run, &wanted, err);
        if (!status && wanted)
            status = kinds[i]->create (&calls, err);
        if (!status && wanted)
            status = start (tracking, &calls, run, err);
    }
    for (size_t i = 0; i < own_count && !status; i++)
        status = own[i].name && *own[i].name ? start (tracking, &own[i], run, err)
                                             : accel_fail (err, ACCEL_ERR_INVALID, "tracker %zu has no name", i);
    return status;
}

static double
seconds_now (void)
{
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void
log_config (struct tracking *tracking, const struct accel_value *config, size_t count)
{
    struct record *record = record_make (config, count, NULL, 0);
    if (record) {
        record->is_config = true;
        record->targets = UINT32_MAX;
        record->time = seconds_now ();
    }
    tracking_log (tracking, record);
}

static enum accel_status
init (struct track_part *its, const struct accel_tracker_run *run, const struct accel_value *config, size_t count,
      const struct accel_tracker_options *options, struct accel_error *err)
{
    enum accel_status status = flag_check (options->throughput, "throughput", err);
    if (status)
        return accel_fail_in (err, status, "accel_init_trackers");
    struct tracking *made = tracking_create (options->queue_bytes ? options->queue_bytes : QUEUE_BYTES,
                                             options->finish_timeout_ms ? options->finish_timeout_ms
                                                                        : FINISH_TIMEOUT_MS);
    if (!made)
        return accel_fail_nomem (err);
    status = start_all (its, made, run, options->trackers, options->tracker_count, err);
    if (!status)
        status = tracking_start (made, err);
    if (status) {
        tracking_finish (made);
        return accel_fail_in (err, status, "accel_init_trackers");
    }
    its->running = made;
    its->throughput = throughput_begin (options);
    its->line = step_line_begin (options);
    if (count)
        log_config (made, config, count);
    return ACCEL_OK;
}

enum accel_status
accel_init_trackers_sized (size_t options_size, size_t tracker_size, struct accel *acc, const char *project_name,
                           const struct accel_value *config, size_t count,
                           const struct accel_tracker_options *options, struct accel_error *err)
{
    struct accel_tracker_options own = { 0 }, room;
    AUTO_FREE struct accel_tracker_calls *trackers = NULL;
    enum accel_status status;
    if (!acc || !project_name || !*project_name)
        return accel_fail_null (err, "accel_init_trackers", acc ? "project_name" : "acc");
    options = SIZED (options, options_size, room, &status, err);
    if (!status && options) {
        own = *options;
        own.trackers = SIZED_ARRAY (options->trackers, tracker_size, options->tracker_count, trackers, &status, err);
    }
    if (!status)
        status = record_check ("accel_init_trackers", config, count, err);
    if (status || !accel_is_main_process (acc))
        return status;
    track_end (acc);
    bool before = track_of (acc)->line.steps;
    const struct accel_tracker_run run = { .project_name = project_name, .run_name = own.run_name,
                                           .logging_dir = accel_get_project_configuration (acc)->logging_dir };
    status = init (track_of (acc), &run, config, count, &own, err);
    if (!status && (own.print_steps || before)) /* the launcher's status line finds it by its name; 0: not known */
        progress_log (acc->world, &(struct progress_value){ "total_steps", (double) own.print_steps }, 1, -1);
    return status;
}

/* ---- logging ---- */

/* @param throughput  adds what it measures; NULL: nothing does */
static void
log_values (struct tracking *its, uint32_t targets, struct throughput *throughput, const struct accel_value *values,
            size_t count, int64_t step)
{
    struct accel_value more[THROUGHPUT_VALUES];
    if (step < 0)
        step = its->last_step + 1;
    if (step > its->last_step)
        its->last_step = step;
    size_t more_count = throughput ? throughput_measure (throughput, step, clock_ns (), more) : 0;
    struct record *record = record_make (values, count, more, more_count);
    if (record) {
        record->targets = targets;
        record->step = step;
        record->time = seconds_now ();
    }
    tracking_log (its, record);
}

/* On every rank: each one shows its own. */
static void
show_values (struct accel *acc, const struct accel_value *values, size_t count, int64_t step)
{
    struct progress_value shown[JOBSEG_VALUES];
    size_t shown_count = 0;
    for (size_t i = 0; i < count && shown_count < JOBSEG_VALUES; i++)
        if (values[i].kind == ACCEL_NUMBER)
            shown[shown_count++] = (struct progress_value){ values[i].key, values[i].number };
    progress_log (acc->world, shown, shown_count, step);
}

enum accel_status
accel_log (struct accel *acc, const struct accel_value *values, size_t count, int64_t step, struct accel_error *err)
{
    if (!acc)
        return accel_fail_null (err, __func__, "acc");
    struct track_part *its = track_of (acc);
    enum accel_status status = record_check (__func__, values, count, err);
    if (!status)
        show_values (acc, values, count, step);
    if (!status && its->running && tracking_is_ours (its->running)) {
        log_values (its->running, UINT32_MAX, &its->throughput, values, count, step);
        step_line_print (&its->line, acc, values, count, step < 0 ? its->running->last_step : step, clock_ns ());
    }
    return status;
}

enum accel_status
accel_log_number (struct accel *acc, const char *key, double number, int64_t step, struct accel_error *err)
{
    return accel_log (acc, &(struct accel_value){ .key = key, .number = number }, 1, step, err);
}

enum accel_status
accel_get_tracker (struct accel_tracker **tracker, struct accel *acc, const char *name, struct accel_error *err)
{
    if (!tracker || !acc || !name)
        return accel_fail_null (err, __func__, !tracker ? "tracker" : acc ? "name" : "acc");
    *tracker = NULL;
    struct tracking *running = track_of (acc)->running;
    struct suggest suggest = { .wanted = name };
    char space[80];
    for (unsigned i = 0; running && i < running->count; i++) {
        suggest_consider (&suggest, running->trackers[i].calls.name);
        if (!strcmp (running->trackers[i].calls.name, name)) {
            *tracker = &running->trackers[i];
            return ACCEL_OK;
        }
    }
    return running ? accel_fail (err, ACCEL_ERR_INVALID, "accel_get_tracker: the job has no tracker '%.60s'%s", name,
                                 suggest_text (&suggest, "", space, sizeof space))
                   : ACCEL_OK;
}

enum accel_status
accel_tracker_log (struct accel_tracker *tracker, const struct accel_value *values, size_t count, int64_t step,
                   struct accel_error *err)
{
    enum accel_status status = record_check (__func__, values, count, err);
    if (!status && tracker && tracking_is_ours (tracker->tracking))
        log_values (tracker->tracking, tracking_bit (tracker), NULL, values, count, step);
    return status;
}

/* ---- the end ---- */

void
track_end (struct accel *acc)
{
    struct track_part *its = track_of (acc);
    tracking_finish (its->running);
    its->running = NULL;
}

static void
close_track (struct part *part)
{
    tracking_finish (((struct track_part *) (void *) part)->running);
}

const struct part_kind part_track = { .size_bytes = sizeof (struct track_part), .open = open_track,
                                      .close = close_track };
