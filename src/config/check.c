/* SPDX-License-Identifier: Apache-2.0 */
/* Rules over several settings; see check.h.  Each rule names the settings it blames, so that the message can say where
 * they came from. */
#include <config.h>

#include "config/check.h"

#include "config/conditions.h"
#include "config/gpu_ids.h"
#include "config/host.h"
#include "config/mode.h"
#include "config/tee.h"
#include "util/parse.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
is_flag_given (const struct config *config, const char *key)
{
    return config_origin (config, key).kind == ORIGIN_FLAG;
}

/* name (config): something is wrong. */
#define CONDITION(name, condition)                                  \
    static bool                                                     \
    name (const struct config *config)                              \
    {                                                               \
        const struct settings *settings = &config->settings;        \
        return condition;                                           \
    }

CONDITION (has_parallelism_alone, is_flag_given (config, "use_parallelism_config") && !settings->use_deepspeed
           && !(settings->use_fsdp && !strcmp (settings->fsdp_version, "2")))

/* Accelerate looks at truth values of a file only, and misses the same words on the command line. */
static bool
has_unsynchronised_loading (const struct config *config)
{
    const struct settings *settings = &config->settings;
    bool efficient = false, synchronised = true;
    return settings->use_fsdp && parse_bool (settings->fsdp_cpu_ram_efficient_loading, &efficient) == PARSE_OK
           && parse_bool (settings->fsdp_sync_module_states, &synchronised) == PARSE_OK && efficient && !synchronised;
}

CONDITION (has_bad_tee, !tee_is_valid (settings->tee))

static bool
has_log_dir_in_use (const struct config *config)
{
    struct stat info;
    return config->settings.log_dir && !stat (config->settings.log_dir, &info) && S_ISREG (info.st_mode);
}

CONDITION (has_json_alone, settings->json && !settings->dry_run)
CONDITION (has_memory_alone, settings->memory_checkpoint_every && !settings->max_restarts)
CONDITION (has_explain_alone, settings->explain && (!settings->dry_run || settings->json))

static bool
has_bad_rendezvous (const struct config *config)
{
    for (const char *at = config->settings.rdzv_conf; at && *at;) {
        size_t length = strcspn (at, ","), name = strcspn (at, "=,");
        if (!name || name >= length || name + 1 == length)
            return true;
        at += length + (at[length] == ',');
        if (at[-1] == ',' && !*at)
            return true;
    }
    return false;
}

CONDITION (has_tpu_without_python, settings->tpu && settings->no_python)
/* As in Accelerate, a file may say 1: it may have been written for another run. */
CONDITION (has_multi_gpu_alone, is_flag_given (config, "multi_gpu") && is_flag_given (config, "num_processes")
           && settings->num_processes < 2)
CONDITION (has_module_without_python, settings->module && settings->no_python)
/* Of one's own: Amazon's find each other. */
CONDITION (has_several_machines, when_several_machines (settings) && !when_sagemaker (settings))
CONDITION (has_notices_on_machines, settings->spot_notices && has_several_machines (config)
           && (mode_is_mpirun (settings) || mode_is_deepspeed_launcher (settings)))
CONDITION (has_machine_out_of_range, has_several_machines (config) && settings->machine_rank >= settings->num_machines)
CONDITION (has_no_main_machine, has_several_machines (config) && !settings->main_process_ip)

static bool
has_no_machine_rank (const struct config *config)
{
    const struct settings *settings = &config->settings;
    if (mode_is_mpirun (settings) || mode_is_deepspeed_launcher (settings))
        return false; /* started on one machine only */
    return has_several_machines (config) && !config->file
           && config_origin (config, "machine_rank").kind == ORIGIN_DEFAULT;
}

/* Each machine would pick another one. */
CONDITION (has_free_port_everywhere, has_several_machines (config) && !settings->main_process_port
           && config_origin (config, "main_process_port").kind != ORIGIN_DEFAULT)
CONDITION (has_uneven_machines, settings->num_processes % settings->num_machines != 0 && !when_sagemaker (settings))
CONDITION (has_single_gpu, settings->multi_gpu && !settings->cpu && !when_several_machines (settings)
           && when_gpus_chosen (settings) && !strchr (settings->gpu_ids, ','))
CONDITION (has_number_missing, config_origin (config, "distributed_type").kind == ORIGIN_FILE
           && !settings->num_processes && !when_sagemaker (settings))

/* The library takes the file's content in base64 as well, which begins with e, as { does. */
static bool
has_no_deepspeed_file (const struct config *config)
{
    const char *name = config->settings.deepspeed_config_file;
    bool is_base64 = name && *name == 'e' && strlen (name) > 8 && !strpbrk (name, ". ~");
    return config->settings.use_deepspeed && name && strcmp (name, "none") != 0 && !is_base64 && access (name, F_OK);
}

static const struct {
    bool (*is_broken) (const struct config *config);
    const char *blamed[2]; /* keys whose values and origins the message tells */
    const char *text;
} rules[] = {
    { has_parallelism_alone, { "use_parallelism_config", "fsdp_version" },
      "parallelism_config needs DeepSpeed, or FSDP with fsdp_version 2" },
    { has_unsynchronised_loading, { "fsdp_cpu_ram_efficient_loading", "fsdp_sync_module_states" },
      "fsdp_cpu_ram_efficient_loading needs fsdp_sync_module_states: otherwise only rank 0 has the weights" },
    { has_bad_rendezvous, { "rdzv_conf" }, "expected comma-separated KEY=VALUE pairs" },
    { has_bad_tee, { "tee" }, "expected 0 to 3, or comma-separated pairs such as 0:1" },
    { has_log_dir_in_use, { "log_dir" }, "expected a directory, but a file has this name" },
    { has_json_alone, { NULL }, "--json needs --dry_run: it prints the plan" },
    { has_memory_alone, { "memory_checkpoint_every", "max_restarts" },
      "memory_checkpoint_every needs max_restarts: it is for ranks that are started again" },
    { has_notices_on_machines, { "spot_notices" },
      "spot_notices cannot be combined with num_machines if another launcher starts the ranks: it would watch one "
      "machine" },
    { has_explain_alone, { NULL }, "--explain needs --dry_run and cannot be combined with --json" },
    { has_tpu_without_python, { "tpu", "no_python" }, "a TPU program must be Python, because torch_xla imports it" },
    { has_multi_gpu_alone, { "multi_gpu", "num_processes" }, "--multi_gpu needs at least 2 processes" },
    { has_module_without_python, { "module", "no_python" },
      "--module and --no_python cannot be combined: a module needs Python" },
    { has_machine_out_of_range, { "machine_rank", "num_machines" }, "machine_rank must be less than num_machines" },
    { has_no_main_machine, { "num_machines" }, "several machines need --main_process_ip" },
    { has_no_machine_rank, { "num_machines" }, "several machines need --machine_rank (0 on the main machine)" },
    { has_free_port_everywhere, { "main_process_port", "num_machines" },
      "each machine would pick a different free port: set --main_process_port" },
    { has_uneven_machines, { "num_processes", "num_machines" },
      "num_processes must be a multiple of num_machines" },
    { has_single_gpu, { "multi_gpu", "gpu_ids" }, "gpu_ids lists one GPU, but several are needed" },
    { has_number_missing, { "distributed_type" }, "num_processes is missing" },
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

static int
check_host (const struct config *config, struct fail *fail)
{
    const char *host = config->settings.main_process_ip, *why = host ? host_complaint (host) : NULL;
    AUTO_STRBUF struct strbuf origin = { 0 };
    if (!why)
        return 0;
    config_show_origin (config, option_find ("main_process_ip"), &origin);
    return origin.failed ? fail_nomem (fail)
                         : fail_set (fail, FAIL_USAGE, "main_process_ip: '%s' is %s (%s)", host, why, origin.text);
}

/* What contradicts --hosts: the ranks' places are then decided by something else. */
static const char *const places[]
    = { "hostfile", "num_machines", "machine_rank", "mpirun_hostfile", "tpu", "deepspeed_hostfile" };

static int
check_hosts (const struct config *config, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    const char *flag = settings->hosts ? "hosts" : "hostfile", *launcher = settings->deepspeed_multinode_launcher;
    if (!settings->hosts && !settings->hostfile)
        return 0;
    bool is_list = mode_needs_place (settings) || config_origin (config, "machine_rank").kind == ORIGIN_COMPUTED
                   || config_origin (config, "main_process_ip").kind == ORIGIN_COMPUTED;
    for (size_t i = 0; i < sizeof places / sizeof *places && !is_list; i++)
        if (is_flag_given (config, places[i]) && strcmp (places[i], flag) != 0)
            return fail_set (fail, FAIL_USAGE, "--%s and --%s cannot be combined", flag, places[i]);
    if (settings->use_deepspeed && launcher && strcmp (launcher, "standard") != 0)
        return fail_set (fail, FAIL_USAGE, "--%s needs deepspeed_multinode_launcher: standard, because DeepSpeed's "
                         "other launchers start the hosts themselves", flag);
    return 0;
}

static int
check_gpu_ids (const struct config *config, struct fail *fail)
{
    AUTO_STRBUF struct strbuf why = { 0 }, blamed = { 0 };
    if (!config->settings.gpu_ids || gpu_ids_check (config->settings.gpu_ids, &why))
        return 0;
    describe (config, "gpu_ids", &blamed);
    if (why.failed || blamed.failed)
        return fail_nomem (fail);
    return fail_set (fail, FAIL_USAGE, "%s%s", why.text, blamed.text);
}

bool
config_ignores_deferred (const struct config *config)
{
    const struct option *row = option_find ("dynamo_backend");
    return config_origin (config, row->key).kind > ORIGIN_FILE || !(row->paths & mode_path (&config->settings, false));
}

int
config_check_deferred (const struct config *config, struct fail *fail)
{
    return !config->deferred || config_ignores_deferred (config)
               ? 0 : fail_set (fail, FAIL_GENERAL, "%s", config->deferred);
}

int
config_check (const struct config *config, struct fail *fail)
{
    if (config_check_deferred (config, fail))
        return -1;
    if (config_check_modes (config, fail) || check_hosts (config, fail))
        return -1;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!rules[i].is_broken (config))
            continue;
        AUTO_STRBUF struct strbuf blamed = { 0 };
        for (int j = 0; j < 2 && rules[i].blamed[j]; j++)
            describe (config, rules[i].blamed[j], &blamed);
        if (blamed.failed)
            return fail_nomem (fail);
        return fail_set (fail, FAIL_USAGE, "%s%s", rules[i].text, blamed.text ? blamed.text : "");
    }
    return check_host (config, fail) || check_gpu_ids (config, fail) ? -1 : 0;
}

int
config_check_files (const struct config *config, struct fail *fail)
{
    AUTO_STRBUF struct strbuf blamed = { 0 };
    if (!has_no_deepspeed_file (config))
        return 0;
    describe (config, "deepspeed_config_file", &blamed);
    return blamed.failed ? fail_nomem (fail)
                         : fail_set (fail, FAIL_USAGE, "DeepSpeed's configuration file does not exist%s", blamed.text);
}
