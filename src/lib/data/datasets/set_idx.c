/* SPDX-License-Identifier: Apache-2.0 */
/* The data set of IDX files: two bytes 0, the element type, the number of dimensions, each dimension in 32 bits, the
 * elements; all big-endian (the format of https://yann.lecun.com/exdb/mnist/). */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/data/datasets/set.h"

#include <string.h>

/* Type byte of the file, its size there, what becomes of it. */
static const struct idx_type {
    unsigned char code;
    unsigned char bytes;
    enum accel_dtype dtype;
    enum set_convert convert;
} types[] = {
    { 0x08, 1, ACCEL_UINT8, SET_AS_IT_IS },
    { 0x09, 1, ACCEL_INT8, SET_AS_IT_IS },
    { 0x0b, 2, ACCEL_INT32, SET_SWAP_INT16 },
    { 0x0c, 4, ACCEL_INT32, SET_SWAP },
    { 0x0d, 4, ACCEL_FLOAT32, SET_SWAP },
    { 0x0e, 8, ACCEL_FLOAT64, SET_SWAP },
};

static const struct idx_type *
find_type (unsigned char code)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == code)
            return &types[i];
    return NULL;
}

/* The dimensions after the magic number, and whether the file is as long as they say. */
static enum accel_status
read_shape (const struct source *source, unsigned dims, const struct idx_type *type, struct accel_field *field,
            size_t *samples, struct accel_error *err)
{
    unsigned char sizes[4 * ACCEL_MAX_DIMS];
    uint64_t bytes = type->bytes;
    bool overflow = false;
    enum accel_status status = source_read (source, 4, sizes, 4 * (size_t) dims, err);
    if (status)
        return status;
    for (unsigned i = 0; i < dims; i++) {
        uint32_t size = (uint32_t) sizes[4 * i] << 24 | (uint32_t) sizes[4 * i + 1] << 16
                        | (uint32_t) sizes[4 * i + 2] << 8 | sizes[4 * i + 3];
        overflow |= __builtin_mul_overflow (bytes, (uint64_t) size, &bytes);
        if (i)
            field->shape[i - 1] = size;
        else
            *samples = size;
    }
    field->ndim = (int) dims - 1;
    uint64_t header = 4 + 4 * (uint64_t) dims;
    if (!overflow && bytes == source->size - header)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_FORMAT, "%s: %llu bytes of data, but its header says %s%llu; was it truncated?",
                       source->path, (unsigned long long) (source->size - header), overflow ? "more than " : "",
                       (unsigned long long) (overflow ? UINT64_MAX : bytes));
}

static enum accel_status
open_file (struct set *set, size_t index, const char *path, const char *name, bool scale, struct accel_error *err)
{
    struct source *source = &set->sources[index];
    struct accel_field field = { .name = name };
    unsigned char magic[4];
    size_t samples;
    enum accel_status status = source_open (source, path, err);
    if (status || (status = source_refuse_gzip (source, "IDX file", err)))
        return status;
    if (source->size < sizeof magic)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not an IDX file: only %llu bytes", path,
                           (unsigned long long) source->size);
    status = source_read (source, 0, magic, sizeof magic, err);
    if (status)
        return status;
    const struct idx_type *type = find_type (magic[2]);
    if (magic[0] || magic[1] || !type)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not an IDX file: starts with bytes %02x %02x %02x %02x", path,
                           magic[0], magic[1], magic[2], magic[3]);
    if (!magic[3] || magic[3] > ACCEL_MAX_DIMS)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: IDX file with %d dimensions; expected 1 to %d", path, magic[3],
                           ACCEL_MAX_DIMS);
    status = read_shape (source, magic[3], type, &field, &samples, err);
    if (status)
        return status;
    field.dtype = scale ? ACCEL_FLOAT32 : type->dtype;
    if (scale && type->dtype != ACCEL_UINT8)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: only bytes can be scaled to the range 0 to 1, but these are %s",
                           path, accel_dtype_name (type->dtype));
    if (index && samples != set->dataset.size)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: %zu samples, but %s has %zu", path, samples,
                           set->sources[0].path, set->dataset.size);
    status = set_describe (set, index, &field, err);
    if (status)
        return accel_fail_in (err, status, "%s", path);
    set->dataset.size = samples;
    set->tables[index].source = source;
    set->tables[index].offset = 4 + 4 * (uint64_t) magic[3];
    set->tables[index].convert = scale ? SET_UINT8_TO_FLOAT : type->convert;
    set->tables[index].element_bytes = type->bytes;
    return ACCEL_OK;
}

enum accel_status
accel_dataset_open_idx_sized (size_t options_size, struct accel_dataset **dataset, const char *images,
                              const char *labels, const struct accel_idx_options *options, struct accel_error *err)
{
    static const struct accel_idx_options defaults = { 0 };
    struct set *set;
    struct accel_idx_options room;
    enum accel_status status;
    if (!dataset)
        return accel_fail_null (err, "accel_dataset_open_idx", "dataset");
    *dataset = NULL;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    if (!options)
        options = &defaults;
    status = set_create (&set, labels ? 2 : 1, err);
    if (status)
        return status;
    status = open_file (set, 0, images, options->image_name ? options->image_name : "image", options->scale, err);
    if (!status && labels)
        status = open_file (set, 1, labels, options->label_name ? options->label_name : "label", false, err);
    if (status)
        return set_abandon (set, status);
    *dataset = &set->dataset;
    return ACCEL_OK;
}
