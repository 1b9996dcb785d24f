/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of a connection; see pipe.h. */
#include <config.h>

#include "hosts/net/pipe.h"

#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <string.h>

enum { READ_BYTES = 64 * 1024 };

void
pipe_init (struct pipe_end *pipe, int in, int out)
{
    *pipe = (struct pipe_end){ .in = in, .out = out, .heard_ms = clock_ms () };
    fcntl (in, F_SETFL, fcntl (in, F_GETFL) | O_NONBLOCK);
    fcntl (out, F_SETFL, fcntl (out, F_GETFL) | O_NONBLOCK);
}

bool
pipe_has_output (const struct pipe_end *pipe)
{
    return pipe->out >= 0 && pipe->written < pipe->to_write.length;
}

bool
pipe_flush (struct pipe_end *pipe)
{
    while (pipe_has_output (pipe)) {
        ssize_t put = write (pipe->out, pipe->to_write.text + pipe->written, pipe->to_write.length - pipe->written);
        if (put < 0 && errno == EAGAIN)
            return true;
        if (put < 0 && errno != EINTR)
            return false;
        pipe->written += put > 0 ? (size_t) put : 0;
    }
    strbuf_truncate (&pipe->to_write, 0);
    pipe->written = 0;
    return true;
}

bool
pipe_fill (struct pipe_end *pipe)
{
    char bytes[READ_BYTES];
    if (pipe->taken) {
        size_t rest = pipe->input.length - pipe->taken;
        memmove (pipe->input.text, pipe->input.text + pipe->taken, rest);
        strbuf_truncate (&pipe->input, rest);
        pipe->taken = 0;
    }
    ssize_t got = read (pipe->in, bytes, sizeof bytes);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    strbuf_add_bytes (&pipe->input, bytes, (size_t) got);
    pipe->heard_ms = clock_ms ();
    return !pipe->input.failed;
}

int
pipe_next (struct pipe_end *pipe, struct wire_frame *frame)
{
    size_t used = 0;
    int result = pipe->input.length > pipe->taken
                     ? wire_next (pipe->input.text + pipe->taken, pipe->input.length - pipe->taken, frame, &used) : 0;
    pipe->taken += used;
    return result;
}

void
pipe_close (struct pipe_end *pipe)
{
    if (pipe->in >= 0)
        close (pipe->in);
    if (pipe->out >= 0 && pipe->out != pipe->in)
        close (pipe->out);
    pipe->in = pipe->out = -1;
    pipe->written = pipe->taken = 0;
    strbuf_release (&pipe->to_write);
    strbuf_release (&pipe->input);
}
