/* SPDX-License-Identifier: Apache-2.0 */
/* From marks to labels; see labels.h. */
#include <config.h>

#include "hosts/head/labels.h"

#include "hosts/net/wire.h"
#include "launch/output/terminal.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

enum { LABEL_BYTES = 64 };

static int
make_ranks (struct labels *labels, int world_size)
{
    labels->ranks = calloc ((size_t) world_size, sizeof *labels->ranks);
    for (int i = 0; labels->ranks && i < world_size; i++) {
        struct output_stream *rank = &labels->ranks[i];
        *rank = (struct output_stream){ .fd = -1, .log.fd = -1, .local_rank = i };
        labels->count = i + 1;
        rank->prefix = terminal_prefix (i, world_size, true, &rank->prefix_columns);
        if (!rank->prefix)
            return -1;
    }
    return labels->ranks ? 0 : -1;
}

int
labels_begin (struct labels *labels, struct output_sink *const sink_of[LABELS_STREAMS], int world_size,
              struct fail *fail)
{
    labels_pass_on (labels, INT64_MAX);
    labels_release (labels);
    if (!sink_of[0]->is_terminal && !sink_of[1]->is_terminal)
        return 0;
    if (make_ranks (labels, world_size))
        return fail_nomem (fail);
    for (int i = 0; i < LABELS_STREAMS; i++) {
        bool is_same = i && sink_of[i] == sink_of[0];
        if (sink_of[i]->is_terminal)
            labels->collapses[i] = is_same ? labels->collapses[0] : output_collapse_create (sink_of[i], 0, world_size);
        if (sink_of[i]->is_terminal && !labels->collapses[i])
            return fail_nomem (fail);
    }
    return 0;
}

/* A line without a mark is the launcher's, but what follows a carriage return without one is the rest of a line.
 * @return the bytes that belong to a mark */
static size_t
read_mark (const struct labels *labels, struct labels_line *line, const char *text, size_t length)
{
    size_t used = 0;
    if (line->state != LABELS_MARK) {
        bool is_marked = *text == TERMINAL_MARK, is_line = line->state == LABELS_BEGIN;
        if (is_line || is_marked)
            line->rank = 0;
        line->is_whole = is_line && is_marked;
        line->lacks_label = is_marked;
        line->state = is_marked ? LABELS_MARK : LABELS_TEXT;
        used = is_marked;
    }
    while (line->state == LABELS_MARK && used < length) {
        char c = text[used++];
        if (c == TERMINAL_MARK_END) {
            line->rank = line->rank < labels->count ? line->rank + 1 : 0;
            line->state = LABELS_TEXT;
        } else if (line->rank < labels->count)
            line->rank = c >= '0' && c <= '9' ? 10 * line->rank + (c - '0') : labels->count;
    }
    return used;
}

/* Up to the end of the line, or a carriage return.
 * @param[out] ending  the bytes of the line's end; 0: it is not there */
static size_t
find_piece (const char *text, size_t length, size_t *ending)
{
    size_t at = 0;
    while (at < length && text[at] != '\n' && text[at] != '\r')
        at++;
    size_t returns = at + 1 < length && text[at] == '\r' && text[at + 1] == '\n';
    *ending = at + returns < length && text[at + returns] == '\n' ? returns + 1 : 0;
    return at < length ? at + 1 + returns : length;
}

/* @return false if the sink does not take it now */
static bool
put_piece (const struct output_stream *rank, struct labels_line *line, struct output_sink *sink, const char *text,
           size_t length)
{
    char bytes[LABEL_BYTES + WIRE_OUTPUT_BYTES];
    bool is_interrupted = sink->unfinished != &line->line;
    const char *label = rank && (line->lacks_label || is_interrupted) ? rank->prefix : "";
    size_t before = strlen (label);
    memcpy (bytes, label, before);
    memcpy (bytes + before, text, length);
    return output_sink_put_whole (sink, bytes, before + length);
}

size_t
labels_put (struct labels *labels, int which, struct labels_line *line, struct output_sink *sink, const char *text,
            size_t length, bool is_part)
{
    struct output_collapse *collapse = labels->collapses[which];
    size_t ending, mark = line->state == LABELS_TEXT ? 0 : read_mark (labels, line, text, length);
    if (mark)
        return mark;
    struct output_stream *rank = line->rank ? &labels->ranks[line->rank - 1] : NULL;
    size_t piece = find_piece (text, length < WIRE_OUTPUT_BYTES ? length : WIRE_OUTPUT_BYTES, &ending);
    if (rank)
        output_stream_begin_read (rank, clock_ms ());
    bool waits = rank && line->is_whole && ending && output_collapse_add (collapse, rank, text, piece - ending);
    if (!waits) {
        bool is_begun = sink->unfinished == &line->line; /* what has come since waits for its end */
        if ((!is_begun && !output_collapse_pass_on (collapse, NULL, INT64_MAX))
            || !output_sink_end_foreign_line (sink, &line->line) || !put_piece (rank, line, sink, text, piece))
            return 0;
        line->line.continues = is_part;
        sink->unfinished = ending ? NULL : &line->line;
    }
    if (rank)
        rank->burst += piece;
    line->is_whole = line->lacks_label = false;
    line->state = ending ? LABELS_BEGIN : text[piece - 1] == '\r' ? LABELS_RETURN : LABELS_TEXT;
    return piece;
}

bool
labels_pass_on (struct labels *labels, int64_t before_ms)
{
    bool all = true;
    for (int i = 0; i < LABELS_STREAMS; i++)
        all &= !labels->collapses[i] || output_collapse_pass_on (labels->collapses[i], NULL, before_ms);
    return all;
}

/* A full sink reports when there is room. */
int64_t
labels_due (const struct labels *labels, struct output_sink *const sink_of[LABELS_STREAMS])
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < LABELS_STREAMS; i++) {
        int64_t due = labels->collapses[i] && !output_sink_is_full (sink_of[i])
                      ? output_collapse_due (labels->collapses[i]) : INT64_MAX;
        next = due < next ? due : next;
    }
    return next;
}

void
labels_release (struct labels *labels)
{
    for (int i = 0; i < labels->count; i++)
        output_stream_release (&labels->ranks[i]);
    free (labels->ranks);
    if (labels->collapses[0] != labels->collapses[1])
        output_collapse_destroy (labels->collapses[0]);
    output_collapse_destroy (labels->collapses[1]);
    *labels = (struct labels){ 0 };
}
