/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks' steps, in a line of the terminal; see status.h. */
#include <config.h>

#include "launch/job/status.h"

#include "launch/output/terminal.h"
#include "util/cleanup.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

enum {
    LOOK_MS = 250,
    AGAIN_MS = 40,       /* between two drawings while output erases it */
    LEAST_COLUMNS = 20,
    MOST_HOURS = 999,    /* that a forecast is worth */
};
static const uint64_t rate_ns = UINT64_C (10000000000); /* how far back a rate looks, if steps are short */

/* If our standard output is a pipe, the program at its other end may write to the terminal, too. */
static bool
is_harmless (const struct output_sink *sink, const struct output_sink *chosen)
{
    struct stat info;
    return sink == chosen || (!fstat (sink->fd, &info) && !sink->is_terminal
                              && (S_ISREG (info.st_mode) || S_ISCHR (info.st_mode)));
}

void
status_begin (struct status *status, struct output_sink *const sink_of[2], const struct jobseg *segment, pid_t group,
              _Atomic int *is_seen)
{
    struct output_sink *sink = sink_of[1]->is_terminal ? sink_of[1] : sink_of[0];
    *status = (struct status){ .segment = segment };
    if (!sink->is_terminal || !terminal_can_erase () || !is_harmless (sink_of[0], sink)
        || !is_harmless (sink_of[1], sink))
        return;
    status->sink = sink;
    sink->status.group = group;
    sink->status.is_seen = is_seen;
}

/* ---- what ranks show ---- */

struct steps {
    uint64_t least, most;
    uint64_t ns; /* when the slowest rank made its latest one; 0: no rank shows any */
};

static struct steps
find_steps (const struct jobseg *segment)
{
    struct steps steps = { 0 };
    for (int i = 0; i < (int) segment->header->local_world_size; i++) {
        const struct jobseg_progress *progress = &jobseg_slot (segment, i)->progress;
        uint64_t ns = atomic_load (&progress->step_ns), step = atomic_load (&progress->step);
        if (!ns)
            continue;
        if (!steps.ns || step < steps.least) {
            steps.least = step;
            steps.ns = ns;
        }
        steps.most = step > steps.most ? step : steps.most;
    }
    return steps;
}

static void
add_sample (struct status *status, const struct steps *steps)
{
    unsigned last = (status->first + status->count - 1) % STATUS_SAMPLES;
    if (status->count && (steps->least < status->samples[last].step || steps->ns <= status->samples[last].ns)) {
        if (steps->least == status->samples[last].step)
            return;
        status->count = 0; /* the program has begun again */
    }
    if (status->count == STATUS_SAMPLES) {
        status->first = (status->first + 1) % STATUS_SAMPLES;
        status->count--;
    }
    last = (status->first + status->count++) % STATUS_SAMPLES;
    status->samples[last].step = steps->least;
    status->samples[last].ns = steps->ns;
    while (status->count > 2 && status->samples[(status->first + 1) % STATUS_SAMPLES].ns + rate_ns < steps->ns) {
        status->first = (status->first + 1) % STATUS_SAMPLES;
        status->count--;
    }
}

/* Steps per second; 0: not known yet. */
static double
find_rate (const struct status *status)
{
    unsigned first = status->first, last = (first + status->count - 1) % STATUS_SAMPLES;
    if (status->count < 2 || status->samples[last].ns <= status->samples[first].ns)
        return 0;
    return (double) (status->samples[last].step - status->samples[first].step) * 1e9
           / (double) (status->samples[last].ns - status->samples[first].ns);
}

/* A rank's logged numbers, as they were at one moment.  @return how many; 0 also while the rank writes them */
static uint32_t
read_values (const struct jobseg_progress *progress, struct jobseg_progress *copy)
{
    uint32_t before = atomic_load (&progress->version);
    copy->value_count = progress->value_count;
    memcpy (copy->values, progress->values, sizeof copy->values);
    jobseg_fence_reads ();
    if (before % 2 || atomic_load (&progress->version) != before)
        return 0;
    for (int i = 0; i < JOBSEG_VALUES; i++) {
        copy->values[i].name[JOBSEG_VALUE_NAME - 1] = '\0';
        for (char *at = copy->values[i].name; *at; at++)
            *at = *at > ' ' && *at < 127 ? *at : '?'; /* no escapes, and a column for each byte */
    }
    return copy->value_count < JOBSEG_VALUES ? copy->value_count : JOBSEG_VALUES;
}

/* ---- in words ---- */

/* Part by part, as many as fit. */
__attribute__ ((format (printf, 3, 4))) static void
add_part (char text[STATUS_BYTES], int columns, const char *format, ...)
{
    char part[STATUS_BYTES];
    size_t length = strlen (text);
    va_list arguments;
    va_start (arguments, format);
    int size = vsnprintf (part, sizeof part, format, arguments);
    va_end (arguments);
    size_t gap = length ? 2 : 0, most = columns < STATUS_BYTES ? (size_t) columns : STATUS_BYTES - 1;
    if (size <= 0 || length + gap + (size_t) size > most)
        return;
    memcpy (text + length, "  ", gap);
    memcpy (text + length + gap, part, (size_t) size + 1);
}

static void
add_rate (const struct status *status, int columns, char text[STATUS_BYTES])
{
    double rate = find_rate (status);
    if (rate >= 1000)
        add_part (text, columns, "%.0f steps/s", rate);
    else if (rate >= 1)
        add_part (text, columns, "%.3g steps/s", rate);
    else if (rate > 0)
        add_part (text, columns, "%.3g s/step", 1 / rate);
}

/* Programs say how many steps there are by a value of one of these names. */
static bool
is_total (const char *name)
{
    return !strcmp (name, "total_steps") || !strcmp (name, "max_steps");
}

static void
add_time_left (const struct status *status, double total, uint64_t step, int columns, char text[STATUS_BYTES])
{
    double rate = find_rate (status), seconds = (total - (double) step) / rate;
    if (rate <= 0 || !(seconds >= 0) || seconds >= 3600.0 * MOST_HOURS)
        return;
    int64_t left = (int64_t) (seconds + 0.5);
    add_part (text, columns, "%lld:%02lld:%02lld left", (long long) left / 3600, (long long) left / 60 % 60,
              (long long) left % 60);
}

static void
add_values (const struct status *status, const struct steps *steps, int columns, char text[STATUS_BYTES])
{
    struct jobseg_progress copy;
    uint32_t count = 0;
    for (int i = 0; i < (int) status->segment->header->local_world_size && !count; i++)
        count = read_values (&jobseg_slot (status->segment, i)->progress, &copy);
    for (uint32_t i = 0; i < count; i++)
        if (is_total (copy.values[i].name)) {
            add_time_left (status, copy.values[i].value, steps->least, columns, text);
            break;
        }
    for (uint32_t i = 0; i < count; i++)
        if (!is_total (copy.values[i].name))
            add_part (text, columns, "%s %.4g", copy.values[i].name, copy.values[i].value);
}

static void
describe (struct status *status)
{
    struct winsize size;
    struct steps steps = find_steps (status->segment);
    unsigned ranks = status->segment->header->world_size;
    status->text[0] = '\0';
    if (!steps.ns || ioctl (status->sink->fd, TIOCGWINSZ, &size) || size.ws_col < LEAST_COLUMNS)
        return;
    int columns = size.ws_col - 1;
    add_sample (status, &steps);
    add_part (status->text, columns, "%u rank%s", ranks, ranks > 1 ? "s" : "");
    if (steps.most > steps.least + 1)
        add_part (status->text, columns, "step %llu to %llu", (unsigned long long) steps.least,
                  (unsigned long long) steps.most);
    else
        add_part (status->text, columns, "step %llu", (unsigned long long) steps.least);
    add_rate (status, columns, status->text);
    add_values (status, &steps, columns, status->text);
}

/* ---- when ---- */

/* Output that is not at the beginning of a line, or waits for room, comes first. */
static bool
has_place (const struct output_sink *sink)
{
    return !sink->broken && !sink->unfinished && !sink->owner && !output_sink_is_full (sink);
}

void
status_turn (struct status *status, int64_t now_ms)
{
    struct output_sink *sink = status->sink;
    if (!sink || status->is_stopped)
        return;
    char before[STATUS_BYTES];
    memcpy (before, status->text, sizeof before);
    if (now_ms >= status->look_ms) {
        describe (status);
        status->look_ms = now_ms + LOOK_MS;
    }
    bool has_changed = strcmp (status->text, before) != 0;
    if (!*status->text)
        output_sink_erase_status (sink);
    else if (has_place (sink) && (has_changed || (!sink->status.is_put && now_ms >= status->shown_ms + AGAIN_MS))) {
        char line[STATUS_BYTES + 16];
        bool is_plain = !terminal_has_colours ();
        snprintf (line, sizeof line, "%s%s%s", is_plain ? "" : "\033[2m", status->text, is_plain ? "" : "\033[0m");
        bool is_shown = output_sink_show_status (sink, line);
        status->shown_ms = is_shown ? now_ms : now_ms + LOOK_MS - AGAIN_MS; /* another job has the terminal */
    }
}

int64_t
status_due (const struct status *status)
{
    const struct output_sink *sink = status->sink;
    if (!sink || status->is_stopped || sink->broken)
        return INT64_MAX;
    int64_t again = *status->text && !sink->status.is_put && has_place (sink) ? status->shown_ms + AGAIN_MS : INT64_MAX;
    return again < status->look_ms ? again : status->look_ms;
}

void
status_resize (struct status *status)
{
    status->look_ms = 0;
    status->shown_ms = 0;
    if (status->sink)
        output_sink_erase_status (status->sink);
}

void
status_stop (struct status *status, bool stops)
{
    status->is_stopped = stops;
    if (!status->sink || !stops)
        return;
    output_sink_erase_status (status->sink);
    output_sink_drain (status->sink);
}

void
status_end (struct status *status)
{
    if (!status->sink)
        return;
    output_sink_erase_status (status->sink);
    output_sink_drain (status->sink);
    status->sink = NULL;
}
