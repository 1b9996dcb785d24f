/* SPDX-License-Identifier: Apache-2.0 */
/* What a launcher tells its agent; see part.h. */
#include <config.h>

#include "hosts/part.h"

#include "util/io.h"

/* An agent that is gone does not need it. */
static void
tell (int fd, const struct strbuf *frame)
{
    if (!frame->failed)
        io_write_all (fd, frame->text, frame->length);
}

void
hosts_tell_failure (const struct job *job, const struct job_observer *observer)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_FAILED);
    wire_put_number (&frame, job->failed_ns);
    wire_put_number (&frame, job->ranks[job->first_failed].process->rank);
    wire_end (&frame, begin);
    tell (observer->fd, &frame);
}

void
hosts_tell_end (const struct hosts_part *part, enum wire_end end, int status, const char *text, const char *json)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_END);
    wire_put_number (&frame, end);
    wire_put_number (&frame, status);
    wire_put_text (&frame, text);
    wire_put_text (&frame, json);
    wire_end (&frame, begin);
    tell (part->agent, &frame);
}
