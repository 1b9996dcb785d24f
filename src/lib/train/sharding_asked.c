/* SPDX-License-Identifier: Apache-2.0 */
/* What programs and launchers ask of sharding; see sharding_asked.h. */
#include <config.h>

#include "lib/train/sharding_asked.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "util/envnames.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static enum accel_status
copy_path (char **to, const char *from, struct accel_error *err)
{
    char *copy = from ? strdup (from) : NULL;
    if (from && !copy)
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
    model->sharding.min_num_params = options->min_num_params;
    model->sharding.shares = options->share_parameters;
    model->sharding.group_size = options->group_size;
    model->sharding.prefetch_layers = options->prefetch_layers;
    model->sharding.max_live_params = options->max_live_params;
    return ACCEL_OK;
}

enum accel_sharding
accel_model_sharding (const struct accel_model *model)
{
    return model && sharding_is_on (model) ? model->sharding.strategy : ACCEL_SHARDING_NONE;
}

static bool
is_true (const char *name)
{
    const char *text = getenv (name);
    return text && (!strcasecmp (text, "true") || !strcmp (text, "1"));
}

/* DeepSpeed's plugin has stage 2 unless it is told otherwise. */
static enum accel_sharding
strategy_of_deepspeed (void)
{
    static const enum accel_sharding of_stages[] = { ACCEL_SHARDING_NONE, ACCEL_SHARDING_OPTIMIZER,
                                                     ACCEL_SHARDING_SHARD_GRAD_OP, ACCEL_SHARDING_FULL_SHARD };
    const char *text = getenv (ENV_ZERO_STAGE);
    long stage = text && *text ? strtol (text, NULL, 10) : 2;
    return of_stages[stage < 0 ? 0 : stage > 3 ? 3 : stage];
}

/* FSDP divides everything unless it is told otherwise: in version 2, by whether parameters stay whole between a forward
 * and a backward pass. */
static enum accel_sharding
strategy_of_fsdp (void)
{
    static const struct {
        const char *name, *number;
        enum accel_sharding strategy;
    } all[] = { { "FULL_SHARD", "1", ACCEL_SHARDING_FULL_SHARD },
                { "SHARD_GRAD_OP", "2", ACCEL_SHARDING_SHARD_GRAD_OP },
                { "NO_SHARD", "3", ACCEL_SHARDING_NONE },
                { "HYBRID_SHARD", "4", ACCEL_SHARDING_HYBRID_SHARD },
                { "HYBRID_SHARD_ZERO2", "5", ACCEL_SHARDING_HYBRID_SHARD_ZERO2 } };
    const char *text = getenv (ENV_FSDP_STRATEGY), *version = getenv (ENV_FSDP_VERSION);
    const char *reshards = getenv (ENV_FSDP_RESHARD);
    if (version && !strcmp (version, "2"))
        return !reshards || !*reshards || is_true (ENV_FSDP_RESHARD) ? ACCEL_SHARDING_FULL_SHARD
                                                                     : ACCEL_SHARDING_SHARD_GRAD_OP;
    for (size_t i = 0; text && i < sizeof all / sizeof *all; i++)
        if (!strcmp (text, all[i].name) || !strcmp (text, all[i].number))
            return all[i].strategy;
    return ACCEL_SHARDING_FULL_SHARD;
}

static enum accel_sharding
strategy_of_launcher (void)
{
    return is_true (ENV_USE_DEEPSPEED) ? strategy_of_deepspeed ()
           : is_true (ENV_USE_FSDP)    ? strategy_of_fsdp ()
                                       : ACCEL_SHARDING_NONE;
}

const char *
sharding_launcher_option (void)
{
    return is_true (ENV_USE_DEEPSPEED) ? "--use_deepspeed" : "--use_fsdp";
}

enum accel_sharding
sharding_wanted (const struct accel_model *model)
{
    return model->sharding.asked != ACCEL_SHARDING_DEFAULT ? model->sharding.asked : strategy_of_launcher ();
}

bool
sharding_is_asked (const struct accel_model *model)
{
    return model_state_memory (model)->create_sparse && sharding_wanted (model) != ACCEL_SHARDING_NONE;
}

const char *
sharding_hint (const struct accel_model *model)
{
    bool by_launcher = model->sharding.asked == ACCEL_SHARDING_DEFAULT;
    return !by_launcher               ? ""
           : is_true (ENV_USE_DEEPSPEED) ? " (--use_deepspeed has sharded it: set ACCEL_SHARDING_NONE)"
                                         : " (--use_fsdp has sharded it: set ACCEL_SHARDING_NONE)";
}

/* ---- offloading ---- */

/* FSDP's offloading is to host memory. */
static enum accel_offload
wanted (const struct accel_model *model, enum accel_offload asked, const char *variable)
{
    static const char *const words[] = { [ACCEL_OFFLOAD_NONE] = "none", [ACCEL_OFFLOAD_CPU] = "cpu",
                                         [ACCEL_OFFLOAD_NVME] = "nvme" };
    const char *text = getenv (variable);
    if (asked != ACCEL_OFFLOAD_DEFAULT)
        return asked;
    if (model->sharding.asked == ACCEL_SHARDING_DEFAULT && sharding_wanted (model) == ACCEL_SHARDING_NONE)
        return ACCEL_OFFLOAD_NONE;
    for (enum accel_offload i = ACCEL_OFFLOAD_NONE; text && i <= ACCEL_OFFLOAD_NVME; i++)
        if (is_true (ENV_USE_DEEPSPEED) && !strcasecmp (text, words[i]))
            return i;
    return is_true (ENV_USE_FSDP) && is_true (ENV_FSDP_OFFLOAD) ? ACCEL_OFFLOAD_CPU : ACCEL_OFFLOAD_NONE;
}

enum accel_offload
offload_of_parameters (const struct accel_model *model)
{
    return wanted (model, model->sharding.offload_param, ENV_OFFLOAD_PARAM);
}

enum accel_offload
offload_of_optimizers (const struct accel_model *model)
{
    return wanted (model, model->sharding.offload_optimizer, ENV_OFFLOAD_OPTIMIZER);
}

static const char *
folder_of (const char *path, const char *variable)
{
    const char *text = path ? path : getenv (variable);
    return text && *text && (path || strcasecmp (text, "none")) ? text : NULL;
}

const char *
offload_folder (const struct accel_model *model, bool is_param)
{
    return is_param ? folder_of (model->sharding.param_path, ENV_OFFLOAD_PARAM_PATH)
                    : folder_of (model->sharding.optimizer_path, ENV_OFFLOAD_OPTIMIZER_PATH);
}
