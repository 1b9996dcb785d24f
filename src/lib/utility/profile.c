/* SPDX-License-Identifier: Apache-2.0 */
/* Recording: events in a buffer of fixed size, and their way to rank 0.  A step, a span or a call is one event, noted
 * when it ends. */
#include <config.h>

#include "lib/utility/profile.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/collectives/objects.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/work.h"
#include "lib/state/state_object.h"
#include "util/cleanup.h"
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

static void
note_span (struct comm_observer *observer, const char *name, int64_t begin_ns)
{
    struct profile *profile = (struct profile *) (void *) observer;
    note (profile, &(struct profile_event){ .begin_ns = (uint64_t) begin_ns, .end_ns = now (),
                                            .name = name_index (&profile->names, name), .kind = PROFILE_SPAN });
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
    made->observer = (struct comm_observer){ .note = note_call, .note_span = note_span, .end = end_observer };
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

/* What a process sends to rank 0; all but the last are whole words of 8 bytes, and so aligned where they arrive. */
enum { SENT_EVENTS, SENT_DROPPED, SENT_NAMES, SENT };

static struct profile_part
part_of (const struct accel_object *sent)
{
    return (struct profile_part){ .events = sent[SENT_EVENTS].data,
                                  .count = sent[SENT_EVENTS].size_bytes / sizeof (struct profile_event),
                                  .dropped = *(const uint64_t *) sent[SENT_DROPPED].data,
                                  .names = sent[SENT_NAMES].data };
}

/* Rank 0 receives from one process after the other, and writes.  @outcome: of writing */
static enum accel_status
collect (struct accel_comm *comm, const struct comm_site *site, const struct profile *profile,
         struct accel_error *outcome, struct accel_error *err)
{
    const struct accel_object own[SENT] = {
        [SENT_EVENTS] = { profile->events, profile->count * sizeof *profile->events },
        [SENT_DROPPED] = { &profile->dropped, sizeof profile->dropped },
        [SENT_NAMES] = { &profile->names, sizeof profile->names },
    };
    enum accel_status status = comm->rank ? comm_send_objects (comm, site, own, SENT, 0, err) : ACCEL_OK;
    if (status)
        comm_give_up (comm, "out of memory in accel_profile_stop"); /* does nothing if a peer failed */
    if (comm->rank)
        return status;
    AUTO_FREE struct accel_object_list *lists = calloc ((size_t) comm->size, sizeof *lists);
    AUTO_FREE struct profile_part *parts = calloc ((size_t) comm->size, sizeof *parts);
    if (!lists || !parts) {
        comm_give_up (comm, "out of memory in accel_profile_stop");
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_profile_stop at %s:%d: out of memory", site->file, site->line);
    }
    for (int r = 0; !status && r < comm->size; r++) {
        status = r ? comm_recv_objects (comm, site, r, site->call, &lists[r], err) : ACCEL_OK;
        if (!status)
            parts[r] = part_of (r ? lists[r].items : own);
    }
    if (!status)
        profile_write (profile->path, parts, comm->size, outcome);
    for (int r = 0; r < comm->size; r++)
        accel_object_list_release (&lists[r]);
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
    enum accel_status status = collect (comm, &site, profile, &outcome, err);
    if (!status) /* the same on all ranks */
        status = comm_broadcast (comm, &site, &outcome, sizeof outcome, ACCEL_UINT8, 0, err);
    destroy (profile);
    if (!status && outcome.code) {
        status = outcome.code;
        if (err)
            *err = outcome;
    }
    return status;
}
