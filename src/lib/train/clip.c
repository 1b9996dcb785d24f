/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping gradients: torch.nn.utils.clip_grad_norm_ and clip_grad_value_ with foreach=False.  Sums of powers are made
 * in double, in lanes, so that their order is the same on every processor.  torch adds them up in float32: the sum is
 * rounded to float32 before the root is taken, which overflows and underflows where torch's does. */
#include <config.h>

#include <accel/optimizer.h>

#include "lib/error.h"
#include "lib/train/arithmetic.h"
#include "lib/train/model.h"

#include <math.h>

enum { LANES = 8 };

VECTORISED static double
sum_squares (const float *values, size_t count)
{
    double lanes[LANES] = { 0 }, sum = 0;
    size_t i = 0;
    for (; count - i >= LANES; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += (double) values[i + (size_t) j] * (double) values[i + (size_t) j];
    for (; i < count; i++)
        sum += (double) values[i] * (double) values[i];
    for (int j = 0; j < LANES; j++)
        sum += lanes[j];
    return sum;
}

VECTORISED static double
sum_magnitudes (const float *values, size_t count)
{
    double lanes[LANES] = { 0 }, sum = 0;
    size_t i = 0;
    for (; count - i >= LANES; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += (double) fabsf (values[i + (size_t) j]);
    for (; i < count; i++)
        sum += (double) fabsf (values[i]);
    for (int j = 0; j < LANES; j++)
        sum += lanes[j];
    return sum;
}

/* The largest magnitude, or NaN. */
static float
largest (const float *values, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++) {
        float size = fabsf (values[i]);
        if (!(size <= most))
            most = size;
        if (isnan (most))
            break;
    }
    return most;
}

/* The exponents are rounded to float32 as torch's are, which shows: 1/3 of a large sum. */
UNFUSED static float
root (double sum, double p)
{
    return (float) pow ((double) (float) sum, (double) (1.0F / (float) p));
}

static double
power (float value, double p)
{
    return pow ((double) fabsf (value), (double) (float) p);
}

/* The p-norm of values[count]. */
UNFUSED static float
vector_norm (const float *values, size_t count, double p)
{
    double sum = 0;
    if (isinf (p))
        return largest (values, count);
    if (p == 2)
        return sqrtf ((float) sum_squares (values, count));
    if (p == 1)
        return (float) sum_magnitudes (values, count);
    for (size_t i = 0; i < count; i++)
        sum += p ? power (values[i], p) : (double) (values[i] != 0);
    return p ? root (sum, p) : (float) sum;
}

/* The norm of norms; several tensors are folded one by one, as if they stood in an array. */
UNFUSED static float
total_norm (const struct accel_model *model, double p)
{
    double sum = 0;
    float most = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (!model_is_trained (model, i))
            continue;
        const DLTensor *grad = model->parameters[i].grad;
        float norm = vector_norm (grad->data, accel_tensor_count (grad), p);
        if (isinf (p))
            most = isnan (most) || norm <= most ? most : norm;
        else
            sum += p == 2 ? (double) norm * (double) norm : p ? power (norm, p) : (double) (norm != 0);
    }
    if (isinf (p))
        return most;
    return p == 2 ? sqrtf ((float) sum) : p ? root (sum, p) : (float) sum;
}

VECTORISED static void
scale (float *values, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        values[i] *= factor;
}

VECTORISED static void
clamp (float *values, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++) {
        float value = values[i] > limit ? limit : values[i];
        values[i] = value < -limit ? -limit : value;
    }
}

static enum accel_status
check_model (const char *function, const struct accel_model *model, struct accel_error *err)
{
    if (!model)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: model is NULL", function);
    for (size_t i = 0; i < model->count; i++)
        if (model_is_trained (model, i) && model_grad_dtype (model, i) != ACCEL_FLOAT32)
            return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: the gradient of '%.100s' is not float32", function,
                               model->parameters[i].name);
    return model_check_gradients (model, err);
}

UNFUSED enum accel_status
accel_clip_grad_norm (struct accel_model *model, double max_norm, float *norm, double norm_type,
                      bool error_if_nonfinite, struct accel_error *err)
{
    enum accel_status status = check_model (__func__, model, err);
    if (status)
        return status;
    if (isnan (max_norm) || max_norm < 0)
        return accel_fail (err, ACCEL_ERR_INVALID, "max_norm is %g, it must be at least 0", max_norm);
    if (norm_type && !(norm_type >= 1))
        return accel_fail (err, ACCEL_ERR_INVALID, "norm_type is %g, it must be 0, or at least 1", norm_type);
    float total = total_norm (model, norm_type);
    if (error_if_nonfinite && !isfinite (total))
        return accel_fail (err, ACCEL_ERR_INVALID, "the norm of the gradients is %s: they cannot be clipped",
                           isnan (total) ? "not a number" : "infinite");
    if (norm)
        *norm = total;
    /* As torch divides a number by a tensor; and a NaN is not smaller than 1. */
    float factor = 1.0F / (total + 1e-6F) * (float) max_norm;
    factor = factor > 1 ? 1 : factor;
    for (size_t i = 0; i < model->count; i++) {
        const DLTensor *grad = model->parameters[i].grad;
        if (grad)
            scale (grad->data, accel_tensor_count (grad), factor);
    }
    return ACCEL_OK;
}

enum accel_status
accel_clip_grad_value (struct accel_model *model, double clip_value, struct accel_error *err)
{
    enum accel_status status = check_model (__func__, model, err);
    if (status)
        return status;
    if (isnan (clip_value) || clip_value < 0)
        return accel_fail (err, ACCEL_ERR_INVALID, "clip_value is %g, it must be at least 0", clip_value);
    for (size_t i = 0; i < model->count; i++) {
        const DLTensor *grad = model->parameters[i].grad;
        if (grad)
            clamp (grad->data, accel_tensor_count (grad), (float) clip_value);
    }
    return ACCEL_OK;
}
