/* SPDX-License-Identifier: Apache-2.0 */
/* Settings without effect; see effect.h. */
#include <config.h>

#include "config/effect.h"

#include "config/conditions.h"
#include "config/mode.h"
#include "util/parse.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* name (settings): the condition holds. */
#define CONDITION(name, condition)                   \
    static bool                                      \
    name (const struct settings *settings)           \
    {                                                \
        return condition;                            \
    }

CONDITION (has_one_machine, !when_several_machines (settings))
CONDITION (has_fsdp2, settings->use_fsdp && !strcmp (settings->fsdp_version, "2"))
CONDITION (has_deepspeed_file, settings->use_deepspeed && settings->deepspeed_config_file)
/* A DeepSpeed file says it by itself, and without either it is the program's business. */
CONDITION (has_low_stage, settings->use_deepspeed && !settings->deepspeed_config_file && settings->zero_stage > 0
           && settings->zero_stage < 3)

static bool
is_nvme (const char *device)
{
    return device && !strcasecmp (device, "nvme");
}

CONDITION (has_optimizer_elsewhere, settings->use_deepspeed && !settings->deepspeed_config_file
           && !is_nvme (settings->offload_optimizer_device))
CONDITION (has_parameters_elsewhere, settings->use_deepspeed && !settings->deepspeed_config_file
           && !is_nvme (settings->offload_param_device))
CONDITION (has_other_binding, strcmp (settings->bind, "auto") && strcmp (settings->bind, "gpu"))
CONDITION (has_no_dynamo, !strcmp (settings->dynamo_backend, "no"))
CONDITION (has_gpus, settings->multi_gpu)
CONDITION (has_cpus_alone, (when_on_cpu (settings) && mode_path (settings, false) == PATH_SIMPLE)
           || !strcmp (settings->distributed_type, "MULTI_CPU"))

static const char in_file[] = "contradicts deepspeed_config_file; set it only in DeepSpeed's file";

/* Keys that say nothing, or the contrary of another key, although their group counts. */
static const struct {
    const char *key;
    bool (*is_wrong) (const struct settings *settings);
    const char *text;
} rules[] = {
    { "machine_rank", has_one_machine, "has no effect with one machine" },
    { "use_cpu", has_gpus, "contradicts distributed_type, which asks for GPUs" },
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
    { "enable_cpu_affinity", has_other_binding, "has no effect unless bind is auto or gpu" },
    { "zero_stage", has_deepspeed_file, in_file },
    { "gradient_accumulation_steps", has_deepspeed_file, in_file },
    { "gradient_clipping", has_deepspeed_file, in_file },
    { "offload_optimizer_device", has_deepspeed_file, in_file },
    { "offload_optimizer_nvme_path", has_deepspeed_file, in_file },
    { "offload_param_device", has_deepspeed_file, in_file },
    { "offload_param_nvme_path", has_deepspeed_file, in_file },
    { "zero3_save_16bit_model", has_deepspeed_file, in_file },
    { "mixed_precision", has_deepspeed_file, in_file },
    { "zero3_init_flag", has_low_stage, "has no effect without zero_stage: 3" },
    { "zero3_save_16bit_model", has_low_stage, "has no effect without zero_stage: 3" },
    { "offload_param_device", has_low_stage, "has no effect without zero_stage: 3" },
    { "offload_optimizer_nvme_path", has_optimizer_elsewhere, "has no effect without offload_optimizer_device: nvme" },
    { "offload_param_nvme_path", has_parameters_elsewhere, "has no effect without offload_param_device: nvme" },
};

/* A key that the questionnaire always writes says nothing if it has its default. */
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
bool
effect_of_group (enum option_group group, const struct settings *settings)
{
    if (group == GROUP_MPIRUN && mode_path (settings, false) == PATH_MPIRUN)
        return true;
    return !option_groups[group].matters || option_groups[group].matters (settings);
}

CONDITION (has_no_mpirun, !mode_is_mpirun (settings))

/* What questionnaires always write, and so is never reported; but it means nothing. */
static const struct {
    const char *key;
    bool (*is_idle) (const struct settings *settings);
} idle[] = {
    { "same_network", has_one_machine },
    { "rdzv_backend", has_one_machine },
    { "bind-to", has_no_mpirun },
};

/* Programs refuse what a configuration file says beside DeepSpeed's file, but follow flags where that has "auto". */
bool
effect_applies (const struct config *config, const struct option *row)
{
    const struct settings *settings = &config->settings;
    bool is_flag = config->origins[row - options].kind == ORIGIN_FLAG;
    if (!effect_of_group (row->group, settings))
        return false;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp (rules[i].key, row->key) && rules[i].is_wrong (settings) && !(is_flag && rules[i].text == in_file))
            return false;
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (!strcmp (idle[i].key, row->key) && idle[i].is_idle (settings))
            return false;
    return true;
}

bool
effect_is_missing (const struct config *config, const struct option *row, struct no_effect *found)
{
    const struct settings *settings = &config->settings;
    if (!effect_of_group (row->group, settings) && !is_noise (config, row)) {
        *found = (struct no_effect){ "has no effect without ", option_groups[row->group].mode };
        return true;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp (rules[i].key, row->key) || !rules[i].is_wrong (settings)
            || (rules[i].is_wrong != has_deepspeed_file && is_noise (config, row)))
            continue;
        *found = (struct no_effect){ rules[i].text, "" };
        return true;
    }
    return false;
}

/* What to do instead. */
static const struct {
    const char *key, *text;
} instead[] = {
    { "env", "; ranks inherit your environment (A=1 accelerate launch ...)" },
    { "gradient_accumulation_steps", "; the program sets it" },
    { "gradient_clipping", "; the program sets it" },
};

/* Which processes there are, and where: hardly any program has options of these names. */
static bool
is_only_ours (const struct option *row)
{
    static const char *const keys[] = { "num_processes", "num_machines", "machine_rank", "main_process_ip",
                                        "main_process_port", "hosts", "hostfile", "multi_gpu", NULL };
    return text_is_one_of (row->key, keys);
}

const struct option *
effect_find_misplaced (char *const *words, bool *is_certain)
{
    const struct option *first = NULL;
    for (size_t i = 0; words && words[i]; i++) {
        char name[64];
        size_t dashes = strspn (words[i], "-");
        snprintf (name, sizeof name, "%.*s", (int) strcspn (words[i] + dashes, "="), words[i] + dashes);
        const struct option *row = dashes == 2 ? option_find (name) : NULL;
        if (!row || !option_is_flag_of (row, COMMAND_LAUNCH))
            continue;
        if ((*is_certain = is_only_ours (row)))
            return row;
        first = first ? first : row;
    }
    *is_certain = false;
    return first;
}

void
effect_note_flags (const struct config *config, struct strlist *notes)
{
    bool is_certain;
    const struct option *misplaced = effect_find_misplaced (config->program_args, &is_certain);
    if (is_certain)
        strlist_printf (notes, "--%s is after the program's name, so the program gets it; options of accelerate launch "
                        "go before the program", misplaced->key);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        const char *flag = option_groups[row->group].flag, *more = "";
        struct no_effect why;
        if (config->origins[i].kind != ORIGIN_FLAG || !effect_is_missing (config, row, &why))
            continue;
        for (size_t j = 0; j < sizeof instead / sizeof *instead; j++)
            if (!strcmp (instead[j].key, row->key))
                more = instead[j].text;
        if (why.text == in_file) {
            why.text = "takes effect only where the file of --deepspeed_config_file leaves it open, as with \"auto\"";
            more = "";
        }
        strlist_printf (notes, "--%s %s%s%s", row->key, why.text,
                        *why.mode && flag ? flag : why.mode, more);
    }
}
