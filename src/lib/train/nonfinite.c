/* SPDX-License-Identifier: Apache-2.0 */
/* Debugging: which gradient is infinite or NaN on which rank, before averages spread it to all of them. */
#include <config.h>

#include "lib/train/reducer_object.h"

#include "lib/base/error.h"
#include "lib/kernels/arithmetic.h"
#include "lib/kernels/half.h"
#include "lib/state/state_object.h"

#include <math.h>
#include <string.h>

VECTORISED static bool
has_nonfinite (const float *values, size_t count)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy (&bits, &values[i], sizeof bits);
        found |= (uint32_t) ((bits & 0x7f800000u) == 0x7f800000u);
    }
    return found != 0;
}

/* @return the first element of a gradient that is not finite, whose value goes to @value; SIZE_MAX: all are finite. */
static size_t
find_element (const struct accel_model *model, size_t index, float *value)
{
    const DLTensor *grad = model->parameters[index].grad;
    enum accel_dtype dtype = model_grad_dtype (model, index);
    size_t count = accel_tensor_count (grad), bytes = accel_dtype_bytes (dtype);
    for (size_t at = 0; at < count; at += FLOATS_BLOCK) {
        float block[FLOATS_BLOCK];
        size_t some = count - at < FLOATS_BLOCK ? count - at : FLOATS_BLOCK;
        floats_widen (block, (const char *) grad->data + at * bytes, dtype, some);
        if (!has_nonfinite (block, some))
            continue;
        size_t i = 0;
        while (isfinite (block[i]))
            i++;
        *value = block[i];
        return at + i;
    }
    return SIZE_MAX;
}

enum accel_status
reducer_check_gradient (const struct accel_model *model, size_t index, struct accel_error *err)
{
    float value = 0;
    size_t element = model->parameters[index].grad->data ? find_element (model, index, &value) : SIZE_MAX;
    if (element == SIZE_MAX)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "the gradient of '%.100s' is %s at element %zu on rank %d, before averaging",
                       model->parameters[index].name, isnan (value) ? "NaN" : value > 0 ? "infinite" : "-infinite",
                       element, accel_process_index (model->object.owner));
}

enum accel_status
reducer_check_gradients (const struct accel_model *model, struct accel_error *err)
{
    struct accel_error first = { 0 };
    size_t bad = 0, trained = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (!model_is_trained (model, i))
            continue;
        trained++;
        bad += reducer_check_gradient (model, i, bad ? NULL : &first) != ACCEL_OK;
    }
    if (!bad)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID, "%s (the first of %zu such gradients among %zu)", first.text, bad,
                       trained);
}
