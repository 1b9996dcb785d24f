/* SPDX-License-Identifier: Apache-2.0 */
/* Both directions of a connection: bytes to be written without waiting, and frames as they come in. */
#ifndef HOSTS_NET_PIPE_H
#define HOSTS_NET_PIPE_H

#include "hosts/net/wire.h"

struct pipe_end {
    int in, out;           /* not blocking; -1: closed */
    struct strbuf to_write; /* frames are appended here */
    size_t written;        /* of it */
    struct strbuf input;
    size_t taken;          /* of it */
    int64_t heard_ms;      /* when something last came in */
};

/** Take over two descriptors. */
void pipe_init (struct pipe_end *pipe, int in, int out);

/** Write what can be written now.  @return false if the other side has closed */
bool pipe_flush (struct pipe_end *pipe);
bool pipe_has_output (const struct pipe_end *pipe);

/** Read what is there, no endless flow at once.  @return false at its end */
bool pipe_fill (struct pipe_end *pipe);

/** The next frame that has come in; valid until the next pipe_fill().  @return as wire_next() */
int pipe_next (struct pipe_end *pipe, struct wire_frame *frame);

void pipe_close (struct pipe_end *pipe);

#endif
