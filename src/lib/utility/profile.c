/* SPDX-License-Identifier: Apache-2.0 */
/* Recording: events in a buffer of fixed size, and their way to rank 0.  A step, a span or a call is one event, noted
 * when it ends. */
#include <config.h>

#include "lib/utility/profile.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/work.h"
#include "lib/state/state_object.h"
#include "util/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_EVENTS = 65536 };

static uint64_t
now (void)
{
    return (uint64_t) clock_ns ();
}

/* Collectives of a backward pass may be noted by a thread of the library's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint8_t
name_index (struct profile_names *names, const char *text)
{
    uint32_t i = 0;
    pthread_mutex_lock (&lock);
    while (i < names->count && strncmp (names->text[i], text, PROFILE_NAME - 1))
        i++;
    if (i == PROFILE_NAMES)
        i = PROFILE_NAMES - 1;
    if (i == names->count) {
        names->count++;
        strncpy (names->text[i], i == PROFILE_NAMES - 1 ? "(others)" : text, PROFILE_NAME - 1);
    }
    pthread_mutex_unlock (&lock);
    return (uint8_t) i;
}

static void
note (struct profile *profile, const struct profile_event *event)
{
    pthread_mutex_lock (&lock);
    uint64_t number = event->kind == PROFILE_CALL ? profile->calls++ : event->number;
    if (profile->count == profile->most)
        profile->dropped++;
    else {
        profile->events[profile->count] = *event;
        profile->events[profile->count++].number = number;
    }
    pthread_mutex_unlock (&lock);
}

/* The observer is the first member.  A file is identified by the end of its path. */
static void
note_call (struct comm_observer *observer, const struct accel_engine_call *call, int64_t begin_ns)
{
    struct profile *profile = (struct profile *) (void *) observer;
    const char *slash = strrchr (engine_site (call)->file, '/');
    note (profile, &(struct profile_event){
                       .begin_ns = (uint64_t) begin_ns,
                       .end_ns = now (),
                       .count = call->count,
                       .line = (uint32_t) engine_site (call)->line,
                       .name = name_index (&profile->names, slash ? slash + 1 : engine_site (call)->file),
                       .kind = PROFILE_CALL,
                       .call = (uint8_t) engine_site (call)->call,
                       .dtype = (uint8_t) call->dtype,
                   });
}

/* Accepts NULL. */
static void
destroy (struct profile *profile)
{
    if (!profile)
        return;
    free (profile->events);
    free (profile->path);
    free (profile);
}

static void
end_observer (struct comm_observer *observer)
{
    destroy ((struct profile *) (void *) observer);
}

static struct profile *
active (struct accel *acc)
{
    struct comm_observer *observer = acc ? acc->world->observer : NULL;
    return observer && observer->note == note_call ? (struct profile *) (void *) observer : NULL;
}

bool
profile_is_recording (struct accel *acc)
{
    return active (acc) != NULL;
}

static struct profile *
create (const struct accel_profile_options *options)
{
    struct profile *made = calloc (1, sizeof *made);
    if (!made)
        return NULL;
    made->observer = (struct comm_observer){ .note = note_call, .end = end_observer };
    made->most = options && options->max_events ? options->max_events : DEFAULT_EVENTS;
    made->path = strdup (options && options->path ? options->path : "profile.json");
    made->events = calloc (made->most, sizeof *made->events);
    if (made->path && made->events)
        return made;
    destroy (made);
    return NULL;
}

/* All record from the same call on, so that the n-th collective of one process is the n-th of every other. */
enum accel_status
accel_profile_start_at (const char *file, int line, size_t options_size, struct accel *acc,
                        const struct accel_profile_options *options, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_PROFILE_START };
    struct accel_profile_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    struct profile *made = acc && !active (acc) ? create (options) : NULL;
    int32_t wrong[2] = { active (acc) != NULL, !made };
    status = comm_all_reduce (accel_world (acc), &site, wrong, wrong, 2, ACCEL_INT32, ACCEL_MAX, err);
    if (!status && wrong[0])
        status = accel_fail (err, ACCEL_ERR_INVALID,
                             "accel_profile_start at %s:%d: a profile is already being recorded", file, line);
    else if (!status && wrong[1])
        status = accel_fail (err, ACCEL_ERR_NOMEM,
                             "accel_profile_start at %s:%d: out of memory on at least one process", file, line);
    if (status) {
        destroy (made);
        return status;
    }
    work_drain (acc->world); /* whose thread reads this */
    made->step_begin_ns = now ();
    acc->world->observer = &made->observer;
    return ACCEL_OK;
}

void
accel_profile_begin (struct accel *acc, const char *name)
{
    struct profile *profile = active (acc);
    if (!profile)
        return;
    size_t depth = profile->depth++;
    if (depth >= PROFILE_DEPTH)
        return;
    profile->open[depth].name = name_index (&profile->names, name ? name : "");
    profile->open[depth].begin_ns = now ();
}

static void
end_span (struct profile *profile, uint64_t end_ns)
{
    size_t depth = --profile->depth;
    if (depth >= PROFILE_DEPTH)
        profile->dropped++;
    else
        note (profile, &(struct profile_event){ .begin_ns = profile->open[depth].begin_ns, .end_ns = end_ns,
                                                .name = profile->open[depth].name, .kind = PROFILE_SPAN });
}

void
accel_profile_end (struct accel *acc)
{
    struct profile *profile = active (acc);
    if (profile && profile->depth)
        end_span (profile, now ());
}

void
accel_profile_step (struct accel *acc)
{
    struct profile *profile = active (acc);
    if (!profile)
        return;
    uint64_t end_ns = now ();
    note (profile, &(struct profile_event){ .begin_ns = profile->step_begin_ns, .end_ns = end_ns,
                                            .number = profile->steps++, .kind = PROFILE_STEP });
    profile->step_begin_ns = end_ns;
}

static void
free_parts (struct profile_part *parts, int ranks)
{
    for (int r = 0; parts && r < ranks; r++)
        free (parts[r].events);
    free (parts);
}

/* Room for what the others send: rank 0 keeps each part, the others take all into one.  @return NULL: no memory */
static struct profile_part *
make_room (int rank, int size, const uint64_t *counts)
{
    struct profile_part *parts = calloc ((size_t) size, sizeof *parts);
    uint64_t most = 0;
    for (int r = 0; r < size; r++)
        most = counts[2 * r] > most ? counts[2 * r] : most;
    for (int r = 0; parts && r < size; r++) {
        parts[r].count = counts[2 * r];
        parts[r].dropped = counts[2 * r + 1];
        uint64_t room = rank ? (r ? 0 : most) : parts[r].count;
        parts[r].events = calloc (room + 1, sizeof *parts[r].events);
        if (!parts[r].events) {
            free_parts (parts, size);
            return NULL;
        }
    }
    return parts;
}

/* One process after the other sends to all: rank 0 keeps it. */
static enum accel_status
exchange (struct accel_comm *comm, const struct comm_site *site, const struct profile *profile,
          struct profile_part *parts, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int r = 0; !status && r < comm->size; r++) {
        struct profile_part *to = comm->rank ? &parts[0] : &parts[r];
        if (r == comm->rank) {
            memcpy (to->events, profile->events, profile->count * sizeof *to->events);
            to->names = profile->names;
        }
        status = comm_broadcast (comm, site, &to->names, sizeof to->names, ACCEL_UINT8, r, err);
        if (!status)
            status = comm_broadcast (comm, site, to->events, parts[r].count * sizeof *to->events, ACCEL_UINT8, r, err);
    }
    return status;
}

/* @outcome: rank 0's of writing, the same on all ranks at the end. */
static enum accel_status
collect (struct accel_comm *comm, const struct comm_site *site, const struct profile *profile, uint64_t *counts,
         struct accel_error *outcome, struct accel_error *err)
{
    uint64_t mine[2] = { profile->count, profile->dropped };
    enum accel_status status = comm_all_gather (comm, site, mine, counts, 2, ACCEL_INT64, err);
    if (status)
        return status;
    struct profile_part *parts = make_room (comm->rank, comm->size, counts);
    int32_t short_of_memory = !parts;
    status = comm_all_reduce (comm, site, &short_of_memory, &short_of_memory, 1, ACCEL_INT32, ACCEL_MAX, err);
    if (!status && short_of_memory)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "accel_profile_stop at %s:%d: out of memory on at least one process",
                             site->file, site->line);
    if (!status)
        status = exchange (comm, site, profile, parts, err);
    if (!status && !comm->rank)
        profile_write (profile->path, parts, comm->size, outcome);
    if (!status)
        status = comm_broadcast (comm, site, outcome, sizeof *outcome, ACCEL_UINT8, 0, err);
    free_parts (parts, comm->size);
    return status;
}

/* Nothing is recorded from here on, whatever comes. */
enum accel_status
accel_profile_stop_at (const char *file, int line, struct accel *acc, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_PROFILE_STOP };
    struct profile *profile = active (acc);
    struct accel_error outcome = { 0 };
    if (!profile)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_profile_stop at %s:%d: no profile is being recorded", file,
                           line);
    struct accel_comm *comm = acc->world;
    work_drain (comm);
    comm->observer = NULL;
    uint64_t end_ns = now ();
    while (profile->depth)
        end_span (profile, end_ns);
    uint64_t *counts = calloc ((size_t) comm->size, 2 * sizeof *counts);
    enum accel_status status;
    if (counts) {
        status = collect (comm, &site, profile, counts, &outcome, err);
    } else {
        comm_give_up (comm, "out of memory in accel_profile_stop");
        status = accel_fail (err, ACCEL_ERR_NOMEM, "accel_profile_stop at %s:%d: out of memory", file, line);
    }
    free (counts);
    destroy (profile);
    if (!status && outcome.code) {
        status = outcome.code;
        if (err)
            *err = outcome;
    }
    return status;
}
