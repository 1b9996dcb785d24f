/* SPDX-License-Identifier: Apache-2.0 */
/* What one invocation was asked to do: plain typed fields, one for each row of the option table (options.c), and where
 * each value came from.  Fields of absent settings hold their row's default; texts are NULL if that is "none". */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include "util/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

/** Of an integer whose row has the word "auto": to be found out. */
#define SETTING_AUTO INT64_MIN

struct settings {
    /* meta */
    char *config_file;
    bool overwrite;
    char *output_file;
    char *report_output;
    bool quiet;
    bool debug;

    /* merge-weights and inspect */
    bool unsafe_serialization;
    bool remove_checkpoint_dir;
    bool follow_links;
    bool diff;
    bool norms;
    bool verify;

    /* checkpoint, kill and top */
    char *signal; /* "TERM" */
    int64_t wait; /* seconds */
    bool once;

    /* estimate-memory */
    char *library_name;
    struct strlist dtypes;
    bool trust_remote_code;
    int64_t context_length; /* 0: not given */
    int64_t batch_size;
    bool training;
    bool sharding;
    bool float32_gradients;
    bool share_parameters;

    /* hardware */
    bool cpu;
    bool use_cpu; /* the file's key; --cpu sets both */
    bool multi_gpu;
    char *distributed_type; /* the file's key */
    char *compute_environment; /* the file's key */

    /* resources */
    char *mixed_precision;
    int64_t num_processes;               /* 0: not given */
    int64_t num_machines;
    int64_t num_cpu_threads_per_process; /* 0: not given */
    int64_t total_batch_size;            /* 0: not given */
    char *dynamo_backend;
    char *dynamo_mode;
    bool dynamo_use_fullgraph;
    bool dynamo_use_dynamic;
    bool dynamo_use_regional_compilation;

    /* distributed */
    char *gpu_ids;
    bool share_gpus;
    int64_t machine_rank;                /* may be SETTING_AUTO */
    char *main_process_ip;
    int64_t main_process_port; /* 0: not given, or "any free one"; the origin tells which */

    /* program */
    bool module;
    bool no_python;

    /* more hardware, training paradigms; texts are as Python would write the values */
    bool tpu;
    bool enable_cpu_affinity;
    char *bind; /* "auto", "none", "core", "numa", "gpu" */
    bool report_bindings;
    int64_t only_rank; /* SETTING_AUTO: all */
    bool use_deepspeed;
    bool use_fsdp;
    bool use_megatron_lm;
    bool use_parallelism_config;

    /* several machines, torchrun, mpirun; texts are as Python would write the values */
    bool same_network;
    char *tee;
    char *log_dir;
    char *role;
    char *rdzv_backend;
    char *rdzv_conf;
    int64_t max_restarts;
    char *monitor_interval;
    char *mpirun_hostfile;
    char *mpirun_bind_to;

    /* TPUs and AWS; texts are as Python would write the values */
    bool tpu_cluster;
    bool no_tpu_cluster;
    bool tpu_use_cluster;
    bool tpu_use_sudo;
    struct strlist vm;
    struct strlist env;
    char *main_training_function;
    bool downcast_bf16;
    char *tpu_name;
    char *tpu_zone;
    char *command_file;
    struct strlist commands;
    struct strlist tpu_vm;
    struct strlist tpu_env;

    /* tpu-config */
    bool use_alpha;
    struct strlist command; /* --command; the file's key is `commands` */
    bool install_accelerate;
    char *accelerate_version;
    bool print_command; /* its --debug */

    /* AWS */
    char *aws_access_key_id;
    char *aws_secret_access_key;

    /* DeepSpeed; texts are as Python would write the values */
    char *deepspeed_config_file;
    int64_t zero_stage;
    char *offload_optimizer_device;
    char *offload_param_device;
    char *offload_optimizer_nvme_path;
    char *offload_param_nvme_path;
    char *gradient_accumulation_steps;
    char *gradient_clipping;
    char *zero3_init_flag;
    char *zero3_save_16bit_model;
    char *deepspeed_hostfile;
    char *deepspeed_exclusion_filter;
    char *deepspeed_inclusion_filter;
    char *deepspeed_multinode_launcher;
    char *deepspeed_moe_layer_cls_names;

    /* fully sharded data parallelism; texts are as Python would write the values */
    char *fsdp_version;
    char *fsdp_offload_params;
    int64_t fsdp_min_num_params;
    char *fsdp_sharding_strategy;
    char *fsdp_reshard_after_forward;
    char *fsdp_auto_wrap_policy;
    char *fsdp_transformer_layer_cls_to_wrap;
    char *fsdp_backward_prefetch;
    char *fsdp_state_dict_type;
    char *fsdp_forward_prefetch;
    char *fsdp_use_orig_params;
    char *fsdp_cpu_ram_efficient_loading;
    char *fsdp_sync_module_states;
    char *fsdp_activation_checkpointing;
    char *fsdp_activation_checkpointing_offload;
    char *fsdp_ignored_modules;

    /* Megatron-LM; texts are as Python would write the values */
    int64_t megatron_lm_tp_degree;
    char *megatron_lm_use_custom_fsdp;
    char *megatron_lm_no_load_optim;
    char *megatron_lm_eod_mask_loss;
    char *megatron_lm_overlap_cpu_optimizer_d2h_h2d;
    char *megatron_lm_no_save_optim;
    char *megatron_lm_optimizer_cpu_offload;
    char *megatron_lm_use_precision_aware_optimizer;
    int64_t megatron_lm_decoder_last_pipeline_num_layers;
    int64_t megatron_lm_pp_degree;
    int64_t megatron_lm_num_micro_batches;
    char *megatron_lm_sequence_parallelism;
    char *megatron_lm_recompute_activations;
    char *megatron_lm_use_distributed_optimizer;
    char *megatron_lm_gradient_clipping;
    char *megatron_lm_recompute_granularity;
    char *megatron_lm_recompute_method;
    int64_t megatron_lm_recompute_num_layers;
    char *megatron_lm_attention_backend;
    int64_t megatron_lm_expert_model_parallel_size;
    int64_t megatron_lm_context_parallel_size;
    char *megatron_lm_attention_dropout;
    char *megatron_lm_hidden_dropout;
    char *megatron_lm_attention_softmax_in_fp32;
    int64_t megatron_lm_expert_tensor_parallel_size;
    char *megatron_lm_calculate_per_token_loss;
    char *megatron_lm_use_rotary_position_embeddings;

    /* 8-bit floats; texts are as Python would write the values */
    char *fp8_backend;
    bool fp8_use_autocast_during_eval;
    int64_t fp8_margin;
    int64_t fp8_interval;
    char *fp8_format;
    int64_t fp8_amax_history_len;
    char *fp8_amax_compute_algo;
    char *fp8_override_linear_precision;
    char *fp8_opt_level;
    char *fp8_enable_fsdp_float8_all_gather;
    char *fp8_pad_inner_dim;
    char *fp8_use_mxfp8_block_scaling;

    /* several kinds of parallelism; texts are as Python would write the values */
    int64_t parallelism_config_dp_replicate_size;
    int64_t parallelism_config_dp_shard_size;
    int64_t parallelism_config_tp_size;
    int64_t parallelism_config_cp_size;
    char *parallelism_config_cp_backend;
    char *parallelism_config_cp_comm_strategy;
    int64_t parallelism_config_sp_size;
    char *parallelism_config_sp_backend;
    char *parallelism_config_sp_seq_length;
    char *parallelism_config_sp_seq_length_is_variable;
    char *parallelism_config_sp_attn_implementation;

    /* SageMaker */
    char *ec2_instance_type;
    char *iam_role_name;
    char *image_uri;
    char *profile;
    char *region;
    char *base_job_name;
    char *pytorch_version;
    char *transformers_version;
    char *py_version;
    char *sagemaker_inputs_file;
    char *sagemaker_metrics_file;
    bool detach;

    /* several hosts */
    char *hosts;
    char *hostfile;
    char *starter;
    char *mpi;
    char *interface;
    int64_t host_timeout; /* seconds */
    char *job_key_file;

    /* ours */
    bool dry_run;
    bool explain;
    bool json;
    bool yes;
    char *input; /* "0" or "none" */
    char *cpu_backend; /* "auto", "accel" or "gloo" */
    char *label; /* "auto", "yes" or "no" */
    bool no_progress;
    int64_t grace; /* seconds between TERM and KILL */
    int64_t stall_timeout; /* seconds without progress until a warning; 0: none */
    int64_t timeout; /* seconds that ranks wait for each other */
    int64_t time_limit; /* seconds; 0: none */
    char *checkpoint_file;
    char *spot_notices;
    char *failure_report;
    char *resume; /* folder of checkpoints */
    int64_t memory_checkpoint_every; /* steps; 0: never */
};

#endif
