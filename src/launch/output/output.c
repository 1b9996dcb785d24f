/* SPDX-License-Identifier: Apache-2.0 */
/* Copying of what ranks write; see output.h. */
#include <config.h>

#include "launch/output/output.h"

#include "launch/output/collapse.h"
#include "util/cleanup.h"

#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
    CHUNKS_AT_ONCE = 128,
    PAUSE_MS = 100,         /* between two bursts */
    TERMINAL_WAIT_MS = 300, /* for the rest of a line on a terminal, where a user may wait for a question */
    BAR_WAIT_MS = 100,      /* elsewhere, of a progress bar */
    LINE_WAIT_MS = 1000,    /* of what was written on its own: a busy machine pauses ranks */
    FULL_WAIT_MS = 10000,   /* of what may be a question after much text */
};

void
output_pool_init (struct output_pool *pool, int ranks)
{
    size_t share = OUTPUT_TAILS_BYTES / (size_t) (ranks > 0 ? ranks : 1);
    if (share > OUTPUT_TAIL_BYTES)
        share = OUTPUT_TAIL_BYTES;
    *pool = (struct output_pool){ .left = OUTPUT_POOL_BYTES,
                                  .tail_bytes = share < OUTPUT_TAIL_LEAST ? OUTPUT_TAIL_LEAST : share };
}

int
output_stream_init (struct output_stream *stream, int fd, struct output_pool *pool, struct fail *fail)
{
    stream->fd = fd;
    stream->pool = pool;
    stream->least = stream->text = malloc (OUTPUT_TEXT_BYTES);
    stream->capacity = OUTPUT_TEXT_BYTES;
    return stream->least ? 0 : fail_nomem (fail);
}

/* A ring that has come round stays as it is: its bytes are in an order that only its size explains. */
static void
grow_tail (struct output_stream *stream, size_t length)
{
    size_t most = stream->pool->tail_bytes, capacity = stream->tail_capacity;
    if (stream->total > capacity || capacity >= most)
        return;
    if (!capacity)
        capacity = OUTPUT_TAIL_LEAST;
    while (capacity < stream->total + length && capacity < most)
        capacity *= 2;
    if (capacity > most)
        capacity = most;
    char *grown = capacity > stream->tail_capacity ? realloc (stream->tail, capacity) : NULL;
    if (!grown)
        return;
    stream->tail = grown;
    stream->tail_capacity = capacity;
}

static void
keep (struct output_stream *stream, const char *bytes, size_t length)
{
    grow_tail (stream, length);
    size_t size = stream->tail_capacity;
    if (!size)
        return;
    for (size_t done = length > size ? length - size : 0; done < length;) {
        size_t at = (stream->total + done) % size, part = length - done < size - at ? length - done : size - at;
        memcpy (stream->tail + at, bytes + done, part);
        done += part;
    }
    stream->total += length;
}

static bool
ends_line (char c)
{
    return c == '\n' || c == '\r';
}

/* If each line bears its name, and on a terminal, a carriage return ends one, too. */
static bool
returns_end_lines (const struct output_stream *stream)
{
    return stream->on_terminal || (stream->prefix && !stream->keeps_returns);
}

/* The end of the last line in it, 0 if there is none. */
static size_t
find_last_end (const struct output_stream *stream, const char *bytes, size_t length)
{
    if (returns_end_lines (stream)) {
        while (length && !ends_line (bytes[length - 1]))
            length--;
        return length;
    }
    const char *end = length ? memrchr (bytes, '\n', length) : NULL;
    return end ? (size_t) (end + 1 - bytes) : 0;
}

/* The first buffer stays allocated: shrinking a larger one to its size would leave thousands of holes in the heap that
 * are just too small for the next large one.  @return whether the buffer has become larger */
static bool
grow (struct output_stream *stream, size_t capacity)
{
    size_t more = capacity - stream->capacity;
    if (capacity > OUTPUT_LINE_BYTES || more > stream->pool->left)
        return false;
    bool is_first = stream->text == stream->least;
    char *grown = realloc (is_first ? NULL : stream->text, capacity);
    if (!grown)
        return false;
    if (is_first)
        memcpy (grown, stream->least, stream->length);
    stream->text = grown;
    stream->capacity = capacity;
    stream->pool->left -= more;
    return true;
}

/* For an empty one that has grown. */
static void
return_to_least (struct output_stream *stream)
{
    free (stream->text);
    stream->text = stream->least;
    stream->pool->left += stream->capacity - OUTPUT_TEXT_BYTES;
    stream->capacity = OUTPUT_TEXT_BYTES;
    stream->start = stream->ready = stream->length = 0;
}

/* Lines can use all of the pool, speed only a part of it. */
static bool
may_be_fast (const struct output_stream *stream)
{
    return stream->pool->left >= OUTPUT_POOL_BYTES - OUTPUT_SPEED_BYTES + OUTPUT_CHUNK_BYTES;
}

static void
give_back (struct output_stream *stream)
{
    bool is_scarce = stream->pool->left < OUTPUT_POOL_BYTES - OUTPUT_SPEED_BYTES / 2;
    if (is_scarce && stream->start == stream->length && stream->text != stream->least)
        return_to_least (stream);
}

/* All that was ready has been passed on.  @return the number of bytes that can be added; at least one, because a full
 * buffer that cannot grow is made ready */
static size_t
make_room (struct output_stream *stream)
{
    stream->length -= stream->ready;
    memmove (stream->text, stream->text + stream->ready, stream->length);
    stream->start = stream->ready = 0;
    if (stream->is_wide && stream->capacity < OUTPUT_CHUNK_BYTES && may_be_fast (stream))
        grow (stream, OUTPUT_CHUNK_BYTES);
    else if (!stream->length && stream->capacity > OUTPUT_CHUNK_BYTES)
        return_to_least (stream);
    return stream->capacity - stream->length;
}

/* @length bytes have been appended. */
static void
add (struct output_stream *stream, size_t length, int64_t now_ms)
{
    const char *bytes = stream->text + stream->length;
    size_t end = find_last_end (stream, bytes, length);
    if (end || stream->length == stream->ready)
        stream->line_since_ms = now_ms;
    if (end)
        stream->ready = stream->length + end;
    bool has_return = length > end && memchr (bytes + end, '\r', length - end);
    stream->line.has_return = has_return || (!end && stream->line.has_return);
    stream->length += length;
    stream->is_wide = stream->length == stream->capacity;
    if (stream->is_wide && !stream->ready && !grow (stream, 2 * stream->capacity)) {
        stream->ready = stream->length;
        stream->line.is_cut = true;
    }
}

static bool
show_plain (struct output_stream *stream, struct output_sink *sink)
{
    stream->start += output_sink_put (sink, stream->text + stream->start, stream->ready - stream->start);
    if (stream->start < stream->ready)
        return false;
    bool is_whole = stream->text[stream->ready - 1] == '\n';
    stream->line.is_cut = stream->line.is_cut && !is_whole;
    sink->unfinished = is_whole ? NULL : &stream->line;
    return true;
}

static bool
show_prefix (struct output_stream *stream, struct output_sink *sink)
{
    const char *rest = stream->prefix ? stream->prefix + stream->prefix_done : "";
    size_t length = strlen (rest), put = output_sink_put (sink, rest, length);
    stream->prefix_done += put;
    if (put < length)
        return false;
    stream->prefix_done = 0;
    sink->unfinished = &stream->line;
    return true;
}

/* As with torchrun, a carriage return ends a line, because each must bear its name. */
static bool
show_named (struct output_stream *stream, struct output_sink *sink)
{
    while (stream->start < stream->ready) {
        const char *at = stream->text + stream->start, *end = stream->text + stream->ready, *stop = at;
        bool rest_of_end = stream->after_return && *at == '\n';
        stream->after_return = false;
        if (rest_of_end) {
            stream->start++;
            continue;
        }
        if (sink->unfinished != &stream->line && !show_prefix (stream, sink))
            return false;
        while (stop < end && !ends_line (*stop))
            stop++;
        stream->start += output_sink_put (sink, at, (size_t) (stop - at));
        if (stream->text + stream->start < stop || (stop < end && !output_sink_put_whole (sink, "\n", 1)))
            return false;
        if (stop < end) {
            sink->unfinished = NULL;
            stream->line.is_cut = false;
            stream->after_return = *stop == '\r';
            stream->start++;
        }
    }
    return true;
}

/* A carriage return stays one, so that a progress bar draws over itself, after its prefix.
 * @return false if there is no room for the line's end */
static bool
end_labelled (struct output_stream *stream, struct output_sink *sink, char end)
{
    bool is_begun = sink->unfinished == &stream->line;
    if (end == '\r') {
        if (is_begun && !output_sink_put_whole (sink, "\r", 1))
            return false;
        stream->after_return = is_begun;
        return true;
    }
    if ((!is_begun && !show_prefix (stream, sink)) || !output_sink_put_whole (sink, "\n", 1))
        return false;
    sink->unfinished = NULL;
    stream->line.is_cut = stream->after_return = false;
    return true;
}

/* At the beginning of a line.  Puts it into the queue, or all that is there onto the sink.
 * @param[out] has_taken  the line is in the queue
 * @return false if there is no room */
static bool
collapse_line (struct output_stream *stream, bool *has_taken)
{
    const char *at = stream->text + stream->start, *end = at, *last = stream->text + stream->ready;
    while (end < last && !ends_line (*end))
        end++;
    size_t length = (size_t) (end - at), ending = 1;
    if (last - end > 1 && *end == '\r' && end[1] == '\n') {
        end++;
        ending++;
    }
    *has_taken = end < last && *end == '\n' && output_collapse_add (stream->collapse, stream, at, length);
    stream->start += *has_taken ? length + ending : 0;
    return *has_taken || output_collapse_pass_on (stream->collapse, stream, INT64_MAX);
}

static bool
show_labelled (struct output_stream *stream, struct output_sink *sink)
{
    while (stream->start < stream->ready) {
        const char *at = stream->text + stream->start, *end = stream->text + stream->ready, *stop = at;
        bool has_taken = false;
        if (stream->collapse && sink->unfinished != &stream->line && !collapse_line (stream, &has_taken))
            return false;
        if (has_taken)
            continue;
        if (ends_line (*at)) {
            if (!end_labelled (stream, sink, *at))
                return false;
            stream->start++;
            continue;
        }
        if ((sink->unfinished != &stream->line || stream->after_return) && !show_prefix (stream, sink))
            return false;
        stream->after_return = false;
        while (stop < end && !ends_line (*stop))
            stop++;
        stream->start += output_sink_put (sink, at, (size_t) (stop - at));
        if (stream->text + stream->start < stop)
            return false;
    }
    return true;
}

static bool
show_in_its_way (struct output_stream *stream, struct output_sink *sink)
{
    if (stream->on_terminal || stream->keeps_returns)
        return show_labelled (stream, sink);
    return stream->prefix ? show_named (stream, sink) : show_plain (stream, sink);
}

static bool
is_pending (const struct output_stream *stream)
{
    return stream->start < stream->ready;
}

/* A progress bar may draw over another's, as it would without us. */
static bool
draws_over (const struct output_stream *stream, const struct output_sink *sink)
{
    return !stream->prefix && sink->unfinished && sink->unfinished->has_return && stream->text[stream->start] == '\r';
}

/* Pass on what is ready; no other stream's lines come between.  What continues a line that is passed on already is
 * ready, too.  @return whether nothing of it is left */
static bool
show (struct output_stream *stream, struct output_sink *sink)
{
    if (!is_pending (stream) && sink->unfinished == &stream->line)
        stream->ready = stream->length;
    if (!is_pending (stream))
        return true;
    if (sink->owner && sink->owner != stream)
        return false;
    sink->owner = stream;
    if (!draws_over (stream, sink) && !output_sink_end_foreign_line (sink, &stream->line))
        return false;
    if (stream->run_end != output_sink_position (sink))
        stream->run_begin = output_sink_position (sink);
    bool is_all = show_in_its_way (stream, sink);
    stream->run_end = output_sink_position (sink);
    if (!is_all)
        return false;
    sink->owner = NULL;
    return true;
}

void
output_stream_flush (struct output_stream *stream, struct output_sink *sink)
{
    stream->ready = stream->length;
    show (stream, sink);
}

static bool
is_behind (const struct output_stream *stream)
{
    return stream->shown < stream->log.size;
}

static bool
is_up_to_date (const struct output_stream *stream)
{
    return !is_pending (stream) && !is_behind (stream) && !stream->held_length;
}

static bool
has_unfinished (const struct output_stream *stream)
{
    return stream->ready < stream->length && is_up_to_date (stream);
}

/* What ends a full buffer of its writer says nothing; it comes with the next one.  A question may follow much text. */
int64_t
output_stream_due (const struct output_stream *stream)
{
    bool is_full = stream->burst >= OUTPUT_FULL_BYTES;
    if (!has_unfinished (stream))
        return INT64_MAX;
    if (stream->on_terminal)
        return stream->line_since_ms + TERMINAL_WAIT_MS;
    if (stream->line.has_return)
        return stream->line_since_ms + BAR_WAIT_MS;
    if (is_full && !stream->may_ask)
        return INT64_MAX;
    return stream->line_since_ms + (is_full ? FULL_WAIT_MS : LINE_WAIT_MS);
}

/* Take the next bytes out of the file. */
static void
refill_from_log (struct output_stream *stream, int64_t now_ms)
{
    uint64_t left = stream->log.size - stream->shown;
    size_t room = make_room (stream);
    size_t got = logfile_read (&stream->log, stream->shown, stream->text + stream->length, left < room ? left : room);
    if (!got) { /* the file was cut off, or the disk fails */
        stream->lost += left;
        stream->shown = stream->log.size;
        return;
    }
    stream->shown += got;
    add (stream, got, now_ms);
}

static void
drop_held (struct output_stream *stream, size_t length)
{
    stream->held_length -= length;
    memmove (stream->held, stream->held + length, stream->held_length);
    if (stream->held_length)
        return;
    stream->pool->left += OUTPUT_CHUNK_BYTES;
    stream->pool->held -= OUTPUT_CHUNK_BYTES;
    free (stream->held);
    stream->held = NULL;
}

static void
refill_from_held (struct output_stream *stream, int64_t now_ms)
{
    size_t room = make_room (stream);
    size_t length = stream->held_length < room ? stream->held_length : room;
    memcpy (stream->text + stream->length, stream->held, length);
    drop_held (stream, length);
    add (stream, length, now_ms);
}

/* @return whether its last words are out; its memory is given back */
static bool
finish (struct output_stream *stream, struct output_sink *sink)
{
    bool is_plain = !stream->prefix && !stream->on_terminal; /* gets no byte more than others' lines need */
    output_stream_flush (stream, sink);
    if (is_pending (stream)
        || (!is_plain && sink->unfinished == &stream->line && !output_sink_end_foreign_line (sink, NULL)))
        return false;
    if (stream->text != stream->least)
        return_to_least (stream);
    free (stream->least);
    stream->least = stream->text = NULL;
    stream->start = stream->ready = stream->length = stream->capacity = 0;
    return true;
}

bool
output_stream_catch_up (struct output_stream *stream, struct output_sink *sink, int64_t now_ms)
{
    for (int i = 0; i < CHUNKS_AT_ONCE; i++) {
        if (!show (stream, sink))
            return false;
        if (is_behind (stream))
            refill_from_log (stream, now_ms);
        else if (stream->held_length)
            refill_from_held (stream, now_ms);
        else if (stream->fd < 0)
            return finish (stream, sink);
        else {
            give_back (stream);
            return true;
        }
    }
    return false;
}

bool
output_stream_can_catch_up (const struct output_stream *stream, const struct output_sink *sink)
{
    return !is_up_to_date (stream) && (!sink->owner || sink->owner == stream) && !output_sink_is_full (sink);
}

/* What is read while the reader is slow has to go into the file; where that fails it is held in memory, one chunk. */
bool
output_stream_can_read (const struct output_stream *stream, const struct output_sink *sink)
{
    if (is_up_to_date (stream) && !output_sink_is_full (sink))
        return true;
    return stream->log.fd >= 0 && !stream->log.lost && !stream->held_length
           && stream->pool->left >= OUTPUT_CHUNK_BYTES && stream->pool->held < OUTPUT_SPEED_BYTES;
}

bool
output_stream_is_idle (const struct output_stream *stream)
{
    struct pollfd more = { .fd = stream->fd, .events = POLLIN };
    return is_up_to_date (stream) && poll (&more, 1, 0) == 0;
}

static void
hold (struct output_stream *stream, const char *bytes, size_t length)
{
    stream->held = malloc (length);
    if (!stream->held) {
        stream->lost += length;
        return;
    }
    memcpy (stream->held, bytes, length);
    stream->held_length = length;
    stream->pool->left -= OUTPUT_CHUNK_BYTES;
    stream->pool->held += OUTPUT_CHUNK_BYTES;
}

/* A file that has missed something gets more only while the reader is up to date, so that what is read back from it
 * never holds the mark of a gap. */
static void
take_in (struct output_stream *stream, const char *bytes, size_t length, bool directly, int64_t now_ms)
{
    size_t written = 0;
    if (stream->has_tail)
        keep (stream, bytes, length);
    if (stream->log.fd >= 0)
        logfile_write (&stream->log, bytes, length, &written);
    if (directly) {
        stream->shown = stream->log.size;
        add (stream, length, now_ms);
    } else if (written < length)
        hold (stream, bytes + written, length - written);
}

/* A terminal whose writers have gone reports that as an error, perhaps once too early: between two looks for bytes. */
static ssize_t
read_some (const struct output_stream *stream, char *bytes, size_t size)
{
    ssize_t length = read (stream->fd, bytes, size);
    return length < 0 && errno == EIO && stream->from_terminal ? read (stream->fd, bytes, size) : length;
}

void
output_stream_begin_read (struct output_stream *stream, int64_t now_ms)
{
    if (now_ms > stream->read_ms + PAUSE_MS)
        stream->burst = 0;
    stream->read_ms = now_ms;
}

bool
output_stream_read (struct output_stream *stream, struct output_sink *sink, int64_t now_ms)
{
    char bytes[OUTPUT_CHUNK_BYTES];
    output_stream_begin_read (stream, now_ms);
    for (int i = 0; i < CHUNKS_AT_ONCE; i++) {
        show (stream, sink);
        if (!output_stream_can_read (stream, sink))
            return true;
        bool directly = is_up_to_date (stream) && !output_sink_is_full (sink);
        size_t room = directly ? make_room (stream) : sizeof bytes;
        char *to = directly ? stream->text + stream->length : bytes;
        ssize_t length = read_some (stream, to, room < sizeof bytes ? room : sizeof bytes);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0)
            return length < 0 && errno == EAGAIN;
        stream->burst += (size_t) length;
        take_in (stream, to, (size_t) length, directly, now_ms);
    }
    show (stream, sink);
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

uint64_t
output_stream_left (const struct output_stream *stream)
{
    int unread = 0;
    if (stream->fd >= 0 && ioctl (stream->fd, FIONREAD, &unread))
        unread = 0;
    return stream->length - stream->start + (stream->log.size - stream->shown) + stream->held_length
           + (uint64_t) unread + stream->lost;
}

void
output_last_lines (const char *text, size_t length, bool lacks_begin, struct strlist *lines)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    AUTO_STRLIST struct strlist all = { 0 };
    for (size_t i = 0; i <= length; i++) {
        char c = i < length ? text[i] : '\n';
        if (!ends_line (c)) {
            strbuf_add_char (&line, (unsigned char) c < 32 && c != '\t' ? ' ' : c);
            continue;
        }
        if (line.length && !lacks_begin)
            strlist_add (&all, line.text);
        strbuf_truncate (&line, 0);
        lacks_begin = false;
    }
    for (size_t i = all.count > OUTPUT_TAIL_LINES ? all.count - OUTPUT_TAIL_LINES : 0; i < all.count; i++)
        strlist_add (lines, all.items[i]);
}

void
output_stream_tail (const struct output_stream *stream, struct strlist *lines)
{
    size_t size = stream->tail_capacity, kept = stream->total < size ? (size_t) stream->total : size;
    AUTO_FREE char *text = malloc (kept + 1);
    uint64_t first = stream->total - kept;
    for (size_t i = 0; text && i < kept; i++)
        text[i] = stream->tail[(first + i) % size];
    if (text)
        output_last_lines (text, kept, first > 0, lines);
}

void
output_stream_release (struct output_stream *stream)
{
    if (stream->fd >= 0)
        close (stream->fd);
    if (stream->text != stream->least)
        free (stream->text);
    free (stream->least);
    free (stream->tail);
    free (stream->prefix);
    free (stream->held);
    logfile_release (&stream->log);
    *stream = (struct output_stream){ .fd = -1, .log.fd = -1 };
}
