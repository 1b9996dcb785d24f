/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping gradients: torch.nn.utils.clip_grad_norm_ and clip_grad_value_ with foreach=False.  Sums of powers are made
 * in double, in lanes, so that their order is the same on every processor.  torch adds them up in float32: the sum is
 * rounded to float32 before the root is taken, which overflows and underflows where torch's does.  The norm of one
 * element is its magnitude, whatever its size, as in torch (linalg_vector_norm_out in ATen's LinearAlgebra.cpp). */
#include <config.h>

#include <accel/optimizer.h>

#include "lib/base/error.h"
#include "lib/kernels/arithmetic.h"
#include "lib/kernels/half.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/precision.h"

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

/* Each is rounded to float32 as torch's are, which shows where it is subnormal. */
static double
power (float value, double p)
{
    return (double) (float) pow ((double) fabsf (value), (double) (float) p);
}

/* What values[count] add to the p-norm of a tensor of which @sum is known; as many as there are, in one go. */
UNFUSED static double
add_to_norm (double sum, const float *values, size_t count, double p)
{
    if (isinf (p)) {
        double most = (double) largest (values, count);
        return isnan (sum) || most <= sum ? sum : most;
    }
    if (p == 2)
        return sum + sum_squares (values, count);
    if (p == 1)
        return sum + sum_magnitudes (values, count);
    for (size_t i = 0; i < count; i++)
        sum += p ? power (values[i], p) : (double) (values[i] != 0);
    return sum;
}

/* The p-norm of one element: no power of it is taken, which might overflow. */
static float
norm_of_one (float value, double p)
{
    return p ? fabsf (value) : (float) (value != 0);
}

/* The p-norm of the gradient of parameter @index. */
UNFUSED static float
gradient_norm (const struct accel_model *model, size_t index, double p)
{
    size_t count = accel_tensor_count (model->parameters[index].grad);
    size_t most = model_in_blocks (model, index) ? FLOATS_BLOCK : count;
    float block[FLOATS_BLOCK];
    double sum = 0;
    if (count == 1)
        return norm_of_one (*model_gradient (model, index, 0, 1, block), p);
    for (size_t at = 0; at < count; at += most) {
        size_t some = count - at < most ? count - at : most;
        sum = add_to_norm (sum, model_gradient (model, index, at, some, block), some, p);
    }
    if (p == 2)
        return sqrtf ((float) sum);
    return isinf (p) || p == 1 || !p ? (float) sum : root (sum, p);
}

/* Norms of tensors, folded one by one as if they stood in an array. */
struct fold {
    double sum;
    float most, last;
    size_t tensors;
};

UNFUSED static void
fold_model (struct fold *fold, const struct accel_model *model, double p)
{
    for (size_t i = 0; i < model->count; i++) {
        if (!model_is_trained (model, i))
            continue;
        float norm = fold->last = gradient_norm (model, i, p);
        fold->tensors++;
        if (isinf (p))
            fold->most = isnan (fold->most) || norm <= fold->most ? fold->most : norm;
        else
            fold->sum += p == 2 ? (double) norm * (double) norm : p ? power (norm, p) : (double) (norm != 0);
    }
}

UNFUSED static float
fold_end (const struct fold *fold, double p)
{
    if (fold->tensors == 1)
        return norm_of_one (fold->last, p);
    if (isinf (p))
        return fold->most;
    return p == 2 ? sqrtf ((float) fold->sum) : p ? root (fold->sum, p) : (float) fold->sum;
}

VECTORISED static void
clamp (float *values, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++) {
        float value = values[i] > limit ? limit : values[i];
        values[i] = value < -limit ? -limit : value;
    }
}

/* Multiply a gradient by @factor, or move it into [-limit, limit].  Of 16 bits, in blocks; where they are still to be
 * unscaled, factors wait with that. */
static void
change (struct accel_model *model, size_t index, float factor, const float *limit)
{
    const DLTensor *grad = model->parameters[index].grad;
    enum accel_dtype dtype = accel_dtype_from_dl (grad->dtype);
    size_t count = accel_tensor_count (grad);
    if (dtype != ACCEL_FLOAT32 && !limit && model->unscaled)
        return;
    for (size_t at = 0; at < count; at += FLOATS_BLOCK) {
        float block[FLOATS_BLOCK], *values = dtype == ACCEL_FLOAT32 ? (float *) grad->data + at : block;
        uint16_t *narrow = (uint16_t *) grad->data + at;
        size_t some = count - at < FLOATS_BLOCK ? count - at : FLOATS_BLOCK;
        if (dtype != ACCEL_FLOAT32)
            floats_widen (block, narrow, dtype, some);
        if (limit)
            clamp (values, some, dtype == ACCEL_FLOAT32 ? *limit : *limit / model->pending);
        else
            scaler_multiply (values, some, factor);
        if (dtype != ACCEL_FLOAT32)
            floats_narrow (narrow, dtype, block, some, false);
    }
}

/* Before clipping.  @scaled: the scale of gradients that are to stay as they are, being incomplete; else 0 */
static enum accel_status
begin (struct accel_model *model, const struct comm_site *site, float *scaled, struct accel_error *err)
{
    *scaled = 0;
    if (!model)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: model is NULL", jobseg_call_name (site->call));
    const struct accel *acc = model->object.owner;
    if (precision_scales (acc) && accumulation_of (acc)->accumulating)
        *scaled = model->scaled_by > 0 ? model->scaled_by : precision_of (acc)->scaler.scale;
    return precision_unscale (model, site, NULL, err);
}

/* The models whose gradients have one norm. */
struct clipped {
    struct accel_model *const *models; /* [count] */
    size_t count;
};

static enum accel_status
check_models (const struct clipped *clipped, const struct comm_site *site, struct accel_error *err)
{
    const char *function = jobseg_call_name (site->call);
    if (!clipped->count || !clipped->models)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: there are no models", function);
    for (size_t i = 0; i < clipped->count; i++) {
        const struct accel_model *model = clipped->models[i];
        if (!model)
            return accel_fail_null (err, function, "model");
        if (model->object.owner != clipped->models[0]->object.owner)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "%s: models 0 and %zu were not prepared with the same struct accel", function, i);
        for (size_t j = 0; j < i; j++)
            if (clipped->models[j] == model)
                return accel_fail (err, ACCEL_ERR_INVALID, "%s: models %zu and %zu are the same", function, j, i);
    }
    return ACCEL_OK;
}

/* Unscale what is scaled, and find the norm of all.  @scaled: as of begin() */
static enum accel_status
measure (const struct clipped *clipped, const struct comm_site *site, double p, float *scaled, float *total,
         struct accel_error *err)
{
    struct fold fold = { 0 };
    enum accel_status status = check_models (clipped, site, err);
    for (size_t i = 0; !status && i < clipped->count; i++)
        status = begin (clipped->models[i], site, scaled, err);
    for (size_t i = 0; !status && i < clipped->count; i++)
        fold_model (&fold, clipped->models[i], p);
    *total = fold_end (&fold, p);
    return status;
}

UNFUSED static enum accel_status
clip_norm (const struct clipped *clipped, const struct comm_site *site, double max_norm, float *norm, double p,
           bool error_if_nonfinite, struct accel_error *err)
{
    float scaled, total;
    if (isnan (max_norm) || max_norm < 0)
        return accel_fail (err, ACCEL_ERR_INVALID, "max_norm is %g, but must be at least 0", max_norm);
    if (p && !(p >= 1))
        return accel_fail (err, ACCEL_ERR_INVALID, "norm_type is %g, but must be 0, or at least 1", p);
    enum accel_status status = measure (clipped, site, p, &scaled, &total, err);
    if (status)
        return status;
    if (scaled > 0 && p > 0)
        total /= scaled;
    if (error_if_nonfinite && !isfinite (total))
        return accel_fail (err, ACCEL_ERR_INVALID, "the norm of the gradients is %s: cannot clip them",
                           isnan (total) ? "not a number" : "infinite");
    if (norm)
        *norm = total;
    if (scaled > 0)
        return ACCEL_OK;
    /* As torch divides a number by a tensor; and a NaN is not smaller than 1. */
    float factor = 1.0F / (total + 1e-6F) * (float) max_norm;
    factor = factor > 1 ? 1 : factor;
    for (size_t m = 0; m < clipped->count; m++) {
        struct accel_model *model = clipped->models[m];
        for (size_t i = 0; i < model->count; i++)
            if (model_is_trained (model, i))
                change (model, i, factor, NULL);
        if (model->unscaled)
            model->pending *= factor;
    }
    return ACCEL_OK;
}

enum accel_status
accel_clip_grad_norm_at (const char *file, int line, struct accel_model *model, double max_norm, float *norm,
                         double norm_type, bool error_if_nonfinite, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_CLIP_GRAD_NORM };
    return clip_norm (&(struct clipped){ &model, 1 }, &site, max_norm, norm, norm_type, error_if_nonfinite, err);
}

enum accel_status
accel_clip_grad_norm_models_at (const char *file, int line, struct accel_model *const *models, size_t count,
                                double max_norm, float *norm, double norm_type, bool error_if_nonfinite,
                                struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_CLIP_GRAD_NORM_MODELS };
    return clip_norm (&(struct clipped){ models, count }, &site, max_norm, norm, norm_type, error_if_nonfinite, err);
}

enum accel_status
accel_clip_grad_value_at (const char *file, int line, struct accel_model *model, double clip_value,
                          struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_CLIP_GRAD_VALUE };
    float scaled, limit = (float) clip_value;
    if (isnan (clip_value) || clip_value < 0)
        return accel_fail (err, ACCEL_ERR_INVALID, "clip_value is %g, but must be at least 0", clip_value);
    enum accel_status status = begin (model, &site, &scaled, err);
    for (size_t i = 0; !status && !(scaled > 0) && i < model->count; i++)
        if (model_is_trained (model, i))
            change (model, i, 1, &limit);
    return status;
}
