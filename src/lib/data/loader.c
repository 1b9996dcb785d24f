/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders: an epoch's order, this process's share of it, and batches that the data set fills in place. */
#include <config.h>

#include "lib/data/loader.h"

#include "lib/data/generator.h"
#include "lib/data/shard.h"
#include "lib/error.h"
#include "lib/object.h"
#include "lib/state/state_private.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

struct accel_batch {
    size_t size;
    size_t field_count;
    const struct accel_field *descriptions; /* the data set's */
    struct accel_tensor *fields;            /* [field_count]; memory for the largest batch, allocated once */
    size_t *sample_bytes;                   /* [field_count] */
    void **into;                            /* [field_count]: where the current sample goes */
    int64_t *indices;
};

struct accel_loader {
    struct object object;
    const struct accel_dataset *dataset;
    struct accel_loader_options options;
    struct shard shard;
    struct accel_generator generator;
    int64_t *order; /* [dataset->size] of the running epoch; NULL: as they come */
    uint64_t epoch;
    size_t next;    /* batch of the epoch */
    bool running;   /* between the first batch and the end */
    bool at_end;    /* the batch returned last was the epoch's last */
    struct accel_loader *outer; /* whose loop we run in, if any */
    struct accel_batch batch;
};

static enum accel_status
check_field (const struct accel_field *field, size_t index, struct accel_error *err)
{
    if (!field->name || !*field->name)
        return accel_fail (err, ACCEL_ERR_INVALID, "field %zu of the data set has no name", index);
    if (field->ndim < 0 || field->ndim >= ACCEL_MAX_DIMS)
        return accel_fail (err, ACCEL_ERR_INVALID, "field '%s' has %d dimensions; 0 to %d are possible", field->name,
                           field->ndim, ACCEL_MAX_DIMS - 1);
    struct accel_tensor sample;
    enum accel_status status = accel_tensor_init (&sample, field->dtype, field->ndim, field->shape, err);
    return status ? accel_fail_in (err, status, "field '%s'", field->name) : ACCEL_OK;
}

static enum accel_status
check_dataset (const struct accel_dataset *dataset, struct accel_error *err)
{
    if (!dataset || !dataset->read)
        return accel_fail (err, ACCEL_ERR_INVALID, "a loader needs a data set with a read function");
    if (!dataset->field_count || !dataset->fields)
        return accel_fail (err, ACCEL_ERR_INVALID, "the data set has no fields");
    for (size_t i = 0; i < dataset->field_count; i++) {
        enum accel_status status = check_field (&dataset->fields[i], i, err);
        if (status)
            return status;
        for (size_t j = 0; j < i; j++)
            if (!strcmp (dataset->fields[i].name, dataset->fields[j].name))
                return accel_fail (err, ACCEL_ERR_INVALID, "two fields of the data set are named '%s'",
                                   dataset->fields[i].name);
    }
    return ACCEL_OK;
}

/* Memory for one field of a batch of @p size samples. */
static enum accel_status
make_field (struct accel_batch *batch, size_t index, size_t size, struct accel_error *err)
{
    const struct accel_field *field = &batch->descriptions[index];
    struct accel_tensor *tensor = &batch->fields[index];
    int64_t shape[ACCEL_MAX_DIMS] = { (int64_t) size };
    memcpy (shape + 1, field->shape, (size_t) field->ndim * sizeof *shape);
    enum accel_status status = accel_tensor_init (tensor, field->dtype, field->ndim + 1, shape, err);
    if (status)
        return accel_fail_in (err, status, "a batch of %zu samples of field '%s'", size, field->name);
    size_t bytes = accel_tensor_count (&tensor->dl) * accel_dtype_bytes (field->dtype);
    batch->sample_bytes[index] = size ? bytes / size : 0;
    size_t rounded = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    if (rounded > bytes)
        tensor->dl.data = aligned_alloc (ALIGNMENT, rounded);
    if (!tensor->dl.data)
        return accel_fail (err, ACCEL_ERR_NOMEM, "no memory for a batch of %zu samples of field '%s' (%zu bytes)", size,
                           field->name, bytes);
    tensor->owned_bytes = rounded;
    return ACCEL_OK;
}

static enum accel_status
make_batch (struct accel_loader *loader, struct accel_error *err)
{
    struct accel_batch *batch = &loader->batch;
    const struct accel_dataset *dataset = loader->dataset;
    size_t size = loader->options.batch_size;
    batch->field_count = dataset->field_count;
    batch->descriptions = dataset->fields;
    batch->fields = calloc (dataset->field_count, sizeof *batch->fields);
    batch->sample_bytes = calloc (dataset->field_count, sizeof *batch->sample_bytes);
    batch->into = calloc (dataset->field_count, sizeof *batch->into);
    if (!batch->fields || !batch->sample_bytes || !batch->into)
        return accel_fail (err, ACCEL_ERR_NOMEM, "no memory for a batch of %zu samples", size);
    for (size_t i = 0; i < dataset->field_count; i++) {
        enum accel_status status = make_field (batch, i, size, err);
        if (status)
            return status;
    }
    /* Last, so that sizes which no memory holds are found before so much is asked for. */
    batch->indices = calloc (size, sizeof *batch->indices);
    return batch->indices ? ACCEL_OK
                          : accel_fail (err, ACCEL_ERR_NOMEM, "no memory for a batch of %zu samples", size);
}

static void
release_batch (struct accel_batch *batch)
{
    for (size_t i = 0; batch->fields && i < batch->field_count; i++)
        accel_tensor_release (&batch->fields[i]);
    free (batch->fields);
    free (batch->sample_bytes);
    free (batch->into);
    free (batch->indices);
}

enum accel_status
accel_loader_create (struct accel_loader **loader, const struct accel_dataset *dataset,
                     const struct accel_loader_options *options, struct accel_error *err)
{
    if (!loader)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: loader is NULL", __func__);
    *loader = NULL;
    enum accel_status status = check_dataset (dataset, err);
    if (!status && options && options->batch_size > PTRDIFF_MAX / sizeof *(*loader)->batch.indices)
        status = accel_fail (err, ACCEL_ERR_INVALID, "a batch of %zu samples is more than any memory has",
                             options->batch_size);
    if (status)
        return status;
    struct accel_loader *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "no memory for a loader");
    made->object = (struct object) OBJECT_INIT (OBJECT_LOADER);
    made->dataset = dataset;
    if (options)
        made->options = *options;
    if (!made->options.batch_size)
        made->options.batch_size = 1;
    made->shard = (struct shard){
        .samples = dataset->size,
        .batch_size = made->options.batch_size,
        .processes = 1,
        .drop_last = made->options.drop_last,
        .even = !made->options.uneven,
    };
    status = make_batch (made, err);
    if (!status && made->options.shuffle && dataset->size) {
        made->order = reallocarray (NULL, dataset->size, sizeof *made->order);
        if (!made->order)
            status = accel_fail (err, ACCEL_ERR_NOMEM, "no memory for an order of %zu samples", dataset->size);
    }
    if (status)
        goto error;
    *loader = made;
    return ACCEL_OK;
error:
    accel_loader_destroy (made);
    return status;
}

/* Leave the chain of running loaders, wherever in it we are: loops can be left in any order. */
static void
leave (struct accel_loader *loader, struct accel *acc)
{
    struct accel_loader *inner = state_active_loader (acc);
    if (inner == loader)
        state_set_active_loader (acc, loader->outer);
    while (inner && inner->outer != loader)
        inner = inner->outer;
    if (inner)
        inner->outer = loader->outer;
    loader->outer = NULL;
}

static void
stop (struct accel_loader *loader)
{
    if (loader->running && loader->object.owner)
        leave (loader, loader->object.owner);
    loader->running = false;
    loader->at_end = false;
    loader->next = 0;
}

void
accel_loader_destroy (struct accel_loader *loader)
{
    if (!loader)
        return;
    stop (loader);
    release_batch (&loader->batch);
    free (loader->order);
    free (loader);
}

/* The original's seedable sampler: the generator starts anew for each epoch, from seed + epoch. */
static void
start (struct accel_loader *loader)
{
    if (loader->order) {
        generator_init (&loader->generator, loader->options.seed + loader->epoch);
        accel_generator_permutation (&loader->generator, loader->order, loader->dataset->size);
    }
    loader->running = true;
    if (loader->object.owner) {
        loader->outer = state_active_loader (loader->object.owner);
        state_set_active_loader (loader->object.owner, loader);
    }
}

static enum accel_status
fill (struct accel_loader *loader, struct accel_error *err)
{
    struct accel_batch *batch = &loader->batch;
    const struct accel_dataset *dataset = loader->dataset;
    batch->size = shard_batch_size (&loader->shard, loader->next);
    for (size_t i = 0; i < batch->size; i++) {
        size_t position = shard_position (&loader->shard, loader->next, i);
        size_t index = loader->order ? (size_t) loader->order[position] : position;
        batch->indices[i] = (int64_t) index;
        for (size_t j = 0; j < batch->field_count; j++)
            batch->into[j] = (char *) batch->fields[j].dl.data + i * batch->sample_bytes[j];
        struct accel_error cause = { 0 };
        enum accel_status status = dataset->read (dataset->user, index, batch->into, &cause);
        if (status)
            return accel_fail (err, ACCEL_ERR_CALLBACK, "reading sample %zu failed: %s", index,
                               *cause.text ? cause.text : accel_status_string (status));
    }
    for (size_t j = 0; j < batch->field_count; j++)
        batch->fields[j].shape[0] = (int64_t) batch->size;
    return ACCEL_OK;
}

bool
accel_loader_next (struct accel_loader *loader, const struct accel_batch **batch, struct accel_error *err)
{
    if (batch)
        *batch = NULL;
    if (!loader || !batch) {
        accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__, loader ? "batch" : "loader");
        return false;
    }
    if (err)
        err->code = ACCEL_OK;
    size_t length = shard_length (&loader->shard);
    if (loader->next >= length) {
        /* An epoch without batches is none: the original does not count it either. */
        loader->epoch += loader->running;
        stop (loader);
        return false;
    }
    if (!loader->running)
        start (loader);
    if (fill (loader, err))
        return false;
    loader->next++;
    loader->at_end = loader->next == length;
    *batch = &loader->batch;
    return true;
}

void
accel_loader_end (struct accel_loader *loader)
{
    loader->epoch += loader->running;
    stop (loader);
}

void
accel_loader_set_epoch (struct accel_loader *loader, uint64_t epoch)
{
    stop (loader);
    loader->epoch = epoch;
}

size_t
accel_loader_length (const struct accel_loader *loader)
{
    return shard_length (&loader->shard);
}

bool
accel_loader_end_of_dataloader (const struct accel_loader *loader)
{
    return loader->at_end;
}

size_t
accel_loader_remainder (const struct accel_loader *loader)
{
    return shard_remainder (&loader->shard);
}

size_t
accel_batch_size (const struct accel_batch *batch)
{
    return batch->size;
}

const DLTensor *
accel_batch_tensor (const struct accel_batch *batch, const char *name)
{
    for (size_t i = 0; i < batch->field_count; i++)
        if (!strcmp (batch->descriptions[i].name, name))
            return &batch->fields[i].dl;
    return NULL;
}

const int64_t *
accel_batch_indices (const struct accel_batch *batch)
{
    return batch->indices;
}

enum accel_status
loader_prepare (struct accel_loader *loader, struct accel *acc, struct accel_error *err)
{
    if (loader->running)
        return accel_fail (err, ACCEL_ERR_INVALID, "a loader cannot be prepared in the middle of an epoch");
    size_t processes = (size_t) accel_num_processes (acc), all;
    if (__builtin_mul_overflow (processes, loader->options.batch_size, &all))
        return accel_fail (err, ACCEL_ERR_INVALID, "%zu samples for each of %zu processes are too many to count",
                           loader->options.batch_size, processes);
    loader->shard.processes = processes;
    loader->shard.process = (size_t) accel_process_index (acc);
    loader->object.owner = acc;
    return ACCEL_OK;
}
