/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks write: passed on in whole lines, with --tee into a file too and with the rank's name before each line; the
 * last lines on stderr are kept for the report.
 *
 * Where the reader of our own output is slow, ranks wait for it as they would have without us, unless there is a file:
 * then they go on, and what the reader has not got yet is read back from the file. */
#ifndef LAUNCH_OUTPUT_H
#define LAUNCH_OUTPUT_H

#include "launch/logfile.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OUTPUT_TAIL_LINES = 20,
    OUTPUT_TAIL_BYTES = 4096, /* kept of each rank */
    OUTPUT_LINE_BYTES = 4096, /* a longer line is passed on in pieces */
    OUTPUT_PENDING_BYTES = 64 * 1024, /* where our reader is slow, nothing more is kept in memory */
};

struct output_stream;

/** Where lines go. */
struct output_sink {
    int fd;
    bool may_block; /* a pipe, socket or terminal: ask before writing */
    bool broken;    /* nobody reads any more */
    struct strbuf pending;
    size_t written; /* of pending */
    const struct output_stream *unfinished; /* whose line with a name stands there without its end */
};

/** Where lines come from.  `fd` is -1 while there is none. */
struct output_stream {
    int fd;
    bool paused;   /* not listened to for now */
    bool has_tail; /* its last lines are wanted */
    struct strbuf line; /* an unfinished one */
    int64_t line_since_ms;
    char *tail;    /* ring of the last bytes, made when the first come */
    uint64_t total; /* bytes ever */

    char *prefix;  /* before each line; NULL: lines go on as they are */
    bool after_return; /* its last byte was a carriage return */
    struct logfile log;
    uint64_t shown; /* how much of the file the reader has got */
    struct strbuf held; /* what came after that and is not in the file */
};

void output_sink_init (struct output_sink *sink, int fd);
bool output_sink_is_full (const struct output_sink *sink);
bool output_sink_is_empty (const struct output_sink *sink);
/** Write what can be written without waiting. */
void output_sink_drain (struct output_sink *sink);
void output_sink_release (struct output_sink *sink);

/** Write a line of our own. */
void output_sink_say (struct output_sink *sink, const char *line);

/** Read what is there, but no endless flow at once; pass on whole lines.  @return false at its end */
bool output_stream_read (struct output_stream *stream, struct output_sink *sink, int64_t now_ms);
/** Whether more of it can be taken in now. */
bool output_stream_can_read (const struct output_stream *stream, const struct output_sink *sink);
/** Pass on what the reader was too slow for, as much as it takes now.  @return whether nothing is left */
bool output_stream_catch_up (struct output_stream *stream, struct output_sink *sink, int64_t now_ms);
/** Whether the rest of its unfinished line has not been written yet; otherwise it is only we who have not read it. */
bool output_stream_is_idle (const struct output_stream *stream);
/** Pass on an unfinished line too. */
void output_stream_flush (struct output_stream *stream, struct output_sink *sink);
/** No more will come: close it, and pass on all as soon as it can be. */
void output_stream_end (struct output_stream *stream, struct output_sink *sink);
/** Append the last lines, without control characters, to @p lines. */
void output_stream_tail (const struct output_stream *stream, struct strlist *lines);
void output_stream_release (struct output_stream *stream);

#endif
