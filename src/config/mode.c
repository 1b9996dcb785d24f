/* SPDX-License-Identifier: Apache-2.0 */
/* Modes; see mode.h.  The rules are those of Accelerate's launch command, except that flags never disable other
 * settings of a file: its parallelism_config takes effect together with --use_fsdp. */
#include <config.h>

#include "config/mode.h"

#include "config/conditions.h"

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
        if (config_is_on (config, mode_flags[i], ORIGIN_FLAG))
            return true;
    return false;
}

/* --use_fsdp=no and similar. */
static bool
is_refused (const struct config *config, const char *key)
{
    return config_origin (config, key).kind == ORIGIN_FLAG && !config_is_on (config, key, ORIGIN_FLAG);
}

static int
resolve_type (struct config *config, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    if (config_origin (config, "distributed_type").kind == ORIGIN_DEFAULT)
        return 0;
    for (size_t i = 0; !has_mode_flag (config) && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp (modes[i].type, settings->distributed_type) && !is_refused (config, modes[i].key)
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
 * own, where Accelerate's launch writes the default. */
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

static const char *const places[] = { "num_machines", "machine_rank" };

static bool
is_by_hand (const struct config *config)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (config_origin (config, places[i]).kind == ORIGIN_FLAG)
            return true;
    return false;
}

/* Hosts, if they are used, say how many machines there are and which is which; the file says it besides, for users who
 * start a launcher on each machine.  A user who does that with flags does not want those of the file, except to find
 * out which machine is which. */
static int
resolve_list (struct config *config, const char *key, struct fail *fail)
{
    enum origin_kind kind = config_origin (config, key).kind;
    if (mode_needs_place (&config->settings))
        return kind == ORIGIN_FILE && config_origin (config, places[0]).kind == ORIGIN_FILE
                   ? config_reset (config, option_find (places[0]), fail) : 0;
    if (kind == ORIGIN_FILE && is_by_hand (config))
        return config_reset (config, option_find (key), fail);
    for (size_t i = 0; kind != ORIGIN_DEFAULT && i < sizeof places / sizeof *places; i++)
        if (config_origin (config, places[i]).kind == ORIGIN_FILE
            && config_compute (config, places[i], i ? "0" : "1", key, fail))
            return -1;
    return 0;
}

int
config_resolve (struct config *config, struct fail *fail)
{
    if (resolve_list (config, "hosts", fail) || resolve_list (config, "hostfile", fail))
        return -1;
    if (resolve_type (config, fail) || resolve_parallelism (config, fail) || resolve_strategy (config, fail))
        return -1;
    if (config->settings.tpu_cluster && !config->settings.no_tpu_cluster)
        return config_compute (config, "tpu_use_cluster", "true", "tpu_cluster", fail);
    if (config->settings.no_tpu_cluster)
        return config_compute (config, "tpu_use_cluster", "false", "no_tpu_cluster", fail);
    return 0;
}

bool
mode_needs_place (const struct settings *settings)
{
    const char *ip = settings->main_process_ip;
    return settings->machine_rank == SETTING_AUTO || (ip && !strcmp (ip, "auto"));
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

bool
mode_fits (const char *key, const char *type)
{
    static const struct {
        const char *key;
        const char *types[4]; /* beginnings of those that fit */
        const char *unfit;
    } kinds[] = {
        { "multi_gpu", { "MULTI_", "DEEPSPEED", "FSDP", "MEGATRON_LM" }, "MULTI_CPU" }, { "tpu", { "XLA" }, NULL },
        { "use_deepspeed", { "DEEPSPEED" }, NULL }, { "use_fsdp", { "FSDP" }, NULL },
        { "use_megatron_lm", { "MEGATRON_LM" }, NULL }, { "cpu", { "NO", "MULTI_CPU" }, NULL },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool fits = false;
        if (strcmp (kinds[i].key, key))
            continue;
        for (size_t j = 0; j < 4 && kinds[i].types[j]; j++)
            fits = fits || !strncmp (type, kinds[i].types[j], strlen (kinds[i].types[j]));
        return fits && !(kinds[i].unfit && !strcmp (type, kinds[i].unfit));
    }
    return true;
}

static bool
has_several_modes (const struct config *config)
{
    static const char *const alternatives[] = { "cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp" };
    int given = 0;
    for (size_t i = 0; i < sizeof alternatives / sizeof *alternatives; i++)
        given += config_is_on (config, alternatives[i], ORIGIN_FLAG);
    return given > 1;
}

int
config_check_modes (const struct config *config, struct fail *fail)
{
    return has_several_modes (config)
               ? fail_set (fail, FAIL_USAGE, "choose one of --cpu, --multi_gpu, --tpu, --use_deepspeed and --use_fsdp")
               : 0;
}

/* --multi_gpu and --tpu beside a distributed_type of a different kind. */
static int
refuse_contradiction (const struct config *config, struct fail *fail)
{
    const char *type = config->settings.distributed_type;
    if (config_origin (config, "distributed_type").kind != ORIGIN_FLAG)
        return 0;
    for (size_t i = 0; i < sizeof mode_flags / sizeof *mode_flags; i++)
        if (config_is_on (config, mode_flags[i], ORIGIN_FLAG) && !mode_fits (mode_flags[i], type))
            return fail_set (fail, FAIL_USAGE, "--%s contradicts --distributed_type %s", mode_flags[i], type);
    return 0;
}

/* An option of a mode's own chooses the mode. */
static int
infer_groups (struct config *config, struct fail *fail)
{
    /* `launch --cpu` ignores what would choose another mode, too. */
    bool has_type = config_origin (config, "distributed_type").kind == ORIGIN_FLAG || config->settings.cpu;
    for (size_t i = 0; i < option_count; i++) {
        const struct option_group_info *group = &option_groups[options[i].group];
        bool is_kind = options[i].group != GROUP_FP8 && options[i].group != GROUP_AWS
                       && options[i].group != GROUP_PARALLELISM;
        if (config->origins[i].kind != ORIGIN_FLAG || !group->key || (is_kind && has_type)
            || config_origin (config, group->key).kind == ORIGIN_FLAG)
            continue;
        if (config_compute (config, group->key, group->value, options[i].key, fail))
            return -1;
    }
    /* It takes one of the two; FSDP is the one that every machine with PyTorch has. */
    const struct settings *settings = &config->settings;
    if (settings->use_parallelism_config && config_origin (config, "use_parallelism_config").kind != ORIGIN_DEFAULT
        && !settings->use_deepspeed && !has_type
        && config_origin (config, "use_fsdp").kind == ORIGIN_DEFAULT)
        return config_compute (config, "use_fsdp", "true", "use_parallelism_config", fail);
    return 0;
}

static const char *
type_of_path (const struct settings *settings, bool several, bool on_gpus)
{
    switch (mode_path (settings, several && on_gpus)) {
    case PATH_DEEPSPEED: return "DEEPSPEED";
    case PATH_ELASTIC: return settings->use_fsdp ? "FSDP" : settings->use_megatron_lm ? "MEGATRON_LM" : "MULTI_GPU";
    case PATH_TPU:
    case PATH_TPU_POD: return "XLA";
    case PATH_MPIRUN: return "MULTI_CPU";
    case PATH_SAGEMAKER: return NULL;
    default: return several ? "MULTI_CPU" : "NO";
    }
}

/* The switch of the file's type, if a flag turns it off; else NULL. */
static const char *
refused_switch (const struct config *config)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp (modes[i].type, config->settings.distributed_type) && is_refused (config, modes[i].key))
            return modes[i].key;
    return NULL;
}

int
mode_infer (struct config *config, bool several, bool on_gpus, struct fail *fail)
{
    if (refuse_contradiction (config, fail) || config_check_modes (config, fail) || infer_groups (config, fail))
        return -1;
    enum origin_kind kind = config_origin (config, "distributed_type").kind;
    bool has_mode = false;
    for (size_t i = 0; i < sizeof mode_flags / sizeof *mode_flags; i++)
        has_mode = has_mode || config_is_on (config, mode_flags[i], ORIGIN_FLAG)
                   || config_is_on (config, mode_flags[i], ORIGIN_COMPUTED);
    const char *off = kind == ORIGIN_FILE && !has_mode ? refused_switch (config) : NULL;
    if (off && !strncmp (off, "use_", 4)) /* the file does not say what devices there were; GPUs are the likeliest */
        return config_compute (config, "distributed_type", "MULTI_GPU", off, fail);
    has_mode = has_mode || off;
    if (kind >= ORIGIN_FLAG || (kind == ORIGIN_FILE && !has_mode) || (!has_mode && !several))
        return 0;
    const char *type = type_of_path (&config->settings, several, on_gpus);
    return type ? config_compute (config, "distributed_type", type, "num_processes", fail) : 0;
}
