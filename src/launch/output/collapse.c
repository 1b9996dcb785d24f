/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of lines, each with the ranks that have written it; see collapse.h. */
#include <config.h>

#include "launch/output/collapse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* circle: collapse output: a stream's lines go through the queue, and from there to the stream's sink */

enum { WORD_BITS = 64, LABEL_BYTES = 64 };

struct entry {
    char *line;
    size_t length;
    uint64_t hash;
    int64_t since_ms;
    struct output_stream *first; /* the stream whose line came first */
    int count;                   /* of ranks */
    uint64_t *ranks;             /* [words]; bit I: local rank I */
};

struct output_collapse {
    struct output_sink *sink;
    int first_rank, ranks;
    size_t words;
    struct entry entries[OUTPUT_COLLAPSE_LINES]; /* a ring */
    size_t begin, count;
    uint64_t *bits; /* [OUTPUT_COLLAPSE_LINES * words] */
};

struct output_collapse *
output_collapse_create (struct output_sink *sink, int first_rank, int ranks)
{
    struct output_collapse *collapse = calloc (1, sizeof *collapse);
    if (!collapse)
        return NULL;
    collapse->sink = sink;
    collapse->first_rank = first_rank;
    collapse->ranks = ranks;
    collapse->words = ((size_t) ranks + WORD_BITS - 1) / WORD_BITS;
    collapse->bits = calloc (OUTPUT_COLLAPSE_LINES, collapse->words * sizeof *collapse->bits);
    for (size_t i = 0; i < OUTPUT_COLLAPSE_LINES && collapse->bits; i++)
        collapse->entries[i].ranks = collapse->bits + i * collapse->words;
    if (collapse->bits)
        return collapse;
    free (collapse);
    return NULL;
}

void
output_collapse_destroy (struct output_collapse *collapse)
{
    if (!collapse)
        return;
    for (size_t i = 0; i < OUTPUT_COLLAPSE_LINES; i++)
        free (collapse->entries[i].line);
    free (collapse->bits);
    free (collapse);
}

static struct entry *
entry_at (struct output_collapse *collapse, size_t place)
{
    return &collapse->entries[(collapse->begin + place) % OUTPUT_COLLAPSE_LINES];
}

static bool
has_rank (const struct entry *entry, int rank)
{
    return entry->ranks[rank / WORD_BITS] >> (rank % WORD_BITS) & 1;
}

static void
add_rank (struct entry *entry, int rank)
{
    entry->ranks[rank / WORD_BITS] |= UINT64_C (1) << (rank % WORD_BITS);
    entry->count++;
}

/* "[0-2,5] ", or their number if that is too long. */
static void
label (const struct output_collapse *collapse, const struct entry *entry, char text[LABEL_BYTES])
{
    int at = 0, last;
    for (int rank = 0; rank < collapse->ranks; rank = last + 1) {
        last = rank;
        if (!has_rank (entry, rank))
            continue;
        while (last + 1 < collapse->ranks && has_rank (entry, last + 1))
            last++;
        if (at > LABEL_BYTES - 32) {
            snprintf (text, LABEL_BYTES, "[%d ranks] ", entry->count);
            return;
        }
        at += snprintf (text + at, (size_t) (LABEL_BYTES - at), "%c%d", at ? ',' : '[', collapse->first_rank + rank);
        if (last > rank)
            at += snprintf (text + at, (size_t) (LABEL_BYTES - at), "-%d", collapse->first_rank + last);
    }
    snprintf (text + at, (size_t) (LABEL_BYTES - at), "] ");
}

/* @return false if the sink does not take it now */
static bool
pass_on_first (struct output_collapse *collapse, const struct output_stream *by)
{
    struct output_sink *sink = collapse->sink;
    struct entry *entry = entry_at (collapse, 0);
    struct output_stream *first = entry->first;
    char ranks[LABEL_BYTES], line[LABEL_BYTES + OUTPUT_COLLAPSE_LINE_BYTES + 1];
    const char *prefix = entry->count > 1 ? ranks : first->prefix;
    if ((sink->owner && sink->owner != by) || !output_sink_end_foreign_line (sink, NULL))
        return false;
    if (entry->count > 1)
        label (collapse, entry, ranks);
    size_t length = strlen (prefix);
    memcpy (line, prefix, length);
    memcpy (line + length, entry->line, entry->length);
    line[length + entry->length] = '\n';
    uint64_t before = output_sink_position (sink);
    if (!output_sink_put_whole (sink, line, length + entry->length + 1))
        return false;
    if (entry->count == 1) {
        first->run_begin = first->run_end == before ? first->run_begin : before;
        first->run_end = output_sink_position (sink);
    }
    free (entry->line);
    entry->line = NULL;
    entry->count = 0;
    memset (entry->ranks, 0, collapse->words * sizeof *entry->ranks);
    collapse->begin = (collapse->begin + 1) % OUTPUT_COLLAPSE_LINES;
    collapse->count--;
    return true;
}

bool
output_collapse_pass_on (struct output_collapse *collapse, const struct output_stream *by, int64_t before_ms)
{
    while (collapse->count) {
        const struct entry *entry = entry_at (collapse, 0);
        if (entry->since_ms > before_ms && entry->count < collapse->ranks)
            return true;
        if (!pass_on_first (collapse, by))
            return false;
    }
    return true;
}

static uint64_t
hash (const char *line, size_t length)
{
    uint64_t value = UINT64_C (14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        value = (value ^ (unsigned char) line[i]) * UINT64_C (1099511628211);
    return value;
}

/* The first equal line after all that this rank has written. */
static struct entry *
find_equal (struct output_collapse *collapse, int rank, const char *line, size_t length, uint64_t value)
{
    struct entry *found = NULL;
    for (size_t i = collapse->count; i-- > 0;) {
        struct entry *entry = entry_at (collapse, i);
        if (has_rank (entry, rank))
            return found;
        if (entry->hash == value && entry->length == length && !memcmp (entry->line, line, length))
            found = entry;
    }
    return found;
}

bool
output_collapse_add (struct output_collapse *collapse, struct output_stream *stream, const char *line, size_t length)
{
    if (length > OUTPUT_COLLAPSE_LINE_BYTES || stream->burst > OUTPUT_COLLAPSE_BURST)
        return false;
    uint64_t value = hash (line, length);
    struct entry *entry = find_equal (collapse, stream->local_rank, line, length, value);
    if (!entry) {
        if (collapse->count == OUTPUT_COLLAPSE_LINES && !pass_on_first (collapse, stream))
            return false;
        char *copy = malloc (length + 1);
        if (!copy)
            return false;
        memcpy (copy, line, length);
        entry = entry_at (collapse, collapse->count++);
        entry->line = copy;
        entry->length = length;
        entry->hash = value;
        entry->since_ms = stream->read_ms;
        entry->first = stream;
    }
    add_rank (entry, stream->local_rank);
    return true;
}

int64_t
output_collapse_due (const struct output_collapse *collapse)
{
    return collapse->count ? collapse->entries[collapse->begin].since_ms + OUTPUT_COLLAPSE_MS : INT64_MAX;
}

uint64_t
output_collapse_left (const struct output_collapse *collapse)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < OUTPUT_COLLAPSE_LINES; i++)
        if (collapse->entries[i].line)
            bytes += collapse->entries[i].length + 1;
    return bytes;
}
