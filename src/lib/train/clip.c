/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping gradients: torch.nn.utils.clip_grad_norm_ and clip_grad_value_ with foreach=False.  The norms of gradients
 * are computed where these are (kernels/norms.c); their own norm here. */
#include <config.h>

#include <accel/optimizer.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/kernels/arithmetic.h"
#include "lib/kernels/floats_element.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/optimizer/optimizer_live.h"
#include "lib/train/outliers.h"
#include "lib/train/precision.h"
#include "lib/train/sharding_gradients.h"
#include "lib/train/tensor_parallel.h"

#include <math.h>
#include <stdio.h>

/* Norms of tensors, folded one by one as if they stood in an array. */
struct fold {
    double sum;
    float most, last;
    size_t tensors;
};

/* The norms of a model's gradients.  They are all read at once: a device has to be waited for only once. */
static enum accel_status
find_norms (struct accel_model *model, const struct comm_site *site, double p, struct accel_error *err)
{
    struct memory_list *gradients = model_gradients (model);
    enum accel_status status;
    if (model->sharding.reduced || model->sharding.grads) {
        status = sharding_norms (model, site, p, err);
    } else {
        memory_list_norm (gradients, model->memory, model->device, model_pending (model), p, model->norms);
        status = model->memory->read (model->device, model->host_norms, model->norms,
                                      gradients->count * sizeof *model->norms, err);
        status = status ? comm_fail_in (site, status, err) : ACCEL_OK;
    }
    return status ? status : cut_norms (model, site, p, err);
}

UNFUSED static void
fold_model (struct fold *fold, const struct accel_model *model, double p)
{
    size_t next = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (!model_is_trained (model, i))
            continue;
        float norm = fold->last = model->host_norms[next++];
        fold->tensors++;
        if (isinf (p))
            fold->most = isnan (fold->most) || norm <= fold->most ? fold->most : norm;
        else
            fold->sum += norm_term (norm, p);
    }
}

UNFUSED static float
fold_end (const struct fold *fold, double p)
{
    if (fold->tensors == 1)
        return norm_of_one (fold->last, p);
    return isinf (p) ? fold->most : norm_of_sum (fold->sum, p);
}

/* Whether gradients are to stay scaled and as they are, being incomplete. */
static bool
is_incomplete (const struct accel_model *model)
{
    const struct accel *acc = model->object.owner;
    return precision_scales (acc) && accumulation_of (acc)->accumulating;
}

/* Before clipping.  @scaled: the scale of gradients that are incomplete; else 0 */
static enum accel_status
begin (struct accel_model *model, const struct comm_site *site, float *scaled, struct accel_error *err)
{
    *scaled = 0;
    if (!model)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: model is NULL", jobseg_call_name (site->call));
    if (is_incomplete (model))
        *scaled = precision_scale_of (model);
    return precision_unscale (model, site, err);
}

/* The models whose gradients have one norm. */
struct clipped {
    struct accel_model *first;
    struct accel_model *const *others; /* [count - 1] */
    size_t count;
};

static struct accel_model *
model_of (const struct clipped *clipped, size_t number)
{
    return number ? clipped->others[number - 1] : clipped->first;
}

static enum accel_status
check_models (const struct clipped *clipped, const struct comm_site *site, struct accel_error *err)
{
    const char *function = jobseg_call_name (site->call);
    if (!clipped->first || (clipped->count > 1 && !clipped->others))
        return accel_fail_null (err, function, clipped->first ? "others" : "model");
    for (size_t i = 1; i < clipped->count; i++) {
        const struct accel_model *model = model_of (clipped, i);
        if (!model)
            return accel_fail (err, ACCEL_ERR_INVALID, "%s: others[%zu] is NULL", function, i - 1);
        if (model->object.owner != clipped->first->object.owner)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "%s: model and others[%zu] were not prepared with the same struct accel", function,
                               i - 1);
        for (size_t j = 0; j < i; j++)
            if (model_of (clipped, j) == model)
                return accel_fail (err, ACCEL_ERR_INVALID, "%s: others[%zu] was given twice", function, i - 1);
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
        status = begin (model_of (clipped, i), site, scaled, err);
    for (size_t i = 0; !status && i < clipped->count; i++)
        status = find_norms (model_of (clipped, i), site, p, err);
    for (size_t i = 0; !status && i < clipped->count; i++)
        fold_model (&fold, model_of (clipped, i), p);
    *total = fold_end (&fold, p);
    return status;
}

/* Without the host, if the program does not ask for the norm.  @return whether that was possible, or has failed */
static bool
clip_on_device (const struct clipped *clipped, const struct comm_site *site, float max_norm, double p,
                enum accel_status *status, struct accel_error *err)
{
    struct accel_model *model = clipped->count == 1 ? clipped->first : NULL;
    if (!model || !model->memory->lists || model->cuts || model->sharding.grads || (p != 2 && !isinf (p))
        || outliers_want_norm (model->object.owner))
        return false;
    *status = precision_unscale (model, site, err);
    if (*status || is_incomplete (model))
        return true;
    /* The host may have a factor that 16-bit gradients are still to be multiplied by. */
    if (model->scale.unscaled && !model->scale.is_live)
        return false;
    struct memory_list *gradients = model_gradients (model);
    float *pending = model->scale.unscaled ? &model->live->pending : NULL;
    memory_list_norm (gradients, model->memory, model->device, model_pending (model), p, model->norms);
    if (!memory_list_clip (gradients, model->memory, model->device, model->norms, p, max_norm, pending))
        return false;
    if ((*status = memory_check (model->device, err)))
        comm_fail_in (site, *status, err);
    return true;
}

/* Name the first gradient that is infinite or NaN.  @return whether there is one */
static bool
describe_nonfinite (const struct clipped *clipped, char *text, size_t size)
{
    bool found = false;
    for (size_t i = 0; !found && i < clipped->count; i++)
        found = model_describe_nonfinite (model_of (clipped, i), text, size);
    return found;
}

/* The gradients are averages, the same on all ranks: where one comes from can be seen only before averaging. */
static enum accel_status
refuse_norm (const struct clipped *clipped, float total, struct accel_error *err)
{
    const struct accel *acc = clipped->first->object.owner;
    char text[ACCEL_ERROR_TEXT_SIZE] = "all gradients are finite, but their norm is too large";
    uint64_t step = 0;
    bool found = describe_nonfinite (clipped, text, sizeof text);
    for (size_t i = 0; i < clipped->count; i++) {
        uint64_t latest = model_latest_step (model_of (clipped, i));
        if (!found && sharding_has_gradients (model_of (clipped, i)))
            snprintf (text, sizeof text, "none of those that this process has is infinite or NaN");
        step = latest > step ? latest : step;
    }
    return accel_fail (err, ACCEL_ERR_INVALID, "step %llu: the norm of the gradients is %s: cannot clip them: %s%s",
                       (unsigned long long) step + 1, isnan (total) ? "not a number" : "infinite", text,
                       found && accel_num_processes (acc) > 1
                           ? ", after averaging (set check_gradients to find the rank that it comes from)" : "");
}

/* Under fp16, an infinite norm is the scaler's affair. */
static void
note_norm (const struct clipped *clipped, double norm)
{
    struct accel *acc = clipped->first->object.owner;
    char text[ACCEL_ERROR_TEXT_SIZE] = "";
    if (!outliers_want_norm (acc) || (!isfinite (norm) && precision_scales (acc)))
        return;
    if (!isfinite (norm))
        (void) describe_nonfinite (clipped, text, sizeof text);
    outliers_note_norm (acc, norm, text);
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
    enum accel_status status;
    if (!norm && !error_if_nonfinite && clip_on_device (clipped, site, (float) max_norm, p, &status, err))
        return status;
    status = measure (clipped, site, p, &scaled, &total, err);
    if (status)
        return status;
    if (scaled > 0 && p > 0)
        total /= scaled;
    if (error_if_nonfinite && !isfinite (total))
        return refuse_norm (clipped, total, err);
    note_norm (clipped, (double) total);
    if (norm)
        *norm = total;
    if (scaled > 0)
        return ACCEL_OK;
    /* As torch divides a number by a tensor; and a NaN is not smaller than 1. */
    float factor = 1.0F / (total + 1e-6F) * (float) max_norm;
    factor = factor > 1 ? 1 : factor;
    for (size_t m = 0; m < clipped->count && factor != 1; m++) {
        struct accel_model *model = model_of (clipped, m);
        /* If 16-bit gradients are still to be unscaled, factors wait with that. */
        memory_list_scale (&model->lists[LIST_GRADIENTS], model->memory, model->device, factor, model->scale.unscaled);
        if (model->scale.unscaled && model->scale.is_live)
            model->memory->scale (model->device, &model->live->pending, ACCEL_FLOAT32, 1, (double) factor);
        else if (model->scale.unscaled)
            model->scale.pending *= factor;
    }
    return ACCEL_OK;
}

enum accel_status
accel_clip_grad_norm_at (const char *file, int line, size_t options_size, struct accel_model *model, double max_norm,
                         float *norm, const struct accel_clip_options *options, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_CLIP_GRAD_NORM };
    struct accel_clip_options room, chosen = { 0 };
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    if (options)
        chosen = *options;
    MAY_BE_CAPTURED (model, model_is_capturable (model));
    struct clipped clipped = { model, chosen.others, chosen.other_count + 1 };
    status = clip_norm (&clipped, &site, max_norm, norm, option_or (chosen.norm_type, 2), chosen.error_if_nonfinite,
                        err);
    return capture_result (&permit, status);
}

enum accel_status
accel_clip_grad_value_at (const char *file, int line, struct accel_model *model, double clip_value,
                          struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_CLIP_GRAD_VALUE };
    float scaled, limit = (float) clip_value;
    if (isnan (clip_value) || clip_value < 0)
        return accel_fail (err, ACCEL_ERR_INVALID, "clip_value is %g, but must be at least 0", clip_value);
    MAY_BE_CAPTURED (model, model_is_capturable (model));
    enum accel_status status = begin (model, &site, &scaled, err);
    if (!status && !(scaled > 0))
        memory_list_clamp (model_gradients (model), model->memory, model->device, limit,
                           model_pending (model));
    if (!status && (status = memory_check (model->device, err)))
        comm_fail_in (&site, status, err);
    return capture_result (&permit, status);
}
