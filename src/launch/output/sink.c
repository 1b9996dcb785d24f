/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of bytes before a descriptor; see sink.h. */
#include <config.h>

#include "launch/output/sink.h"

#include "launch/process/guardian.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

int
output_sink_init (struct output_sink *sink, int fd, const char *name, struct fail *fail)
{
    struct stat info;
    *sink = (struct output_sink){ .fd = fd, .own_fd = -1, .name = name };
    sink->ring = malloc (OUTPUT_SINK_BYTES);
    if (!sink->ring)
        return fail_nomem (fail);
    sink->own_fd = io_open_without_waiting (fd);
    sink->may_block = !fstat (fd, &info) && !S_ISREG (info.st_mode);
    sink->is_terminal = isatty (fd);
    sink->broken = io_is_closed (fd);
    return 0;
}

bool
output_is_one_file (void)
{
    struct stat out, err;
    return !fstat (1, &out) && !fstat (2, &err) && out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

int
output_sinks_init (struct output_sink sinks[2], struct output_sink *sink_of[2], struct fail *fail)
{
    sink_of[0] = &sinks[output_is_one_file () ? 1 : 0];
    sink_of[1] = &sinks[1];
    return output_sink_init (&sinks[0], 1, "standard output", fail)
           || output_sink_init (&sinks[1], 2, "standard error", fail) ? -1 : 0;
}

uint64_t
output_sink_position (const struct output_sink *sink)
{
    return sink->written + sink->count - sink->status.bytes;
}

/* At half of it, so that ranks do not wake up for each few bytes that the reader takes. */
bool
output_sink_is_full (const struct output_sink *sink)
{
    return sink->count >= OUTPUT_SINK_BYTES / 2;
}

bool
output_sink_is_empty (const struct output_sink *sink)
{
    return sink->count == 0;
}

/* A reader that closes its end needs no more, as in `| head`.  Any other error loses output. */
static void
give_up (struct output_sink *sink, int error)
{
    sink->broken = true;
    if (error != EPIPE) {
        sink->error = error;
        sink->lost += sink->count;
    }
    sink->count = 0;
}

static void
note_seen (const struct output_sink *sink, bool is_seen)
{
    if (sink->status.is_seen)
        atomic_store (sink->status.is_seen, is_seen);
}

/* A pipe that polls writable takes PIPE_BUF bytes without waiting, unless a rank that shares it is faster; a terminal
 * may have room for a few only.  So we write through a descriptor of our own if we can. */
void
output_sink_drain (struct output_sink *sink)
{
    bool may_wait = sink->may_block && sink->own_fd < 0;
    if (sink->count)
        note_seen (sink, false);
    while (!sink->broken && sink->count) {
        struct pollfd ready = { .fd = sink->fd, .events = POLLOUT };
        if (may_wait && poll (&ready, 1, 0) != 1)
            return; /* anything else that poll() says makes write() fail at once, and no event may stay unheeded */
        size_t length = OUTPUT_SINK_BYTES - sink->first;
        length = sink->count < length ? sink->count : length;
        if (may_wait && length > PIPE_BUF)
            length = PIPE_BUF;
        ssize_t written = write (sink->own_fd >= 0 ? sink->own_fd : sink->fd, sink->ring + sink->first, length);
        if (written > 0) {
            sink->first = (sink->first + (size_t) written) % OUTPUT_SINK_BYTES;
            sink->count -= (size_t) written;
            sink->written += (uint64_t) written;
            if (!sink->count) {
                sink->first = 0; /* what comes next is in one piece */
                note_seen (sink, sink->status.is_put);
            }
        } else if (written < 0 && errno == EAGAIN)
            return;
        else if (written < 0 && errno != EINTR)
            give_up (sink, errno);
    }
}

static bool
has_room (struct output_sink *sink, size_t length)
{
    if (OUTPUT_SINK_BYTES - sink->count < length)
        output_sink_drain (sink);
    return OUTPUT_SINK_BYTES - sink->count >= length;
}

static size_t
put (struct output_sink *sink, const char *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        if (!has_room (sink, 1))
            return done;
        if (sink->broken) /* perhaps since a moment ago: what is put now would never leave */
            break;
        size_t last = (sink->first + sink->count) % OUTPUT_SINK_BYTES, most = OUTPUT_SINK_BYTES - sink->count;
        if (most > OUTPUT_SINK_BYTES - last)
            most = OUTPUT_SINK_BYTES - last;
        size_t part = length - done < most ? length - done : most;
        memcpy (sink->ring + last, bytes + done, part);
        sink->count += part;
        done += part;
    }
    if (sink->error)
        sink->lost += length - done;
    return length;
}

/* While another process group has the terminal, what is at its bottom is that group's. */
static bool
is_foreground (const struct output_sink *sink)
{
    return tcgetpgrp (sink->fd) == sink->status.group;
}

static void
put_status (struct output_sink *sink, const char *text)
{
    sink->status.bytes += put (sink, text, strlen (text));
}

bool
output_sink_erase_status (struct output_sink *sink)
{
    if (sink->status.is_put && !sink->broken && is_foreground (sink)) {
        if (!has_room (sink, sizeof GUARDIAN_ERASE_STATUS))
            return false;
        put_status (sink, GUARDIAN_ERASE_STATUS);
    }
    sink->status.is_put = false;
    return true;
}

/* The cursor goes back to the beginning of the line: if the terminal becomes narrower and folds it, it can still be
 * erased as a whole. */
bool
output_sink_show_status (struct output_sink *sink, const char *text)
{
    if (sink->broken || sink->owner || sink->unfinished || !is_foreground (sink)
        || !has_room (sink, sizeof GUARDIAN_ERASE_STATUS + strlen (text) + 1) || !output_sink_erase_status (sink))
        return false;
    put_status (sink, text);
    put_status (sink, "\r");
    sink->status.is_put = true;
    return true;
}

size_t
output_sink_put (struct output_sink *sink, const char *bytes, size_t length)
{
    return output_sink_erase_status (sink) ? put (sink, bytes, length) : 0;
}

bool
output_sink_put_whole (struct output_sink *sink, const char *bytes, size_t length)
{
    if (!output_sink_erase_status (sink) || (!sink->broken && !has_room (sink, length)))
        return false;
    put (sink, bytes, length);
    return true;
}

bool
output_sink_end_foreign_line (struct output_sink *sink, const struct output_line *line)
{
    if (!sink->unfinished || sink->unfinished == line)
        return true;
    if (sink->unfinished->continues)
        return false;
    const char *end = sink->unfinished->is_cut ? OUTPUT_CUT_MARK "\n" : "\n";
    if (!output_sink_put_whole (sink, end, strlen (end)))
        return false;
    sink->unfinished = NULL;
    return true;
}

bool
output_sink_say (struct output_sink *sink, const char *line)
{
    size_t length = strlen (line);
    if (sink->owner || !output_sink_end_foreign_line (sink, NULL) || !output_sink_erase_status (sink)
        || (!sink->broken && !has_room (sink, length + 1)))
        return false;
    output_sink_put (sink, line, length);
    output_sink_put (sink, "\n", 1);
    return true;
}

void
output_sink_say_lines (struct output_sink *sink, struct strbuf *text)
{
    while (text->length) {
        size_t length = strcspn (text->text, "\n"), used = length + (text->text[length] == '\n');
        AUTO_FREE char *line = strndup (text->text, length);
        if (!line || !output_sink_say (sink, line))
            return;
        strbuf_drop (text, used);
    }
}

void
output_sink_release (struct output_sink *sink)
{
    if (sink->ring && sink->own_fd >= 0)
        close (sink->own_fd);
    free (sink->ring);
    sink->ring = NULL;
}
