/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks write: passed on in whole lines, with --tee into a file too and with the rank's name before each line; the
 * last lines on stderr are kept for the report.
 *
 * An unfinished line waits for its rest, because once it is passed on, another rank's line can only end it.  Some must
 * be shown all the same: output_stream_due() says when.
 *
 * If the reader of our own output is slow, ranks wait for it as they would have without us, unless there is a file:
 * then they continue, and what the reader has not got yet is read back from the file.  So memory holds one buffer for
 * each stream, which is small and grows only for a line that is being put together or, within OUTPUT_SPEED_BYTES for
 * all, to read faster.  With thousands of ranks that stays far below 16 MiB. */
#ifndef LAUNCH_OUTPUT_OUTPUT_H
#define LAUNCH_OUTPUT_OUTPUT_H

#include "launch/output/sink.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OUTPUT_TAIL_LINES = 20,
    OUTPUT_TAIL_BYTES = 4096,          /* kept of each rank, at most */
    OUTPUT_TAIL_LEAST = 256,           /* the same, however many ranks there are; a ring starts with that */
    OUTPUT_TAILS_BYTES = 2 * 1024 * 1024, /* kept of all ranks together, except for that minimum */
    OUTPUT_TEXT_BYTES = 512,           /* of a stream's buffer at first; there may be thousands */
    OUTPUT_CHUNK_BYTES = 64 * 1024,    /* of one that has much to do; read at once */
    OUTPUT_LINE_BYTES = 1024 * 1024,   /* a longer line is passed on in pieces of that size */
    OUTPUT_POOL_BYTES = 8 * 1024 * 1024, /* what all buffers may grow by together; without it pieces are shorter */
    OUTPUT_SPEED_BYTES = 2 * 1024 * 1024, /* the part of it that may be used only to read more at once */
    OUTPUT_FULL_BYTES = 4096,          /* what a program's own buffer holds at least */
};

/** Memory that the streams of a job share. */
struct output_pool {
    size_t left;       /* bytes that buffers can still grow by */
    size_t held;       /* bytes in chunks that a full disk has refused */
    size_t tail_bytes; /* the most that is kept of a rank's last lines */
};

/** Where lines come from.  `fd` is -1 while there is none. */
struct output_stream {
    int fd;
    bool paused;   /* not listened to for now */
    bool has_tail; /* its last lines are needed */
    struct output_pool *pool;
    char *least;   /* [OUTPUT_TEXT_BYTES]; what `text` is unless it has grown */
    char *text;    /* [capacity]; passed on up to `start`, to be passed on up to `ready`, then an unfinished line */
    size_t start, ready, length, capacity;
    bool is_wide;  /* the last read has filled the buffer */
    struct output_line line; /* the one that is being passed on */
    int64_t line_since_ms;
    int64_t read_ms; /* when it was last read */
    size_t burst;    /* bytes that have come without a pause */
    char *tail;    /* [tail_capacity]; ring of the last bytes, made when the first come; grows until it is full once */
    size_t tail_capacity;
    uint64_t total; /* bytes ever */

    char *prefix;  /* before each line; NULL: lines are passed on unchanged */
    int prefix_columns; /* how wide it is on a terminal */
    size_t prefix_done; /* bytes of it that have been put */
    struct output_collapse *collapse; /* where its whole lines wait for equal ones; NULL: they do not */
    int local_rank; /* there */
    bool after_return; /* its last byte was a carriage return */
    bool keeps_returns; /* carriage returns stay what they are, though there is a prefix */
    bool on_terminal;  /* its lines go to one; the same */
    bool needs_reader; /* its writer has to notice if no process reads */
    bool may_ask;      /* its writer reads what a user types, or a program that may wait for a question */
    bool from_terminal; /* its writer has its own terminal, and `fd` is the other side of it */
    uint64_t run_begin, run_end; /* the bytes of the sink that are the last of its own, with no other's between */
    struct logfile log;
    uint64_t shown; /* how much of the file has been put into `text` */
    char *held;    /* what was read after that and could not be put into the file */
    size_t held_length;
    uint64_t lost; /* bytes that could not be passed on, nor kept */
};

void output_pool_init (struct output_pool *pool, int ranks);

/** Allocates the smallest buffer that is enough, so that no later lack of memory can lose output.
 *
 * @param fd  the reading end of a pipe, not blocking; the stream closes it.  Threads may do so at the same time. */
int output_stream_init (struct output_stream *stream, int fd, struct output_pool *pool, struct fail *fail);

/** Note that bytes come @p now_ms; the caller adds their number to `burst`. */
void output_stream_begin_read (struct output_stream *stream, int64_t now_ms);
/** Read what is there, but no endless flow at once; pass on whole lines.  @return false at its end */
bool output_stream_read (struct output_stream *stream, struct output_sink *sink, int64_t now_ms);
/** Whether more of it can be taken in now. */
bool output_stream_can_read (const struct output_stream *stream, const struct output_sink *sink);
/** Pass on what the reader was too slow for, as much as it takes now, but no endless file at once.
 * @return whether nothing is left */
bool output_stream_catch_up (struct output_stream *stream, struct output_sink *sink, int64_t now_ms);
/** Whether output_stream_catch_up() would find both something to pass on and room for it. */
bool output_stream_can_catch_up (const struct output_stream *stream, const struct output_sink *sink);
/** Whether it holds an unfinished line the rest of which has not been written yet; otherwise it is only we who have not
 * read it. */
bool output_stream_is_idle (const struct output_stream *stream);
/** @return when to pass on the unfinished line that is all it holds; INT64_MAX: there is none, or not before its writer
 * ends */
int64_t output_stream_due (const struct output_stream *stream);
/** Pass on an unfinished line too. */
void output_stream_flush (struct output_stream *stream, struct output_sink *sink);
/** No more will come: close it, and pass on all as soon as it can be. */
void output_stream_end (struct output_stream *stream, struct output_sink *sink);
/** @return how many of the bytes that the rank has written the sink has not been given, nor can be read any more */
uint64_t output_stream_left (const struct output_stream *stream);
/** Append the last lines of @p text, without control characters.
 * @param lacks_begin  its first line is not whole, and is left out */
void output_last_lines (const char *text, size_t length, bool lacks_begin, struct strlist *lines);
/** The same of what the rank has written. */
void output_stream_tail (const struct output_stream *stream, struct strlist *lines);
void output_stream_release (struct output_stream *stream);

#endif
