/* SPDX-License-Identifier: Apache-2.0 */
/* Writing safetensors files: the public side of files/safetensors_writer.h. */
#include <config.h>

#include <accel/safetensors.h>

#include "files/safetensors_writer.h"
#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/formats/safetensors_object.h"
#include "lib/memory/memory.h"

#include <stdlib.h>

struct accel_safetensors_writer {
    struct safetensors_writer *writer;
    size_t count;
};

/* What the program's tensors and metadata are called below. */
struct description {
    struct safetensors_entry *entries;
    struct safetensors_pair *metadata;
    size_t pairs;
};

static enum accel_status
describe_tensor (const char *function, struct safetensors_entry *entry, const struct accel_safetensors_tensor *given,
                 size_t index, struct accel_error *err)
{
    const DLTensor *tensor = given->tensor;
    if (!given->name || !tensor)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor %zu has no %s", function, index,
                           given->name ? "description" : "name");
    if (tensor->ndim < 0 || (tensor->ndim && !tensor->shape))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor '%.80s' has no shape", function, given->name);
    *entry = (struct safetensors_entry){ .name = given->name,
                                         .dtype = safetensors_from_dl (tensor->dtype),
                                         .ndim = (size_t) tensor->ndim,
                                         .shape = tensor->shape };
    return ACCEL_OK;
}

static enum accel_status
describe (const char *function, struct description *description, const struct accel_safetensors_tensor *tensors,
          size_t count, const char *const *metadata, struct accel_error *err)
{
    while (metadata && metadata[2 * description->pairs])
        if (!metadata[2 * description->pairs++ + 1])
            return accel_fail (err, ACCEL_ERR_INVALID, "%s: metadata '%.80s' has no value", function,
                               metadata[2 * description->pairs - 2]);
    if (count && !tensors)
        return accel_fail_null (err, function, "tensors");
    description->entries = calloc (count + 1, sizeof *description->entries);
    description->metadata = calloc (description->pairs + 1, sizeof *description->metadata);
    if (!description->entries || !description->metadata)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu tensors", count);
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = describe_tensor (function, &description->entries[i], &tensors[i], i, err);
    for (size_t i = 0; i < description->pairs; i++)
        description->metadata[i]
            = (struct safetensors_pair){ (char *) metadata[2 * i], (char *) metadata[2 * i + 1] };
    return status;
}

static enum accel_status
create (const char *function, struct accel_safetensors_writer **writer, const char *path,
        const struct accel_safetensors_tensor *tensors, size_t count, const char *const *metadata,
        struct accel_error *err)
{
    struct description description = { 0 };
    enum accel_status status = describe (function, &description, tensors, count, metadata, err);
    struct accel_safetensors_writer *made = status ? NULL : calloc (1, sizeof *made);
    if (!status && !made)
        status = accel_fail_nomem (err);
    if (!status) {
        made->count = count;
        status = safetensors_writer_create (&made->writer, path,
                                            &(struct safetensors_plan){ .entries = description.entries,
                                                                        .count = count,
                                                                        .metadata = description.metadata,
                                                                        .pairs = description.pairs },
                                            err);
    }
    free (description.entries);
    free (description.metadata);
    if (status)
        accel_safetensors_writer_destroy (made);
    else
        *writer = made;
    return status;
}

enum accel_status
accel_safetensors_writer_create (struct accel_safetensors_writer **writer, const char *path,
                                 const struct accel_safetensors_tensor *tensors, size_t count,
                                 const char *const *metadata, struct accel_error *err)
{
    if (!writer)
        return accel_fail_null (err, __func__, "writer");
    *writer = NULL;
    return create (__func__, writer, path, tensors, count, metadata, err);
}

enum accel_status
accel_safetensors_writer_write (struct accel_safetensors_writer *writer, size_t index, const void *data,
                                size_t data_bytes, struct accel_error *err)
{
    if (!writer || (!data && data_bytes))
        return accel_fail_null (err, __func__, writer ? "data" : "writer");
    if (index >= writer->count)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: index is %zu, but there are %zu tensors", __func__, index,
                           writer->count);
    return safetensors_writer_write (writer->writer, index, data, data_bytes, err);
}

enum accel_status
accel_safetensors_writer_commit (struct accel_safetensors_writer *writer, struct accel_error *err)
{
    if (!writer)
        return accel_fail_null (err, __func__, "writer");
    return safetensors_writer_commit (writer->writer, err);
}

void
accel_safetensors_writer_destroy (struct accel_safetensors_writer *writer)
{
    if (writer)
        safetensors_writer_destroy (writer->writer);
    free (writer);
}

/* A tensor of a file that is written. */
struct target {
    struct safetensors_writer *writer;
    size_t index;
};

static enum accel_status
write_piece (void *user, const void *bytes, size_t length, struct accel_error *err)
{
    const struct target *target = user;
    return safetensors_writer_write (target->writer, target->index, bytes, length, err);
}

enum accel_status
safetensors_write_tensor (struct safetensors_writer *writer, size_t index, const DLTensor *tensor, size_t most,
                          struct accel_error *err)
{
    return memory_read_pieces (tensor, most, write_piece, &(struct target){ writer, index }, err);
}

/* On the host, also of types that nothing can be computed with. */
static enum accel_status
write_any (struct safetensors_writer *writer, size_t index, const DLTensor *tensor, struct accel_error *err)
{
    size_t bytes = (size_t) safetensors_writer_entry_bytes (writer, index);
    return memory_of (tensor->device)->host ? safetensors_writer_write (writer, index, tensor_data (tensor), bytes, err)
                                            : safetensors_write_tensor (writer, index, tensor, SIZE_MAX, err);
}

static enum accel_status
check_memory (const struct accel_safetensors_tensor *given, struct accel_error *err)
{
    const DLTensor *tensor = given->tensor;
    if (!memory_of (tensor->device))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_safetensors_save: tensor '%.80s' is on %s, which this libaccel has no code for",
                           given->name, tensor_device_name (tensor->device));
    if (!tensor_is_contiguous (tensor))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_safetensors_save: tensor '%.80s' is not contiguous",
                           given->name);
    if (!tensor->data && accel_tensor_count (tensor))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_safetensors_save: tensor '%.80s' has no data", given->name);
    return ACCEL_OK;
}

enum accel_status
accel_safetensors_save (const char *path, const struct accel_safetensors_tensor *tensors, size_t count,
                        const char *const *metadata, struct accel_error *err)
{
    struct accel_safetensors_writer *writer = NULL;
    enum accel_status status = create (__func__, &writer, path, tensors, count, metadata, err);
    for (size_t i = 0; i < count && !status; i++)
        status = check_memory (&tensors[i], err);
    for (size_t i = 0; i < count && !status; i++) {
        size_t index = safetensors_writer_order (writer->writer, i);
        status = write_any (writer->writer, index, tensors[index].tensor, err);
    }
    if (!status)
        status = safetensors_writer_commit (writer->writer, err);
    accel_safetensors_writer_destroy (writer);
    return status;
}
