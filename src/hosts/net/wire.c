/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: a length of 4 bytes and a type of 1, then values; see wire.h.  Numbers have 8 bytes, texts their length, with
 * the terminating 0 that is also written, as such a number.  All in little endian order, because hosts may differ. */
#include <config.h>

#include "hosts/net/wire.h"

#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <string.h>

enum { HEADER_BYTES = 5, NUMBER_BYTES = 8, READ_BYTES = 64 * 1024 };

void
wire_put_little (void *bytes, size_t count, uint64_t value)
{
    for (size_t i = 0; i < count; i++)
        ((unsigned char *) bytes)[i] = (unsigned char) (value >> (8 * i));
}

uint64_t
wire_get_little (const void *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++)
        value |= (uint64_t) ((const unsigned char *) bytes)[i] << (8 * i);
    return value;
}

size_t
wire_begin (struct strbuf *out, enum wire_type type)
{
    unsigned char header[HEADER_BYTES] = { [HEADER_BYTES - 1] = (unsigned char) type };
    size_t begin = out->length;
    strbuf_add_bytes (out, header, sizeof header);
    return begin;
}

void
wire_end (struct strbuf *out, size_t begin)
{
    if (!out->failed)
        wire_put_little (out->text + begin, 4, out->length - begin - HEADER_BYTES);
}

void
wire_put_number (struct strbuf *out, int64_t value)
{
    unsigned char bytes[NUMBER_BYTES];
    wire_put_little (bytes, sizeof bytes, (uint64_t) value);
    strbuf_add_bytes (out, bytes, sizeof bytes);
}

void
wire_put_text (struct strbuf *out, const char *text)
{
    size_t length = text ? strlen (text) + 1 : 0;
    wire_put_number (out, (int64_t) length);
    if (text)
        strbuf_add_bytes (out, text, length);
}

void
wire_put_list (struct strbuf *out, const struct strlist *list)
{
    wire_put_number (out, (int64_t) list->count);
    for (size_t i = 0; i < list->count; i++)
        wire_put_text (out, list->items[i]);
}

void
wire_put_numbers (struct strbuf *out, enum wire_type type, const int64_t *numbers, size_t count)
{
    size_t begin = wire_begin (out, type);
    for (size_t i = 0; i < count; i++)
        wire_put_number (out, numbers[i]);
    wire_end (out, begin);
}

void
wire_put_end (struct strbuf *out, enum wire_end end, int status, const char *report, const char *json)
{
    size_t begin = wire_begin (out, WIRE_END);
    wire_put_number (out, end);
    wire_put_number (out, status);
    wire_put_text (out, report);
    wire_put_text (out, json);
    wire_end (out, begin);
}

int64_t
wire_number (struct wire_frame *frame)
{
    frame->failed = frame->failed || frame->left < NUMBER_BYTES;
    if (frame->failed)
        return 0;
    int64_t value = (int64_t) wire_get_little (frame->at, NUMBER_BYTES);
    frame->at += NUMBER_BYTES;
    frame->left -= NUMBER_BYTES;
    return value;
}

const char *
wire_text (struct wire_frame *frame)
{
    uint64_t length = (uint64_t) wire_number (frame);
    const char *text = frame->at;
    if (!length)
        return NULL;
    frame->failed = frame->failed || length > frame->left || memchr (text, 0, (size_t) length) != text + length - 1;
    if (frame->failed)
        return NULL;
    frame->at += length;
    frame->left -= (size_t) length;
    return text;
}

void
wire_list (struct wire_frame *frame, struct strlist *list)
{
    for (int64_t count = wire_number (frame); count > 0 && !frame->failed; count--) {
        const char *text = wire_text (frame);
        frame->failed = frame->failed || !text;
        if (text)
            strlist_add (list, text);
    }
}

int
wire_next (const char *bytes, size_t length, struct wire_frame *frame, size_t *used)
{
    if (length < HEADER_BYTES)
        return 0;
    size_t payload = (size_t) wire_get_little (bytes, 4);
    int type = (unsigned char) bytes[4];
    if (payload > WIRE_FRAME_BYTES || type < WIRE_JOB || type >= WIRE_TYPE_COUNT)
        return -1;
    if (length - HEADER_BYTES < payload)
        return 0;
    *frame = (struct wire_frame){ .type = (enum wire_type) type, .at = bytes + HEADER_BYTES, .left = payload };
    *used = HEADER_BYTES + payload;
    return 1;
}

/* ---- both directions of a connection ---- */

int
pipe_make (int ends[2], struct fail *fail)
{
    return pipe2 (ends, O_CLOEXEC) ? fail_set (fail, FAIL_GENERAL, "cannot make a pipe: %s", strerror (errno)) : 0;
}

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
    strbuf_drop (&pipe->input, pipe->taken);
    pipe->taken = 0;
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
