/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of a data set with random access: which samples, and reading them in place. */
#include <config.h>

#include "lib/data/loader_object.h"
#include "lib/error.h"

#include <string.h>

static enum accel_status
fail_read (enum accel_status status, const struct accel_error *cause, struct accel_error *err, const char *what,
           long long index)
{
    return accel_fail (err, ACCEL_ERR_CALLBACK, "%s %lld failed: %s", what, index,
                       *cause->text ? cause->text : accel_status_string (status));
}

/* The samples that batch->indices names. */
static enum accel_status
read_samples (struct accel_loader *loader, struct accel_batch *batch, size_t count, _Atomic int64_t *progress,
              struct accel_error *err)
{
    const struct accel_dataset *dataset = loader->dataset;
    struct accel_error cause = { 0 };
    enum accel_status status = ACCEL_OK;
    size_t i = 0;
    if (count)
        atomic_store_explicit (progress, batch->indices[0], memory_order_relaxed);
    if (dataset->read_many && count) {
        batch_aim (batch, 0);
        status = dataset->read_many (dataset->user, batch->indices, count, batch->into, &cause);
        return status ? fail_read (status, &cause, err, "reading a batch from sample", batch->indices[0]) : ACCEL_OK;
    }
    batch_aim (batch, 0);
    for (; i < count && !status && !loader->abandoned; i++) {
        atomic_store_explicit (progress, batch->indices[i], memory_order_relaxed);
        status = dataset->read (dataset->user, (size_t) batch->indices[i], batch->into, &cause);
        for (size_t f = 0; f < batch->field_count; f++) /* on to the next row */
            batch->into[f] = (char *) batch->into[f] + batch->sample_bytes[f];
    }
    return status ? fail_read (status, &cause, err, "reading sample", batch->indices[i - 1]) : ACCEL_OK;
}

/* A function of the program makes the batch; what it says about rows has to be true. */
static enum accel_status
collate (struct accel_loader *loader, struct accel_batch *batch, size_t count, _Atomic int64_t *progress,
         struct accel_error *err)
{
    struct accel_error cause = { 0 };
    atomic_store_explicit (progress, batch->indices[0], memory_order_relaxed);
    enum accel_status status
        = loader->options.collate (loader->options.collate_user, batch->indices, count, batch, &cause);
    if (status)
        return fail_read (status, &cause, err, "collating the batch from sample", batch->indices[0]);
    for (size_t i = 0; i < batch->field_count; i++)
        if (batch->fields[i].dl.ndim && batch->fields[i].shape[0] != (int64_t) count)
            return accel_fail (err, ACCEL_ERR_CALLBACK,
                               "the collate function made %lld rows of field '%s' from %zu samples",
                               (long long) batch->fields[i].shape[0], batch->descriptions[i].name, count);
    batch->size = count;
    return ACCEL_OK;
}

/* Where the program makes batches that vary, the shard counts these. */
static size_t
list_varying (const struct accel_loader *loader, size_t number, struct accel_batch *batch)
{
    size_t which = shard_position (&loader->shard, number, 0);
    size_t begin = which ? loader->order.ends[which - 1] : 0, end = loader->order.ends[which];
    for (size_t i = begin; i < end; i++)
        batch->indices[i - begin] = (int64_t) order_index (&loader->order, i);
    return end - begin;
}

/* A batch is one piece of the order, but for repetitions at its end. */
static size_t
list_samples (const struct accel_loader *loader, size_t number, struct accel_batch *batch)
{
    const struct shard *shard = &loader->shard;
    size_t count = shard_batch_size (shard, number), done = 0;
    while (done < count) {
        size_t first = shard_position (shard, number, done), piece = shard_run (shard, number, done);
        piece = piece < count - done ? piece : count - done;
        if (loader->order.indices)
            memcpy (batch->indices + done, loader->order.indices + first, piece * sizeof *batch->indices);
        for (size_t i = 0; i < piece && !loader->order.indices; i++)
            batch->indices[done + i] = (int64_t) (first + i);
        done += piece;
    }
    return count;
}

static bool
has_varying_batches (const struct accel_loader *loader)
{
    return loader->options.batch_sampler && !loader->options.batch_sampler->batch_size;
}

enum accel_status
map_fill (void *user, size_t number, struct accel_batch *batch, bool *end, _Atomic int64_t *progress,
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

enum accel_status
map_read_first (struct accel_loader *loader, struct accel_batch *batch, size_t count, struct accel_error *err)
{
    _Atomic int64_t progress;
    if (count > loader->order.samples)
        count = loader->order.samples;
    for (size_t i = 0; i < count; i++)
        batch->indices[i] = (int64_t) order_index (&loader->order, i);
    if (loader->options.collate)
        return collate (loader, batch, count, &progress, err);
    enum accel_status status = read_samples (loader, batch, count, &progress, err);
    if (!status)
        batch_set_size (batch, count);
    return status;
}
