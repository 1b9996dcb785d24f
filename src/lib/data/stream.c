/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of a stream.  Every process reads all of it and keeps its own: the original's IterableDatasetShard
 * (accelerate, data_loader.py).  Only the first round is remembered, for the last one is filled up from it. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/loader_object.h"

#include <string.h>

enum accel_status
stream_init (struct accel_loader *loader, struct accel_error *err)
{
    struct stream_cursor *cursor = &loader->cursor;
    cursor->own = loader->shard.batch_size;
    cursor->group = cursor->own * (loader->dispatching ? 1 : loader->processes);
    cursor->begin = loader->dispatching ? 0 : cursor->own * loader->process;
    cursor->pad = loader->processes > 1 && !loader->dispatching;
    cursor->keep = loader->dispatching ? loader->processes : cursor->pad ? cursor->group : 0;
    enum accel_status status = ACCEL_OK;
    if (loader->options.drop_last)
        cursor->keep = 0; /* nothing is filled up */
    if (cursor->keep)
        status = batch_init (&cursor->first, loader->fields, loader->field_count, cursor->keep, NULL, err);
    return status ? status : batch_init (&cursor->scratch, loader->fields, loader->field_count, 1, NULL, err);
}

void
stream_release (struct accel_loader *loader)
{
    batch_release (&loader->cursor.first);
    batch_release (&loader->cursor.scratch);
}

/* The next sample into row @row of @batch. */
static enum accel_status
take (struct accel_loader *loader, struct accel_batch *batch, size_t row, bool *end, struct accel_error *err)
{
    const struct accel_stream *stream = loader->stream;
    struct stream_cursor *cursor = &loader->cursor;
    struct accel_error cause = { 0 };
    struct accel_batch *target = cursor->taken < cursor->keep ? &cursor->first : batch;
    size_t at = cursor->taken < cursor->keep ? cursor->taken : row;
    batch_aim (target, at);
    *end = false;
    enum accel_status status = stream->next (stream->user, target->into, end, &cause);
    if (status)
        return accel_fail (err, ACCEL_ERR_CALLBACK, "reading sample %zu of the stream failed: %s", cursor->taken,
                           *cause.text ? cause.text : accel_status_string (status));
    if (*end)
        return ACCEL_OK;
    target->indices[at] = (int64_t) cursor->taken++;
    if (target != batch)
        batch_copy_row (batch, row, target, at);
    return ACCEL_OK;
}

/* What was done with before is read once more where nobody knows how to get behind it, and as far as the last round may
 * be filled up from it. */
static enum accel_status
get_behind (struct accel_loader *loader, size_t start, struct accel_error *err)
{
    const struct accel_stream *stream = loader->stream;
    struct stream_cursor *cursor = &loader->cursor;
    size_t to_read = stream->skip && cursor->keep < start ? cursor->keep : start;
    struct accel_error cause = { 0 };
    enum accel_status status = ACCEL_OK;
    bool end = false;
    while (!status && !end && cursor->taken < to_read)
        status = take (loader, &cursor->scratch, 0, &end, err);
    if (status || end || to_read == start)
        return status;
    status = stream->skip (stream->user, start - to_read, &cause);
    if (status)
        return accel_fail (err, ACCEL_ERR_CALLBACK, "the stream could not skip %zu samples from sample %zu on: %s",
                           start - to_read, to_read, *cause.text ? cause.text : accel_status_string (status));
    cursor->taken = start;
    return ACCEL_OK;
}

enum accel_status
stream_start (struct accel_loader *loader, size_t start, struct accel_error *err)
{
    const struct accel_stream *stream = loader->stream;
    struct stream_cursor *cursor = &loader->cursor;
    struct accel_error cause = { 0 };
    cursor->taken = cursor->tail = 0;
    enum accel_status status = stream->start ? stream->start (stream->user, loader->epoch, &cause) : ACCEL_OK;
    if (status)
        return accel_fail (err, ACCEL_ERR_CALLBACK, "the stream could not start epoch %llu: %s",
                           (unsigned long long) loader->epoch,
                           *cause.text ? cause.text : accel_status_string (status));
    return get_behind (loader, start, err);
}

/* Samples that the last round lacks come from the front of the stream, again and again. */
static void
fill_up (struct stream_cursor *cursor, struct accel_batch *batch, size_t got)
{
    size_t known = cursor->taken < cursor->keep ? cursor->taken : cursor->keep;
    for (size_t row = 0; row < cursor->own; row++)
        if (cursor->begin + row >= got)
            batch_copy_row (batch, row, &cursor->first, (cursor->begin + row - got) % known);
}

enum accel_status
stream_fill (void *user, size_t number, struct accel_batch *batch, bool *end, _Atomic int64_t *progress,
             struct accel_error *err)
{
    struct accel_loader *loader = user;
    struct stream_cursor *cursor = &loader->cursor;
    size_t got = 0, rows = cursor->own;
    (void) number;
    for (bool over = false; got < cursor->group && !loader->abandoned; got++) {
        bool is_own = got >= cursor->begin && got - cursor->begin < cursor->own;
        if (progress)
            atomic_store_explicit (progress, (int64_t) cursor->taken, memory_order_relaxed);
        enum accel_status status = take (loader, is_own ? batch : &cursor->scratch, is_own ? got - cursor->begin : 0,
                                         &over, err);
        if (status)
            return status;
        if (over)
            break;
    }
    *end = !got || (got < cursor->group && loader->options.drop_last);
    if (*end || got == cursor->group) {
        batch_set_size (batch, *end ? 0 : rows);
        return ACCEL_OK;
    }
    if (cursor->pad)
        fill_up (cursor, batch, got);
    else
        rows = got;
    cursor->tail = got;
    batch_set_size (batch, rows);
    return ACCEL_OK;
}
