/* SPDX-License-Identifier: Apache-2.0 */
/* Rules over several settings; see check.h.  Each rule names the settings it blames, so that the message can say where
 * they came from. */
#include <config.h>

#include "config/check.h"

#include "config/conditions.h"
#include "config/load.h"

#include <string.h>

static bool
is_flag_given (const struct config *config, const char *key)
{
    return config_origin (config, key).kind == ORIGIN_FLAG;
}

static bool
has_cpu_and_gpu (const struct config *config)
{
    return is_flag_given (config, "cpu") && is_flag_given (config, "multi_gpu");
}

/* As in the original, a file may say 1: it may have been written for another run. */
static bool
has_multi_gpu_alone (const struct config *config)
{
    return is_flag_given (config, "multi_gpu") && is_flag_given (config, "num_processes")
           && config->settings.num_processes < 2;
}

static bool
has_module_without_python (const struct config *config)
{
    return config->settings.module && config->settings.no_python;
}

static bool
has_machine_out_of_range (const struct config *config)
{
    return config->settings.machine_rank >= config->settings.num_machines;
}

static bool
has_no_main_machine (const struct config *config)
{
    return when_several_machines (&config->settings) && !config->settings.main_process_ip;
}

static bool
has_no_machine_rank (const struct config *config)
{
    return when_several_machines (&config->settings) && !config->file
           && config_origin (config, "machine_rank").kind == ORIGIN_DEFAULT;
}

/* Each machine would pick another one. */
static bool
has_free_port_everywhere (const struct config *config)
{
    return when_several_machines (&config->settings) && !config->settings.main_process_port
           && config_origin (config, "main_process_port").kind != ORIGIN_DEFAULT;
}

static bool
has_uneven_machines (const struct config *config)
{
    return config->settings.num_processes % config->settings.num_machines != 0;
}

static bool
has_single_gpu (const struct config *config)
{
    return config->settings.multi_gpu && !config->settings.cpu && !when_several_machines (&config->settings)
           && when_gpus_chosen (&config->settings) && !strchr (config->settings.gpu_ids, ',');
}

static bool
has_number_missing (const struct config *config)
{
    return config_origin (config, "distributed_type").kind == ORIGIN_FILE && !config->settings.num_processes;
}

static const struct {
    bool (*is_broken) (const struct config *config);
    const char *blamed[2]; /* keys whose values and origins the message tells */
    const char *text;
} rules[] = {
    { has_cpu_and_gpu, { "cpu", "multi_gpu" }, "choose one of --cpu and --multi_gpu" },
    { has_multi_gpu_alone, { "multi_gpu", "num_processes" }, "--multi_gpu needs at least 2 processes" },
    { has_module_without_python, { "module", "no_python" },
      "a module needs Python: choose one of --module and --no_python" },
    { has_machine_out_of_range, { "machine_rank", "num_machines" }, "machine_rank must be below num_machines" },
    { has_no_main_machine, { "num_machines" }, "several machines need --main_process_ip" },
    { has_no_machine_rank, { "num_machines" }, "several machines need --machine_rank, 0 on the main one" },
    { has_free_port_everywhere, { "main_process_port", "num_machines" },
      "each machine would pick another free port: name one with --main_process_port" },
    { has_uneven_machines, { "num_processes", "num_machines" },
      "the processes cannot be spread evenly over the machines" },
    { has_single_gpu, { "multi_gpu", "gpu_ids" }, "several GPUs are wanted but only one is listed in gpu_ids" },
    { has_number_missing, { "distributed_type" }, "the number of processes is not given: add num_processes" },
};

static void
describe (const struct config *config, const char *key, struct strbuf *out)
{
    const struct option *row = option_find (key);
    strbuf_printf (out, "%s %s ", out->length ? "," : ":", key);
    if (row->type != OPTION_FLAG)
        option_types[row->type].format (option_field_const (row, &config->settings), out);
    strbuf_add (out, row->type == OPTION_FLAG ? "(" : " (");
    config_format_origin (config, row, out);
    strbuf_add (out, ")");
}

int
config_check (const struct config *config, struct fail *fail)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!rules[i].is_broken (config))
            continue;
        AUTO_STRBUF struct strbuf blamed = { 0 };
        for (int j = 0; j < 2 && rules[i].blamed[j]; j++)
            describe (config, rules[i].blamed[j], &blamed);
        return fail_set (fail, FAIL_USAGE, "%s%s", rules[i].text, blamed.text ? blamed.text : "");
    }
    return 0;
}
