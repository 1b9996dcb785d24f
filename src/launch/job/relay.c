/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks' streams and our two sinks; see supervisor.h. */
#include <config.h>

#include "launch/job/supervisor.h"

#include "launch/output/terminal.h"
#include "util/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

static struct output_stream *
stream_of (struct job *job, int number)
{
    return &job->ranks[number / JOB_STREAMS].streams[number % JOB_STREAMS];
}

static struct output_sink *
sink_of (struct job *job, int number)
{
    return job_sink (job, &job->ranks[number / JOB_STREAMS], number % JOB_STREAMS);
}

/* Once: a full disk would have a line for each that a rank writes. */
static void
tell_of_incomplete (struct job *job)
{
    char line[512];
    const struct logfile *log = job->incomplete;
    if (!log || job->incomplete_is_noted)
        return;
    snprintf (line, sizeof line, "accelerate: warning: %s: %s; the ranks continue, but the file lacks some of their "
                                 "lines",
              log->path, strerror (log->error));
    job->incomplete_is_noted = output_sink_say (job->sink_of[JOB_ERR], line);
}

/* As in `| head`: without us the rank would notice, too. */
static bool
has_lost_reader (const struct output_stream *stream, const struct output_sink *sink)
{
    return stream->needs_reader && sink->broken && !sink->error;
}

/* A rank that writes to the terminal itself would tear a status line. */
void
relay_begin (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    bool passes_all = true;
    for (int i = 0; i < JOB_STREAMS; i++)
        passes_all &= job->ranks[0].streams[i].pool || !job->sink_of[i]->is_terminal;
    if (passes_all && job->guardian->status_is_seen)
        status_begin (&supervisor->status, job->sink_of, &job->segment, job->guardian->group,
                      job->guardian->status_is_seen);
}

void
relay_read (struct supervisor *supervisor, int number)
{
    struct job *job = supervisor->job;
    struct output_stream *stream = stream_of (job, number);
    struct output_sink *sink = sink_of (job, number);
    if (stream->fd < 0)
        return;
    /* Closing takes it out of the epoll set too: no other process holds the reading end. */
    if (!output_stream_read (stream, sink, clock_ms ()) || has_lost_reader (stream, sink))
        output_stream_end (stream, sink);
    if (stream->log.error && !job->incomplete)
        job->incomplete = &stream->log;
}

void
relay_read_rank (struct supervisor *supervisor, int index)
{
    for (int i = 0; i < JOB_STREAMS; i++)
        relay_read (supervisor, index * JOB_STREAMS + i);
}

static void
watch_sink (struct supervisor *supervisor, int which)
{
    const struct output_sink *sink = &supervisor->job->sinks[which];
    bool wanted = !output_sink_is_empty (sink);
    if (wanted == supervisor->sink_is_watched[which])
        return;
    if (wanted)
        supervisor_watch (supervisor, sink->fd, EPOLLOUT, EVENT_SINK, which);
    else
        epoll_ctl (supervisor->epoll, EPOLL_CTL_DEL, sink->fd, NULL);
    supervisor->sink_is_watched[which] = wanted;
}

static void
pause_or_go_on (struct supervisor *supervisor, int number)
{
    struct output_stream *stream = stream_of (supervisor->job, number);
    bool paused = !output_stream_can_read (stream, sink_of (supervisor->job, number));
    if (stream->fd < 0 || stream->paused == paused)
        return;
    if (paused) /* watched for nothing it would still report the end of its writer, again and again */
        epoll_ctl (supervisor->epoll, EPOLL_CTL_DEL, stream->fd, NULL);
    else
        supervisor_watch (supervisor, stream->fd, EPOLLIN, EVENT_STREAM, number);
    stream->paused = paused;
}

/* Whether it has a line that stays unfinished, and it is not only we who have not read the rest. */
static bool
is_due (const struct output_stream *stream, int64_t now_ms)
{
    return output_stream_due (stream) <= now_ms && output_stream_is_idle (stream);
}

/* @return whether all of it has been */
static bool
pass_on_collapsed (struct job *job, int64_t before_ms)
{
    bool all = true;
    for (int i = 0; i < JOB_STREAMS; i++)
        all &= !job->collapses[i] || output_collapse_pass_on (job->collapses[i], NULL, before_ms);
    return all;
}

/* The stream that is in the middle of something comes first, because the others have to wait for it; then each has its
 * turn. */
void
relay_balance (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    int count = job->count * JOB_STREAMS;
    int64_t now = clock_ms ();
    for (int i = 0; i < JOB_STREAMS; i++)
        output_sink_drain (&job->sinks[i]);
    for (int i = 0; i < count; i++)
        if (sink_of (job, i)->owner == stream_of (job, i))
            output_stream_catch_up (stream_of (job, i), sink_of (job, i), now);
    unsigned first = supervisor->turn++;
    for (int i = 0; i < count; i++) {
        int number = (int) ((first + (unsigned) i) % (unsigned) count);
        struct output_stream *stream = stream_of (job, number);
        if (is_due (stream, now))
            output_stream_flush (stream, sink_of (job, number));
        output_stream_catch_up (stream, sink_of (job, number), now);
        pause_or_go_on (supervisor, number);
    }
    pass_on_collapsed (job, now - OUTPUT_COLLAPSE_MS);
    tell_of_incomplete (job);
    if (job->end != JOB_DONE || job->alive == 0) /* a report follows */
        status_end (&supervisor->status);
    else
        status_turn (&supervisor->status, now);
    for (int i = 0; i < JOB_STREAMS; i++) {
        output_sink_drain (&job->sinks[i]);
        watch_sink (supervisor, i);
    }
}

/* A full sink reports when there is room. */
static int64_t
collapse_deadline (const struct job *job)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < JOB_STREAMS; i++) {
        int64_t due = job->collapses[i] && !output_sink_is_full (&job->sinks[i])
                      ? output_collapse_due (job->collapses[i]) : INT64_MAX;
        next = due < next ? due : next;
    }
    return next;
}

int64_t
relay_deadline (struct supervisor *supervisor, int64_t now_ms)
{
    struct job *job = supervisor->job;
    int64_t next = collapse_deadline (job), status = status_due (&supervisor->status);
    next = status < next ? status : next;
    for (int i = 0; i < job->count * JOB_STREAMS; i++) {
        const struct output_stream *stream = stream_of (job, i);
        if (output_stream_can_catch_up (stream, sink_of (job, i)) || is_due (stream, now_ms))
            return now_ms; /* there is much to read back, and signals have their turn in between */
        if (stream->fd >= 0 && stream->paused && output_stream_can_read (stream, sink_of (job, i)))
            return now_ms; /* the reader has emptied the sink since: no event would come */
        int64_t due = output_stream_due (stream);
        if (due > now_ms && due < next)
            next = due;
    }
    return next;
}

void
relay_resize (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    status_resize (&supervisor->status);
    for (int i = 0; i < job->count * JOB_STREAMS; i++) {
        const struct output_stream *stream = stream_of (job, i);
        if (stream->from_terminal && stream->fd >= 0)
            terminal_resize (stream->fd, sink_of (job, i)->fd, stream->prefix_columns);
    }
}

/* Nothing can be added to a stream that is empty now. */
static bool
finish_stream (struct supervisor *supervisor, int number)
{
    struct job *job = supervisor->job;
    struct output_stream *stream = stream_of (job, number);
    struct output_sink *sink = sink_of (job, number);
    relay_read (supervisor, number);
    if (stream->fd >= 0 && output_stream_can_read (stream, sink) && output_stream_is_idle (stream))
        output_stream_end (stream, sink);
    return stream->fd < 0 && output_stream_catch_up (stream, sink, clock_ms ());
}

bool
relay_finish (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    bool all = true;
    status_end (&supervisor->status);
    for (int i = 0; i < job->count * JOB_STREAMS; i++)
        all &= finish_stream (supervisor, i);
    all &= pass_on_collapsed (job, INT64_MAX);
    tell_of_incomplete (job);
    for (int i = 0; i < JOB_STREAMS; i++) {
        output_sink_drain (&job->sinks[i]);
        all &= output_sink_is_empty (&job->sinks[i]);
    }
    return all && (!job->incomplete || job->incomplete_is_noted);
}

bool
relay_awaits_reader (const struct supervisor *supervisor)
{
    bool awaits = false;
    for (int i = 0; i < JOB_STREAMS; i++)
        awaits |= supervisor->sink_is_watched[i];
    return awaits;
}

bool
relay_has_moved (struct supervisor *supervisor)
{
    uint64_t taken = 0;
    for (int i = 0; i < JOB_STREAMS; i++)
        taken += supervisor->job->sinks[i].written;
    bool moved = taken != supervisor->taken;
    supervisor->taken = taken;
    return moved;
}

void
relay_count_left (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    for (int i = 0; i < job->count * JOB_STREAMS; i++)
        job->not_passed_on += output_stream_left (stream_of (job, i));
    for (int i = 0; i < JOB_STREAMS; i++)
        job->not_passed_on += job->sinks[i].count
                              + (job->collapses[i] ? output_collapse_left (job->collapses[i]) : 0);
}
