/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of a data set with random access: which samples, and reading them in place. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/loader_object.h"

#include <string.h>

static enum accel_status
fail_read (enum accel_status status, const struct accel_error *cause, struct accel_error *err, const char *what,
           long long index)
{
    return accel_fail (err, ACCEL_ERR_CALLBACK, "%s %lld failed: %s", what, index,
                       *cause->text ? cause->text : accel_status_string (status));
}

/* One call for each sample.  Little is done between two of them: the fewer instructions there are, the more samples a
 * processor fetches at once.  @return the number that were asked for; the last one failed if @p status is an error */
static inline __attribute__ ((always_inline)) size_t
read_each (struct accel_loader *loader, struct accel_batch *batch, size_t count, _Atomic int64_t *progress,
           enum accel_status *status, struct accel_error *cause)
{
    enum accel_status (*read) (void *, size_t, void *const *, struct accel_error *) = loader->dataset->read;
    void *user = loader->dataset->user, **into = batch->into;
    const size_t *bytes = batch->sample_bytes, first_bytes = bytes[0], fields = batch->field_count;
    const int64_t *index = batch->listed, *end = index + count;
    while (index < end && !*status && !(progress && loader->abandoned)) {
        if (progress)
            atomic_store_explicit (progress, *index, memory_order_relaxed);
        *status = read (user, (size_t) *index++, into, cause);
        into[0] = (char *) into[0] + first_bytes;
        for (size_t f = 1; f < fields; f++)
            into[f] = (char *) into[f] + bytes[f];
    }
    return (size_t) (index - batch->listed);
}

/* The samples that batch->listed names. */
static enum accel_status
read_samples (struct accel_loader *loader, struct accel_batch *batch, size_t count, _Atomic int64_t *progress,
              struct accel_error *err)
{
    const struct accel_dataset *dataset = loader->dataset;
    struct accel_error cause;
    enum accel_status status = ACCEL_OK;
    accel_error_clear (&cause);
    batch_aim (batch, 0);
    if (!dataset->read_many) {
        size_t asked = progress ? read_each (loader, batch, count, progress, &status, &cause)
                                : read_each (loader, batch, count, NULL, &status, &cause);
        return status ? fail_read (status, &cause, err, "reading sample", batch->listed[asked - 1]) : ACCEL_OK;
    }
    if (!count)
        return ACCEL_OK;
    if (progress)
        atomic_store_explicit (progress, batch->listed[0], memory_order_relaxed);
    status = dataset->read_many (dataset->user, batch->listed, count, batch->into, &cause);
    return status ? fail_read (status, &cause, err, "reading a batch from sample", batch->listed[0]) : ACCEL_OK;
}

/* A function of the program makes the batch; what it says about rows has to be true. */
static enum accel_status
collate (struct accel_loader *loader, struct accel_batch *batch, size_t count, _Atomic int64_t *progress,
         struct accel_error *err)
{
    struct accel_error cause;
    accel_error_clear (&cause);
    if (progress)
        atomic_store_explicit (progress, batch->listed[0], memory_order_relaxed);
    batch_expect_resize (batch);
    enum accel_status status
        = loader->options.collate (loader->options.collate_user, batch->listed, count, batch, &cause);
    if (status)
        return fail_read (status, &cause, err, "collating the batch from sample", batch->listed[0]);
    for (size_t i = 0; i < batch->field_count; i++) {
        if (!batch->resized[i])
            return accel_fail (err, ACCEL_ERR_CALLBACK,
                               "the collate function did not call accel_batch_resize for field '%s'",
                               batch->descriptions[i].name);
        if (batch->fields[i].dl.ndim && batch->fields[i].shape[0] != (int64_t) count)
            return accel_fail (err, ACCEL_ERR_CALLBACK,
                               "the collate function made %lld rows of field '%s' from %zu samples",
                               (long long) batch->fields[i].shape[0], batch->descriptions[i].name, count);
    }
    batch->size = count;
    return ACCEL_OK;
}

/* @p count samples of the order from @p first on, as those after the first @p done of the batch.  A batch that is one
 * piece of an order that is written down stays where it is. */
static void
list_piece (const struct accel_loader *loader, struct accel_batch *batch, size_t done, size_t first, size_t count,
            bool whole)
{
    const int64_t *order = loader->order.indices;
    batch->listed = whole && order ? order + first : batch->indices;
    if (order && !whole)
        memcpy (batch->indices + done, order + first, count * sizeof *batch->indices);
    for (size_t i = 0; i < count && !order; i++)
        batch->indices[done + i] = (int64_t) (first + i);
}

/* Where the program makes batches that vary, the shard counts these. */
static size_t
list_varying (const struct accel_loader *loader, size_t number, struct accel_batch *batch)
{
    size_t which = shard_position (&loader->share.shard, number, 0);
    size_t begin = which ? loader->order.ends[which - 1] : 0, count = loader->order.ends[which] - begin;
    list_piece (loader, batch, 0, begin, count, true);
    return count;
}

/* A batch is one piece of the order, but for repetitions at its end. */
static size_t
list_samples (const struct accel_loader *loader, size_t number, struct accel_batch *batch)
{
    const struct shard *shard = &loader->share.shard;
    size_t count = shard_batch_size (shard, number);
    for (size_t done = 0, piece = 0; done < count; done += piece) {
        piece = shard_run (shard, number, done);
        piece = piece < count - done ? piece : count - done;
        list_piece (loader, batch, done, shard_position (shard, number, done), piece, piece == count);
    }
    return count;
}

static bool
has_varying_batches (const struct accel_loader *loader)
{
    return loader->options.batch_sampler && !loader->options.batch_sampler->batch_size;
}

static enum accel_status
fill (void *user, size_t number, struct accel_batch *batch, bool *end, _Atomic int64_t *progress,
      struct accel_error *err)
{
    struct accel_loader *loader = user;
    (void) end;
    size_t count = has_varying_batches (loader) ? list_varying (loader, number, batch)
                                                : list_samples (loader, number, batch);
    if (loader->options.collate)
        return collate (loader, batch, count, progress, err);
    enum accel_status status = read_samples (loader, batch, count, progress, err);
    if (!status)
        batch_set_size (batch, count);
    return status;
}

static enum accel_status
read_first (struct accel_loader *loader, struct accel_batch *batch, size_t count, struct accel_error *err)
{
    if (count > loader->order.samples)
        count = loader->order.samples;
    if (!count)
        return ACCEL_OK;
    list_piece (loader, batch, 0, 0, count, true);
    if (loader->options.collate)
        return collate (loader, batch, count, NULL, err);
    enum accel_status status = read_samples (loader, batch, count, NULL, err);
    if (!status)
        batch_set_size (batch, count);
    return status;
}

static enum accel_status
begin (struct accel_loader *loader, struct accel_error *err)
{
    struct shard *shard = &loader->share.shard;
    enum accel_status status = pass_check_idle (loader, err);
    if (status)
        return status;
    status = drawing_make_order (loader, err);
    if (!status && loader->position.order && loader->position.order != traits_order (loader))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "epoch %llu cannot be continued: its order differs from the one in the checkpoint, because "
                           "the program's sampler, or what it draws from, has changed",
                           (unsigned long long) loader->position.epoch);
    shard->samples = has_varying_batches (loader) ? loader->order.batches : loader->order.samples;
    shard->start = loader->position.start;
    shard->even = share_is_even (loader);
    if (!status)
        pass_read (loader, 0, shard_length (shard));
    return status;
}

static enum accel_status
next (struct accel_loader *loader, const struct comm_site *site, struct handed *handed, struct accel_error *err)
{
    (void) site;
    return reader_next (loader->reader, &handed->batch, &handed->is_last, pass_timeout (loader), err);
}

/* Of the order, which is known before it is drawn. */
static size_t
count_samples (const struct accel_loader *loader)
{
    const struct accel_batch_sampler *batches = loader->options.batch_sampler;
    if (batches)
        return batches->batch_size ? batches->batch_size * batches->length : batches->length;
    drawing_shape_sampler (loader);
    return accel_sampler_length (loader->drawing.sampler);
}

static size_t
count_batches (const struct accel_loader *loader)
{
    struct shard whole = loader->share.shard;
    whole.start = 0;
    whole.even = share_is_even (loader);
    return shard_length (&whole);
}

static size_t
find_remainder (const struct accel_loader *loader)
{
    if (has_varying_batches (loader))
        return 0; /* whole batches are repeated, but their size is not known */
    return shard_remainder (&loader->share.shard);
}

static size_t
find_end (const struct accel_loader *loader)
{
    return loader->share.shard.samples;
}

/* The last round may be incomplete. */
static size_t
find_position (const struct accel_loader *loader)
{
    size_t position = loader->position.start + loader->pass.next * loader->share.round, end = find_end (loader);
    return position < end ? position : end;
}

const struct loader_source loader_map = {
    .name = "a data set",
    .deal = share_deal,
    .init = pass_make_reader,
    .begin = begin,
    .next = next,
    .length = count_batches,
    .remainder = find_remainder,
    .position = find_position,
    .end = find_end,
    .samples = count_samples,
    .read_first = read_first,
    .fill = fill,
};
