/* SPDX-License-Identifier: Apache-2.0 */
/* When the launcher looks after the ranks' output again, although no event comes. */
#include <config.h>

#include "launch/job/supervisor.h"

#include "tests/tap.h"

#include <fcntl.h>
#include <unistd.h>

int
main (void)
{
    int in[2], out[2];
    const struct plan_process process = { 0 };
    struct job_rank rank = { .process = &process };
    struct job job = { .ranks = &rank, .count = 1 };
    struct supervisor supervisor = { .job = &job, .epoll = -1, .signals = -1 };
    struct output_stream *stream = &rank.streams[JOB_ERR];
    rank.streams[JOB_OUT].fd = rank.streams[JOB_OUT].log.fd = stream->log.fd = -1;
    output_pool_init (&job.pool, 1);
    ok (!pipe2 (in, O_NONBLOCK) && !pipe2 (out, O_NONBLOCK) && !output_sink_init (&job.sinks[0], out[1], "pipe", NULL)
        && !output_stream_init (stream, in[0], &job.pool, NULL), "a stream and a sink");
    job.sink_of[JOB_OUT] = job.sink_of[JOB_ERR] = &job.sinks[0];
    ok (relay_deadline (&supervisor, 5) == INT64_MAX, "a stream that is watched needs no other time");
    stream->paused = true;
    ok (relay_deadline (&supervisor, 5) == 5, "one that was paused while the sink was full does, once that has room");
    while (!output_sink_is_full (&job.sinks[0]))
        output_sink_put (&job.sinks[0], "0123456789", 10);
    ok (relay_deadline (&supervisor, 5) == INT64_MAX, "as long as it has none, its reader is the event");
    output_stream_release (stream);
    ok (relay_deadline (&supervisor, 5) == INT64_MAX, "a stream that has ended is not looked at");
    output_sink_release (&job.sinks[0]);
    close (in[1]);
    close (out[0]);
    close (out[1]);
    return done_testing ();
}
