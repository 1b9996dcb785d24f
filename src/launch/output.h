/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks write on stderr: passed on in whole lines, the last ones kept for the report. */
#ifndef LAUNCH_OUTPUT_H
#define LAUNCH_OUTPUT_H

#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OUTPUT_TAIL_LINES = 20,
    OUTPUT_TAIL_BYTES = 4096, /* kept of each rank */
    OUTPUT_LINE_BYTES = 4096, /* a longer line is passed on in pieces */
    OUTPUT_PENDING_BYTES = 64 * 1024, /* where the reader of our stderr is slow, ranks have to wait beyond this */
};

/** Where lines go. */
struct output_sink {
    int fd;
    bool may_block; /* a pipe, socket or terminal: ask before writing */
    bool broken;    /* nobody reads any more */
    struct strbuf pending;
    size_t written; /* of pending */
};

/** Where lines come from.  `fd` is -1 while there is none. */
struct output_stream {
    int fd;
    bool paused;   /* not listened to while the sink is full */
    struct strbuf line; /* an unfinished one */
    int64_t line_since_ms;
    char *tail;    /* ring of the last bytes, made when the first come */
    uint64_t total; /* bytes ever */
};

void output_sink_init (struct output_sink *sink, int fd);
bool output_sink_is_full (const struct output_sink *sink);
bool output_sink_is_empty (const struct output_sink *sink);
/** Write what can be written without waiting. */
void output_sink_drain (struct output_sink *sink);
void output_sink_release (struct output_sink *sink);

/** Read what is there, pass on whole lines.  @return false at its end */
bool output_stream_read (struct output_stream *stream, struct output_sink *sink, int64_t now_ms);
/** Pass on an unfinished line too. */
void output_stream_flush (struct output_stream *stream, struct output_sink *sink);
/** Append the last lines, without control characters, to @p lines. */
void output_stream_tail (const struct output_stream *stream, struct strlist *lines);
void output_stream_release (struct output_stream *stream);

#endif
