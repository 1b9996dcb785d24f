/* SPDX-License-Identifier: Apache-2.0 */
/* Copying of the ranks' stderr; see output.h. */
#include <config.h>

#include "launch/output.h"

#include "util/cleanup.h"

#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

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

void
output_stream_flush (struct output_stream *stream, struct output_sink *sink)
{
    if (stream->line.length)
        pass_on (sink, stream->line.text, stream->line.length);
    strbuf_truncate (&stream->line, 0);
}

bool
output_stream_read (struct output_stream *stream, struct output_sink *sink, int64_t now_ms)
{
    char bytes[16 * 1024];
    bool open = true;
    while (!output_sink_is_full (sink)) {
        ssize_t length = read (stream->fd, bytes, sizeof bytes);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0) {
            open = length < 0 && errno == EAGAIN;
            break;
        }
        keep (stream, bytes, (size_t) length);
        size_t whole = find_last_end (bytes, (size_t) length);
        if (whole) {
            output_stream_flush (stream, sink);
            pass_on (sink, bytes, whole);
        }
        if (!stream->line.length)
            stream->line_since_ms = now_ms;
        strbuf_add_bytes (&stream->line, bytes + whole, (size_t) length - whole);
        if (stream->line.length >= OUTPUT_LINE_BYTES)
            output_stream_flush (stream, sink);
        output_sink_drain (sink);
    }
    return open;
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
    *stream = (struct output_stream){ .fd = -1 };
}
