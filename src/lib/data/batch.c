/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of batches, and what programs ask of one; see batch.h. */
#include <config.h>

#include "lib/data/batch.h"

#include "lib/base/error.h"
#include "lib/memory/memory.h"
#include "util/memory.h"
#include "util/suggest.h"

#include <accel/comm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum accel_status
batch_check_field (struct accel_tensor *sample, const struct accel_field *field, const struct accel_field *before,
                   size_t index, struct accel_error *err)
{
    if (!field->name || !*field->name)
        return accel_fail (err, ACCEL_ERR_INVALID, "field %zu of the data set has no name", index);
    if (field->ndim < 0 || field->ndim >= ACCEL_MAX_DIMS)
        return accel_fail (err, ACCEL_ERR_INVALID, "field '%s' has %d dimensions; expected 0 to %d", field->name,
                           field->ndim, ACCEL_MAX_DIMS - 1);
    enum accel_status status = accel_tensor_init (sample, field->dtype, field->ndim, field->shape, err);
    if (status)
        return accel_fail_in (err, status, "field '%s'", field->name);
    for (size_t i = 0; i < index; i++)
        if (!strcmp (before[i].name, field->name))
            return accel_fail (err, ACCEL_ERR_INVALID, "two fields of the data set are named '%s'", field->name);
    return ACCEL_OK;
}

enum accel_status
batch_check_fields (const struct accel_field *fields, size_t count, struct accel_error *err)
{
    if (!count || !fields)
        return accel_fail (err, ACCEL_ERR_INVALID, "the data set has no fields");
    struct accel_tensor sample;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = batch_check_field (&sample, &fields[i], fields, i, err);
    return status;
}

static void
free_memory (struct accel_batch *batch, struct accel_tensor *tensor)
{
    const struct batch_home *home = &batch->home;
    if (home->pins)
        home->pins->copy_streams->unpin (home->device, tensor->dl.data);
    else if (tensor->owned_bytes)
        free (tensor->dl.data);
    else if (tensor->dl.data)
        accel_free (home->acc, tensor->dl.data);
}

/* Pinned memory is scarce, and a GPU may have failed before. */
static enum accel_status
fail_memory (const struct accel_batch *batch, size_t index, size_t bytes, struct accel_error *err)
{
    const struct batch_home *home = &batch->home;
    return memory_fail (home->device, err, "cannot allocate %smemory for a batch of field '%s' (%zu bytes)",
                        home->pins ? "pinned " : "", batch->descriptions[index].name, bytes);
}

/* accel_alloc()'s share may be used up: then the memory is ordinary, which owned_bytes tells. */
static enum accel_status
give_memory (struct accel_batch *batch, size_t index, size_t bytes, struct accel_error *err)
{
    struct accel_tensor *tensor = &batch->fields[index];
    const struct batch_home *home = &batch->home;
    void *memory = NULL;
    bool shared = home->acc && !accel_alloc (home->acc, bytes ? bytes : 1, &memory, NULL);
    if (!shared)
        memory = home->pins ? home->pins->copy_streams->pin (home->device, bytes) : memory_create (bytes);
    if (!memory)
        return fail_memory (batch, index, bytes, err);
    free_memory (batch, tensor);
    tensor->dl.data = memory;
    tensor->owned_bytes = shared ? 0 : bytes + 1;
    batch->room_bytes[index] = bytes;
    return ACCEL_OK;
}

/* Memory for one field of a batch. */
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
    status = give_memory (batch, index, bytes, err);
    return status ? accel_fail_in (err, status, "a batch of %zu samples", size) : ACCEL_OK;
}

enum accel_status
batch_init (struct accel_batch *batch, const struct accel_field *fields, size_t count, size_t capacity,
            const struct batch_home *home, struct accel_error *err)
{
    *batch = (struct accel_batch){ .field_count = count, .descriptions = fields, .capacity = capacity };
    batch->home = home ? *home : (struct batch_home){ .device = { .device_type = kDLCPU } };
    batch->fields = calloc (count, sizeof *batch->fields);
    batch->room_bytes = calloc (count, sizeof *batch->room_bytes);
    batch->sample_bytes = calloc (count, sizeof *batch->sample_bytes);
    batch->into = calloc (count, sizeof *batch->into);
    batch->resized = calloc (count, sizeof *batch->resized);
    enum accel_status status = ACCEL_OK;
    if (!batch->fields || !batch->room_bytes || !batch->sample_bytes || !batch->into || !batch->resized)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a batch of %zu samples", capacity);
    for (size_t i = 0; i < count && !status; i++)
        status = make_field (batch, i, capacity, err);
    /* Last, so that sizes which no memory holds are found before so much is asked for. */
    if (!status && !(batch->indices = calloc (capacity + 1, sizeof *batch->indices)))
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a batch of %zu samples", capacity);
    batch->listed = batch->indices;
    if (status)
        batch_release (batch);
    return status;
}

void
batch_release (struct accel_batch *batch)
{
    for (size_t i = 0; batch->fields && i < batch->field_count; i++)
        free_memory (batch, &batch->fields[i]);
    free (batch->fields);
    free (batch->room_bytes);
    free (batch->sample_bytes);
    free (batch->into);
    free (batch->resized);
    free (batch->indices);
    *batch = (struct accel_batch){ 0 };
}

void
batch_aim (struct accel_batch *batch, size_t row)
{
    for (size_t i = 0; i < batch->field_count; i++)
        batch->into[i] = (char *) batch->fields[i].dl.data + row * batch->sample_bytes[i];
}

void
batch_copy_row (struct accel_batch *batch, size_t row, const struct accel_batch *source, size_t from)
{
    for (size_t i = 0; i < batch->field_count; i++)
        if (batch->sample_bytes[i])
            memcpy ((char *) batch->fields[i].dl.data + row * batch->sample_bytes[i],
                    (const char *) source->fields[i].dl.data + from * source->sample_bytes[i], batch->sample_bytes[i]);
    batch->indices[row] = source->listed[from];
}

void
batch_expect_resize (struct accel_batch *batch)
{
    memset (batch->resized, 0, batch->field_count * sizeof *batch->resized);
}

void
batch_set_size (struct accel_batch *batch, size_t size)
{
    batch->size = size;
    for (size_t i = 0; i < batch->field_count; i++)
        batch->fields[i].shape[0] = (int64_t) size;
}

size_t
accel_batch_size (const struct accel_batch *batch)
{
    return batch ? batch->size : 0;
}

static bool
find_field (const struct accel_batch *batch, const char *name, size_t *index)
{
    for (size_t i = 0; i < batch->field_count; i++)
        if (!strcmp (batch->descriptions[i].name, name)) {
            *index = i;
            return true;
        }
    return false;
}

const DLTensor *
accel_batch_tensor (const struct accel_batch *batch, const char *name)
{
    size_t index;
    return batch && name && find_field (batch, name, &index) ? &batch->fields[index].dl : NULL;
}

static enum accel_status
fail_invalid_batch (struct accel_error *err, const char *function)
{
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "%s: the batch is no longer valid: its loader was prepared, released or closed", function);
}

/* "did you mean", or all names if none is near. */
static enum accel_status
fail_no_field (const struct accel_batch *batch, const char *name, struct accel_error *err)
{
    struct suggest suggest = { .wanted = name };
    char near[ACCEL_ERROR_TEXT_SIZE], all[ACCEL_ERROR_TEXT_SIZE] = "";
    for (size_t i = 0, length = 0; i < batch->field_count; i++) {
        suggest_consider (&suggest, batch->descriptions[i].name);
        if (length < sizeof all)
            length += (size_t) snprintf (all + length, sizeof all - length, "%s'%s'", i ? ", " : "",
                                         batch->descriptions[i].name);
    }
    suggest_text (&suggest, "", near, sizeof near);
    return accel_fail (err, ACCEL_ERR_INVALID, "the batch has no field '%s'%s%s%s", name,
                       suggest.best ? near : " (its fields: ", suggest.best ? "" : all, suggest.best ? "" : ")");
}

enum accel_status
accel_batch_data (const struct accel_batch *batch, const char *name, enum accel_dtype dtype, void **data,
                  struct accel_error *err)
{
    size_t index;
    if (!batch || !name || !data)
        return accel_fail_null (err, __func__, !batch ? "batch" : name ? "data" : "name");
    if (!batch->field_count)
        return fail_invalid_batch (err, __func__);
    if (!find_field (batch, name, &index))
        return fail_no_field (batch, name, err);
    enum accel_dtype own = batch->descriptions[index].dtype;
    if (own != dtype)
        return accel_fail (err, ACCEL_ERR_INVALID, "field '%s' is %s, not %s", name, accel_dtype_name (own),
                           accel_dtype_name (dtype));
    *data = batch->fields[index].dl.data;
    return ACCEL_OK;
}

enum accel_status
accel_batch_tree (struct accel_tree **tree, const struct accel_batch *batch, struct accel_error *err)
{
    if (tree)
        *tree = NULL;
    if (!tree || !batch)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__, tree ? "batch" : "tree");
    if (!batch->field_count)
        return fail_invalid_batch (err, __func__);
    struct accel_tree *dict, *leaf = NULL;
    enum accel_status status = accel_tree_create (&dict, ACCEL_TREE_DICT, err);
    if (status)
        return status;
    for (size_t i = 0; i < batch->field_count && !status; i++) {
        status = accel_tree_borrow_tensor (&leaf, &batch->fields[i].dl, err);
        if (!status)
            status = accel_tree_set (dict, batch->descriptions[i].name, leaf, err);
        if (status)
            accel_tree_destroy (leaf);
    }
    if (status)
        accel_tree_destroy (dict);
    else
        *tree = dict;
    return status;
}

const int64_t *
accel_batch_indices (const struct accel_batch *batch)
{
    return batch ? batch->listed : NULL;
}

enum accel_status
accel_batch_resize (struct accel_batch *batch, const char *name, int ndim, const int64_t *shape, void **memory,
                    struct accel_error *err)
{
    size_t index = 0;
    if (!batch || !name || !memory)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__,
                           !batch ? "batch" : !name ? "name" : "memory");
    if (!find_field (batch, name, &index))
        return accel_fail (err, ACCEL_ERR_INVALID, "the data set has no field '%s'", name);
    struct accel_tensor *tensor = &batch->fields[index], described;
    enum accel_status status = accel_tensor_init (&described, batch->descriptions[index].dtype, ndim, shape, err);
    if (status)
        return accel_fail_in (err, status, "field '%s'", name);
    size_t bytes = accel_tensor_count (&described.dl) * accel_dtype_bytes (batch->descriptions[index].dtype);
    if (bytes > batch->room_bytes[index])
        status = give_memory (batch, index, bytes, err);
    if (status)
        return status;
    memcpy (tensor->shape, described.shape, sizeof tensor->shape);
    tensor->dl.ndim = ndim;
    batch->resized[index] = true;
    *memory = tensor->dl.data;
    return ACCEL_OK;
}
