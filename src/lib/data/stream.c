/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of a stream.  Every process reads all of it and keeps its own: Accelerate's IterableDatasetShard
 * (accelerate, data_loader.py).  Only the first round is remembered, for the last one is filled up from it. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/loader_object.h"

#include <stdlib.h>

/* One pass, by one process. */
struct stream_cursor {
    size_t group;     /* samples of one round */
    size_t begin;     /* first of them that is this process's */
    size_t own;       /* how many are */
    bool pad;         /* fill the last round up with the first samples */
    size_t keep;      /* how many of the first samples are remembered for that, or for the dispatcher */
    struct accel_batch first;
    struct accel_batch scratch; /* of one sample, for what is others' */
    size_t taken;     /* samples read in this pass */
    size_t tail;      /* samples of an incomplete last round; 0: none so far */
    bool ended;       /* the stream said so, and is not asked again: it may have gone back to its beginning */
    bool interrupted; /* reading failed: the stream has to be started again to continue */
};

static enum accel_status
init (struct accel_loader *loader, struct accel *acc, struct accel_error *err)
{
    const struct shard *shard = &loader->share.shard;
    enum accel_status status = pass_make_reader (loader, acc, err);
    struct stream_cursor *cursor = loader->cursor = status ? NULL : calloc (1, sizeof *cursor);
    if (!cursor)
        return status ? status : accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to read a stream");
    cursor->own = shard->batch_size;
    cursor->group = cursor->own * shard->processes;
    cursor->begin = cursor->own * shard->process;
    cursor->pad = share_is_dealt (loader);
    if (loader->share.processes > 1 && !loader->options.drop_last) /* otherwise nothing is filled up */
        cursor->keep = cursor->pad ? cursor->group : loader->share.processes;
    if (cursor->keep)
        status = batch_init (&cursor->first, loader->fields, loader->field_count, cursor->keep, NULL, err);
    return status ? status : batch_init (&cursor->scratch, loader->fields, loader->field_count, 1, NULL, err);
}

static void
release (struct accel_loader *loader)
{
    struct stream_cursor *cursor = loader->cursor;
    if (!cursor || loader->abandoned)
        return;
    batch_release (&cursor->first);
    batch_release (&cursor->scratch);
    free (cursor);
    loader->cursor = NULL;
}

/* The next sample into row @row of @batch. */
static enum accel_status
take (struct accel_loader *loader, struct accel_batch *batch, size_t row, bool *end, struct accel_error *err)
{
    const struct accel_dataset *stream = loader->stream;
    struct stream_cursor *cursor = loader->cursor;
    struct accel_error cause = { 0 };
    struct accel_batch *target = cursor->taken < cursor->keep ? &cursor->first : batch;
    size_t at = cursor->taken < cursor->keep ? cursor->taken : row;
    batch_aim (target, at);
    *end = cursor->ended;
    if (*end)
        return ACCEL_OK;
    enum accel_status status = stream->next (stream->user, target->into, end, &cause);
    if (status)
        return accel_fail (err, ACCEL_ERR_CALLBACK, "reading sample %zu of the stream failed: %s", cursor->taken,
                           *cause.text ? cause.text : accel_status_string (status));
    cursor->ended = *end;
    if (*end)
        return ACCEL_OK;
    target->indices[at] = (int64_t) cursor->taken++;
    if (target != batch)
        batch_copy_row (batch, row, target, at);
    return ACCEL_OK;
}

/* Used samples are read once more if there is no other way to get past them, and as far as the last round may
 * be filled up from them. */
static enum accel_status
get_behind (struct accel_loader *loader, size_t start, struct accel_error *err)
{
    const struct accel_dataset *stream = loader->stream;
    struct stream_cursor *cursor = loader->cursor;
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

/* Start a pass after @p start samples. */
static enum accel_status
start_after (struct accel_loader *loader, size_t start, struct accel_error *err)
{
    const struct accel_dataset *stream = loader->stream;
    struct stream_cursor *cursor = loader->cursor;
    struct accel_error cause = { 0 };
    cursor->taken = cursor->tail = 0;
    cursor->ended = false;
    enum accel_status status = stream->start ? stream->start (stream->user, loader->position.epoch, &cause) : ACCEL_OK;
    if (status)
        return accel_fail (err, ACCEL_ERR_CALLBACK, "the stream could not start epoch %llu: %s",
                           (unsigned long long) loader->position.epoch,
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

static enum accel_status
fill (void *user, size_t number, struct accel_batch *batch, bool *end, _Atomic int64_t *progress,
      struct accel_error *err)
{
    struct accel_loader *loader = user;
    struct stream_cursor *cursor = loader->cursor;
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

static enum accel_status
begin (struct accel_loader *loader, struct accel_error *err)
{
    enum accel_status status = pass_check_idle (loader, err);
    loader->cursor->interrupted = false;
    if (status)
        return status;
    drawing_draw_base_seed (loader);
    status = start_after (loader, loader->position.start, err);
    if (!status)
        pass_read (loader, 0, SIZE_MAX);
    return status;
}

/* Continue after reading failed: after what was given out. */
static enum accel_status
start_again (struct accel_loader *loader, struct accel_error *err)
{
    struct reader *reader = loader->reader;
    if (!reader_stop (reader, pass_timeout (loader)))
        return accel_fail (err, ACCEL_ERR_TIMEOUT, "the data set is still reading a sample of an earlier attempt");
    size_t given = reader->next_out;
    enum accel_status status = start_after (loader, loader->position.start + given * loader->cursor->group, err);
    if (!status)
        pass_read (loader, given, SIZE_MAX);
    return status;
}

static enum accel_status
next (struct accel_loader *loader, const struct comm_site *site, struct handed *handed, struct accel_error *err)
{
    struct stream_cursor *cursor = loader->cursor;
    enum accel_status status = cursor->interrupted ? start_again (loader, err) : ACCEL_OK;
    (void) site;
    handed->batch = NULL;
    if (!status)
        status = reader_next (loader->reader, &handed->batch, &handed->is_last, pass_timeout (loader), err);
    cursor->interrupted = status && loader->stream->start && !loader->reader->broken;
    if (!status && handed->batch && handed->is_last)
        handed->remainder = cursor->tail;
    return status;
}

/* What the first round proves to have been read; a thread may be reading on. */
static enum accel_status
read_first (struct accel_loader *loader, struct accel_batch *batch, size_t count, struct accel_error *err)
{
    (void) err;
    for (size_t row = 0; row < count; row++)
        batch_copy_row (batch, row, &loader->cursor->first, row);
    batch_set_size (batch, count);
    return ACCEL_OK;
}

static size_t
count_samples (const struct accel_loader *loader)
{
    return loader->stream->size ? loader->samples : ACCEL_LENGTH_UNKNOWN;
}

static size_t
count_batches (const struct accel_loader *loader)
{
    return share_count_rounds (loader, count_samples (loader));
}

static size_t
find_remainder (const struct accel_loader *loader)
{
    return loader->position.remainder;
}

static size_t
find_position (const struct accel_loader *loader)
{
    return loader->position.start + loader->pass.next * loader->share.round;
}

static size_t
find_end (const struct accel_loader *loader)
{
    (void) loader;
    return SIZE_MAX;
}

const struct loader_source loader_stream = {
    .name = "a stream",
    .is_dispatched = true,
    .deal = share_deal,
    .init = init,
    .release = release,
    .begin = begin,
    .next = next,
    .length = count_batches,
    .remainder = find_remainder,
    .position = find_position,
    .end = find_end,
    .samples = count_samples,
    .read_first = read_first,
    .fill = fill,
    .is_serial = true,
};
