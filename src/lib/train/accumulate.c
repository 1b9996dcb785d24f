/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient accumulation: which backward passes average, and which steps are taken. */
#include <config.h>

#include "lib/base/option.h"
#include "lib/train/accumulate.h"

#include "lib/base/error.h"
#include "lib/data/active.h"
#include "lib/data/loader.h"
#include "lib/state/launched.h"
#include "lib/state/log.h"
#include "lib/state/state_dict.h"
#include "lib/state/state_object.h"
#include "lib/train/model_object.h"
#include "util/envnames.h"
#include "util/parse.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <strings.h>

/* The variable comes before the argument, but a plugin before both, as in Accelerate. */
static enum accel_status
read_steps (struct accumulation *accumulation, const struct accel_options *options, struct accel_error *err)
{
    const struct accel_gradient_accumulation *plugin = options ? options->gradient_accumulation_plugin : NULL;
    uint32_t steps = options ? options->gradient_accumulation_steps : 0;
    const char *text = getenv (ENV_GRADIENT_ACCUMULATION_STEPS);
    int64_t number;
    if (plugin && steps > 1)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_open: give only one of gradient_accumulation_steps and gradient_accumulation_plugin: "
                           "set the plugin's num_steps");
    accumulation->options = plugin ? *plugin : (struct accel_gradient_accumulation){ .num_steps = steps };
    if (plugin || !text || !strcasecmp (text, "auto"))
        return flag_check (accumulation->options.sync_with_dataloader, "sync_with_dataloader", err);
    if (parse_int64 (text, 1, UINT32_MAX, &number) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is not a number of steps from 1 to %u",
                           ENV_GRADIENT_ACCUMULATION_STEPS, text, UINT32_MAX);
    accumulation->options.num_steps = (uint32_t) number;
    return ACCEL_OK;
}

static enum accel_status
read_total (struct accumulation *accumulation, const struct accel_options *options, struct accel_error *err)
{
    const char *text = getenv (ENV_TOTAL_BATCH_SIZE);
    int64_t number;
    accumulation->given = accumulation->options.num_steps;
    accumulation->total_batch_size = options ? options->total_batch_size : 0;
    if (!text)
        return ACCEL_OK;
    if (parse_int64 (text, 1, INT64_MAX, &number) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is not a number of samples, at least 1",
                           ENV_TOTAL_BATCH_SIZE, text);
    accumulation->total_batch_size = (size_t) number;
    return ACCEL_OK;
}

/* "none" is what the launcher passes on if nothing was said, "auto" leaves it to DeepSpeed's file, 0 is off. */
static enum accel_status
read_clipping (struct accumulation *accumulation, struct accel_error *err)
{
    const char *text = getenv (ENV_GRADIENT_CLIPPING);
    accumulation->has_clipping = text && strcasecmp (text, "none") && strcasecmp (text, "auto");
    if (accumulation->has_clipping && parse_double (text, 0, INFINITY, &accumulation->gradient_clipping) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is invalid: expected a norm or none",
                           ENV_GRADIENT_CLIPPING, text);
    return ACCEL_OK;
}

/* As Accelerate does: what the file says comes before what the program does, "auto" leaves it to the program, or is a
 * norm of 1, and DeepSpeed's defaults are one pass and no clipping.  A total batch size has passes of its own.  Without
 * a file, Accelerate makes one that says "auto". */
static void
follow_deepspeed (struct accumulation *its, const struct deepspeed_file *file)
{
    const struct deepspeed_value *steps = &file->values[DEEPSPEED_STEPS], *norm = &file->values[DEEPSPEED_CLIPPING];
    bool is_given = steps->is == DEEPSPEED_SET, has_default = steps->is == DEEPSPEED_ABSENT && !its->total_batch_size;
    if (!launched_is_on (ENV_USE_DEEPSPEED))
        return;
    if (file->is_read && (is_given || has_default)) {
        its->overruled = its->given;
        its->given = its->options.num_steps = is_given ? (uint32_t) steps->number : 1;
    }
    if (file->is_read && norm->is != DEEPSPEED_AUTO)
        its->gradient_clipping = norm->number;
    else if (!its->has_clipping)
        its->gradient_clipping = 1;
}

static enum accel_status
open_accumulation (struct part *part, const struct accel_options *options, struct accel_error *err)
{
    struct accumulation *accumulation = (struct accumulation *) (void *) part;
    enum accel_status status = read_steps (accumulation, options, err);
    if (!status)
        status = read_total (accumulation, options, err);
    if (!status)
        status = read_clipping (accumulation, err);
    follow_deepspeed (accumulation, &part->acc->deepspeed);
    accumulation->opened = accumulation->options.num_steps ? accumulation->options.num_steps : 1;
    return status;
}

static void
release_accumulation (struct part *part)
{
    struct accumulation *accumulation = (struct accumulation *) (void *) part;
    accumulation->micro_step = 0;
    accumulation->loaded = false;
    accumulation->shape = (struct step_shape){ 0 };
    accumulation->pass = 0;
    if (accumulation->total_batch_size)
        accumulation->options.num_steps = accumulation->given;
}

/* As many passes over @p loader as make up the total batch.  In the middle of a step they stay. */
static enum accel_status
divide_total (struct accumulation *its, const struct accel_loader *loader, struct accel_error *err)
{
    size_t total = its->total_batch_size, pass = accel_loader_total_batch_size (loader);
    if (!total || !pass || pass == its->pass)
        return ACCEL_OK;
    if (total % pass && total > pass)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "total_batch_size is %zu, but a pass over this loader has %zu samples, on %d process(es): "
                           "the nearest possible values are %zu and %zu", total, pass,
                           accel_num_processes (its->part.acc), total / pass * pass, (total / pass + 1) * pass);
    if (total % pass)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "total_batch_size is %zu, but a pass over this loader already has %zu samples, on %d "
                           "process(es): raise it to %zu, or lower batch_size", total, pass,
                           accel_num_processes (its->part.acc), pass);
    if (total / pass > UINT32_MAX)
        return accel_fail (err, ACCEL_ERR_INVALID, "total_batch_size %zu needs too many passes of %zu samples", total,
                           pass);
    if (its->given && its->given != total / pass)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "total_batch_size %zu needs %zu passes of %zu samples, but gradient_accumulation_steps is "
                           "%u: set only one of them", total, total / pass, pass, its->given);
    if (its->pass && its->accumulating)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "a step was begun in passes of %zu samples, and cannot be ended in passes of %zu", its->pass,
                           pass);
    its->micro_step = 0;
    its->pass = pass;
    its->options.num_steps = (uint32_t) (total / pass);
    return ACCEL_OK;
}

/* Until one is running, the first loader is that of training. */
static enum accel_status
note_prepared (struct part *part, struct accel_error *err)
{
    struct accumulation *its = (struct accumulation *) (void *) part;
    if (its->overruled > 0 && its->overruled != its->given)
        accel_logger_log (its->part.acc, ACCEL_LOG_WARNING, "gradient_accumulation_steps is %u, but DeepSpeed's "
                          "configuration file says %u, which takes effect", its->overruled, its->given);
    its->overruled = 0;
    return its->total_batch_size && !its->pass ? divide_total (its, loader_at (its->part.acc, 1), err) : ACCEL_OK;
}

struct step_shape
step_shape_of (const struct accel *acc, const struct accel_loader *loader)
{
    return (struct step_shape){ .loader = loader_number (acc, loader),
                                .samples = accel_loader_total_batch_size (loader),
                                .passes = accel_gradient_accumulation_steps (acc) };
}

void
step_shape_save (const struct step_shape *shape, struct accel_state_dict *state)
{
    state_dict_add_uint64 (state, "loader", shape->loader);
    state_dict_add_uint64 (state, "samples_per_pass", shape->samples);
    state_dict_add_uint64 (state, "passes", shape->passes);
}

enum accel_status
step_shape_load (struct step_shape *shape, const struct accel_state_dict *state, struct accel_error *err)
{
    enum accel_status status = state_dict_read_uint64 (state, "loader", &shape->loader, err);
    if (!status)
        status = state_dict_read_uint64 (state, "samples_per_pass", &shape->samples, err);
    return status ? status : state_dict_read_uint64 (state, "passes", &shape->passes, err);
}

static void
save_accumulation (const struct part *part, struct accel_state_dict *state)
{
    const struct accumulation *accumulation = (const struct accumulation *) (const void *) part;
    state_dict_add_uint64 (state, "step", accumulation->micro_step);
    state_dict_add_bool (state, "sync_gradients", !accumulation->accumulating);
    step_shape_save (&accumulation->shape, state);
}

/* In the middle of a step, the passes that are missing have to be like those that are done. */
static enum accel_status
check_shape (const struct accumulation *accumulation, const struct step_shape *then, uint64_t micro_step,
             struct accel_error *err)
{
    const struct accel *acc = accumulation->part.acc;
    struct step_shape now = step_shape_of (acc, loader_at (acc, then->loader));
    if (then->passes == now.passes && (!then->loader || then->samples == now.samples))
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "the state was saved after %llu of %llu passes of %llu samples that make up a step, but now a "
                       "step has %llu passes of %llu: resume with those numbers, or save when accel_sync_gradients() "
                       "is true",
                       (unsigned long long) (micro_step % then->passes), (unsigned long long) then->passes,
                       (unsigned long long) then->samples, (unsigned long long) now.passes,
                       (unsigned long long) now.samples);
}

/* Between two steps, counting begins anew if a step has another number of passes than it had. */
static enum accel_status
load_accumulation (struct part *part, const struct accel_state_dict *state, struct accel_error *err)
{
    struct accumulation *accumulation = (struct accumulation *) (void *) part;
    struct step_shape then = { .passes = accel_gradient_accumulation_steps (accumulation->part.acc) };
    uint64_t step;
    bool sync_gradients;
    if (!state)
        return accel_fail (err, ACCEL_ERR_FORMAT, "the checkpoint does not say how far gradients were accumulated");
    enum accel_status status = state_dict_read_uint64 (state, "step", &step, err);
    if (!status)
        status = state_dict_read_bool (state, "sync_gradients", &sync_gradients, err);
    if (!status && accel_state_dict_has (state, "passes"))
        status = step_shape_load (&then, state, err);
    then.passes += !then.passes; /* no pass was made */
    if (!status && !sync_gradients)
        status = check_shape (accumulation, &then, step, err);
    if (status)
        return status;
    bool same = then.passes == accel_gradient_accumulation_steps (accumulation->part.acc);
    accumulation->micro_step = same ? step : 0;
    accumulation->accumulating = !sync_gradients;
    accumulation->shape = then; /* for a save before the next pass */
    accumulation->loaded = true;
    return ACCEL_OK;
}

const struct part_kind part_accumulation = { .size_bytes = sizeof (struct accumulation), .open = open_accumulation,
                                             .prepared = note_prepared,
                                             .release = release_accumulation, .save = save_accumulation,
                                             .load = load_accumulation, .file = "accumulation" };

double
accel_gradient_clipping (const struct accel *acc)
{
    double norm = acc ? accumulation_of (acc)->gradient_clipping : 0;
    return norm > 0 ? norm : INFINITY;
}

uint32_t
accel_gradient_accumulation_steps (const struct accel *acc)
{
    uint32_t steps = acc ? accumulation_of (acc)->options.num_steps : 0;
    return steps ? steps : 1;
}

enum accel_status
accel_set_gradient_accumulation_steps (struct accel *acc, uint32_t num_steps, struct accel_error *err)
{
    if (!acc || !num_steps)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s", __func__, acc ? "num_steps is 0" : "acc is NULL");
    struct accumulation *its = accumulation_of (acc);
    if (its->loaded && num_steps != accel_gradient_accumulation_steps (acc))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "%s: num_steps changes from %u to %u between accel_load_state and the first pass: call it "
                           "before accel_load_state, which continues with this number", __func__,
                           accel_gradient_accumulation_steps (acc), num_steps);
    if (its->pass && num_steps != its->options.num_steps)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: num_steps is %u, but total_batch_size %zu needs %u passes",
                           __func__, num_steps, its->total_batch_size, its->options.num_steps);
    its->options.num_steps = num_steps;
    its->given = num_steps;
    its->overruled = 0; /* by the program, not by the file */
    return ACCEL_OK;
}

/* What accumulation and Accelerate decide by: the loader that is running has given its last batch. */
static void
next_pass (struct accel *acc)
{
    struct accumulation *its = accumulation_of (acc);
    its->loaded = false;
    bool ends = flag_or (its->options.sync_with_dataloader, true)
                && accel_loader_end_of_dataloader (loader_active (acc));
    its->micro_step = ends ? 0 : its->micro_step + 1;
    its->accumulating = its->micro_step % accel_gradient_accumulation_steps (acc) != 0;
    its->shape = step_shape_of (acc, loader_active (acc));
}

/* The models up to the end mark, each of which has to be one of @p acc's. */
static enum accel_status
count_models (const struct accel *acc, va_list models, size_t *count, struct accel_error *err)
{
    for (*count = 0;; ++*count) {
        const struct object *object = va_arg (models, const struct object *);
        if (object == ACCEL_PREPARE_END)
            return ACCEL_OK;
        if (!object || !object_is (object, kind_of_model))
            return accel_fail (err, ACCEL_ERR_INVALID, "object %zu passed to accel_accumulate is %s", *count + 1,
                               object ? "not a model, or has been destroyed" : "NULL");
        if (object->owner != acc)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "model %zu passed to accel_accumulate was not prepared with this struct accel",
                               *count + 1);
    }
}

enum accel_status
accel_accumulate_models (struct accel *acc, struct accel_error *err, ...)
{
    va_list models, again;
    size_t count = 0;
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_accumulate: acc is NULL");
    va_start (models, err);
    va_copy (again, models);
    enum accel_status status = count_models (acc, models, &count, err);
    if (!status)
        status = divide_total (accumulation_of (acc), loader_active (acc), err);
    if (!status && accumulation_of (acc)->total_batch_size && !accumulation_of (acc)->pass)
        status = accel_fail (err, ACCEL_ERR_INVALID, "accel_accumulate: total_batch_size needs a loader that was "
                             "prepared: without one, set gradient_accumulation_steps");
    if (!status) {
        next_pass (acc);
        const struct accumulation *its = accumulation_of (acc);
        bool holds = its->accumulating && !(its->options.sync_each_batch && acc->identity.world_size > 1);
        for (struct accel_model *model = model_first (acc); model; model = model_next (model))
            model->held = holds && !count;
        for (size_t i = 0; i < count; i++)
            ((struct accel_model *) (void *) va_arg (again, struct object *))->held = holds;
    }
    va_end (again);
    va_end (models);
    return status;
}

bool
accel_sync_gradients (const struct accel *acc)
{
    return !acc || !accumulation_of (acc)->accumulating;
}

void
accel_set_sync_gradients (struct accel *acc, bool sync_gradients)
{
    if (acc)
        accumulation_of (acc)->accumulating = !sync_gradients;
}

bool
accumulate_waits (const struct object *object)
{
    return object->owner && accumulation_of (object->owner)->accumulating;
}

bool
accumulate_reduces (struct accel_model *model)
{
    bool reduces = model->triggered || !(model->held || model->unsynced);
    model->triggered = false;
    return reduces;
}

enum accel_status
accel_no_sync (struct accel *acc, struct accel_model *model, struct accel_error *err)
{
    enum accel_status status = model_check_owner (__func__, acc, model, err);
    if (!status)
        model->unsynced++;
    return status;
}

enum accel_status
accel_no_sync_end (struct accel *acc, struct accel_model *model, struct accel_error *err)
{
    enum accel_status status = model_check_owner (__func__, acc, model, err);
    if (!status && !model->unsynced)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: accel_no_sync has not been called", __func__);
    if (!status)
        model->unsynced--;
    return status;
}

enum accel_status
accel_trigger_sync_in_backward (struct accel *acc, struct accel_model *model, struct accel_error *err)
{
    enum accel_status status = model_check_owner (__func__, acc, model, err);
    if (!status)
        model->triggered = true;
    return status;
}
