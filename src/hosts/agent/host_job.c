/* SPDX-License-Identifier: Apache-2.0 */
/* What a launcher tells its agent; see host_job.h. */
#include <config.h>

#include "hosts/agent/host_job.h"

#include "util/clock.h"
#include "util/io.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { SIGNS = 5 }; /* in the time after which the agent gives us up */

/* An agent that is gone does not need it. */
static void
tell (int fd, const struct strbuf *frame)
{
    if (!frame->failed)
        io_write_all (fd, frame->text, frame->length);
}

void
host_job_tell_failure (const struct job *job, const struct job_observer *observer)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    wire_put_frame (&frame, WIRE_FAILED, job->failed_ns, job->ranks[job->first_failed].process->rank);
    tell (observer->fd, &frame);
}

void
host_job_tell_notice (const struct job_observer *observer, const char *why)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_NOTICE);
    wire_put_text (&frame, why);
    wire_end (&frame, begin);
    tell (observer->fd, &frame);
}

/* An agent that does not read must not hold the loop. */
bool
host_job_tell_alive (int agent, int64_t silence_ms)
{
    int unread = 0;
    struct pollfd room = { .fd = agent, .events = POLLOUT };
    AUTO_STRBUF struct strbuf frame = { 0 };
    wire_put_frame (&frame, WIRE_ALIVE, getpid (), silence_ms);
    if (poll (&room, 1, 0) == 1)
        tell (agent, &frame);
    return !ioctl (agent, FIONREAD, &unread) && (size_t) unread > SIGNS * frame.length;
}

int64_t
host_job_keepalive (const struct job_observer *observer)
{
    if (host_job_tell_alive (observer->fd, observer->silence_ms))
        kill (observer->above, SIGCONT);
    return clock_ms () + observer->silence_ms / SIGNS;
}

void
host_job_tell_end (const struct host_job *host_job, enum wire_end end, int status, const char *text, const char *json)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    wire_put_end (&frame, end, status, text, json);
    tell (host_job->agent, &frame);
    kill (host_job->agent_pid, SIGCONT); /* no other process would */
}
