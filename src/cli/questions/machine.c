/* SPDX-License-Identifier: Apache-2.0 */
/* The questionnaire for your own machines: Hugging Face Accelerate's questions in its order, with its conditions,
 * choices and defaults.  Questions that it asks only if a Python package or a device is present are always asked
 * here: the file may be meant for another machine, and this one need not have Python. */
#include <config.h>

#include "cli/questions/questions.h"
#include "config/host.h"
#include "config/values.h"
#include "hosts/list/hostlist.h"
#include "util/parse.h"
#include "util/precisions.h"

#include <string.h>

#include "cli/questions/dynamo.h"

static const struct choice environments[] = {
    { "LOCAL_MACHINE", "This machine" }, { "AMAZON_SAGEMAKER", "AWS (Amazon SageMaker)" }, { NULL },
};

static const struct choice machines[] = {
    { "NO", "No distributed training" }, { "MULTI_CPU", "multi-CPU" },   { "MULTI_XPU", "multi-XPU" },
    { "MULTI_HPU", "multi-HPU" },        { "MULTI_GPU", "multi-GPU" },   { "MULTI_NPU", "multi-NPU" },
    { "MULTI_MLU", "multi-MLU" },        { "MULTI_SDAA", "multi-SDAA" }, { "MULTI_MUSA", "multi-MUSA" },
    { "MULTI_NEURON", "multi-NEURON" },  { "XLA", "TPU" },               { NULL },
};

static const struct choice zero_stages[] = { { "0" }, { "1" }, { "2" }, { "3" }, { NULL } };
static const struct choice offload_devices[] = { { "none" }, { "cpu" }, { "nvme" }, { NULL } };
static const struct choice multinode_launchers[] = {
    { "pdsh" }, { "standard" }, { "openmpi" }, { "mvapich" }, { "mpich" }, { "nossh" }, { "slurm" }, { NULL },
};
static const struct choice fsdp_versions[] = { { "1" }, { "2" }, { NULL } };
static const struct choice sharding_strategies[] = {
    { "FULL_SHARD" }, { "SHARD_GRAD_OP" }, { "NO_SHARD" }, { "HYBRID_SHARD" }, { "HYBRID_SHARD_ZERO2" }, { NULL },
};
static const struct choice wrap_policies[] = {
    { "TRANSFORMER_BASED_WRAP" }, { "SIZE_BASED_WRAP" }, { "NO_WRAP" }, { NULL },
};
static const struct choice backward_prefetches[] = {
    { "BACKWARD_PRE" }, { "BACKWARD_POST" }, { "NO_PREFETCH" }, { NULL },
};
static const struct choice state_dicts_1[] = {
    { "FULL_STATE_DICT" }, { "LOCAL_STATE_DICT" }, { "SHARDED_STATE_DICT" }, { NULL },
};
static const struct choice state_dicts_2[] = { { "SHARDED_STATE_DICT" }, { "FULL_STATE_DICT" }, { NULL } };
static const struct choice cp_strategies[] = { { "allgather" }, { "alltoall" }, { NULL } };
static const struct choice fp8_backends[] = { { "ao" }, { "te" }, { "msamp" }, { NULL } };
static const struct choice fp8_formats[] = { { "HYBRID" }, { "E4M3" }, { "E5M2" }, { NULL } };
static const struct choice amax_algorithms[] = { { "max" }, { "most_recent" }, { NULL } };
static const struct choice opt_levels[] = { { "O1" }, { "O2" }, { NULL } };

/* Conditions.  An answer to a question that is not asked is "". */

static bool
yes (const struct answers *answers, const char *id)
{
    return answers_is (answers, id, "yes");
}

#define CONDITION(name, condition)                   \
    static bool                                      \
    name (const struct answers *answers)             \
    {                                                \
        return condition;                            \
    }

CONDITION (with_several_kinds, !strncmp (answers_get (answers, "machine"), "MULTI_", 6))
CONDITION (with_several_machines, answers_number (answers, "num_machines") > 1)
CONDITION (with_hosts, *answers_get (answers, "hosts") != '\0')
CONDITION (with_launchers_by_hand, with_several_machines (answers) && !with_hosts (answers))
CONDITION (with_one_process, answers_is (answers, "machine", "NO"))
CONDITION (with_multi_cpu, answers_is (answers, "machine", "MULTI_CPU"))
CONDITION (with_multi_gpu, answers_is (answers, "machine", "MULTI_GPU"))
CONDITION (with_mpirun_possible, with_multi_cpu (answers) && !with_hosts (answers))
CONDITION (with_accelerators, with_several_kinds (answers) && !with_multi_cpu (answers))
/* Asked even after "CPU only", as in Accelerate; which leaves it out on Apple's machines. */
CONDITION (with_deepspeed_possible, with_accelerators (answers) || with_one_process (answers))
CONDITION (with_deepspeed, yes (answers, "use_deepspeed"))
CONDITION (with_offload, answers_number (answers, "zero_stage") >= 2)
CONDITION (with_deepspeed_machines, with_deepspeed (answers) && with_launchers_by_hand (answers))
CONDITION (with_deepspeed_hosts, with_deepspeed (answers) && with_hosts (answers))
CONDITION (with_hostfile, with_deepspeed_machines (answers)
           && !answers_is (answers, "deepspeed_multinode_launcher", "standard"))
CONDITION (with_fsdp_possible, with_accelerators (answers) && !with_deepspeed (answers))
CONDITION (with_fsdp, yes (answers, "use_fsdp"))
CONDITION (with_full_loading, answers_is (answers, "fsdp_version", "1")
           && answers_is (answers, "fsdp_cpu_ram_efficient_loading", "no"))
CONDITION (with_contexts, answers_number (answers, "parallelism_config_cp_size") > 1)
CONDITION (with_megatron_possible, with_multi_gpu (answers) && !with_deepspeed (answers) && !with_fsdp (answers))
CONDITION (with_megatron, yes (answers, "use_megatron_lm"))
CONDITION (with_tensor_parallelism, answers_number (answers, "megatron_lm_tp_degree") > 1)
CONDITION (with_pipeline, answers_number (answers, "megatron_lm_pp_degree") > 1)
/* One process is a matter of course only without any of the kinds: DeepSpeed is offered for one, too. */
CONDITION (with_processes, !with_one_process (answers) || with_deepspeed (answers))
CONDITION (with_no_paradigm, !with_deepspeed (answers) && !with_fsdp (answers) && !with_megatron (answers))
CONDITION (with_devices, with_deepspeed_possible (answers) && with_no_paradigm (answers) && !yes (answers, "use_cpu"))
CONDITION (with_affinity, with_devices (answers) && (with_one_process (answers) || with_multi_gpu (answers)))
/* DeepSpeed's own file says which precision. */
CONDITION (with_precision, !answers_is (answers, "machine", "XLA") && !yes (answers, "deepspeed_own_file"))

/* Objections: where Accelerate ends with a traceback. */

static const char *
refuse_on_neuron (const struct answers *answers, const char *text)
{
    return !strcmp (text, "yes") && answers_is (answers, "machine", "MULTI_NEURON")
               ? "not supported on Neuron devices"
               : NULL;
}

/* Several GPUs, and nothing but data parallelism. */
CONDITION (with_gpus_alone, with_megatron_possible (answers) && !with_megatron (answers)
           && !with_several_machines (answers))

/* @return how many hosts the answer names; -1: it cannot be read  @param[out] slots  of all; 0: not known of all */
static int
read_hosts (const char *text, int64_t *slots, struct fail *fail)
{
    struct hostlist list = { 0 };
    int count = -1;
    *slots = 0;
    if (!hostlist_add_text (&list, text, fail)) {
        hostlist_finish (&list);
        count = (int) list.count;
        for (size_t i = 0; i < list.count && *slots >= 0; i++)
            *slots = list.hosts[i].slots ? *slots + list.hosts[i].slots : -1;
        *slots = *slots < 0 ? 0 : *slots;
    }
    hostlist_release (&list);
    return count;
}

static int64_t
count_slots (const struct answers *answers)
{
    int64_t slots = 0;
    struct fail unused = { 0 };
    if (with_hosts (answers))
        read_hosts (answers_get (answers, "hosts"), &slots, &unused);
    return slots;
}

static const char *
refuse_hosts (const struct answers *answers, const char *text)
{
    static struct fail wrong; /* the caller shows it at once */
    int64_t slots, wanted = answers_number (answers, "num_machines");
    if (!*text || !strcmp (text, "auto"))
        return NULL;
    int count = read_hosts (text, &slots, &wrong);
    if (count >= 0 && count != wanted)
        fail_set (&wrong, FAIL_USAGE, "names %d host%s, but there are %lld machines", count, count == 1 ? "" : "s",
                  (long long) wanted);
    return count == wanted ? NULL : wrong.text;
}

static const char *
refuse_processes (const struct answers *answers, const char *text)
{
    int64_t hosts = answers_number (answers, "num_machines"), number;
    if (!strcmp (text, "1") && with_gpus_alone (answers))
        return "one process on one GPU is not distributed training; enter 2 or more, or choose no distributed "
               "training";
    if (hosts > 1 && !with_hosts (answers) && parse_int64 (text, 1, INT64_MAX, &number) == PARSE_OK && number % hosts)
        return "not a multiple of the number of machines";
    return NULL;
}

/* One for each GPU or machine, as launch has it. */
static int64_t
propose_processes (const struct answers *answers)
{
    int64_t hosts = answers_number (answers, "num_machines"), here = with_multi_gpu (answers) ? answers->gpus : 1;
    if (count_slots (answers) > 0)
        return count_slots (answers);
    if (hosts > 1)
        return hosts * (here > 1 ? here : 1);
    if (answers_is (answers, "machine", "MULTI_CPU") && answers->cores > 1)
        return answers->cores;
    return !with_gpus_alone (answers) ? 0 : here > 1 ? here : 2;
}

/* For a person who only presses Enter: all GPUs, or all cores.  Scripts get Accelerate's default. */
static int64_t
propose_machine (const struct answers *answers)
{
    const char *wanted = !answers->cores ? "" : answers->gpus > 1 ? "MULTI_GPU"
                         : !answers->gpus && answers->cores > 1 ? "MULTI_CPU" : "";
    for (int i = 0; machines[i].value; i++)
        if (!strcmp (machines[i].value, wanted))
            return i;
    return 0;
}

static const char *
refuse_host (const struct answers *answers, const char *text)
{
    (void) answers;
    return host_complaint (text);
}

/* What an old file, or flags, mean. */

static bool
has_type (const struct config *old, const char *type)
{
    return !strcmp (old->settings.distributed_type, type);
}

static const char *
recall_machine (const struct config *old)
{
    const struct settings *settings = &old->settings;
    bool is_wanted = settings->use_deepspeed || settings->use_fsdp || settings->use_megatron_lm;
    /* The file does not say what devices there were; GPUs are the likeliest. */
    return has_type (old, "DEEPSPEED") || has_type (old, "FSDP") || has_type (old, "MEGATRON_LM")
                   || (is_wanted && has_type (old, "NO"))
               ? "MULTI_GPU"
               : settings->distributed_type;
}

static const char *
recall_deepspeed (const struct config *old)
{
    return has_type (old, "DEEPSPEED") || old->settings.use_deepspeed ? "yes" : NULL;
}

static const char *
recall_fsdp (const struct config *old)
{
    return has_type (old, "FSDP") || old->settings.use_fsdp ? "yes" : NULL;
}

static const char *
recall_megatron (const struct config *old)
{
    return has_type (old, "MEGATRON_LM") || old->settings.use_megatron_lm ? "yes" : NULL;
}

static const char *
recall_no_split (const struct config *old)
{
    return old->settings.fsdp_transformer_layer_cls_to_wrap ? "no" : old->settings.fsdp_auto_wrap_policy ? "yes" : NULL;
}

/* One of the three truth values of fp8_override_linear_precision. */
static const char *
recall_override_at (const struct config *old, int at)
{
    const char *text = old->settings.fp8_override_linear_precision;
    for (; text && at; at--)
        text = strchr (text, ',') ? strchr (text, ',') + 1 : NULL;
    return text && (*text == 'T' || *text == 't' || *text == '1') ? "yes" : NULL;
}

static const char *
recall_fprop (const struct config *old)
{
    return recall_override_at (old, 0);
}

static const char *
recall_dgrad (const struct config *old)
{
    return recall_override_at (old, 1);
}

static const char *
recall_wgrad (const struct config *old)
{
    return recall_override_at (old, 2);
}

static const char *
recall_override (const struct config *old)
{
    return recall_fprop (old) || recall_dgrad (old) || recall_wgrad (old) ? "yes" : NULL;
}

/* A type given as a flag may be one that the old file's environment does not have. */
static const char *
recall_environment (const struct config *old)
{
    const char *environment = old->settings.compute_environment;
    bool is_parallel = has_type (old, "DATA_PARALLEL") || has_type (old, "MODEL_PARALLEL");
    if (config_origin (old, "distributed_type").kind != ORIGIN_FLAG || has_type (old, "NO")
        || config_origin (old, "compute_environment").kind == ORIGIN_FLAG)
        return environment;
    return is_parallel ? "AMAZON_SAGEMAKER" : "LOCAL_MACHINE";
}

static const struct question first_rows[] = {
    { .id = "compute_environment", .kind = ASK_MENU, .choices = environments, .dflt = "LOCAL_MACHINE",
      .told_by = "compute_environment", .recall = recall_environment,
      .text = "In which compute environment are you running?" },
};

static const struct question rows[] = {
#include "cli/questions/machine_rows.h"
};

/* What follows from the answers. */

static const char *
distributed_type_of (const struct answers *answers)
{
    return with_deepspeed (answers)  ? "DEEPSPEED"
           : with_fsdp (answers)     ? "FSDP"
           : with_megatron (answers) ? "MEGATRON_LM"
                                     : answers_get (answers, "machine");
}

static const char *
override_of (const struct answers *answers)
{
    static const char *const texts[] = {
        "False,False,False", "False,False,True", "False,True,False", "False,True,True",
        "True,False,False",  "True,False,True",  "True,True,False",  "True,True,True",
    };
    return texts[4 * yes (answers, "fp8_fprop") + 2 * yes (answers, "fp8_dgrad") + yes (answers, "fp8_wgrad")];
}

static const struct fixed_value fixed[] = {
    { .key = "distributed_type", .follow = distributed_type_of },
    { .key = "machine_rank", .text = "0" },
    { .key = "num_machines", .text = "1" },
    { .key = "num_processes", .text = "1" },
    { .key = "rdzv_backend", .text = "static" },
    { .key = "same_network", .text = "true" },
    { .key = "debug", .text = "false" },
    { .key = "use_cpu", .text = "false" },
    { .key = "use_cpu", .text = "true", .if_answer = { "machine", "MULTI_CPU" } },
    { .key = "enable_cpu_affinity", .text = "false" },
    { .key = "deepspeed_multinode_launcher", .text = "standard", .when = with_deepspeed_hosts },
    { .key = "downcast_bf16", .text = "false" },
    { .key = "main_training_function", .text = "main" },
    { .key = "mixed_precision", .text = "no", .if_answer = { "machine", "XLA" } },
    { .key = "fsdp_sync_module_states", .text = "True", .if_answer = { "fsdp_version", "1" } },
    { .key = "fp8_override_linear_precision", .follow = override_of, .if_answer = { "fp8_backend", "te" } },
    { .key = "tpu_env", .text = "" },
    { .key = "tpu_use_cluster", .text = "false" },
    { .key = "tpu_use_sudo", .text = "false" },
};

static const struct question_list questions_first = { NULL, first_rows, 1, NULL, 0 };
const struct question_list questions_machine = {
    "LOCAL_MACHINE", rows, sizeof rows / sizeof *rows, fixed, sizeof fixed / sizeof *fixed,
};
const struct question_list *const question_lists[QUESTION_LISTS] = {
    &questions_first, &questions_machine, &questions_sagemaker,
};
