/* SPDX-License-Identifier: Apache-2.0 */
/* Models from memory that a program has laid out itself.  The tensors are the model's, the elements the program's. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/tensor.h"
#include "lib/train/model_object.h"
#include "util/cleanup.h"

#include <accel/layout.h>

#include <stdlib.h>
#include <string.h>

/* What accel_model_create() is given: views[2 i] of parameter i, views[2 i + 1] of its gradient. */
struct draft {
    struct accel_parameter *parameters;
    struct accel_tensor *views;
    void *array; /* host memory, allocated for all parameters, or NULL */
    size_t count;
};

static void
draft_release (struct draft *draft)
{
    free (draft->parameters);
    free (draft->views);
    memory_host.destroy ((DLDevice){ .device_type = kDLCPU }, draft->array);
}

static enum accel_status
draft_init (struct draft *draft, size_t count, struct accel_error *err)
{
    *draft = (struct draft){ .count = count };
    draft->parameters = calloc (count, sizeof *draft->parameters);
    draft->views = count > SIZE_MAX / 2 ? NULL : calloc (2 * count, sizeof *draft->views);
    if (draft->parameters && draft->views)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a model of %zu parameters", count);
}

/* The views live as long as the model, which owns them then. */
static enum accel_status
draft_finish (struct draft *draft, struct accel_model **model, struct accel_error *err)
{
    enum accel_status status = accel_model_create (model, draft->parameters, draft->count, err);
    if (!status) {
        (*model)->views = draft->views;
        (*model)->array = draft->array;
        draft->views = NULL;
        draft->array = NULL;
    }
    return status;
}

/* Views of one parameter and, if @trained, of its gradient; data comes later. */
static enum accel_status
draft_describe (struct draft *draft, size_t index, const char *name, int ndim, const int64_t *shape,
                const enum accel_dtype dtypes[2], bool trained, struct accel_error *err)
{
    struct accel_tensor *views = &draft->views[2 * index];
    if (!name || !*name)
        return accel_fail (err, ACCEL_ERR_INVALID, "parameter %zu has no name", index);
    for (int i = 0; i < 1 + trained; i++) {
        enum accel_status status = accel_tensor_init (&views[i], dtypes[i], ndim, shape, err);
        if (status)
            return accel_fail_in (err, status, "parameter '%s'", name);
    }
    draft->parameters[index] = (struct accel_parameter){ name, &views[0].dl, trained ? &views[1].dl : NULL };
    return ACCEL_OK;
}

/* Where each row begins, and how many elements all need. */
static enum accel_status
place_rows (const struct draft *draft, const struct accel_array_row *rows, size_t *offsets, size_t *needed,
            struct accel_error *err)
{
    size_t next = 0;
    *needed = 0;
    for (size_t i = 0; i < draft->count; i++) {
        offsets[i] = rows[i].offset == ACCEL_OFFSET_ZERO ? 0 : rows[i].offset ? rows[i].offset : next;
        if (__builtin_add_overflow (offsets[i], accel_tensor_count (&draft->views[2 * i].dl), &next))
            return accel_fail (err, ACCEL_ERR_INVALID, "parameter '%s' is too large: its end overflows", rows[i].name);
        if (next > *needed)
            *needed = next;
    }
    return ACCEL_OK;
}

static enum accel_status
check_overlaps (const struct draft *draft, const struct accel_array_row *rows, const size_t *offsets,
                struct accel_error *err)
{
    for (size_t i = 0; i < draft->count; i++)
        for (size_t j = 0; j < i; j++) {
            size_t i_count = accel_tensor_count (&draft->views[2 * i].dl);
            size_t j_count = accel_tensor_count (&draft->views[2 * j].dl);
            if (i_count && j_count && offsets[i] < offsets[j] + j_count && offsets[j] < offsets[i] + i_count)
                return accel_fail (err, ACCEL_ERR_INVALID,
                                   "parameters '%s' (elements %zu to %zu) and '%s' (%zu to %zu) overlap", rows[j].name,
                                   offsets[j], offsets[j] + j_count - 1, rows[i].name, offsets[i],
                                   offsets[i] + i_count - 1);
        }
    return ACCEL_OK;
}

static enum accel_status
check_array (const struct accel_array *array, const struct draft *draft, const struct accel_array_row *rows,
             const size_t *offsets, size_t needed, struct accel_error *err)
{
    for (size_t i = 0; i < draft->count && array->count; i++) {
        size_t end = offsets[i] + accel_tensor_count (&draft->views[2 * i].dl);
        if (end > array->count)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "the rows need %zu elements, but the array has %zu: parameter '%s' ends at %zu", needed,
                               array->count, rows[i].name, end);
    }
    size_t bytes = accel_dtype_bytes (array->dtype), grad_bytes = accel_dtype_bytes (array->grad_dtype);
    if (needed > SIZE_MAX / (bytes > grad_bytes ? bytes : grad_bytes))
        return accel_fail (err, ACCEL_ERR_INVALID, "%zu elements are too many: size overflows", needed);
    if ((uintptr_t) array->data % bytes || (uintptr_t) array->grad % grad_bytes)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s is not aligned to its elements",
                           (uintptr_t) array->data % bytes ? "array->data" : "array->grad");
    return check_overlaps (draft, rows, offsets, err);
}

/* Point the views into the arrays. */
static enum accel_status
fill_views (struct draft *draft, const struct accel_array *array, const struct accel_array_row *rows,
            struct accel_error *err)
{
    size_t needed, *offsets = calloc (draft->count, sizeof *offsets);
    if (!offsets)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a model of %zu parameters", draft->count);
    size_t bytes = accel_dtype_bytes (array->dtype), grad_bytes = accel_dtype_bytes (array->grad_dtype);
    enum accel_status status = place_rows (draft, rows, offsets, &needed, err);
    if (!status)
        status = check_array (array, draft, rows, offsets, needed, err);
    if (!status && !array->data) {
        draft->array = memory_host.create ((DLDevice){ .device_type = kDLCPU }, needed * bytes, true);
        if (!draft->array)
            status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu parameters of %zu elements",
                                 draft->count, needed);
    }
    const void *data = array->data ? array->data : draft->array;
    for (size_t i = 0; i < draft->count && !status; i++) {
        struct accel_tensor *views = &draft->views[2 * i];
        views[0].dl.data = memory_at (data, offsets[i], bytes);
        if (array->grad && !rows[i].frozen)
            views[1].dl.data = memory_at (array->grad, offsets[i], grad_bytes);
    }
    free (offsets);
    return status;
}

enum accel_status
accel_model_from_array_sized (size_t array_size, size_t row_size, struct accel_model **model,
                              const struct accel_array *array, const struct accel_array_row *rows, size_t row_count,
                              struct accel_error *err)
{
    if (!model)
        return accel_fail_null (err, "accel_model_from_array", "model");
    *model = NULL;
    if (!array || !rows || !row_count)
        return accel_fail_null (err, "accel_model_from_array", array ? "rows" : "array");
    struct accel_array room;
    AUTO_FREE struct accel_array_row *resized = NULL;
    enum accel_status status;
    array = SIZED (array, array_size, room, &status, err);
    if (!status)
        rows = SIZED_ARRAY (rows, row_size, row_count, resized, &status, err);
    if (status)
        return status;
    struct draft draft;
    const enum accel_dtype dtypes[] = { array->dtype, array->grad_dtype };
    status = draft_init (&draft, row_count, err);
    for (size_t i = 0; i < row_count && !status; i++)
        status = draft_describe (&draft, i, rows[i].name, rows[i].ndim, rows[i].shape, dtypes, !rows[i].frozen, err);
    if (!status && !accel_dtype_bytes (array->grad_dtype))
        status = accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'grad_dtype'");
    if (!status)
        status = fill_views (&draft, array, rows, err);
    if (!status)
        status = draft_finish (&draft, model, err);
    draft_release (&draft);
    return status;
}

static enum accel_status
check_layout (const struct accel_struct_layout *layout, struct accel_error *err)
{
    size_t dim_bytes = layout->dim_bytes ? layout->dim_bytes : 8;
    if (dim_bytes != 4 && dim_bytes != 8)
        return accel_fail (err, ACCEL_ERR_INVALID, "layout->dim_bytes is %zu, expected 4 or 8", dim_bytes);
    bool counted = layout->ndim != ACCEL_NO_FIELD;
    if (!counted && (layout->dims < 0 || layout->dims > ACCEL_MAX_DIMS))
        return accel_fail (err, ACCEL_ERR_INVALID, "layout->dims is %d, expected 0 to %d", layout->dims,
                           ACCEL_MAX_DIMS);
    size_t sizes_bytes = counted ? dim_bytes : (size_t) layout->dims * dim_bytes;
    const struct {
        const char *name;
        size_t offset, bytes;
        bool required;
    } fields[] = {
        { "name", layout->name, layout->name_inline ? 1 : sizeof (char *), true },
        { "data", layout->data, sizeof (void *), true },
        { "grad", layout->grad, sizeof (void *), false },
        { "shape", layout->shape, sizes_bytes, true },
        { "ndim", layout->ndim, sizeof (int), false },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].offset == ACCEL_NO_FIELD && (!fields[i].required || !fields[i].bytes))
            continue;
        if (fields[i].bytes > layout->stride_bytes || fields[i].offset > layout->stride_bytes - fields[i].bytes)
            return accel_fail (err, ACCEL_ERR_INVALID, "layout->%s: no field of %zu bytes at %zu in a struct of %zu",
                               fields[i].name, fields[i].bytes, fields[i].offset, layout->stride_bytes);
    }
    return ACCEL_OK;
}

static void *
read_pointer (const char *bytes)
{
    void *pointer;
    memcpy (&pointer, bytes, sizeof pointer);
    return pointer;
}

static enum accel_status
read_shape (const char *bytes, const struct accel_struct_layout *layout, const char *name, int *ndim, int64_t *shape,
            struct accel_error *err)
{
    size_t dim_bytes = layout->dim_bytes ? layout->dim_bytes : 8;
    *ndim = layout->dims;
    if (layout->ndim != ACCEL_NO_FIELD)
        memcpy (ndim, bytes + layout->ndim, sizeof *ndim);
    if (*ndim < 0 || *ndim > ACCEL_MAX_DIMS
        || (*ndim && (size_t) *ndim * dim_bytes > layout->stride_bytes - layout->shape))
        return accel_fail (err, ACCEL_ERR_INVALID, "parameter '%s' has %d dimensions, more than its struct holds",
                           name ? name : "?", *ndim);
    for (int i = 0; i < *ndim; i++) {
        int32_t narrow;
        const char *at = bytes + layout->shape + (size_t) i * dim_bytes;
        memcpy (dim_bytes == 4 ? (void *) &narrow : (void *) &shape[i], at, dim_bytes);
        if (dim_bytes == 4)
            shape[i] = narrow;
    }
    return ACCEL_OK;
}

static enum accel_status
read_struct (struct draft *draft, size_t index, const char *bytes, const struct accel_struct_layout *layout,
             struct accel_error *err)
{
    const enum accel_dtype dtypes[] = { layout->dtype, layout->grad_dtype };
    const char *name = layout->name_inline ? bytes + layout->name : read_pointer (bytes + layout->name);
    int64_t shape[ACCEL_MAX_DIMS];
    int ndim;
    bool trained = layout->grad != ACCEL_NO_FIELD;
    enum accel_status status = read_shape (bytes, layout, name, &ndim, shape, err);
    if (!status)
        status = draft_describe (draft, index, name, ndim, shape, dtypes, trained, err);
    if (status)
        return status;
    draft->views[2 * index].dl.data = read_pointer (bytes + layout->data);
    if (trained)
        draft->views[2 * index + 1].dl.data = read_pointer (bytes + layout->grad);
    return ACCEL_OK;
}

enum accel_status
accel_model_from_structs_sized (size_t layout_size, struct accel_model **model, const void *structs, size_t count,
                                const struct accel_struct_layout *layout, struct accel_error *err)
{
    if (!model)
        return accel_fail_null (err, "accel_model_from_structs", "model");
    *model = NULL;
    if (!layout || !structs || !count)
        return accel_fail_null (err, "accel_model_from_structs", layout ? "structs" : "layout");
    struct draft draft = { 0 };
    struct accel_struct_layout room;
    enum accel_status status;
    layout = SIZED (layout, layout_size, room, &status, err);
    if (!status)
        status = check_layout (layout, err);
    if (!status)
        status = draft_init (&draft, count, err);
    const char *bytes = structs;
    for (size_t i = 0; i < count && !status; i++, bytes += layout->stride_bytes)
        status = read_struct (&draft, i, bytes, layout, err);
    if (!status)
        status = draft_finish (&draft, model, err);
    draft_release (&draft);
    return status;
}

const struct accel_parameter *
accel_model_get_parameter (const struct accel_model *model, const char *name)
{
    for (size_t i = 0; model && name && i < model->count; i++)
        if (!strcmp (model->parameters[i].name, name))
            return &model->parameters[i];
    return NULL;
}
