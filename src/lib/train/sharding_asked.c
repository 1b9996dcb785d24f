/* SPDX-License-Identifier: Apache-2.0 */
/* What programs and launchers ask of sharding; see sharding_asked.h. */
#include <config.h>

#include "lib/train/sharding_asked.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/state/launched.h"
#include "util/envnames.h"

#include <stdlib.h>
#include <string.h>

static uint64_t
number (uint64_t asked, uint64_t launched)
{
    return asked ? asked : launched;
}

/* What is left open is what the launcher was asked for.  Its threshold is about parameters that are divided, of which
 * those in a file are not shared. */
static void
set_rest (struct accel_model *model, const struct accel_sharding_options *options)
{
    struct model_sharding *sharding = &model->sharding;
    const struct launched_sharding *launched = &sharding->launched;
    enum accel_sharding strategy = sharding_wanted (model);
    bool is_stage_3 = strategy == ACCEL_SHARDING_FULL_SHARD || strategy == ACCEL_SHARDING_HYBRID_SHARD;
    bool is_in_file = is_stage_3 && offload_of_parameters (model) == ACCEL_OFFLOAD_NVME;
    sharding->shares = options->share_parameters || (launched->shares && !is_in_file);
    sharding->min_num_params = number (options->min_num_params, is_stage_3 ? launched->min_num_params : 0);
    sharding->group_size = number (options->group_size, launched->group_size);
    sharding->prefetch_layers = number (options->prefetch_layers, launched->prefetch_layers);
    sharding->max_live_params = number (options->max_live_params, launched->max_live_params);
}

static enum accel_status
copy_path (char **to, const char *from, struct accel_error *err)
{
    bool is_given = from && *from;
    char *copy = is_given ? strdup (from) : NULL;
    if (is_given && !copy)
        return accel_fail_nomem (err);
    free (*to);
    *to = copy;
    return ACCEL_OK;
}

static enum accel_status
set_offloading (struct accel_model *model, const struct accel_sharding_options *options, struct accel_error *err)
{
    struct model_sharding *sharding = &model->sharding;
    if ((unsigned) options->offload_optimizer_device > ACCEL_OFFLOAD_NVME)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'offload_optimizer_device'");
    if ((unsigned) options->offload_param_device > ACCEL_OFFLOAD_NVME)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'offload_param_device'");
    if (options->share_parameters && options->offload_param_device == ACCEL_OFFLOAD_NVME)
        return accel_fail (err, ACCEL_ERR_INVALID, "share_parameters cannot be combined with offload_param_device");
    enum accel_status status = copy_path (&sharding->optimizer_path, options->offload_optimizer_nvme_path, err);
    if (!status)
        status = copy_path (&sharding->param_path, options->offload_param_nvme_path, err);
    if (!status) {
        sharding->offload_optimizer = options->offload_optimizer_device;
        sharding->offload_param = options->offload_param_device;
    }
    return status;
}

enum accel_status
accel_model_set_sharding_sized (size_t options_size, struct accel_model *model,
                                const struct accel_sharding_options *options, struct accel_error *err)
{
    if (!model || !options)
        return accel_fail_null (err, "accel_model_set_sharding", model ? "options" : "model");
    struct accel_sharding_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    if ((unsigned) options->strategy > ACCEL_SHARDING_HYBRID_SHARD_ZERO2)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'strategy'");
    if (model->object.owner || sharding_is_on (model))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_model_set_sharding: the model %s",
                           model->object.owner ? "is already prepared" : "has been divided among processes");
    status = set_offloading (model, options, err);
    if (status)
        return status;
    model->sharding.is_set = true;
    model->sharding.asked = options->strategy;
    set_rest (model, options);
    return ACCEL_OK;
}

enum accel_sharding
accel_model_sharding (const struct accel_model *model)
{
    return model && sharding_is_on (model) ? model->sharding.strategy : ACCEL_SHARDING_NONE;
}

const char *
sharding_launcher_option (void)
{
    return launched_is_on (ENV_USE_DEEPSPEED) ? "--use_deepspeed" : "--use_fsdp";
}

enum accel_sharding
sharding_wanted (const struct accel_model *model)
{
    return model->sharding.asked != ACCEL_SHARDING_DEFAULT ? model->sharding.asked : model->sharding.launched.strategy;
}

bool
sharding_is_asked (const struct accel_model *model)
{
    return model_state_memory (model)->create_sparse && sharding_wanted (model) != ACCEL_SHARDING_NONE;
}

const char *
sharding_hint (const struct accel_model *model)
{
    if (model->sharding.asked != ACCEL_SHARDING_DEFAULT)
        return "";
    return launched_is_on (ENV_USE_DEEPSPEED) ? " (--use_deepspeed has sharded it: set ACCEL_SHARDING_NONE)"
                                              : " (--use_fsdp has sharded it: set ACCEL_SHARDING_NONE)";
}

/* ---- offloading ---- */

/* What is left to the launcher it says for models that it divides. */
static enum accel_offload
wanted (const struct accel_model *model, enum accel_offload asked, enum accel_offload launched)
{
    bool is_divided = model->sharding.asked != ACCEL_SHARDING_DEFAULT || sharding_wanted (model) != ACCEL_SHARDING_NONE;
    return asked != ACCEL_OFFLOAD_DEFAULT ? asked : is_divided ? launched : ACCEL_OFFLOAD_NONE;
}

const char *
sharding_not_followed (const struct accel_model *model)
{
    const struct launched_sharding *launched = &model->sharding.launched;
    bool is_in_file = launched->offload_param == ACCEL_OFFLOAD_NVME && sharding_has_parameters (model);
    return model->sharding.is_set ? NULL
           : launched->shares     ? "--share_parameters"
           : is_in_file           ? "offload_param_device"
                                  : NULL;
}

/* Parameters in a file have other addresses, so a program has to have said that it follows them. */
enum accel_offload
offload_of_parameters (const struct accel_model *model)
{
    enum accel_offload launched = model->sharding.launched.offload_param;
    if (launched == ACCEL_OFFLOAD_NVME && !model->sharding.is_set)
        launched = ACCEL_OFFLOAD_CPU;
    return wanted (model, model->sharding.offload_param, launched);
}

enum accel_offload
offload_of_optimizers (const struct accel_model *model)
{
    return wanted (model, model->sharding.offload_optimizer, model->sharding.launched.offload_optimizer);
}

const char *
offload_folder (const struct accel_model *model, bool is_param)
{
    const struct model_sharding *sharding = &model->sharding;
    return is_param ? sharding->param_path ? sharding->param_path : sharding->launched.param_path
           : sharding->optimizer_path      ? sharding->optimizer_path
                                           : sharding->launched.optimizer_path;
}
