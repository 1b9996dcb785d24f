/* SPDX-License-Identifier: Apache-2.0 */
/* The original's flags, keys and words that are not here yet; see foreign.h. */
#include <config.h>

#include "config/foreign.h"
#include "util/parse.h"

#include <string.h>
#include <strings.h>

#define WORDS(...) (const char *const[]) { __VA_ARGS__, NULL }

/* Keys with "*" are read only by modes that are refused where they are chosen (TPU), or by other commands. */
const struct foreign foreigns[] = {
    { "tpu", FOREIGN_FLAG },
    { "tpu_cluster", FOREIGN_FLAG },
    { "no_tpu_cluster", FOREIGN_FLAG },
    { "tpu_use_sudo", FOREIGN_FLAG | FOREIGN_KEY, WORDS ("false") },
    { "vm", FOREIGN_FLAG },
    { "env", FOREIGN_FLAG },
    { "main_training_function", FOREIGN_FLAG | FOREIGN_KEY, WORDS ("*") },
    { "downcast_bf16", FOREIGN_FLAG | FOREIGN_KEY, WORDS ("false") },
    { "enable_cpu_affinity", FOREIGN_FLAG | FOREIGN_KEY, WORDS ("false") },
    { "use_deepspeed", FOREIGN_FLAG },
    { "use_fsdp", FOREIGN_FLAG },
    { "use_parallelism_config", FOREIGN_FLAG },
    { "use_megatron_lm", FOREIGN_FLAG },
    { "same_network", FOREIGN_FLAG | FOREIGN_KEY, WORDS ("true", "false") },
    { "tee", FOREIGN_FLAG },
    { "log_dir", FOREIGN_FLAG },
    { "role", FOREIGN_FLAG },
    { "rdzv_backend", FOREIGN_FLAG | FOREIGN_KEY, WORDS ("static") },
    { "rdzv_conf", FOREIGN_FLAG },
    { "max_restarts", FOREIGN_FLAG },
    { "monitor_interval", FOREIGN_FLAG },
    { "deepspeed_config_file", FOREIGN_FLAG },
    { "zero_stage", FOREIGN_FLAG },
    { "offload_optimizer_device", FOREIGN_FLAG },
    { "offload_param_device", FOREIGN_FLAG },
    { "offload_optimizer_nvme_path", FOREIGN_FLAG },
    { "offload_param_nvme_path", FOREIGN_FLAG },
    { "gradient_accumulation_steps", FOREIGN_FLAG },
    { "gradient_clipping", FOREIGN_FLAG },
    { "zero3_init_flag", FOREIGN_FLAG },
    { "zero3_save_16bit_model", FOREIGN_FLAG },
    { "deepspeed_hostfile", FOREIGN_FLAG },
    { "deepspeed_exclusion_filter", FOREIGN_FLAG },
    { "deepspeed_inclusion_filter", FOREIGN_FLAG },
    { "deepspeed_multinode_launcher", FOREIGN_FLAG },
    { "deepspeed_moe_layer_cls_names", FOREIGN_FLAG },
    { "fsdp_version", FOREIGN_FLAG },
    { "fsdp_offload_params", FOREIGN_FLAG },
    { "fsdp_min_num_params", FOREIGN_FLAG },
    { "fsdp_sharding_strategy", FOREIGN_FLAG },
    { "fsdp_reshard_after_forward", FOREIGN_FLAG },
    { "fsdp_auto_wrap_policy", FOREIGN_FLAG },
    { "fsdp_transformer_layer_cls_to_wrap", FOREIGN_FLAG },
    { "fsdp_backward_prefetch", FOREIGN_FLAG },
    { "fsdp_state_dict_type", FOREIGN_FLAG },
    { "fsdp_forward_prefetch", FOREIGN_FLAG },
    { "fsdp_use_orig_params", FOREIGN_FLAG },
    { "fsdp_cpu_ram_efficient_loading", FOREIGN_FLAG },
    { "fsdp_sync_module_states", FOREIGN_FLAG },
    { "fsdp_activation_checkpointing", FOREIGN_FLAG },
    { "megatron_lm_tp_degree", FOREIGN_FLAG },
    { "megatron_lm_use_custom_fsdp", FOREIGN_FLAG },
    { "megatron_lm_no_load_optim", FOREIGN_FLAG },
    { "megatron_lm_eod_mask_loss", FOREIGN_FLAG },
    { "megatron_lm_overlap_cpu_optimizer_d2h_h2d", FOREIGN_FLAG },
    { "megatron_lm_no_save_optim", FOREIGN_FLAG },
    { "megatron_lm_optimizer_cpu_offload", FOREIGN_FLAG },
    { "megatron_lm_use_precision_aware_optimizer", FOREIGN_FLAG },
    { "megatron_lm_decoder_last_pipeline_num_layers", FOREIGN_FLAG },
    { "megatron_lm_pp_degree", FOREIGN_FLAG },
    { "megatron_lm_num_micro_batches", FOREIGN_FLAG },
    { "megatron_lm_sequence_parallelism", FOREIGN_FLAG },
    { "megatron_lm_recompute_activations", FOREIGN_FLAG },
    { "megatron_lm_use_distributed_optimizer", FOREIGN_FLAG },
    { "megatron_lm_gradient_clipping", FOREIGN_FLAG },
    { "megatron_lm_recompute_granularity", FOREIGN_FLAG },
    { "megatron_lm_recompute_method", FOREIGN_FLAG },
    { "megatron_lm_recompute_num_layers", FOREIGN_FLAG },
    { "megatron_lm_attention_backend", FOREIGN_FLAG },
    { "megatron_lm_expert_model_parallel_size", FOREIGN_FLAG },
    { "megatron_lm_context_parallel_size", FOREIGN_FLAG },
    { "megatron_lm_attention_dropout", FOREIGN_FLAG },
    { "megatron_lm_hidden_dropout", FOREIGN_FLAG },
    { "megatron_lm_attention_softmax_in_fp32", FOREIGN_FLAG },
    { "megatron_lm_expert_tensor_parallel_size", FOREIGN_FLAG },
    { "megatron_lm_calculate_per_token_loss", FOREIGN_FLAG },
    { "megatron_lm_use_rotary_position_embeddings", FOREIGN_FLAG },
    { "fp8_backend", FOREIGN_FLAG },
    { "fp8_use_autocast_during_eval", FOREIGN_FLAG },
    { "fp8_margin", FOREIGN_FLAG },
    { "fp8_interval", FOREIGN_FLAG },
    { "fp8_format", FOREIGN_FLAG },
    { "fp8_amax_history_len", FOREIGN_FLAG },
    { "fp8_amax_compute_algo", FOREIGN_FLAG },
    { "fp8_override_linear_precision", FOREIGN_FLAG },
    { "fp8_opt_level", FOREIGN_FLAG },
    { "fp8_enable_fsdp_float8_all_gather", FOREIGN_FLAG },
    { "fp8_pad_inner_dim", FOREIGN_FLAG },
    { "aws_access_key_id", FOREIGN_FLAG },
    { "aws_secret_access_key", FOREIGN_FLAG },
    { "mpirun_hostfile", FOREIGN_FLAG },
    { "parallelism_config_dp_replicate_size", FOREIGN_FLAG },
    { "parallelism_config_dp_shard_size", FOREIGN_FLAG },
    { "parallelism_config_tp_size", FOREIGN_FLAG },
    { "parallelism_config_cp_size", FOREIGN_FLAG },
    { "parallelism_config_cp_backend", FOREIGN_FLAG },
    { "parallelism_config_cp_comm_strategy", FOREIGN_FLAG },
    { "parallelism_config_sp_size", FOREIGN_FLAG },
    { "parallelism_config_sp_backend", FOREIGN_FLAG },
    { "parallelism_config_sp_seq_length", FOREIGN_FLAG },
    { "parallelism_config_sp_seq_length_is_variable", FOREIGN_FLAG },
    { "parallelism_config_sp_attn_implementation", FOREIGN_FLAG },
    { "tpu_use_cluster", FOREIGN_KEY, WORDS ("false") },
    { "tpu_name", FOREIGN_KEY, WORDS ("*") },
    { "tpu_zone", FOREIGN_KEY, WORDS ("*") },
    { "tpu_vm", FOREIGN_KEY, WORDS ("*") },
    { "tpu_env", FOREIGN_KEY, WORDS ("*") },
    { "command_file", FOREIGN_KEY, WORDS ("*") },
    { "commands", FOREIGN_KEY, WORDS ("*") },
    { "ec2_instance_type", FOREIGN_KEY },
    { "iam_role_name", FOREIGN_KEY },
    { "image_uri", FOREIGN_KEY },
    { "profile", FOREIGN_KEY },
    { "region", FOREIGN_KEY },
    { "base_job_name", FOREIGN_KEY },
    { "pytorch_version", FOREIGN_KEY },
    { "transformers_version", FOREIGN_KEY },
    { "py_version", FOREIGN_KEY },
    { "sagemaker_inputs_file", FOREIGN_KEY },
    { "sagemaker_metrics_file", FOREIGN_KEY },
    { "additional_args", FOREIGN_KEY },
    { "fp16", FOREIGN_KEY, WORDS ("*") },
    { "deepspeed_config", FOREIGN_SECTION },
    { "fsdp_config", FOREIGN_SECTION },
    { "megatron_lm_config", FOREIGN_SECTION },
    { "mpirun_config", FOREIGN_SECTION },
    { "fp8_config", FOREIGN_SECTION },
    { "parallelism_config", FOREIGN_SECTION },
};

const size_t foreign_count = sizeof foreigns / sizeof *foreigns;

/* Words that the original accepts where a row's choices have fewer. */
static const struct {
    const char *key;
    const char *const *words;
} values[] = {
    { "compute_environment", WORDS ("AMAZON_SAGEMAKER") },
    { "distributed_type", WORDS ("MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU", "MULTI_HPU",
                                 "MULTI_NEURON", "XLA", "TPU", "DEEPSPEED", "FSDP", "MEGATRON_LM", "DATA_PARALLEL",
                                 "MODEL_PARALLEL") },
    { "mixed_precision", WORDS ("fp8") },
};

const struct foreign *
foreign_find (unsigned place, const char *key)
{
    for (size_t i = 0; i < foreign_count; i++) {
        const char *a = foreigns[i].key, *b = key;
        while (*a && (*a == *b || (place == FOREIGN_FLAG && *a == '_' && *b == '-')))
            a++, b++;
        if (!*a && !*b && foreigns[i].places & place)
            return &foreigns[i];
    }
    return NULL;
}

/* Truth values have many spellings in YAML; compare them as such. */
static bool
same_value (const char *wanted, const char *text)
{
    bool a, b;
    if (parse_bool (wanted, &a) == PARSE_OK && parse_bool (text, &b) == PARSE_OK)
        return a == b;
    return !strcmp (wanted, text);
}

bool
foreign_is_harmless (const struct foreign *row, const char *text)
{
    if (!*text)
        return true;
    for (size_t i = 0; row->harmless && row->harmless[i]; i++)
        if (!strcmp (row->harmless[i], "*") || same_value (row->harmless[i], text))
            return true;
    return false;
}

bool
foreign_value (const char *key, const char *text)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t j = 0; !strcmp (values[i].key, key) && values[i].words[j]; j++)
            if (!strcasecmp (values[i].words[j], text))
                return true;
    return false;
}
