/* SPDX-License-Identifier: Apache-2.0 */
/* The data set of tensors in a safetensors file. */
#include <config.h>

#include "files/safetensors.h"
#include "lib/base/error.h"
#include "lib/data/datasets/set.h"
#include "util/suggest.h"

static enum accel_status
fail_unknown (const struct safetensors *file, const char *path, const char *name, struct accel_error *err)
{
    char space[96];
    struct suggest suggest = { .wanted = name };
    for (size_t i = 0; i < file->count; i++)
        suggest_consider (&suggest, file->tensors[i].name);
    return accel_fail (err, ACCEL_ERR_INVALID, "%s: has no tensor '%s'%s", path, name,
                       suggest_text (&suggest, "", space, sizeof space));
}

/* One tensor as a field: what follows the first dimension is the shape of a sample. */
static enum accel_status
add_tensor (struct set *set, size_t index, const struct safetensors_tensor *tensor, uint64_t data,
            struct accel_error *err)
{
    const char *path = set->sources[0].path, *name = tensor->name;
    struct accel_field field = { .name = name, .dtype = safetensors_to_accel (tensor->dtype) };
    if (field.dtype == ACCEL_DTYPE_COUNT)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: tensor '%s' has elements of type %s, which fields do not "
                           "support; name the tensors to read, without this one", path, name,
                           safetensors_dtype_name (tensor->dtype));
    if (!tensor->ndim)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor '%s' is a scalar: it has no dimension that counts "
                           "samples", path, name);
    if (tensor->ndim > ACCEL_MAX_DIMS)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: tensor '%s' has %zu dimensions; the maximum is %d", path,
                           name, tensor->ndim, ACCEL_MAX_DIMS);
    if (index && (uint64_t) tensor->shape[0] != set->dataset.size)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor '%s' has %lld samples, but '%s' has %zu", path, name,
                           (long long) tensor->shape[0], set->fields[0].name, set->dataset.size);
    if (tensor->shape[0] > PTRDIFF_MAX)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: tensor '%s' has %lld samples, which is too many", path,
                           name, (long long) tensor->shape[0]);
    for (size_t i = 1; i < tensor->ndim; i++)
        field.shape[i - 1] = tensor->shape[i];
    field.ndim = (int) tensor->ndim - 1;
    enum accel_status status = set_describe (set, index, &field, err);
    if (status)
        return accel_fail_in (err, status, "%s", path);
    set->dataset.size = (size_t) tensor->shape[0];
    set->tables[index].source = &set->sources[0];
    set->tables[index].offset = data + tensor->begin;
    return ACCEL_OK;
}

static enum accel_status
fill (struct set *set, const struct safetensors *file, const char *const *names, uint64_t data,
      struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < set->dataset.field_count && !status; i++) {
        const struct safetensors_tensor *tensor = names ? safetensors_find (file, names[i]) : &file->tensors[i];
        status = tensor ? add_tensor (set, i, tensor, data, err)
                        : fail_unknown (file, set->sources[0].path, names[i], err);
    }
    return status;
}

enum accel_status
accel_dataset_open_safetensors (struct accel_dataset **dataset, const char *path, const char *const *names,
                                size_t count, struct accel_error *err)
{
    struct source source;
    struct safetensors file;
    struct set *set = NULL;
    uint64_t data;
    if (!dataset)
        return accel_fail_null (err, __func__, "dataset");
    *dataset = NULL;
    if (!names != !count)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: count is %zu, but there is %s array of names",
                           path ? path : "?", count, names ? "an" : "no");
    enum accel_status status = source_open (&source, path, err);
    if (status)
        return status;
    status = safetensors_read (&file, &source, &data, err);
    if (!status && !names && !file.count)
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has no tensors", path);
    if (!status)
        status = set_create (&set, names ? count : file.count, err);
    if (!status) {
        set->sources[0] = source;
        source = (struct source) SOURCE_CLOSED;
        status = fill (set, &file, names, data, err);
    }
    safetensors_release (&file);
    source_close (&source);
    if (status)
        return set_abandon (set, status);
    *dataset = &set->dataset;
    return ACCEL_OK;
}
