/* SPDX-License-Identifier: Apache-2.0 */
/* Mixed precision in a step of training: the type to compute in, and torch's GradScaler over several processes. */
#include <config.h>

#include "lib/train/precision.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/tensor.h"
#include "lib/kernels/dtypes.h"
#include "lib/state/state_dict.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/reducer/join_round.h"

#include <math.h>
#include <string.h>

/* 0 is the default; scaler_init() refuses what is meant to be 0. */
static enum accel_status
open_precision (struct part *part, const struct accel_options *given_options, struct accel_error *err)
{
    struct precision *precision = (struct precision *) (void *) part;
    const struct accel_grad_scaler *given = given_options ? given_options->grad_scaler : NULL;
    struct accel_grad_scaler options = SCALER_DEFAULTS;
    if (given) {
        options.init_scale = option_or (given->init_scale, options.init_scale);
        options.growth_factor = option_or (given->growth_factor, options.growth_factor);
        options.backoff_factor = option_or (given->backoff_factor, options.backoff_factor);
        options.growth_interval = option_count_or (given->growth_interval, options.growth_interval);
        options.enabled = given->enabled;
    }
    enum accel_status status = flag_check (options.enabled, "enabled", err);
    if (status)
        return status;
    precision->scaling = part->acc->precision->scales_losses && flag_or (options.enabled, true);
    return scaler_init (&precision->scaler, &options, err);
}

static void
save_precision (const struct part *part, struct accel_state_dict *state)
{
    const struct precision *precision = (const struct precision *) (const void *) part;
    const struct scaler *scaler = &precision->scaler;
    if (!precision->scaling)
        return;
    accel_state_dict_set_double (state, "scale", (double) scaler->scale);
    accel_state_dict_set_double (state, "growth_factor", scaler->options.growth_factor);
    accel_state_dict_set_double (state, "backoff_factor", scaler->options.backoff_factor);
    state_dict_add_uint64 (state, "growth_interval", scaler->options.growth_interval);
    state_dict_add_uint64 (state, "_growth_tracker", scaler->growth_tracker);
}

static enum accel_status
take_scaler (struct precision *precision, const struct accel_scaler_state *state, struct accel_error *err)
{
    struct scaler made;
    struct accel_grad_scaler options = { (double) state->scale, state->growth_factor, state->backoff_factor,
                                         state->growth_interval, false };
    if (!(state->scale > 0) || !isfinite (state->scale)) /* scaler_init() would blame init_scale */
        return accel_fail (err, ACCEL_ERR_INVALID, "the scale is %g, but must be greater than 0 and finite",
                           (double) state->scale);
    enum accel_status status = scaler_init (&made, &options, err);
    if (status)
        return status;
    if (state->growth_tracker >= state->growth_interval)
        return accel_fail (err, ACCEL_ERR_INVALID, "growth_tracker is %u, but must be less than growth_interval, %u",
                           state->growth_tracker, state->growth_interval);
    made.options.init_scale = precision->scaler.options.init_scale;
    made.growth_tracker = state->growth_tracker;
    precision->scaler = made;
    return ACCEL_OK;
}

/* A job without a scaler ignores one that was saved: it went from fp16 to another precision. */
static enum accel_status
load_precision (struct part *part, const struct accel_state_dict *state, struct accel_error *err)
{
    struct precision *precision = (struct precision *) (void *) part;
    struct accel_scaler_state saved = { 0 };
    double scale = 0;
    uint64_t interval = 0, tracker = 0;
    if (!precision->scaling)
        return ACCEL_OK;
    if (!state)
        return accel_fail (err, ACCEL_ERR_FORMAT, "the checkpoint has no loss scale, which fp16 needs");
    enum accel_status status = accel_state_dict_get_double (state, "scale", &scale, err);
    if (!status)
        status = accel_state_dict_get_double (state, "growth_factor", &saved.growth_factor, err);
    if (!status)
        status = accel_state_dict_get_double (state, "backoff_factor", &saved.backoff_factor, err);
    if (!status)
        status = state_dict_read_uint64 (state, "growth_interval", &interval, err);
    if (!status)
        status = state_dict_read_uint64 (state, "_growth_tracker", &tracker, err);
    if (status)
        return status;
    if (interval > UINT32_MAX || tracker > UINT32_MAX)
        return accel_fail (err, ACCEL_ERR_FORMAT, "growth_interval or _growth_tracker is too large");
    saved.scale = (float) scale;
    saved.growth_interval = (uint32_t) interval;
    saved.growth_tracker = (uint32_t) tracker;
    return take_scaler (precision, &saved, err);
}

const struct part_kind part_precision = { .size_bytes = sizeof (struct precision), .open = open_precision,
                                          .save = save_precision, .load = load_precision, .file = "scaler" };

enum accel_dtype
accel_autocast (const struct accel *acc)
{
    return acc && !precision_of (acc)->autocast_off ? acc->precision->computes_in : ACCEL_FLOAT32;
}

bool
accel_autocast_enable (struct accel *acc, bool enabled)
{
    bool before = !acc || !precision_of (acc)->autocast_off;
    if (acc)
        precision_of (acc)->autocast_off = !enabled;
    return before;
}

bool
accel_scaler_get_state (const struct accel *acc, struct accel_scaler_state *state)
{
    if (!state)
        return false;
    *state = (struct accel_scaler_state){ 0 };
    if (!precision_scales (acc))
        return false;
    const struct scaler *scaler = &precision_of (acc)->scaler;
    *state = (struct accel_scaler_state){ scaler->options.growth_factor, scaler->options.backoff_factor,
                                          scaler->options.growth_interval, scaler->growth_tracker, scaler->scale };
    return true;
}

enum accel_status
accel_scaler_set_state (struct accel *acc, const struct accel_scaler_state *state, struct accel_error *err)
{
    if (!acc || !state)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__, acc ? "state" : "acc");
    struct precision *precision = precision_of (acc);
    if (!precision->scaling)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: mixed precision is %s%s, so there is no scaler", __func__,
                           accel_mixed_precision (acc),
                           precision->scaler.options.enabled == ACCEL_NO ? " with the scaler disabled" : "");
    return take_scaler (precision, state, err);
}

void
precision_note_scale (const struct accel *acc, struct accel_model *model)
{
    if (precision_scales (acc))
        model->scaled_by = precision_of (acc)->scaler.scale;
    model->stepped = false;
}

void
precision_share (struct accel_model *model, uint64_t stepped_by)
{
    if (!model->stepped || stepped_by == model->unscalings || !precision_scales (model->object.owner))
        return;
    model->unscaled = true;
    model->found_inf = model->stepped_inf;
    model->pending = model->stepped_pending;
}

enum accel_status
precision_broadcast (struct accel *acc, const struct comm_site *site, int root, struct accel_error *err)
{
    struct precision *precision = precision_of (acc);
    if (!precision->scaling)
        return ACCEL_OK;
    return comm_broadcast (accel_world (acc), site, &precision->scaler, sizeof precision->scaler, ACCEL_UINT8, root,
                           err);
}

/* Of all gradients, here and on the other processes.  16-bit gradients are only looked at. */
static enum accel_status
unscale (struct accel_model *model, const struct comm_site *site, float factor, struct accel_error *err)
{
    struct accel *acc = model->object.owner;
    const struct memory *memory = model->memory;
    enum accel_status status = ACCEL_OK;
    uint8_t found;
    memory->zero (model->device, model->found, 1);
    memory_list_unscale (model_gradients (model), memory, model->device, factor, model->found);
    model->pending = factor;
    model->unscaled = true;
    model->unscalings++;
    /* Those that have no data left take no part in steps, and averaged gradients are the same without asking. */
    struct comm_site there = comm_site_on (site, model->device);
    if (accel_num_processes (acc) > 1 && !join_steps (acc))
        status = comm_all_reduce (accel_world (acc), &there, model->found, model->found, 1, ACCEL_UINT8, ACCEL_MAX,
                                  err);
    if (!status)
        status = memory->read (model->device, &found, model->found, 1, err);
    model->found_inf = !status && found;
    return status;
}

enum accel_status
precision_unscale (struct accel_model *model, const struct comm_site *site, bool *skip, struct accel_error *err)
{
    struct accel *acc = model->object.owner;
    enum accel_status status = model_check_gradients (model, err);
    if (skip)
        *skip = false;
    if (status || !precision_scales (acc) || accumulation_of (acc)->accumulating)
        return status;
    if (!model->unscaled) {
        struct scaler scaler = precision_of (acc)->scaler;
        if (model->scaled_by > 0)
            scaler.scale = model->scaled_by;
        status = unscale (model, site, scaler_inverse (&scaler), err);
    }
    if (skip)
        *skip = model->found_inf;
    return status;
}

void
precision_update (struct accel_model *model)
{
    struct accel *acc = model->object.owner;
    /* As in torch the other optimizers' gradients count too, if they have been looked at. */
    bool found = false, scaling = precision_scales (acc);
    for (struct accel_model *other = scaling ? model_first (acc) : NULL; other; other = model_next (other))
        found = found || (other->unscaled && other->found_inf);
    if (scaling)
        scaler_update (&precision_of (acc)->scaler, found);
    model->stepped = model->unscaled;
    model->stepped_inf = model->found_inf;
    model->stepped_pending = model->pending;
    model_forget_scale (model);
}

enum accel_status
accel_unscale_gradients_at (const char *file, int line, struct accel *acc, struct accel_optimizer *optimizer,
                            struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_UNSCALE_GRADIENTS };
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_unscale_gradients: acc is NULL");
    struct accel_model *only = optimizer ? optimizer->model : NULL;
    if (only && only->object.owner != acc)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_unscale_gradients: the optimizer's model was not prepared with this struct accel");
    struct accel_model *model = only ? only : model_first (acc);
    enum accel_status status = ACCEL_OK;
    if (!precision_scales (acc) || accumulation_of (acc)->accumulating)
        return ACCEL_OK;
    for (struct accel_model *other = model; other; other = only ? NULL : model_next (other))
        if (other->unscaled)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "accel_unscale_gradients at %s:%d: the gradients have already been unscaled since the "
                               "last step (clipping unscales too)",
                               file, line);
    for (; model && !status; model = only ? NULL : model_next (model))
        status = precision_unscale (model, &site, NULL, err);
    return status;
}

enum accel_status
accel_convert (const void *from, enum accel_dtype from_dtype, void *to, enum accel_dtype to_dtype, size_t count,
               struct accel_error *err)
{
    if (count && (!from || !to))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__, from ? "to" : "from");
    if (!dtype_is_small_float (from_dtype) || !dtype_is_small_float (to_dtype))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "%s: cannot convert from %s to %s: only 32-bit, 16-bit and 8-bit floats can be converted",
                           __func__, accel_dtype_name (from_dtype), accel_dtype_name (to_dtype));
    memory_host.convert ((DLDevice){ .device_type = kDLCPU }, to, to_dtype, from, from_dtype, count, 1);
    return ACCEL_OK;
}
