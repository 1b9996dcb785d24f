/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and words of files; see file_keys.h. */
#include <config.h>

#include "config/file_keys.h"
#include "util/text.h"

#include <string.h>
#include <strings.h>

/* The row's own word for a value: words in any case, and `no` even if YAML makes it a truth value. */
const char *
file_choice (const struct option *row, const struct node *node)
{
    bool is_false = node->kind == NODE_BOOL && *node->text == 'F';
    for (size_t i = 0; row->choices[i]; i++)
        if (!strcasecmp (row->choices[i], node->text) || (is_false && !strcasecmp (row->choices[i], "no")))
            return row->choices[i];
    return node->text;
}

/* Their successors are not the same. */
bool
file_is_old_backend (const struct option *row, const char *word)
{
    static const char *const words[] = { "ipex", "nvfuser", "aot_nvfuser", "aot_cudagraphs" };
    for (size_t i = 0; !strcmp (row->key, "dynamo_backend") && i < sizeof words / sizeof *words; i++)
        if (!strcasecmp (words[i], word))
            return true;
    return false;
}

/* What Accelerate's questionnaires have called some keys: of fp8_config, under names that nothing reads; of
 * fsdp_config, in the releases from 0.11 to 0.25. */
static const struct {
    const char *section, *wrong, *right;
} old_names[] = {
    { "fp8_config", "amax_history_length", "fp8_amax_history_len" },
    { "fp8_config", "amax_compute_algorithm", "fp8_amax_compute_algo" },
    { "fp8_config", "optimization_level", "fp8_opt_level" },
    { "fsdp_config", "fsdp_backward_prefetch_policy", "fsdp_backward_prefetch" },
    { "fsdp_config", "backward_prefetch_policy", "fsdp_backward_prefetch" },
};

const char *
file_new_name (const char *section, const char *wrong)
{
    for (size_t i = 0; section && i < sizeof old_names / sizeof *old_names; i++)
        if (!strcmp (section, old_names[i].section) && !strcmp (wrong, old_names[i].wrong))
            return old_names[i].right;
    return NULL;
}

const struct option *
file_find_row (const char *section, const char *key)
{
    const struct option *row = option_find_in_file (section, key);
    const char *name = row ? NULL : file_new_name (section, key);
    return name ? option_find (name) : row;
}

const char *
file_old_name (size_t i, const char **section)
{
    if (i >= sizeof old_names / sizeof *old_names)
        return NULL;
    *section = old_names[i].section;
    return old_names[i].wrong;
}

/* The keys at the top of DeepSpeed's own JSON file that deepspeed_config does not have.  People write them there, and
 * Accelerate passes them over. */
static const char *const deepspeed_keys[] = {
    "activation_checkpointing", "aio", "allgather_size", "amp", "autotuning", "bf16", "bfloat16", "checkpoint",
    "comet", "comms_logger", "communication_data_type", "compile", "compression_training", "csv_monitor",
    "curriculum_learning", "data_efficiency", "data_parallel_size", "data_types", "dataloader_drop_last",
    "datastates_ckpt", "disable_allgather", "dump_state", "eigenvalue", "elasticity", "expert_parallel",
    "flops_profiler", "fp16", "fp32_allreduce", "gradient_allreduce_op", "gradient_predivide_factor",
    "graph_harvesting", "hybrid_engine", "log_level", "managed_gradient_accumulation", "memory_breakdown", "nebula",
    "optimizer", "pipeline", "prescale_gradients", "progressive_layer_drop", "quantize_training", "scheduler",
    "seq_parallel_communication_data_type", "sequence_parallel_size", "sparse_attention", "sparse_gradients",
    "steps_per_print", "tensor_parallel", "tensorboard", "timers", "torch_autocast", "train_batch_size",
    "train_micro_batch_size_per_gpu", "use_data_before_expert_parallelism", "vocabulary_size", "wall_clock_breakdown",
    "wandb", "weight_quantization", "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "zero_optimization",
};

const char *
file_deepspeed_key (size_t i)
{
    return i < sizeof deepspeed_keys / sizeof *deepspeed_keys ? deepspeed_keys[i] : NULL;
}

/* Keys at the top that only one kind of file has; sections but dynamo_config are for machines of one's own. */
static const char *const shared[] = {
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "num_machines", "gpu_ids",
    "enable_cpu_affinity", "dynamo_config", "dynamo_backend", "fp16", NULL,
};

bool
file_is_for_sagemaker (const struct node *root)
{
    const struct node *environment = node_find (root, "compute_environment");
    return environment && environment->text && !strcasecmp (environment->text, "AMAZON_SAGEMAKER");
}

static const char parallel[] = "_PARALLEL";

static int
check_type (const struct node *node, bool is_aws, struct fail *fail)
{
    const struct option *row = option_find_in_file (NULL, "distributed_type");
    if (!node->text)
        return 0;
    const char *type = file_choice (row, node), *end = strstr (type, parallel);
    bool is_parallel = end && !strcmp (end, parallel);
    if (is_aws && !is_parallel && strcmp (type, "NO"))
        return fail_set (fail, FAIL_GENERAL, "distributed_type: '%s' is not supported on SageMaker; use NO, "
                         "DATA_PARALLEL, MODEL_PARALLEL", type);
    if (!is_aws && is_parallel)
        return fail_set (fail, FAIL_GENERAL, "distributed_type: '%s' needs compute_environment: AMAZON_SAGEMAKER",
                         type);
    return 0;
}

bool
file_has_key (bool is_aws, const char *key)
{
    bool is_aws_key = !strcmp (key, "additional_args");
    const struct option *row = option_find_in_file (NULL, key);
    if (text_is_one_of (key, shared))
        return true;
    is_aws_key = is_aws_key || (row && row->group == GROUP_AWS);
    return (row && (row->properties & PROPERTY_EXTENSION)) || is_aws == is_aws_key;
}

static bool
is_known (const char *key)
{
    for (size_t i = 0; i < option_count; i++)
        if (!strcmp (options[i].section ? options[i].section : options[i].key, key))
            return true;
    return !strcmp (key, "additional_args");
}

int
file_check_kind (const struct node *root, const struct node *node, struct fail *fail)
{
    bool is_aws = file_is_for_sagemaker (root);
    if (is_known (node->key) && !file_has_key (is_aws, node->key))
        return fail_set (fail, FAIL_GENERAL, is_aws ? "'%s' is not a key for SageMaker" : "'%s' is a key for "
                         "compute_environment: AMAZON_SAGEMAKER only", node->key);
    return strcmp (node->key, "distributed_type") ? 0 : check_type (node, is_aws, fail);
}
