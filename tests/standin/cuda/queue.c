/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: queues that one thread empties, late and in a random order among those that are ready.  It works even if
 * no thread waits, as a card does. */
#include <config.h>

#include "tests/standin/cuda/standin.h"

#include "tests/standin/cuda/fibers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LATE_US = 300, LATE_IN = 8, STALLED_US = 100, STALLED_MOST_US = 800, LOOKS = 200 };

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
_Thread_local int present_device;
_Thread_local int64_t host_ns;

static int64_t poll_began_ns, poll_ended_ns; /* of the thread of the streams */

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static pthread_cond_t hurry = PTHREAD_COND_INITIALIZER; /* someone waits */
static struct CUstream_st *streams, *null_streams[MOST_DEVICES];
static int slots_used, free_slots[MOST_STREAMS], free_slot_count, waiting;
static uint64_t slot_times[MOST_STREAMS]; /* a stream continues where the last one of its slot ended */
static bool is_started;

struct CUstream_st *
stream_make (int device)
{
    struct CUstream_st *stream = calloc (1, sizeof *stream);
    if (!stream || (!free_slot_count && slots_used == MOST_STREAMS))
        abort ();
    stream->slot = free_slot_count ? free_slots[--free_slot_count] : slots_used++;
    stream->device = device;
    stream->tail = &stream->head;
    stream->clock[stream->slot] = slot_times[stream->slot];
    stream->next = streams;
    streams = stream;
    return stream;
}

/* Never freed, so that whoever uses it is found. */
void
stream_destroy (struct CUstream_st *stream)
{
    slot_times[stream->slot] = stream->clock[stream->slot];
    free_slots[free_slot_count++] = stream->slot;
    stream->is_destroyed = true;
    site_note (&stream->destroyed);
}

struct CUstream_st *
stream_of (cudaStream_t handle)
{
    static _Thread_local struct CUstream_st *own_streams[MOST_DEVICES];
    if ((uintptr_t) handle <= 2) {
        struct CUstream_st **stream
            = (uintptr_t) handle == 2 ? &own_streams[present_device] : &null_streams[present_device];
        if (!*stream)
            *stream = stream_make (present_device);
        return *stream;
    }
    for (struct CUstream_st *stream = streams; stream; stream = stream->next)
        if (stream == handle) {
            if (stream->is_destroyed)
                report (&stream->destroyed, NULL, "a stream is used after it was destroyed at");
            return stream;
        }
    report (NULL, NULL, "%p is not a stream", (void *) handle);
}

struct operation *
stream_add (struct CUstream_st *stream, enum operation_kind kind)
{
    struct operation *operation = calloc (1, sizeof *operation);
    if (!operation)
        abort ();
    operation->kind = kind;
    operation->issued_ns = host_ns;
    if (stream == captured)
        return graph_add (operation);
    *stream->tail = operation;
    stream->tail = &operation->next;
    clock_join (stream->clock, host_clock);
    stream->clock[stream->slot]++;
    return operation;
}

static int64_t
later (int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* An operation is over. */
static void
pass_time (struct CUstream_st *stream, const struct operation *operation)
{
    struct CUevent_st *event = operation->event;
    switch (operation->kind) {
    case OPERATION_RECORD:
        event->times_ns[operation->ticket % EVENT_TIMES] = stream->time_ns;
        event->done[operation->ticket % EVENT_TIMES] = operation->ticket;
        break;
    case OPERATION_WAIT:
        stream->time_ns = later (stream->time_ns, event->times_ns[operation->ticket % EVENT_TIMES]);
        break;
    case OPERATION_POLL: stream->time_ns = later (poll_began_ns, poll_ended_ns); break;
    default: stream->time_ns = later (stream->time_ns, operation->issued_ns) + operation->cost_ns;
    }
}

__attribute__ ((visibility ("default"))) int64_t
standin_began_ns (void)
{
    return poll_began_ns;
}

__attribute__ ((visibility ("default"))) void
standin_ended_ns (int64_t ns)
{
    poll_ended_ns = ns;
}

void
host_reach (const struct CUevent_st *event)
{
    host_ns = later (host_ns, event->times_ns[event->recorded % EVENT_TIMES]);
}

bool
host_sees (struct CUevent_st *event)
{
    static _Thread_local unsigned self;
    static unsigned threads;
    if (!self)
        self = ++threads;
    unsigned char *looks = &event->looks[self % EVENT_LOOKERS];
    return event->times_ns[event->recorded % EVENT_TIMES] <= host_ns || *looks == LOOKS || ++*looks == LOOKS;
}

/* Without the lock, since a kernel may be long, and the program continues meanwhile. */
static enum standin_progress
run (const struct CUstream_st *stream, struct operation *operation)
{
    enum standin_progress progress = STANDIN_OVER;
    poll_began_ns = later (stream->time_ns, operation->issued_ns);
    poll_ended_ns = 0;
    pthread_mutex_unlock (&standin_lock);
    switch (operation->kind) {
    case OPERATION_KERNEL:
        fiber_launch (operation->name, (struct fiber_dim){ operation->grid.x, operation->grid.y, operation->grid.z },
                      (struct fiber_dim){ operation->block.x, operation->block.y, operation->block.z },
                      operation->run, operation->closure);
        break;
    case OPERATION_COPY: memmove (operation->to, operation->from, operation->bytes); break;
    case OPERATION_SET: memset (operation->to, operation->byte, operation->bytes); break;
    case OPERATION_RECORD:
    case OPERATION_WAIT:
    case OPERATION_SPEND:
    case OPERATION_FREE: break;
    case OPERATION_POLL: progress = operation->poll (operation->closure); break;
    }
    pthread_mutex_lock (&standin_lock);
    return progress;
}

bool
event_is_done (const struct CUevent_st *event, uint64_t ticket)
{
    return event->done[ticket % EVENT_TIMES] >= ticket;
}

static bool
is_ready (const struct CUstream_st *stream)
{
    const struct operation *head = stream->head;
    return head && !(head->kind == OPERATION_WAIT && !event_is_done (head->event, head->ticket));
}

/* @return STANDIN_OVER: there was nothing to do */
static enum standin_progress
step (void)
{
    struct CUstream_st *chosen = NULL;
    unsigned ready = 0;
    for (struct CUstream_st *stream = streams; stream; stream = stream->next)
        if (is_ready (stream) && !fiber_random (++ready))
            chosen = stream;
    if (!chosen)
        return STANDIN_OVER;
    struct operation *operation = chosen->head;
    enum standin_progress progress = run (chosen, operation);
    if (progress != STANDIN_OVER)
        return progress;
    pass_time (chosen, operation);
    if (operation->kind == OPERATION_FREE)
        block_free (operation->freed);
    chosen->head = operation->next;
    if (!chosen->head)
        chosen->tail = &chosen->head;
    if (operation->kind != OPERATION_POLL)
        free (operation->closure);
    free (operation);
    pthread_cond_broadcast (&done);
    return STANDIN_MOVED;
}

/* For @us, or until someone waits; meanwhile, the program may queue more. */
static void
doze (unsigned us)
{
    struct timespec until;
    clock_gettime (CLOCK_REALTIME, &until);
    until.tv_nsec += 1000L * (long) us;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait (&hurry, &standin_lock, &until);
}

static void *
work (void *unused)
{
    const char *seed = getenv ("STANDIN_SEED");
    bool was_idle = true;
    unsigned stalled_us = STALLED_US;
    fiber_seed (seed ? strtoull (seed, NULL, 10) : 1);
    pthread_mutex_lock (&standin_lock);
    for (;;) {
        if (!waiting && (was_idle || !fiber_random (LATE_IN))) /* late, unless someone waits */
            doze (fiber_random (LATE_US));
        enum standin_progress progress = step ();
        was_idle = progress == STANDIN_OVER;
        if (was_idle)
            pthread_cond_wait (&changed, &standin_lock);
        if (progress == STANDIN_STALLED) {
            doze (stalled_us);
            stalled_us = stalled_us * 2 < STALLED_MOST_US ? stalled_us * 2 : STALLED_MOST_US;
        } else
            stalled_us = STALLED_US;
    }
    return unused;
}

void
stream_go (void)
{
    pthread_t thread;
    if (!is_started && pthread_create (&thread, NULL, work, NULL))
        abort ();
    if (!is_started)
        pthread_detach (thread);
    is_started = true;
    pthread_cond_signal (&changed);
}

static bool
is_over (const struct CUstream_st *stream, const struct CUevent_st *event)
{
    if (stream)
        return !stream->head;
    if (event)
        return event_is_done (event, event->recorded);
    for (const struct CUstream_st *s = streams; s; s = s->next)
        if (s->head)
            return false;
    return true;
}

void
queue_wait (struct CUstream_st *stream, struct CUevent_st *event)
{
    if (stream && stream == captured)
        report (NULL, NULL, "the host waits for a stream that is being captured");
    waiting++;
    pthread_cond_signal (&hurry);
    while (!is_over (stream, event)) {
        pthread_cond_signal (&changed);
        pthread_cond_wait (&done, &standin_lock);
    }
    waiting--;
    if (event) {
        clock_join (host_clock, event->clock);
        host_reach (event);
    }
    for (struct CUstream_st *s = streams; !event && s; s = s->next)
        if (!stream || s == stream) {
            clock_join (host_clock, s->clock);
            host_ns = later (host_ns, s->time_ns);
        }
}
