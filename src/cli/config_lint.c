/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate config lint: what is wrong in files, has no effect, or contradicts itself; see config_files.h. */
#include <config.h>

#include "cli/config_files.h"

#include "config/check.h"
#include "config/conditions.h"
#include "config/file.h"
#include "config/load.h"
#include "config/mode.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/printable.h"

#include <stdio.h>
#include <string.h>

static bool
has_one_machine (const struct settings *settings)
{
    return !when_several_machines (settings);
}

static bool
has_fsdp2 (const struct settings *settings)
{
    return settings->use_fsdp && !strcmp (settings->fsdp_version, "2");
}

static bool
has_deepspeed_file (const struct settings *settings)
{
    return settings->use_deepspeed && settings->deepspeed_config_file;
}

/* A DeepSpeed file says it by itself, and without either it is the program's business. */
static bool
has_low_stage (const struct settings *settings)
{
    return settings->use_deepspeed && !settings->deepspeed_config_file && settings->zero_stage > 0
           && settings->zero_stage < 3;
}

static bool
is_nvme (const char *device)
{
    return device && !strcasecmp (device, "nvme");
}

static bool
has_optimizer_elsewhere (const struct settings *settings)
{
    return settings->use_deepspeed && !settings->deepspeed_config_file && !is_nvme (settings->offload_optimizer_device);
}

static bool
has_parameters_elsewhere (const struct settings *settings)
{
    return settings->use_deepspeed && !settings->deepspeed_config_file && !is_nvme (settings->offload_param_device);
}

static bool
has_no_dynamo (const struct settings *settings)
{
    return !strcmp (settings->dynamo_backend, "no");
}

static bool
has_gpus (const struct settings *settings)
{
    return settings->multi_gpu;
}

static bool
has_cpus_alone (const struct settings *settings)
{
    return (when_on_cpu (settings) && mode_path (settings, false) == PATH_SIMPLE)
           || !strcmp (settings->distributed_type, "MULTI_CPU");
}

#define IN_FILE "contradicts deepspeed_config_file: the original's library wants it in DeepSpeed's file only"

/* Keys that say nothing, or the contrary of another key, although their group counts. */
static const struct {
    const char *key;
    bool (*is_wrong) (const struct settings *settings);
    const char *text;
} rules[] = {
    { "machine_rank", has_one_machine, "has no effect without several num_machines" },
    { "use_cpu", has_gpus, "contradicts distributed_type: GPUs are asked for there" },
    { "gpu_ids", has_cpus_alone, "has no effect on CPUs" },
    { "dynamo_mode", has_no_dynamo, "has no effect without a dynamo_backend" },
    { "dynamo_use_fullgraph", has_no_dynamo, "has no effect without a dynamo_backend" },
    { "dynamo_use_dynamic", has_no_dynamo, "has no effect without a dynamo_backend" },
    { "dynamo_use_regional_compilation", has_no_dynamo, "has no effect without a dynamo_backend" },
    { "fsdp_sharding_strategy", has_fsdp2, "has no effect with fsdp_version: 2" },
    { "fsdp_backward_prefetch", has_fsdp2, "has no effect with fsdp_version: 2" },
    { "fsdp_forward_prefetch", has_fsdp2, "has no effect with fsdp_version: 2" },
    { "fsdp_use_orig_params", has_fsdp2, "has no effect with fsdp_version: 2" },
    { "fsdp_sync_module_states", has_fsdp2, "has no effect with fsdp_version: 2" },
    { "zero_stage", has_deepspeed_file, IN_FILE },
    { "gradient_accumulation_steps", has_deepspeed_file, IN_FILE },
    { "gradient_clipping", has_deepspeed_file, IN_FILE },
    { "offload_optimizer_device", has_deepspeed_file, IN_FILE },
    { "offload_optimizer_nvme_path", has_deepspeed_file, IN_FILE },
    { "offload_param_device", has_deepspeed_file, IN_FILE },
    { "offload_param_nvme_path", has_deepspeed_file, IN_FILE },
    { "zero3_save_16bit_model", has_deepspeed_file, IN_FILE },
    { "mixed_precision", has_deepspeed_file, IN_FILE },
    { "zero3_init_flag", has_low_stage, "has no effect without zero_stage: 3" },
    { "zero3_save_16bit_model", has_low_stage, "has no effect without zero_stage: 3" },
    { "offload_param_device", has_low_stage, "has no effect without zero_stage: 3" },
    { "offload_optimizer_nvme_path", has_optimizer_elsewhere, "has no effect without offload_optimizer_device: nvme" },
    { "offload_param_nvme_path", has_parameters_elsewhere, "has no effect without offload_param_device: nvme" },
};

/* A key that the questionnaire always writes says nothing where it has its default. */
static bool
is_noise (const struct config *config, const struct option *row)
{
    AUTO_STRBUF struct strbuf value = { 0 };
    option_types[row->type].format (option_field_const (row, &config->settings), &value);
    const char *text = value.text ? value.text : "", *dflt = row->dflt ? row->dflt : "";
    bool truth = true;
    if (value.failed)
        return false; /* so that the note fails, too, instead of being lost */
    if (!row->dflt && (!strcasecmp (text, "none") || (parse_bool (text, &truth) == PARSE_OK && !truth)))
        return true; /* the questionnaire's word for "not wanted" */
    return !strcasecmp (text, dflt) || (row->type == OPTION_TEXT && !strcmp (text, "main"));
}

/* mpirun starts ranks on CPUs without use_cpu, too. */
static bool
group_counts (enum option_group group, const struct settings *settings)
{
    if (group == GROUP_MPIRUN && mode_path (settings, false) == PATH_MPIRUN)
        return true;
    return !option_groups[group].matters || option_groups[group].matters (settings);
}

static void
note (const struct config *config, const struct option *row, const char *text, const char *mode,
      struct strlist *problems)
{
    strlist_printf (problems, "%s:%d: %s %s%s%s", config->file, config->origins[row - options].line, row->key, text,
                    mode ? " " : "", mode ? mode : "");
}

static void
find_useless (const struct config *config, struct strlist *problems)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (config->origins[i].kind != ORIGIN_FILE)
            continue;
        if (!group_counts (row->group, &config->settings) && !is_noise (config, row))
            note (config, row, "has no effect without", option_groups[row->group].mode, problems);
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct option *row = option_find (rules[i].key);
        if (config->origins[row - options].kind == ORIGIN_FILE && rules[i].is_wrong (&config->settings)
            && (rules[i].is_wrong == has_deepspeed_file || !is_noise (config, row)))
            note (config, row, rules[i].text, NULL, problems);
    }
}

/* What is wrong as a whole, with the file before it. */
static void
note_failure (const char *path, const char *text, struct strlist *problems)
{
    static const char reading[] = "configuration file: ";
    if (!strncmp (text, reading, sizeof reading - 1))
        text += sizeof reading - 1;
    bool has_path = !strncmp (text, path, strlen (path));
    strlist_printf (problems, "%s%s%s", has_path ? "" : path, has_path ? "" : ": ", text);
}

static int
lint_file (const char *path, struct strlist *problems, struct fail *fail)
{
    struct config config;
    struct fail found = { 0 };
    int result = config_init (&config, fail);
    config.problems = problems;
    config.file = strdup (path);
    if (!result && !config.file)
        result = fail_nomem (fail);
    if (!result && (config_read_file (&config, path, &found) || config_resolve (&config, &found)
                    || config_check (&config, &found)))
        note_failure (path, found.text, problems);
    if (!result)
        find_useless (&config, problems);
    config_release (&config);
    return result;
}

int
config_files_lint (char **files, int count, struct fail *fail)
{
    AUTO_STRLIST struct strlist problems = { 0 };
    if (!count)
        return fail_set (fail, FAIL_USAGE, "no file given, use: accelerate config lint FILE...");
    for (int i = 0; i < count; i++)
        if (lint_file (files[i], &problems, fail))
            return -1;
    if (problems.failed)
        return fail_nomem (fail);
    for (size_t i = 0; i < problems.count; i++) {
        printable_put (stdout, problems.items[i]);
        putchar ('\n');
    }
    return problems.count != 0;
}
