/* SPDX-License-Identifier: Apache-2.0 */
/* Copying of what ranks write; see output.h. */
#include <config.h>

#include "launch/output.h"

#include "util/cleanup.h"

#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

enum {
    CHUNK_BYTES = 16 * 1024,
    CHUNKS_AT_ONCE = 128, /* more than a pipe holds */
};

void
output_sink_init (struct output_sink *sink, int fd)
{
    struct stat info;
    *sink = (struct output_sink){ .fd = fd };
    sink->may_block = !fstat (fd, &info) && !S_ISREG (info.st_mode);
    sink->broken = fd < 0;
}

bool
output_sink_is_full (const struct output_sink *sink)
{
    return sink->pending.length - sink->written >= OUTPUT_PENDING_BYTES;
}

bool
output_sink_is_empty (const struct output_sink *sink)
{
    return sink->pending.length == sink->written;
}

/* A pipe that polls writable takes PIPE_BUF bytes without waiting; our stderr is shared with others, so it must not be
 * made non-blocking. */
void
output_sink_drain (struct output_sink *sink)
{
    while (!sink->broken && !output_sink_is_empty (sink)) {
        struct pollfd ready = { .fd = sink->fd, .events = POLLOUT };
        if (sink->may_block && (poll (&ready, 1, 0) != 1 || !(ready.revents & (POLLOUT | POLLERR))))
            return;
        size_t length = sink->pending.length - sink->written;
        if (sink->may_block && length > PIPE_BUF)
            length = PIPE_BUF;
        ssize_t written = write (sink->fd, sink->pending.text + sink->written, length);
        if (written > 0)
            sink->written += (size_t) written;
        else if (written < 0 && errno != EINTR && errno != EAGAIN)
            sink->broken = true;
        else if (written < 0 && errno == EAGAIN)
            return;
    }
    strbuf_truncate (&sink->pending, 0);
    sink->written = 0;
}

void
output_sink_release (struct output_sink *sink)
{
    strbuf_release (&sink->pending);
}

static void
pass_on (struct output_sink *sink, const char *bytes, size_t length)
{
    if (!sink->broken && !sink->pending.failed)
        strbuf_add_bytes (&sink->pending, bytes, length);
}

static void
keep (struct output_stream *stream, const char *bytes, size_t length)
{
    if (!stream->tail)
        stream->tail = malloc (OUTPUT_TAIL_BYTES);
    if (!stream->tail)
        return;
    for (size_t i = length > OUTPUT_TAIL_BYTES ? length - OUTPUT_TAIL_BYTES : 0; i < length; i++)
        stream->tail[(stream->total + i) % OUTPUT_TAIL_BYTES] = bytes[i];
    stream->total += length;
}

/* The end of the last line in it, 0 where there is none.  A carriage return ends one too: progress bars live on it. */
static size_t
find_last_end (const char *bytes, size_t length)
{
    while (length && bytes[length - 1] != '\n' && bytes[length - 1] != '\r')
        length--;
    return length;
}

/* Nobody writes on behind an unfinished line that bears a name. */
static void
end_foreign_line (struct output_sink *sink, const struct output_stream *stream)
{
    if (sink->unfinished && sink->unfinished != stream) {
        pass_on (sink, "\n", 1);
        sink->unfinished = NULL;
    }
}

void
output_sink_say (struct output_sink *sink, const char *line)
{
    end_foreign_line (sink, NULL);
    pass_on (sink, line, strlen (line));
    pass_on (sink, "\n", 1);
}

/* As torchrun has it, a carriage return ends a line, for each is to bear its name. */
static void
show_named (struct output_stream *stream, struct output_sink *sink, const char *bytes, size_t length)
{
    for (const char *end = bytes + length; bytes < end;) {
        bool rest_of_end = stream->after_return && *bytes == '\n';
        stream->after_return = false;
        if (rest_of_end) {
            bytes++;
            continue;
        }
        const char *stop = bytes;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        if (sink->unfinished != stream)
            pass_on (sink, stream->prefix, strlen (stream->prefix));
        pass_on (sink, bytes, (size_t) (stop - bytes));
        sink->unfinished = stop < end ? NULL : stream;
        if (stop < end) {
            pass_on (sink, "\n", 1);
            stream->after_return = *stop++ == '\r';
        }
        bytes = stop;
    }
}

static void
show (struct output_stream *stream, struct output_sink *sink, const char *bytes, size_t length)
{
    if (!length)
        return;
    end_foreign_line (sink, stream);
    if (stream->prefix)
        show_named (stream, sink, bytes, length);
    else
        pass_on (sink, bytes, length);
}

void
output_stream_flush (struct output_stream *stream, struct output_sink *sink)
{
    show (stream, sink, stream->line.text, stream->line.length);
    strbuf_truncate (&stream->line, 0);
}

static void
show_lines (struct output_stream *stream, struct output_sink *sink, const char *bytes, size_t length, int64_t now_ms)
{
    size_t whole = find_last_end (bytes, length);
    if (whole) {
        output_stream_flush (stream, sink);
        show (stream, sink, bytes, whole);
    }
    if (!stream->line.length)
        stream->line_since_ms = now_ms;
    strbuf_add_bytes (&stream->line, bytes + whole, length - whole);
    if (stream->line.length >= OUTPUT_LINE_BYTES)
        output_stream_flush (stream, sink);
    output_sink_drain (sink);
}

static bool
is_behind (const struct output_stream *stream)
{
    return stream->shown < stream->log.size;
}

bool
output_stream_catch_up (struct output_stream *stream, struct output_sink *sink, int64_t now_ms)
{
    char bytes[CHUNK_BYTES];
    while (is_behind (stream) && !output_sink_is_full (sink)) {
        uint64_t left = stream->log.size - stream->shown;
        size_t got = logfile_read (&stream->log, stream->shown, bytes, left < sizeof bytes ? left : sizeof bytes);
        stream->shown = got ? stream->shown + got : stream->log.size; /* it was cut off behind our back */
        show_lines (stream, sink, bytes, got, now_ms);
    }
    if (is_behind (stream) || (stream->held.length && output_sink_is_full (sink)))
        return false;
    if (stream->held.length)
        show_lines (stream, sink, stream->held.text, stream->held.length, now_ms);
    strbuf_truncate (&stream->held, 0);
    if (stream->fd >= 0)
        return true;
    output_stream_flush (stream, sink);
    if (sink->unfinished == stream)
        end_foreign_line (sink, NULL);
    return true;
}

bool
output_stream_can_read (const struct output_stream *stream, const struct output_sink *sink)
{
    return !stream->held.length && (!output_sink_is_full (sink) || (stream->log.fd >= 0 && !stream->log.lost));
}

bool
output_stream_is_idle (const struct output_stream *stream)
{
    struct pollfd more = { .fd = stream->fd, .events = POLLIN };
    return !is_behind (stream) && !stream->held.length && poll (&more, 1, 0) == 0;
}

/* A file that has missed something gets more only while the reader is up to date, so that what is read back from it
 * never holds the mark of a gap. */
static void
take_in (struct output_stream *stream, struct output_sink *sink, const char *bytes, size_t length, int64_t now_ms)
{
    bool up_to_date = stream->log.fd < 0 || (!is_behind (stream) && !output_sink_is_full (sink));
    size_t written = 0;
    if (stream->has_tail)
        keep (stream, bytes, length);
    if (stream->log.fd >= 0)
        logfile_write (&stream->log, bytes, length, &written);
    if (up_to_date) {
        stream->shown = stream->log.size;
        show_lines (stream, sink, bytes, length, now_ms);
    } else
        strbuf_add_bytes (&stream->held, bytes + written, length - written);
}

bool
output_stream_read (struct output_stream *stream, struct output_sink *sink, int64_t now_ms)
{
    char bytes[CHUNK_BYTES];
    for (int i = 0; i < CHUNKS_AT_ONCE; i++) {
        output_stream_catch_up (stream, sink, now_ms);
        if (!output_stream_can_read (stream, sink))
            return true;
        ssize_t length = read (stream->fd, bytes, sizeof bytes);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0)
            return length < 0 && errno == EAGAIN;
        take_in (stream, sink, bytes, (size_t) length, now_ms);
    }
    return true;
}

void
output_stream_end (struct output_stream *stream, struct output_sink *sink)
{
    if (stream->fd < 0)
        return;
    close (stream->fd);
    stream->fd = -1;
    output_stream_catch_up (stream, sink, 0);
}

void
output_stream_tail (const struct output_stream *stream, struct strlist *lines)
{
    if (!stream->tail || !stream->total)
        return;
    uint64_t first = stream->total > OUTPUT_TAIL_BYTES ? stream->total - OUTPUT_TAIL_BYTES : 0;
    bool whole = first == 0;
    AUTO_STRBUF struct strbuf line = { 0 };
    struct strlist all = { 0 };
    for (uint64_t i = first; i <= stream->total; i++) {
        char c = i < stream->total ? stream->tail[i % OUTPUT_TAIL_BYTES] : '\n';
        if (c != '\n' && c != '\r') {
            strbuf_add_char (&line, (unsigned char) c < 32 && c != '\t' ? ' ' : c);
            continue;
        }
        if (line.length && whole)
            strlist_add (&all, line.text);
        strbuf_truncate (&line, 0);
        whole = true; /* the first one may lack its beginning */
    }
    size_t skip = all.count > OUTPUT_TAIL_LINES ? all.count - OUTPUT_TAIL_LINES : 0;
    for (size_t i = skip; i < all.count; i++)
        strlist_add (lines, all.items[i]);
    strlist_release (&all);
}

void
output_stream_release (struct output_stream *stream)
{
    if (stream->fd >= 0)
        close (stream->fd);
    strbuf_release (&stream->line);
    free (stream->tail);
    free (stream->prefix);
    strbuf_release (&stream->held);
    logfile_release (&stream->log);
    *stream = (struct output_stream){ .fd = -1, .log.fd = -1 };
}
