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
#include <stdio.h>
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
        options.on_device = given->on_device;
    }
    enum accel_status status = flag_check (options.enabled, "enabled", err);
    if (!status)
        status = flag_check (options.on_device, "on_device", err);
    if (status)
        return status;
    precision->scaling = part->acc->precision->scales_losses && flag_or (options.enabled, true);
    precision->wants_device = flag_or (options.on_device, false);
    return scaler_init (&precision->scaler, &options, err);
}

/* ---- where the scaler is ---- */

/* accel_prepare(): from now on it is on the device, if the program wants that. */
static enum accel_status
prepare_precision (struct part *part, struct accel_error *err)
{
    struct precision *precision = (struct precision *) (void *) part;
    DLDevice device = accel_device (part->acc);
    const struct memory *memory = precision->scaling && precision->wants_device ? memory_of (device) : NULL;
    if (precision->live || !memory || !memory->live)
        return ACCEL_OK;
    precision->device = device;
    precision->live = memory->create (device, sizeof *precision->live, true);
    if (!precision->live)
        return memory_fail (device, err, "cannot allocate memory for a scaler");
    memory->write (device, precision->live, &precision->scaler.now, sizeof precision->scaler.now);
    return ACCEL_OK;
}

bool
precision_is_live (const struct accel *acc)
{
    return precision_scales (acc) && precision_of (acc)->live;
}

const struct scaler *
precision_read_scaler (const struct accel *acc)
{
    struct precision *precision = precision_of (acc);
    struct scaler_values *now = &precision->scaler.now, read;
    if (precision->live
        && !memory_of (precision->device)->read (precision->device, &read, precision->live, sizeof read, NULL))
        *now = read;
    return &precision->scaler;
}

void
precision_write_scaler (const struct accel *acc, const struct scaler *scaler)
{
    struct precision *precision = precision_of (acc);
    precision->scaler = *scaler;
    if (precision->live)
        memory_of (precision->device)->write (precision->device, precision->live, &scaler->now, sizeof scaler->now);
}

static void
close_precision (struct part *part)
{
    struct precision *precision = (struct precision *) (void *) part;
    if (precision->live)
        memory_of (precision->device)->destroy (precision->device, precision->live);
}

/* ---- checkpoints ---- */

static void
save_precision (const struct part *part, struct accel_state_dict *state)
{
    if (!precision_scales (part->acc))
        return;
    const struct scaler *scaler = precision_read_scaler (part->acc);
    accel_state_dict_set_double (state, "scale", (double) scaler->now.scale);
    accel_state_dict_set_double (state, "growth_factor", scaler->options.growth_factor);
    accel_state_dict_set_double (state, "backoff_factor", scaler->options.backoff_factor);
    state_dict_add_uint64 (state, "growth_interval", scaler->options.growth_interval);
    state_dict_add_uint64 (state, "_growth_tracker", scaler->now.growth_tracker);
}

static enum accel_status
take_scaler (struct precision *precision, const struct accel_scaler_state *state, struct accel_error *err)
{
    struct scaler made;
    struct accel_grad_scaler options = { (double) state->scale, state->growth_factor, state->backoff_factor,
                                         state->growth_interval, ACCEL_DEFAULT, ACCEL_DEFAULT };
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
    made.now.growth_tracker = state->growth_tracker;
    precision_write_scaler (precision->part.acc, &made);
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

/* Gradients that are still to be divided, of one rank: the values of the host or of the device. */
void
precision_save_model (const struct accel_model *model, struct accel_state_dict *state, size_t number)
{
    struct model_live now = { model->scale.pending, model->scale.scaled_by, model->scale.found_inf };
    if (model->scale.is_live && model->memory->read (model->device, &now, model->live, sizeof now, NULL))
        return;
    if (!model->scale.unscaled && now.scaled_by == 0)
        return;
    state_dict_set_double (state, (double) now.scaled_by, "scaled_by.%zu", number);
    state_dict_set_double (state, (double) now.pending, "pending.%zu", number);
    state_dict_set_bool (state, model->scale.unscaled, "unscaled.%zu", number);
    state_dict_set_bool (state, model->scale.unscaled && now.found, "found_inf.%zu", number);
}

enum accel_status
precision_load_model (struct accel_model *model, const struct accel_state_dict *state, size_t number,
                      struct accel_error *err)
{
    char name[64];
    double scaled_by = 0, pending = 1;
    snprintf (name, sizeof name, "scaled_by.%zu", number);
    model_forget_scale (model);
    if (!accel_state_dict_has (state, name))
        return ACCEL_OK;
    enum accel_status status = state_dict_get_double (state, &scaled_by, err, "scaled_by.%zu", number);
    if (!status)
        status = state_dict_get_double (state, &pending, err, "pending.%zu", number);
    if (!status)
        status = state_dict_get_bool (state, &model->scale.unscaled, err, "unscaled.%zu", number);
    if (!status)
        status = state_dict_get_bool (state, &model->scale.found_inf, err, "found_inf.%zu", number);
    model->scale.scaled_by = (float) scaled_by;
    model->scale.pending = (float) pending;
    model->scale.is_live = !status && precision_is_live (model->object.owner) && model->memory->live;
    /* Before gradients are unscaled, their inverse scale is pending on a device. */
    struct model_live now = { model->scale.unscaled ? model->scale.pending : scaler_inverse_of (model->scale.scaled_by),
                              model->scale.scaled_by, model->scale.found_inf };
    if (model->scale.is_live)
        model->memory->write (model->device, model->live, &now, sizeof now);
    return status;
}

const struct part_kind part_precision = { .size_bytes = sizeof (struct precision), .open = open_precision,
                                          .prepared = prepare_precision, .close = close_precision,
                                          .save = save_precision,
                                          .load = load_precision, .file = "scaler" };

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
    const struct scaler *scaler = precision_read_scaler (acc);
    *state = (struct accel_scaler_state){ scaler->options.growth_factor, scaler->options.backoff_factor,
                                          scaler->options.growth_interval, scaler->now.growth_tracker,
                                          scaler->now.scale };
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

enum accel_status
precision_note_scale (const struct accel *acc, struct accel_model *model, struct accel_error *err)
{
    model->scale.stepped = model->scale.is_live = false;
    if (!precision_scales (acc))
        return ACCEL_OK;
    const struct precision *precision = precision_of (acc);
    if (!precision_is_live (acc)) {
        model->scale.scaled_by = precision->scaler.now.scale;
        return ACCEL_OK;
    }
    if (model->memory != memory_of (precision->device) || model->device.device_id != precision->device.device_id)
        return accel_fail (err, ACCEL_ERR_INVALID, "the scaler is on the device (.on_device), but a model is not");
    model->memory->live->note_scale (model->device, precision->live, &model->live->scaled_by, &model->live->pending);
    model->scale.is_live = true;
    return ACCEL_OK;
}

float
precision_scale_of (const struct accel_model *model)
{
    const float *there = model->scale.is_live ? &model->live->scaled_by : NULL;
    const struct memory_factor scale = { model->scale.scaled_by, there };
    float scaled_by = memory_read_factor (model->memory, model->device, scale);
    return scaled_by > 0 ? scaled_by : precision_read_scaler (model->object.owner)->now.scale;
}

void
precision_share (struct accel_model *model, uint64_t stepped_by)
{
    if (!model->scale.stepped || stepped_by == model->scale.unscalings || !precision_scales (model->object.owner))
        return;
    model->scale.unscaled = true;
    model->scale.found_inf = model->scale.stepped_inf;
    model->scale.pending = model->scale.stepped_pending;
    model->scale.is_live = model->scale.stepped_live;
}

enum accel_status
precision_broadcast (struct accel *acc, const struct comm_site *site, int root, struct accel_error *err)
{
    struct precision *precision = precision_of (acc);
    if (!precision->scaling)
        return ACCEL_OK;
    struct scaler scaler = *precision_read_scaler (acc);
    enum accel_status status
        = comm_broadcast (accel_world (acc), site, &scaler, sizeof scaler, ACCEL_UINT8, root, err);
    if (!status)
        precision_write_scaler (acc, &scaler);
    return status;
}

static enum accel_status
read_found (struct accel_model *model, struct accel_error *err)
{
    uint8_t found;
    enum accel_status status = model->memory->read (model->device, &found, &model->live->found, 1, err);
    model->scale.found_inf = !status && found;
    return status;
}

/* Of all gradients, here and on the other processes.  16-bit gradients are only looked at. */
static enum accel_status
unscale (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    struct accel *acc = model->object.owner;
    const struct memory *memory = model->memory;
    uint8_t *found = &model->live->found;
    enum accel_status status = ACCEL_OK;
    memory->zero (model->device, found, 1);
    memory_list_unscale (model_gradients (model), memory, model->device, model_pending (model), found);
    model->scale.unscaled = true;
    model->scale.unscalings++;
    /* Those that have no data left take no part in steps, and averaged gradients are the same without asking. */
    struct comm_site there = comm_site_on (site, model->device);
    if (accel_num_processes (acc) > 1 && !join_steps (acc))
        status = comm_all_reduce (accel_world (acc), &there, found, found, 1, ACCEL_UINT8, ACCEL_MAX, err);
    return status || model->scale.is_live ? status : read_found (model, err);
}

enum accel_status
precision_unscale (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    struct accel *acc = model->object.owner;
    enum accel_status status = model_check_gradients (model, err);
    if (status || model->scale.unscaled || !precision_scales (acc) || accumulation_of (acc)->accumulating)
        return status;
    /* If no loss of this model was scaled, the present scale counts. */
    if (!model->scale.is_live && !(model->scale.scaled_by > 0))
        status = precision_note_scale (acc, model, err);
    if (!status && !model->scale.is_live)
        model->scale.pending = scaler_inverse_of (model->scale.scaled_by);
    return status ? status : unscale (model, site, err);
}

enum accel_status
precision_found (struct accel_model *model, bool is_asked, bool *skip, const uint8_t **found, struct accel_error *err)
{
    bool is_there = model->scale.unscaled && model->scale.is_live;
    bool reads = is_there && (is_asked || !precision_is_live (model->object.owner)); /* it has left its job since */
    enum accel_status status = reads ? read_found (model, err) : ACCEL_OK;
    *found = is_there && !reads ? &model->live->found : NULL;
    *skip = model->scale.unscaled && !*found && model->scale.found_inf;
    return status;
}

/* The device changes the scale; host and device differ from one model to the next. */
static void
update_there (struct accel_model *model)
{
    struct accel *acc = model->object.owner;
    const struct precision *precision = precision_of (acc);
    const struct scaler_factors factors = scaler_factors_of (&precision->scaler);
    for (struct accel_model *other = model_first (acc); other; other = model_next (other))
        if (other != model && other->scale.unscaled && other->scale.is_live)
            model->memory->live->note_found (model->device, precision->live, &other->live->found, false, &factors);
    model->memory->live->note_found (model->device, precision->live, &model->live->found, true, &factors);
}

void
precision_update (struct accel_model *model)
{
    struct accel *acc = model->object.owner;
    /* As in torch the other optimizers' gradients count too, if they have been looked at. */
    bool found = false, scaling = precision_scales (acc);
    for (struct accel_model *other = scaling ? model_first (acc) : NULL; other; other = model_next (other))
        found = found || (other->scale.unscaled && other->scale.found_inf);
    if (scaling && model->scale.is_live)
        update_there (model);
    else if (scaling)
        scaler_update (&precision_of (acc)->scaler, found);
    model->scale.stepped = model->scale.unscaled;
    model->scale.stepped_inf = model->scale.found_inf;
    model->scale.stepped_pending = model->scale.pending;
    model->scale.stepped_live = model->scale.is_live;
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
        if (other->scale.unscaled)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "accel_unscale_gradients at %s:%d: the gradients have already been unscaled since the "
                               "last step (clipping unscales too)",
                               file, line);
    for (; model && !status; model = only ? NULL : model_next (model))
        status = precision_unscale (model, &site, err);
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
