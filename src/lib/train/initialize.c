/* SPDX-License-Identifier: Apache-2.0 */
/* The first values of parameters: accel_model_initialize(). */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/memory/memory.h"
#include "lib/train/stretches.h"
#include "lib/train/tensor_parallel.h"
#include "util/cleanup.h"

#include <accel/precision.h>
#include <accel/train.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

/* @return the row that counts for a parameter; NULL: none */
static const struct accel_initializer *
row_of (const struct accel_model *model, size_t parameter, const struct accel_initializer *rows, size_t count)
{
    for (size_t i = 0; i < count && model_is_trained (model, parameter); i++)
        if (!rows[i].match || !fnmatch (rows[i].match, model->parameters[parameter].name, 0))
            return &rows[i];
    return NULL;
}

static enum accel_status
check_rows (const struct accel_model *model, const struct accel_initializer *rows, size_t count,
            struct accel_error *err)
{
    for (size_t i = 0; i < count; i++) {
        bool used = false;
        if (!isfinite (rows[i].mean) || !(rows[i].std >= 0 && isfinite (rows[i].std)))
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_model_initialize: row %zu: invalid mean %g or std %g", i,
                               rows[i].mean, rows[i].std);
        for (size_t k = 0; k < model->count && !used; k++)
            used = row_of (model, k, &rows[i], 1);
        if (!used)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "accel_model_initialize: row %zu: '%.80s' matches no trained parameter", i,
                               rows[i].match ? rows[i].match : "*");
    }
    return ACCEL_OK;
}

static enum accel_status
fill (const DLTensor *master, const struct accel_initializer *row, struct accel_generator *generator,
      struct accel_error *err)
{
    size_t count = accel_tensor_count (master);
    AUTO_FREE float *values = malloc (count * sizeof *values + 1);
    if (!values)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < count; i++)
        values[i] = (float) row->mean;
    if (row->std > 0) {
        enum accel_status status
            = accel_generator_fill_normal (generator, values, count, ACCEL_FLOAT32, row->mean, row->std, err);
        if (status)
            return status;
    }
    memory_of (master->device)->write (master->device, memory_data (master), values, count * sizeof *values);
    return memory_check (master->device, err);
}

/* Processes that have parts draw whole tensors, so values do not depend on how many they are. */
static enum accel_status
fill_whole (struct accel_model *model, size_t index, const struct accel_initializer *row,
            struct accel_generator *generator, struct accel_error *err)
{
    struct whole whole;
    enum accel_status status = whole_begin (&whole, model, index, accel_model_master (model, index), err);
    if (!status)
        status = fill (&whole.tensor, row, generator, err);
    return whole_end (&whole, status, err);
}

enum accel_status
accel_model_initialize_sized (size_t row_size, struct accel_model *model, const struct accel_initializer *rows,
                              size_t count, struct accel_generator *generator, struct accel_error *err)
{
    AUTO_FREE struct accel_initializer *room = NULL;
    enum accel_status status;
    if (!model || !generator || (count && !rows))
        return accel_fail_null (err, "accel_model_initialize",
                                !model ? "model" : !generator ? "generator" : "rows");
    const struct accel_initializer *own = SIZED_ARRAY (rows, row_size, count, room, &status, err);
    if (status)
        return status;
    if (model->object.owner)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_model_initialize: the model is already prepared");
    if (sharding_is_on (model))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_model_initialize: the model has been sharded: its masters are not whole");
    status = check_rows (model, own, count, err);
    for (size_t i = 0; i < model->count && !status; i++) {
        const struct accel_initializer *row = row_of (model, i, own, count);
        if (row)
            status = fill_whole (model, i, row, generator, err);
    }
    accel_model_narrow (model);
    return status;
}
