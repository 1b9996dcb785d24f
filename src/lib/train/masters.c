/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of 16 and 8 bits: the float32 masters that optimizers change, and the way from one to the other.
 * Parameters of 16 bits are written right behind the step of each stretch of the master, which is in the cache then.
 * Those of 8 bits wait for the largest magnitude of the whole tensor, which decides their scale. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/kernels/arithmetic.h"
#include "lib/kernels/half.h"
#include "lib/train/model_object.h"
#include "lib/train/scaler.h"
#include "util/memory.h"

#include <accel/precision.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum accel_dtype
dtype_of (const struct accel_model *model, size_t index)
{
    return accel_dtype_from_dl (model->parameters[index].data->dtype);
}

static bool
has_master (const struct accel_model *model, size_t index)
{
    return index < model->count && model->trained[index].data != model->parameters[index].data;
}

static bool
is_scaled (enum accel_dtype dtype)
{
    return dtype == ACCEL_FLOAT8_E4M3FN || dtype == ACCEL_FLOAT8_E5M2;
}

enum accel_status
masters_create (struct accel_model *model, struct accel_error *err)
{
    model->trained = calloc (model->count, sizeof *model->trained);
    model->masters = calloc (model->count, sizeof *model->masters);
    if (!model->trained || !model->masters)
        goto error;
    for (size_t i = 0; i < model->count; i++) {
        struct master *master = &model->masters[i];
        size_t bytes;
        model->trained[i] = model->parameters[i];
        master->scale = 1;
        if (!model_is_trained (model, i) || dtype_of (model, i) == ACCEL_FLOAT32)
            continue;
        master->tensor = *model->parameters[i].data;
        master->tensor.dtype = accel_dtype_to_dl (ACCEL_FLOAT32);
        master->tensor.strides = NULL;
        if (__builtin_mul_overflow (accel_tensor_count (&master->tensor), sizeof (float), &bytes))
            goto error;
        master->tensor.data = memory_create (bytes);
        if (!master->tensor.data)
            goto error;
        model->trained[i].data = &master->tensor;
    }
    return ACCEL_OK;
error:
    return accel_fail (err, ACCEL_ERR_NOMEM,
                       "cannot allocate memory for the float32 masters of a model of %zu parameters", model->count);
}

void
masters_destroy (struct accel_model *model)
{
    for (size_t i = 0; model->masters && i < model->count; i++)
        free (model->masters[i].tensor.data);
    free (model->masters);
    free (model->trained);
}

void
accel_model_widen (struct accel_model *model)
{
    if (!model)
        return;
    for (size_t i = 0; i < model->count; i++)
        if (has_master (model, i)) {
            float *master = model->masters[i].tensor.data;
            size_t count = accel_tensor_count (&model->masters[i].tensor);
            floats_widen (master, model->parameters[i].data->data, dtype_of (model, i), count);
            if (model->masters[i].scale != 1)
                scaler_multiply (master, count, model->masters[i].scale);
        }
    model->widened = true;
}

void
masters_need (struct accel_model *model)
{
    if (!model->widened)
        accel_model_widen (model);
}

/* The largest magnitude's bits, which are in the order of the numbers, NaN above infinity. */
VECTORISED static uint32_t
largest_bits (const float *values, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy (&bits, &values[i], sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

/* Powers of two, so that nothing is rounded but by the conversion; neither they nor their reciprocals are subnormal. */
static float
scale_for (const float *values, size_t count, float limit)
{
    uint32_t bits = largest_bits (values, count);
    float most;
    int exponent;
    memcpy (&most, &bits, sizeof most);
    if (most == 0 || !isfinite (most))
        return 1;
    frexp ((double) limit / (double) most, &exponent);
    return ldexpf (1, 1 - exponent < -126 ? -126 : 1 - exponent);
}

void
master_narrow (struct accel_model *model, size_t index, size_t from, size_t count)
{
    if (!has_master (model, index) || is_scaled (dtype_of (model, index)))
        return;
    floats_narrow ((uint16_t *) model->parameters[index].data->data + from, dtype_of (model, index),
                   (const float *) model->masters[index].tensor.data + from, count, false);
}

static void
narrow_scaled (struct accel_model *model, size_t index)
{
    enum accel_dtype dtype = dtype_of (model, index);
    struct master *master = &model->masters[index];
    const float *values = master->tensor.data;
    size_t count = accel_tensor_count (&master->tensor);
    master->scale = scale_for (values, count, dtype == ACCEL_FLOAT8_E4M3FN ? 448 : 57344);
    for (size_t i = 0; i < count; i += FLOATS_BLOCK) {
        float block[FLOATS_BLOCK];
        size_t some = count - i < FLOATS_BLOCK ? count - i : FLOATS_BLOCK;
        memcpy (block, values + i, some * sizeof *block);
        scaler_multiply (block, some, 1 / master->scale);
        floats_narrow ((uint8_t *) model->parameters[index].data->data + i, dtype, block, some, true);
    }
}

void
masters_narrow_scaled (struct accel_model *model)
{
    for (size_t i = 0; i < model->count; i++)
        if (has_master (model, i) && is_scaled (dtype_of (model, i)))
            narrow_scaled (model, i);
}

void
accel_model_narrow (struct accel_model *model)
{
    if (!model)
        return;
    masters_need (model);
    for (size_t i = 0; i < model->count; i++)
        master_narrow (model, i, 0, accel_tensor_count (model->parameters[i].data));
    masters_narrow_scaled (model);
}

DLTensor *
accel_model_master (struct accel_model *model, size_t index)
{
    if (!model || index >= model->count || !model_is_trained (model, index))
        return NULL;
    masters_need (model);
    return model->trained[index].data;
}

float
accel_model_scale (const struct accel_model *model, size_t index)
{
    return model && index < model->count ? model->masters[index].scale : 1;
}

bool
model_in_blocks (const struct accel_model *model, size_t index)
{
    return has_master (model, index) || accel_dtype_from_dl (model->parameters[index].grad->dtype) != ACCEL_FLOAT32;
}

const float *
model_gradient (const struct accel_model *model, size_t index, size_t from, size_t count, float *block)
{
    const DLTensor *grad = model->parameters[index].grad;
    enum accel_dtype dtype = accel_dtype_from_dl (grad->dtype);
    if (dtype == ACCEL_FLOAT32)
        return (const float *) grad->data + from;
    floats_widen (block, (const uint16_t *) grad->data + from, dtype, count);
    if (model->pending != 1)
        scaler_multiply (block, count, model->pending);
    return block;
}

void
model_forget_scale (struct accel_model *model)
{
    model->unscaled = model->found_inf = false;
    model->scaled_by = 0;
    model->pending = 1;
}
