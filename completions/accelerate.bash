# SPDX-License-Identifier: Apache-2.0
# Completion of accelerate(1) for bash.  Made from the option table by `make regen`; do not edit.
_accelerate ()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} at=2
    local options valued words i name
    COMPREPLY=()
    # '=' is a word of its own here
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    case ${COMP_WORDS[0]##*/} in
    accelerate-*)
        command=${COMP_WORDS[0]##*accelerate-} at=1
        ;;
    *)
        if ((COMP_CWORD == 1)); then
            mapfile -t COMPREPLY < <(compgen -W 'config env launch test to-fsdp2 --help --version' -- "$cur")
            return
        fi
        ;;
    esac
    case $command in
    config)
        options='--config_file --compute_environment --distributed_type --num_machines --machine_rank --main_process_ip --main_process_port --debug --use_cpu --dynamo_backend --dynamo_mode --dynamo_use_fullgraph --dynamo_use_dynamic --dynamo_use_regional_compilation --gpu_ids --num_processes --mixed_precision --deepspeed_config_file --zero_stage --offload_optimizer_device --offload_param_device --offload_optimizer_nvme_path --offload_param_nvme_path --gradient_accumulation_steps --gradient_clipping --zero3_init_flag --zero3_save_16bit_model --deepspeed_hostfile --deepspeed_exclusion_filter --deepspeed_inclusion_filter --deepspeed_multinode_launcher --deepspeed_moe_layer_cls_names --same_network --rdzv_backend --mpirun_hostfile --bind-to --fp8_backend --fp8_use_autocast_during_eval --fp8_margin --fp8_interval --fp8_format --fp8_amax_history_len --fp8_amax_compute_algo --fp8_override_linear_precision --fp8_opt_level --fp8_enable_fsdp_float8_all_gather --fp8_pad_inner_dim --fp8_use_mxfp8_block_scaling --fsdp_version --fsdp_offload_params --fsdp_min_num_params --fsdp_sharding_strategy --fsdp_reshard_after_forward --fsdp_auto_wrap_policy --fsdp_transformer_layer_cls_to_wrap --fsdp_backward_prefetch --fsdp_state_dict_type --fsdp_forward_prefetch --fsdp_use_orig_params --fsdp_cpu_ram_efficient_loading --fsdp_sync_module_states --fsdp_activation_checkpointing --fsdp_activation_checkpointing_offload --fsdp_ignored_modules --megatron_lm_tp_degree --megatron_lm_use_custom_fsdp --megatron_lm_no_load_optim --megatron_lm_eod_mask_loss --megatron_lm_overlap_cpu_optimizer_d2h_h2d --megatron_lm_no_save_optim --megatron_lm_optimizer_cpu_offload --megatron_lm_use_precision_aware_optimizer --megatron_lm_decoder_last_pipeline_num_layers --megatron_lm_pp_degree --megatron_lm_num_micro_batches --megatron_lm_sequence_parallelism --megatron_lm_recompute_activations --megatron_lm_use_distributed_optimizer --megatron_lm_gradient_clipping --megatron_lm_recompute_granularity --megatron_lm_recompute_method --megatron_lm_recompute_num_layers --megatron_lm_attention_backend --megatron_lm_expert_model_parallel_size --megatron_lm_context_parallel_size --megatron_lm_attention_dropout --megatron_lm_hidden_dropout --megatron_lm_attention_softmax_in_fp32 --megatron_lm_expert_tensor_parallel_size --megatron_lm_calculate_per_token_loss --megatron_lm_use_rotary_position_embeddings --enable_cpu_affinity --use_deepspeed --use_fsdp --use_megatron_lm --use_parallelism_config --parallelism_config_dp_replicate_size --parallelism_config_dp_shard_size --parallelism_config_tp_size --parallelism_config_cp_size --parallelism_config_cp_backend --parallelism_config_cp_comm_strategy --parallelism_config_sp_size --parallelism_config_sp_backend --parallelism_config_sp_seq_length --parallelism_config_sp_seq_length_is_variable --parallelism_config_sp_attn_implementation --ec2_instance_type --iam_role_name --image_uri --profile --region --base_job_name --pytorch_version --transformers_version --py_version --sagemaker_inputs_file --sagemaker_metrics_file --tpu_use_cluster --tpu_use_sudo --main_training_function --downcast_bf16 --tpu_name --tpu_zone --command_file --commands --tpu_vm --tpu_env --yes --grace --failure_report'
        valued='--config_file --compute_environment --distributed_type --num_machines --machine_rank --main_process_ip --main_process_port --dynamo_backend --dynamo_mode --gpu_ids --num_processes --mixed_precision --deepspeed_config_file --zero_stage --offload_optimizer_device --offload_param_device --offload_optimizer_nvme_path --offload_param_nvme_path --gradient_accumulation_steps --gradient_clipping --zero3_init_flag --zero3_save_16bit_model --deepspeed_hostfile --deepspeed_exclusion_filter --deepspeed_inclusion_filter --deepspeed_multinode_launcher --deepspeed_moe_layer_cls_names --rdzv_backend --mpirun_hostfile --bind-to --fp8_backend --fp8_margin --fp8_interval --fp8_format --fp8_amax_history_len --fp8_amax_compute_algo --fp8_override_linear_precision --fp8_opt_level --fp8_enable_fsdp_float8_all_gather --fp8_pad_inner_dim --fp8_use_mxfp8_block_scaling --fsdp_version --fsdp_offload_params --fsdp_min_num_params --fsdp_sharding_strategy --fsdp_reshard_after_forward --fsdp_auto_wrap_policy --fsdp_transformer_layer_cls_to_wrap --fsdp_backward_prefetch --fsdp_state_dict_type --fsdp_forward_prefetch --fsdp_use_orig_params --fsdp_cpu_ram_efficient_loading --fsdp_sync_module_states --fsdp_activation_checkpointing --fsdp_activation_checkpointing_offload --fsdp_ignored_modules --megatron_lm_tp_degree --megatron_lm_use_custom_fsdp --megatron_lm_no_load_optim --megatron_lm_eod_mask_loss --megatron_lm_overlap_cpu_optimizer_d2h_h2d --megatron_lm_no_save_optim --megatron_lm_optimizer_cpu_offload --megatron_lm_use_precision_aware_optimizer --megatron_lm_decoder_last_pipeline_num_layers --megatron_lm_pp_degree --megatron_lm_num_micro_batches --megatron_lm_sequence_parallelism --megatron_lm_recompute_activations --megatron_lm_use_distributed_optimizer --megatron_lm_gradient_clipping --megatron_lm_recompute_granularity --megatron_lm_recompute_method --megatron_lm_recompute_num_layers --megatron_lm_attention_backend --megatron_lm_expert_model_parallel_size --megatron_lm_context_parallel_size --megatron_lm_attention_dropout --megatron_lm_hidden_dropout --megatron_lm_attention_softmax_in_fp32 --megatron_lm_expert_tensor_parallel_size --megatron_lm_calculate_per_token_loss --megatron_lm_use_rotary_position_embeddings --parallelism_config_dp_replicate_size --parallelism_config_dp_shard_size --parallelism_config_tp_size --parallelism_config_cp_size --parallelism_config_cp_backend --parallelism_config_cp_comm_strategy --parallelism_config_sp_size --parallelism_config_sp_backend --parallelism_config_sp_seq_length --parallelism_config_sp_seq_length_is_variable --parallelism_config_sp_attn_implementation --ec2_instance_type --iam_role_name --image_uri --profile --region --base_job_name --pytorch_version --transformers_version --py_version --sagemaker_inputs_file --sagemaker_metrics_file --main_training_function --tpu_name --tpu_zone --command_file --commands --tpu_vm --tpu_env --grace --failure_report'
        words='default update show lint'
        ;;
    env)
        options='--config_file --json'
        valued='--config_file'
        words=''
        ;;
    launch)
        options='--config_file --quiet --module --no_python --num_machines --machine_rank --main_process_ip --main_process_port --debug --cpu --multi_gpu --dynamo_backend --dynamo_mode --dynamo_use_fullgraph --dynamo_use_dynamic --dynamo_use_regional_compilation --gpu_ids --num_processes --num_cpu_threads_per_process --mixed_precision --deepspeed_config_file --zero_stage --offload_optimizer_device --offload_param_device --offload_optimizer_nvme_path --offload_param_nvme_path --gradient_accumulation_steps --gradient_clipping --zero3_init_flag --zero3_save_16bit_model --deepspeed_hostfile --deepspeed_exclusion_filter --deepspeed_inclusion_filter --deepspeed_multinode_launcher --deepspeed_moe_layer_cls_names --same_network --tee --log_dir --role --rdzv_backend --rdzv_conf --max_restarts --monitor_interval --mpirun_hostfile --fp8_backend --fp8_use_autocast_during_eval --fp8_margin --fp8_interval --fp8_format --fp8_amax_history_len --fp8_amax_compute_algo --fp8_override_linear_precision --fp8_opt_level --fp8_enable_fsdp_float8_all_gather --fp8_pad_inner_dim --fsdp_version --fsdp_offload_params --fsdp_min_num_params --fsdp_sharding_strategy --fsdp_reshard_after_forward --fsdp_auto_wrap_policy --fsdp_transformer_layer_cls_to_wrap --fsdp_backward_prefetch --fsdp_state_dict_type --fsdp_forward_prefetch --fsdp_use_orig_params --fsdp_cpu_ram_efficient_loading --fsdp_sync_module_states --fsdp_activation_checkpointing --fsdp_activation_checkpointing_offload --megatron_lm_tp_degree --megatron_lm_use_custom_fsdp --megatron_lm_no_load_optim --megatron_lm_eod_mask_loss --megatron_lm_overlap_cpu_optimizer_d2h_h2d --megatron_lm_no_save_optim --megatron_lm_optimizer_cpu_offload --megatron_lm_use_precision_aware_optimizer --megatron_lm_decoder_last_pipeline_num_layers --megatron_lm_pp_degree --megatron_lm_num_micro_batches --megatron_lm_sequence_parallelism --megatron_lm_recompute_activations --megatron_lm_use_distributed_optimizer --megatron_lm_gradient_clipping --megatron_lm_recompute_granularity --megatron_lm_recompute_method --megatron_lm_recompute_num_layers --megatron_lm_attention_backend --megatron_lm_expert_model_parallel_size --megatron_lm_context_parallel_size --megatron_lm_attention_dropout --megatron_lm_hidden_dropout --megatron_lm_attention_softmax_in_fp32 --megatron_lm_expert_tensor_parallel_size --megatron_lm_calculate_per_token_loss --megatron_lm_use_rotary_position_embeddings --tpu --enable_cpu_affinity --use_deepspeed --use_fsdp --use_megatron_lm --use_parallelism_config --parallelism_config_dp_replicate_size --parallelism_config_dp_shard_size --parallelism_config_tp_size --parallelism_config_cp_size --parallelism_config_cp_backend --parallelism_config_cp_comm_strategy --parallelism_config_sp_size --parallelism_config_sp_backend --parallelism_config_sp_seq_length --parallelism_config_sp_seq_length_is_variable --parallelism_config_sp_attn_implementation --tpu_cluster --no_tpu_cluster --tpu_use_sudo --vm --env --main_training_function --downcast_bf16 --aws_access_key_id --aws_secret_access_key --dry_run --explain --json --grace --failure_report'
        valued='--config_file --num_machines --machine_rank --main_process_ip --main_process_port --dynamo_backend --dynamo_mode --gpu_ids --num_processes --num_cpu_threads_per_process --mixed_precision --deepspeed_config_file --zero_stage --offload_optimizer_device --offload_param_device --offload_optimizer_nvme_path --offload_param_nvme_path --gradient_accumulation_steps --gradient_clipping --zero3_init_flag --zero3_save_16bit_model --deepspeed_hostfile --deepspeed_exclusion_filter --deepspeed_inclusion_filter --deepspeed_multinode_launcher --deepspeed_moe_layer_cls_names --tee --log_dir --role --rdzv_backend --rdzv_conf --max_restarts --monitor_interval --mpirun_hostfile --fp8_backend --fp8_margin --fp8_interval --fp8_format --fp8_amax_history_len --fp8_amax_compute_algo --fp8_override_linear_precision --fp8_opt_level --fp8_enable_fsdp_float8_all_gather --fp8_pad_inner_dim --fsdp_version --fsdp_offload_params --fsdp_min_num_params --fsdp_sharding_strategy --fsdp_reshard_after_forward --fsdp_auto_wrap_policy --fsdp_transformer_layer_cls_to_wrap --fsdp_backward_prefetch --fsdp_state_dict_type --fsdp_forward_prefetch --fsdp_use_orig_params --fsdp_cpu_ram_efficient_loading --fsdp_sync_module_states --fsdp_activation_checkpointing --fsdp_activation_checkpointing_offload --megatron_lm_tp_degree --megatron_lm_use_custom_fsdp --megatron_lm_no_load_optim --megatron_lm_eod_mask_loss --megatron_lm_overlap_cpu_optimizer_d2h_h2d --megatron_lm_no_save_optim --megatron_lm_optimizer_cpu_offload --megatron_lm_use_precision_aware_optimizer --megatron_lm_decoder_last_pipeline_num_layers --megatron_lm_pp_degree --megatron_lm_num_micro_batches --megatron_lm_sequence_parallelism --megatron_lm_recompute_activations --megatron_lm_use_distributed_optimizer --megatron_lm_gradient_clipping --megatron_lm_recompute_granularity --megatron_lm_recompute_method --megatron_lm_recompute_num_layers --megatron_lm_attention_backend --megatron_lm_expert_model_parallel_size --megatron_lm_context_parallel_size --megatron_lm_attention_dropout --megatron_lm_hidden_dropout --megatron_lm_attention_softmax_in_fp32 --megatron_lm_expert_tensor_parallel_size --megatron_lm_calculate_per_token_loss --megatron_lm_use_rotary_position_embeddings --parallelism_config_dp_replicate_size --parallelism_config_dp_shard_size --parallelism_config_tp_size --parallelism_config_cp_size --parallelism_config_cp_backend --parallelism_config_cp_comm_strategy --parallelism_config_sp_size --parallelism_config_sp_backend --parallelism_config_sp_seq_length --parallelism_config_sp_seq_length_is_variable --parallelism_config_sp_attn_implementation --vm --env --main_training_function --aws_access_key_id --aws_secret_access_key --grace --failure_report'
        words=''
        ;;
    test)
        options='--config_file --cpu --num_processes'
        valued='--config_file --num_processes'
        words=''
        ;;
    to-fsdp2)
        options='--config_file --overwrite --output_file'
        valued='--config_file --output_file'
        words=''
        ;;
    *)
        return
        ;;
    esac
    # Behind the program everything is the program's.
    for ((i = at; i < COMP_CWORD; i++)); do
        name=${COMP_WORDS[i]//-/_}
        if [[ ${COMP_WORDS[i]} != -* ]]; then
            [[ ${COMP_WORDS[i]} == = ]] && { ((i++)); continue; }
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
        elif [[ " $valued " == *" --${name#__} "* && ${COMP_WORDS[i+1]} != = ]]; then
            ((i++))
        fi
    done
    prev=${prev//-/_}
    case --${prev#__} in
    --config_file)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --output_file)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --dynamo_backend)
        mapfile -t COMPREPLY < <(compgen -W 'no eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt aot_torchxla_trace_once torchxla_trace_once tvm hpu_backend neuron' -- "$cur")
        return
        ;;
    --dynamo_mode)
        mapfile -t COMPREPLY < <(compgen -W 'default reduce-overhead max-autotune' -- "$cur")
        return
        ;;
    --mixed_precision)
        mapfile -t COMPREPLY < <(compgen -W 'no fp16 bf16 fp8' -- "$cur")
        return
        ;;
    --deepspeed_config_file)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --offload_optimizer_nvme_path)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --offload_param_nvme_path)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --deepspeed_hostfile)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --log_dir)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --mpirun_hostfile)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --fp8_backend)
        mapfile -t COMPREPLY < <(compgen -W 'ao te msamp' -- "$cur")
        return
        ;;
    --fp8_format)
        mapfile -t COMPREPLY < <(compgen -W 'HYBRID E4M3 E5M2' -- "$cur")
        return
        ;;
    --fp8_amax_compute_algo)
        mapfile -t COMPREPLY < <(compgen -W 'max most_recent' -- "$cur")
        return
        ;;
    --fp8_opt_level)
        mapfile -t COMPREPLY < <(compgen -W 'O1 O2' -- "$cur")
        return
        ;;
    --fsdp_version)
        mapfile -t COMPREPLY < <(compgen -W '1 2' -- "$cur")
        return
        ;;
    --parallelism_config_cp_backend)
        mapfile -t COMPREPLY < <(compgen -W 'torch' -- "$cur")
        return
        ;;
    --parallelism_config_sp_backend)
        mapfile -t COMPREPLY < <(compgen -W 'deepspeed' -- "$cur")
        return
        ;;
    --failure_report)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    esac
    if [[ " $valued " == *" --${prev#__} "* ]]; then
        return
    elif [[ $cur == -* ]]; then
        [[ $cur == --*-* ]] && options=${options//_/-}
        mapfile -t COMPREPLY < <(compgen -W "$options --help" -- "$cur")
    elif [[ $command == launch ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
}
complete -o filenames -F _accelerate accelerate accelerate-launch accelerate-config
