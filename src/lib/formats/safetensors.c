/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files as objects of the program: opening, finding, viewing and reading. */
#include <config.h>

#include <accel/safetensors.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/tensor.h"
#include "lib/formats/convert.h"
#include "lib/formats/safetensors_object.h"
#include "lib/memory/memory.h"
#include "util/cleanup.h"
#include "util/memory.h"
#include "util/suggest.h"

#include <string.h>

enum { ROWS_BYTES = 16 << 20 }; /* what is read at once for a device */

static enum accel_status
describe (struct accel_safetensors *file, struct accel_error *err)
{
    for (size_t i = 0; i < file->weights.count; i++) {
        const struct weights_tensor *each = &file->weights.tensors[i];
        const struct safetensors_tensor *tensor = each->tensor;
        if (tensor->ndim > INT32_MAX)
            return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: tensor '%.80s' has %zu dimensions",
                               each->file->source.path, tensor->name, tensor->ndim);
        file->infos[i] = (struct accel_safetensors_info){
            .name = tensor->name,
            .dtype_name = safetensors_dtype_name (tensor->dtype),
            .dl_dtype = safetensors_to_dl (tensor->dtype),
            .dtype = safetensors_to_accel (tensor->dtype),
            .ndim = (int) tensor->ndim,
            .shape = tensor->shape,
            .bytes = tensor->end - tensor->begin,
            .path = each->file->source.path,
            .offset = each->file->data + tensor->begin,
        };
    }
    return ACCEL_OK;
}

enum accel_status
accel_safetensors_open_sized (size_t options_size, struct accel_safetensors **file, const char *path,
                              const struct accel_safetensors_options *options, struct accel_error *err)
{
    struct accel_safetensors_options room;
    enum accel_status status;
    if (!file)
        return accel_fail_null (err, "accel_safetensors_open", "file");
    *file = NULL;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    struct accel_safetensors *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail_nomem (err);
    made->in_memory = options && options->in_memory;
    status = weights_open (&made->weights, path, options && options->follow_links, err);
    if (!status) {
        made->infos = calloc (made->weights.count + 1, sizeof *made->infos);
        made->copies = calloc (made->weights.count + 1, sizeof *made->copies);
        status = made->infos && made->copies
                     ? describe (made, err)
                     : accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate memory for %zu tensors", path,
                                   made->weights.count);
    }
    if (status)
        accel_safetensors_close (made);
    else
        *file = made;
    return status;
}

void
accel_safetensors_close (struct accel_safetensors *file)
{
    if (!file)
        return;
    int saved = errno;
    for (size_t i = 0; file->copies && i < file->weights.count; i++)
        free (file->copies[i]);
    free (file->copies);
    free (file->infos);
    weights_close (&file->weights);
    free (file);
    errno = saved;
}

size_t
accel_safetensors_count (const struct accel_safetensors *file)
{
    return file ? file->weights.count : 0;
}

const struct accel_safetensors_info *
accel_safetensors_get (const struct accel_safetensors *file, size_t index)
{
    return file && index < file->weights.count ? &file->infos[index] : NULL;
}

enum accel_status
accel_safetensors_find (const struct accel_safetensors *file, const char *name, size_t *index, struct accel_error *err)
{
    char space[96];
    if (!file || !name || !index)
        return accel_fail_null (err, __func__, !file ? "file" : !name ? "name" : "index");
    size_t found = weights_find (&file->weights, name);
    if (found != SIZE_MAX) {
        *index = found;
        return ACCEL_OK;
    }
    struct suggest suggest = { .wanted = name };
    for (size_t i = 0; i < file->weights.count; i++)
        suggest_consider (&suggest, file->infos[i].name);
    const char *path = file->weights.file_count ? file->weights.files[0].source.path : "the set";
    return accel_fail (err, ACCEL_ERR_INVALID, "%s%s: no tensor '%.80s'%s", path,
                       file->weights.file_count > 1 ? " and the other files of its set" : "", name,
                       suggest_text (&suggest, "", space, sizeof space));
}

const char *
accel_safetensors_metadata (const struct accel_safetensors *file, size_t index, const char **value)
{
    for (size_t i = 0; file && i < file->weights.file_count; i++) {
        const struct safetensors *header = &file->weights.files[i].header;
        if (index < header->pairs) {
            if (value)
                *value = header->metadata[index].value;
            return header->metadata[index].key;
        }
        index -= header->pairs;
    }
    return NULL;
}

const char *
safetensors_metadata (const struct accel_safetensors *file, const char *key)
{
    const char *each, *value = NULL;
    for (size_t i = 0; (each = accel_safetensors_metadata (file, i, &value)); i++)
        if (!strcmp (each, key))
            return value;
    return NULL;
}

static enum accel_status
check_index (const char *function, const struct accel_safetensors *file, size_t index, struct accel_error *err)
{
    if (!file)
        return accel_fail_null (err, function, "file");
    if (index >= file->weights.count)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: index is %zu, but there are %zu tensors", function, index,
                           file->weights.count);
    return ACCEL_OK;
}

/* The whole tensor in memory of the file's. */
static enum accel_status
copy_tensor (struct accel_safetensors *file, size_t index, struct accel_error *err)
{
    const struct accel_safetensors_info *info = &file->infos[index];
    if (file->copies[index])
        return ACCEL_OK;
    void *memory = info->bytes <= SIZE_MAX ? memory_create ((size_t) info->bytes) : NULL;
    if (!memory)
        return accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate memory for tensor '%.80s' (%llu bytes)",
                           info->path, info->name, (unsigned long long) info->bytes);
    enum accel_status status
        = weights_read (&file->weights.tensors[index], 0, memory, (size_t) info->bytes, err);
    if (status)
        free (memory);
    else
        file->copies[index] = memory;
    return status;
}

enum accel_status
accel_safetensors_view (struct accel_safetensors *file, size_t index, DLTensor *view, struct accel_error *err)
{
    enum accel_status status = check_index (__func__, file, index, err);
    if (status || !view)
        return status ? status : accel_fail_null (err, __func__, "view");
    const struct accel_safetensors_info *info = &file->infos[index];
    struct source *source = &file->weights.files[file->weights.tensors[index].file - file->weights.files].source;
    const size_t element = convert_element_bytes (info->dl_dtype);
    void *data = NULL;
    if (info->bytes && (file->in_memory || (element && info->offset % element))) {
        status = copy_tensor (file, index, err);
        data = file->copies[index];
    } else if (info->bytes && !(status = source_map (source, err)))
        data = (void *) (source->map + info->offset);
    if (!status)
        *view = (DLTensor){ .data = data,
                            .device = { kDLCPU, 0 },
                            .ndim = info->ndim,
                            .dtype = info->dl_dtype,
                            .shape = (int64_t *) info->shape };
    return status;
}

/* Begin and end, if they are given, are within the shape, and `into` has the shape of the part. */
static enum accel_status
check_part (const struct accel_safetensors_info *info, const int64_t *begin, const int64_t *end, const DLTensor *into,
            struct accel_error *err)
{
    const char *name = info->name, *path = info->path;
    for (int i = 0; i < info->ndim; i++)
        if (begin[i] < 0 || begin[i] > end[i] || end[i] > info->shape[i])
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "%s: tensor '%.80s': %lld to %lld is not a part of dimension %d, which has %lld", path,
                               name, (long long) begin[i], (long long) end[i], i, (long long) info->shape[i]);
    if (!memory_of (into->device))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "%s: tensor '%.80s': the memory is on %s, which this libaccel has no code for", path, name,
                           tensor_device_name (into->device));
    if (into->ndim != info->ndim)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor '%.80s' has %d dimensions, but the memory for it has %d",
                           path, name, info->ndim, into->ndim);
    for (int i = 0; i < info->ndim; i++)
        if (into->shape[i] != end[i] - begin[i])
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "%s: tensor '%.80s': dimension %d is %lld, but %lld in the memory for it", path, name, i,
                               (long long) (end[i] - begin[i]), (long long) into->shape[i]);
    if (!tensor_is_contiguous (into))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: tensor '%.80s': the memory for it is not contiguous", path,
                           name);
    if (!convert_can (into->dtype, info->dl_dtype))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor '%.80s' is %s and cannot be converted to %s", path, name,
                           info->dtype_name, accel_dtype_name (accel_dtype_from_dl (into->dtype)));
    if (!into->data && accel_tensor_count (into))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor '%.80s': the memory for it is NULL", path, name);
    return ACCEL_OK;
}

/* A part for memory that is not the host's: as many rows at once as fit a piece, or one. */
static enum accel_status
read_rows (const struct weights_tensor *tensor, const int64_t *begin, const int64_t *end, const DLTensor *into,
           struct accel_error *err)
{
    const struct memory *memory = memory_of (into->device);
    size_t element = convert_element_bytes (into->dtype), bytes = accel_tensor_count (into) * element;
    int64_t rows = into->ndim ? into->shape[0] : 1, most = 1;
    if (!element)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "%s: tensor '%.80s': elements of less than a byte can only be read to host memory",
                           tensor->file->source.path, tensor->tensor->name);
    if (!bytes)
        return ACCEL_OK;
    size_t row = bytes / (size_t) rows, size = (size_t) into->ndim * sizeof (int64_t);
    while (most < rows && (size_t) (2 * most) * row <= ROWS_BYTES)
        most *= 2;
    AUTO_FREE void *piece = memory_create ((size_t) most * row);
    AUTO_FREE int64_t *bounds = malloc (2 * size + 1);
    if (!piece || !bounds)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate %zu bytes to read tensor '%.80s'",
                           (size_t) most * row, tensor->tensor->name);
    int64_t *from = bounds, *to = bounds + into->ndim;
    memory_copy (from, begin, size);
    memory_copy (to, end, size);
    enum accel_status status = ACCEL_OK;
    for (int64_t at = 0; !status && at < rows; at += most) {
        int64_t some = rows - at < most ? rows - at : most;
        if (into->ndim) {
            from[0] = begin[0] + at;
            to[0] = from[0] + some;
        }
        status = slice_read (tensor, from, to, piece, into->dtype, err);
        if (!status)
            memory->write (into->device, memory_at (memory_data (into), (size_t) at, row), piece, (size_t) some * row);
    }
    return status ? status : memory_check (into->device, err);
}

enum accel_status
accel_safetensors_read (const struct accel_safetensors *file, size_t index, const int64_t *begin, const int64_t *end,
                        const DLTensor *into, struct accel_error *err)
{
    enum accel_status status = check_index ("accel_safetensors_read", file, index, err);
    if (status || !into)
        return status ? status : accel_fail_null (err, "accel_safetensors_read", "into");
    const struct accel_safetensors_info *info = &file->infos[index];
    AUTO_FREE int64_t *zeros = begin ? NULL : calloc ((size_t) info->ndim + 1, sizeof *zeros);
    if (!begin && !zeros)
        return accel_fail_nomem (err);
    begin = begin ? begin : zeros;
    end = end ? end : info->shape;
    status = check_part (info, begin, end, into, err);
    if (!status && !memory_of (into->device)->host)
        return read_rows (&file->weights.tensors[index], begin, end, into, err);
    return status ? status
                  : slice_read (&file->weights.tensors[index], begin, end, tensor_data (into), into->dtype, err);
}
