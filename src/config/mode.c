/* SPDX-License-Identifier: Apache-2.0 */
/* Modes; see mode.h.  The rules are those of the original's launch command, but that flags never make what stands in a
 * file without meaning: its parallelism_config counts beside --use_fsdp. */
#include <config.h>

#include "config/mode.h"

#include "config/conditions.h"
#include "config/load.h"

#include <string.h>

/* What a file's distributed_type switches on. */
static const struct {
    const char *type, *key;
} modes[] = {
    { "MULTI_GPU", "multi_gpu" },    { "MULTI_NPU", "multi_gpu" },  { "MULTI_MLU", "multi_gpu" },
    { "MULTI_SDAA", "multi_gpu" },   { "MULTI_MUSA", "multi_gpu" }, { "MULTI_XPU", "multi_gpu" },
    { "MULTI_HPU", "multi_gpu" },    { "MULTI_NEURON", "multi_gpu" }, { "XLA", "tpu" },
    { "DEEPSPEED", "use_deepspeed" }, { "FSDP", "use_fsdp" },       { "MEGATRON_LM", "use_megatron_lm" },
};

/* A flag among these takes the place of the file's distributed_type. */
static const char *const mode_flags[]
    = { "cpu", "multi_gpu", "tpu", "tpu_cluster", "use_deepspeed", "use_fsdp", "use_megatron_lm" };

static bool
has_mode_flag (const struct config *config)
{
    for (size_t i = 0; i < sizeof mode_flags / sizeof *mode_flags; i++)
        if (config_origin (config, mode_flags[i]).kind == ORIGIN_FLAG)
            return true;
    return false;
}

static int
resolve_type (struct config *config, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    if (config_origin (config, "distributed_type").kind == ORIGIN_DEFAULT)
        return 0;
    for (size_t i = 0; !has_mode_flag (config) && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp (modes[i].type, settings->distributed_type)
            && config_compute (config, modes[i].key, "true", "distributed_type", fail))
            return -1;
    if (!settings->num_processes && !strcmp (settings->distributed_type, "NO"))
        return config_compute (config, "num_processes", "1", "distributed_type", fail);
    return 0;
}

static int
resolve_parallelism (struct config *config, struct fail *fail)
{
    for (size_t i = 0; i < option_count; i++)
        if (options[i].section && !strcmp (options[i].section, "parallelism_config")
            && config->origins[i].kind == ORIGIN_FILE && !config->settings.cpu)
            return config_compute (config, "use_parallelism_config", "true", options[i].key, fail);
    return 0;
}

/* Questionnaires of FSDP 1 store the strategy under the name of version 2's switch; the library looks for it under its
 * own, where launch of the original writes the default. */
static int
resolve_strategy (struct config *config, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    const struct option *row = option_find ("fsdp_reshard_after_forward");
    if (strcmp (settings->fsdp_version, "1") || config_origin (config, "fsdp_sharding_strategy").kind != ORIGIN_DEFAULT)
        return 0;
    for (size_t i = 0; row->words[i]; i++)
        if (!strcmp (row->words[i], settings->fsdp_reshard_after_forward))
            return config_compute (config, "fsdp_sharding_strategy", row->words[i], row->key, fail);
    return 0;
}

int
config_resolve (struct config *config, struct fail *fail)
{
    if (resolve_type (config, fail) || resolve_parallelism (config, fail) || resolve_strategy (config, fail))
        return -1;
    if (config->settings.tpu_cluster && !config->settings.no_tpu_cluster)
        return config_compute (config, "tpu_use_cluster", "true", "tpu_cluster", fail);
    if (config->settings.no_tpu_cluster)
        return config_compute (config, "tpu_use_cluster", "false", "no_tpu_cluster", fail);
    return 0;
}

bool
mode_is_mpirun (const struct settings *settings)
{
    return settings->mpirun_hostfile != NULL;
}

bool
mode_is_deepspeed_launcher (const struct settings *settings)
{
    return settings->use_deepspeed && when_several_machines (settings)
           && (!settings->deepspeed_multinode_launcher || strcmp (settings->deepspeed_multinode_launcher, "standard"));
}

enum option_path
mode_path (const struct settings *settings, bool several_on_gpus)
{
    if (!settings->cpu) {
        if (settings->use_deepspeed)
            return PATH_DEEPSPEED;
        if (settings->use_fsdp || settings->use_megatron_lm || settings->multi_gpu)
            return PATH_ELASTIC;
        if (settings->tpu)
            return settings->tpu_use_cluster ? PATH_TPU_POD : PATH_TPU;
        if (several_on_gpus && !settings->use_cpu && strcmp (settings->distributed_type, "MULTI_CPU"))
            return PATH_ELASTIC;
    }
    if (!strcmp (settings->compute_environment, "AMAZON_SAGEMAKER"))
        return PATH_SAGEMAKER;
    return mode_is_mpirun (settings) ? PATH_MPIRUN : PATH_SIMPLE;
}
