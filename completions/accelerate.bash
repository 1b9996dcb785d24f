# SPDX-License-Identifier: Apache-2.0
# Completion of accelerate(1) for bash.  Generated from the option table by `make regen`; do not edit.

# The following functions use the variables of _accelerate.
_accelerate_files ()
{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

# Configuration files, and folders that may contain them.
_accelerate_configs ()
{
    local name
    _accelerate_files -d
    while IFS= read -r name; do
        [[ $name == *.@(yaml|yml|json) && ! -d $name ]] && COMPREPLY+=("$name")
    done < <(compgen -f -- "$cur")
}

# Files and, for a name without a slash, programs in PATH.
_accelerate_programs ()
{
    local folder name IFS=:
    _accelerate_files -f
    [[ $cur && $cur != */* ]] || return
    for folder in $PATH; do
        for name in "$folder/$cur"*; do
            [[ -x $name && -f $name ]] && COMPREPLY+=("${name##*/}")
        done
    done
}

# A comma-separated list: offer the GPUs that are not in it yet.
_accelerate_gpus ()
{
    local before='' id words=all
    [[ $cur == *,* ]] && before=${cur%,*}, words=''
    for id in $("${COMP_WORDS[0]%-"$command"}" --emit=gpu-ids 2>/dev/null); do
        [[ ,$before == *,$id,* ]] || words+=" $before$id"
    done
    compopt -o nospace 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

_accelerate ()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} at=2
    local options valued words i name IFS=$' \t\n'
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
        if ((COMP_CWORD == 1)) || [[ $command == help ]]; then
            mapfile -t COMPREPLY < <(compgen -W 'checkpoint completion config env estimate-memory inspect kill launch merge-weights ps report stacks test to-fsdp2 top tpu-config --help --help-all --version' -- "$cur")
            return
        fi
        ;;
    esac
    case $command in
    checkpoint)
        options='--wait --help --help_all'
        valued='wait'
        words=''
        ;;
    completion)
        options='--help --help_all'
        valued=''
        words='bash zsh fish'
        ;;
    config)
        options='--config_file --compute_environment --distributed_type --num_machines --machine_rank --main_process_ip --main_process_port --debug --cpu --use_cpu --multi_gpu --dynamo_backend --dynamo_mode --dynamo_use_fullgraph --dynamo_use_dynamic --dynamo_use_regional_compilation --gpu_ids --num_processes --mixed_precision --deepspeed_config_file --zero_stage --offload_optimizer_device --offload_param_device --offload_optimizer_nvme_path --offload_param_nvme_path --gradient_accumulation_steps --gradient_clipping --zero3_init_flag --zero3_save_16bit_model --deepspeed_hostfile --deepspeed_exclusion_filter --deepspeed_inclusion_filter --deepspeed_multinode_launcher --deepspeed_moe_layer_cls_names --same_network --rdzv_backend --mpirun_hostfile --bind-to --fp8_backend --fp8_use_autocast_during_eval --fp8_margin --fp8_interval --fp8_format --fp8_amax_history_len --fp8_amax_compute_algo --fp8_override_linear_precision --fp8_opt_level --fp8_enable_fsdp_float8_all_gather --fp8_pad_inner_dim --fp8_use_mxfp8_block_scaling --fsdp_version --fsdp_offload_params --fsdp_min_num_params --fsdp_sharding_strategy --fsdp_reshard_after_forward --fsdp_auto_wrap_policy --fsdp_transformer_layer_cls_to_wrap --fsdp_backward_prefetch --fsdp_state_dict_type --fsdp_forward_prefetch --fsdp_use_orig_params --fsdp_cpu_ram_efficient_loading --fsdp_sync_module_states --fsdp_activation_checkpointing --fsdp_activation_checkpointing_offload --fsdp_ignored_modules --hosts --hostfile --starter --mpi --interface --host_timeout --job_key_file --megatron_lm_tp_degree --megatron_lm_use_custom_fsdp --megatron_lm_no_load_optim --megatron_lm_eod_mask_loss --megatron_lm_overlap_cpu_optimizer_d2h_h2d --megatron_lm_no_save_optim --megatron_lm_optimizer_cpu_offload --megatron_lm_use_precision_aware_optimizer --megatron_lm_decoder_last_pipeline_num_layers --megatron_lm_pp_degree --megatron_lm_num_micro_batches --megatron_lm_sequence_parallelism --megatron_lm_recompute_activations --megatron_lm_use_distributed_optimizer --megatron_lm_gradient_clipping --megatron_lm_recompute_granularity --megatron_lm_recompute_method --megatron_lm_recompute_num_layers --megatron_lm_attention_backend --megatron_lm_expert_model_parallel_size --megatron_lm_context_parallel_size --megatron_lm_attention_dropout --megatron_lm_hidden_dropout --megatron_lm_attention_softmax_in_fp32 --megatron_lm_expert_tensor_parallel_size --megatron_lm_calculate_per_token_loss --megatron_lm_use_rotary_position_embeddings --tpu --enable_cpu_affinity --use_deepspeed --use_fsdp --use_megatron_lm --use_parallelism_config --parallelism_config_dp_replicate_size --parallelism_config_dp_shard_size --parallelism_config_tp_size --parallelism_config_cp_size --parallelism_config_cp_backend --parallelism_config_cp_comm_strategy --parallelism_config_sp_size --parallelism_config_sp_backend --parallelism_config_sp_seq_length --parallelism_config_sp_seq_length_is_variable --parallelism_config_sp_attn_implementation --ec2_instance_type --iam_role_name --image_uri --profile --region --base_job_name --pytorch_version --transformers_version --py_version --sagemaker_inputs_file --sagemaker_metrics_file --tpu_use_cluster --tpu_use_sudo --main_training_function --downcast_bf16 --tpu_name --tpu_zone --command_file --commands --tpu_vm --tpu_env --json --yes --grace --stall_timeout --timeout --time_limit --checkpoint_file --spot_notices --label --only_rank --stdin --bind --cpu_backend --total_batch_size --share_parameters --no_progress --failure_report --resume --memory_checkpoint_every --help --help_all'
        valued='config_file compute_environment distributed_type num_machines machine_rank main_process_ip main_process_port dynamo_backend dynamo_mode gpu_ids num_processes mixed_precision deepspeed_config_file zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names rdzv_backend mpirun_hostfile bind-to fp8_backend fp8_margin fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim fp8_use_mxfp8_block_scaling fsdp_version fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing fsdp_activation_checkpointing_offload fsdp_ignored_modules hosts hostfile starter mpi interface host_timeout job_key_file megatron_lm_tp_degree megatron_lm_use_custom_fsdp megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation ec2_instance_type iam_role_name image_uri profile region base_job_name pytorch_version transformers_version py_version sagemaker_inputs_file sagemaker_metrics_file main_training_function tpu_name tpu_zone command_file commands tpu_vm tpu_env grace stall_timeout timeout time_limit checkpoint_file spot_notices label only_rank stdin bind cpu_backend total_batch_size failure_report resume memory_checkpoint_every'
        words='default update show schema lint get set'
        ;;
    env)
        options='--config_file --json --help --help_all'
        valued='config_file'
        words=''
        ;;
    estimate-memory)
        options='--num_processes --mixed_precision --zero_stage --library_name --dtypes --trust_remote_code --context_length --batch_size --training --sharding --float32_gradients --follow_links --json --share_parameters --help --help_all'
        valued='num_processes mixed_precision zero_stage library_name dtypes context_length batch_size'
        words='@files'
        ;;
    inspect)
        options='--diff --norms --verify --follow_links --json --help --help_all'
        valued=''
        words='@files'
        ;;
    kill)
        options='--signal --wait --help --help_all'
        valued='signal wait'
        words=''
        ;;
    launch)
        options='--config_file --quiet --module --no_python --num_machines --machine_rank --main_process_ip --main_process_port --debug --cpu --multi_gpu --dynamo_backend --dynamo_mode --dynamo_use_fullgraph --dynamo_use_dynamic --dynamo_use_regional_compilation --gpu_ids --share_gpus --num_processes --num_cpu_threads_per_process --mixed_precision --deepspeed_config_file --zero_stage --offload_optimizer_device --offload_param_device --offload_optimizer_nvme_path --offload_param_nvme_path --gradient_accumulation_steps --gradient_clipping --zero3_init_flag --zero3_save_16bit_model --deepspeed_hostfile --deepspeed_exclusion_filter --deepspeed_inclusion_filter --deepspeed_multinode_launcher --deepspeed_moe_layer_cls_names --same_network --tee --log_dir --role --rdzv_backend --rdzv_conf --max_restarts --monitor_interval --mpirun_hostfile --fp8_backend --fp8_use_autocast_during_eval --fp8_margin --fp8_interval --fp8_format --fp8_amax_history_len --fp8_amax_compute_algo --fp8_override_linear_precision --fp8_opt_level --fp8_enable_fsdp_float8_all_gather --fp8_pad_inner_dim --fsdp_version --fsdp_offload_params --fsdp_min_num_params --fsdp_sharding_strategy --fsdp_reshard_after_forward --fsdp_auto_wrap_policy --fsdp_transformer_layer_cls_to_wrap --fsdp_backward_prefetch --fsdp_state_dict_type --fsdp_forward_prefetch --fsdp_use_orig_params --fsdp_cpu_ram_efficient_loading --fsdp_sync_module_states --fsdp_activation_checkpointing --fsdp_activation_checkpointing_offload --hosts --hostfile --starter --mpi --interface --host_timeout --job_key_file --megatron_lm_tp_degree --megatron_lm_use_custom_fsdp --megatron_lm_no_load_optim --megatron_lm_eod_mask_loss --megatron_lm_overlap_cpu_optimizer_d2h_h2d --megatron_lm_no_save_optim --megatron_lm_optimizer_cpu_offload --megatron_lm_use_precision_aware_optimizer --megatron_lm_decoder_last_pipeline_num_layers --megatron_lm_pp_degree --megatron_lm_num_micro_batches --megatron_lm_sequence_parallelism --megatron_lm_recompute_activations --megatron_lm_use_distributed_optimizer --megatron_lm_gradient_clipping --megatron_lm_recompute_granularity --megatron_lm_recompute_method --megatron_lm_recompute_num_layers --megatron_lm_attention_backend --megatron_lm_expert_model_parallel_size --megatron_lm_context_parallel_size --megatron_lm_attention_dropout --megatron_lm_hidden_dropout --megatron_lm_attention_softmax_in_fp32 --megatron_lm_expert_tensor_parallel_size --megatron_lm_calculate_per_token_loss --megatron_lm_use_rotary_position_embeddings --tpu --enable_cpu_affinity --use_deepspeed --use_fsdp --use_megatron_lm --use_parallelism_config --parallelism_config_dp_replicate_size --parallelism_config_dp_shard_size --parallelism_config_tp_size --parallelism_config_cp_size --parallelism_config_cp_backend --parallelism_config_cp_comm_strategy --parallelism_config_sp_size --parallelism_config_sp_backend --parallelism_config_sp_seq_length --parallelism_config_sp_seq_length_is_variable --parallelism_config_sp_attn_implementation --detach --tpu_cluster --no_tpu_cluster --tpu_use_sudo --vm --env --main_training_function --downcast_bf16 --aws_access_key_id --aws_secret_access_key --dry_run --explain --json --grace --stall_timeout --timeout --time_limit --checkpoint_file --spot_notices --label --only_rank --stdin --bind --report_bindings --cpu_backend --total_batch_size --share_parameters --no_progress --failure_report --resume --memory_checkpoint_every --help --help_all'
        valued='config_file num_machines machine_rank main_process_ip main_process_port dynamo_backend dynamo_mode gpu_ids num_processes num_cpu_threads_per_process mixed_precision deepspeed_config_file zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names tee _t log_dir role rdzv_backend rdzv_conf max_restarts monitor_interval mpirun_hostfile fp8_backend fp8_margin fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim fsdp_version fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing fsdp_activation_checkpointing_offload hosts hostfile starter mpi interface host_timeout job_key_file megatron_lm_tp_degree megatron_lm_use_custom_fsdp megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation vm env main_training_function aws_access_key_id aws_secret_access_key grace stall_timeout timeout time_limit checkpoint_file spot_notices label only_rank stdin bind cpu_backend total_batch_size failure_report resume memory_checkpoint_every'
        words=''
        ;;
    merge-weights)
        options='--unsafe_serialization --remove_checkpoint_dir --follow_links --help --help_all'
        valued=''
        words='@files'
        ;;
    ps)
        options='--json --help --help_all'
        valued=''
        words=''
        ;;
    report)
        options='--output --help --help_all'
        valued='output _o'
        words='@files'
        ;;
    stacks)
        options='--json --help --help_all'
        valued=''
        words=''
        ;;
    test)
        options='--config_file --main_process_ip --main_process_port --cpu --num_processes --hosts --hostfile --starter --mpi --interface --host_timeout --json --help --help_all'
        valued='config_file main_process_ip main_process_port num_processes hosts hostfile starter mpi interface host_timeout'
        words=''
        ;;
    to-fsdp2)
        options='--config_file --overwrite --output_file --help --help_all'
        valued='config_file output_file'
        words=''
        ;;
    top)
        options='--once --json --help --help_all'
        valued=''
        words=''
        ;;
    tpu-config)
        options='--config_file --tpu_name --tpu_zone --command_file --command --use_alpha --install_accelerate --accelerate_version --debug --help --help_all'
        valued='config_file tpu_name tpu_zone command_file command accelerate_version'
        words=''
        ;;
    *)
        return
        ;;
    esac
    # Everything after the program belongs to the program.
    for ((i = at; i < COMP_CWORD; i++)); do
        name=${COMP_WORDS[i]//-/_}
        if [[ ${COMP_WORDS[i]} != -* ]]; then
            [[ ${COMP_WORDS[i]} == = ]] && { ((i++)); continue; }
            # options of config may come before or after its word
            if [[ $command == config && ${COMP_WORDS[i]} != lint ]]; then
                words=''
                [[ ${COMP_WORDS[i]} == [gs]et ]] && words=${options//--/}
                continue
            fi
            [[ $command == config ]] && { _accelerate_configs; return; }
            [[ $command == launch ]] || continue
            _accelerate_files -f
            return
        elif [[ " $valued " == *" ${name#__} "* && ${COMP_WORDS[i+1]} != = ]]; then
            ((i++))
        fi
    done
    prev=${prev//-/_} prev=${prev#__}
    if [[ " $valued " == *" $prev "* ]]; then
        case $prev in
        config_file | output_file)
            _accelerate_configs
            ;;
        compute_environment)
            mapfile -t COMPREPLY < <(compgen -W 'LOCAL_MACHINE AMAZON_SAGEMAKER' -- "$cur")
            ;;
        distributed_type)
            mapfile -t COMPREPLY < <(compgen -W 'NO MULTI_CPU MULTI_XPU MULTI_HPU MULTI_GPU MULTI_NPU MULTI_MLU MULTI_SDAA MULTI_MUSA MULTI_NEURON XLA DEEPSPEED FSDP MEGATRON_LM DATA_PARALLEL MODEL_PARALLEL' -- "$cur")
            ;;
        machine_rank | gradient_accumulation_steps | gradient_clipping)
            mapfile -t COMPREPLY < <(compgen -W 'auto' -- "$cur")
            ;;
        output | deepspeed_config_file | deepspeed_hostfile | mpirun_hostfile | hostfile | job_key_file | sagemaker_inputs_file | sagemaker_metrics_file | command_file | checkpoint_file | failure_report | resume)
            _accelerate_files -f
            ;;
        dynamo_backend)
            mapfile -t COMPREPLY < <(compgen -W 'no eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt aot_torchxla_trace_once torchxla_trace_once tvm hpu_backend neuron' -- "$cur")
            ;;
        dynamo_mode)
            mapfile -t COMPREPLY < <(compgen -W 'default reduce-overhead max-autotune' -- "$cur")
            ;;
        gpu_ids)
            _accelerate_gpus
            ;;
        mixed_precision)
            mapfile -t COMPREPLY < <(compgen -W 'no fp16 bf16 fp8' -- "$cur")
            ;;
        offload_optimizer_device | offload_param_device)
            mapfile -t COMPREPLY < <(compgen -W 'none cpu nvme' -- "$cur")
            ;;
        offload_optimizer_nvme_path | offload_param_nvme_path | log_dir)
            _accelerate_files -d
            ;;
        zero3_init_flag | zero3_save_16bit_model | fp8_enable_fsdp_float8_all_gather | fp8_pad_inner_dim | fp8_use_mxfp8_block_scaling | fsdp_offload_params | fsdp_forward_prefetch | fsdp_use_orig_params | fsdp_cpu_ram_efficient_loading | fsdp_sync_module_states | fsdp_activation_checkpointing | fsdp_activation_checkpointing_offload | megatron_lm_use_custom_fsdp | megatron_lm_no_load_optim | megatron_lm_eod_mask_loss | megatron_lm_overlap_cpu_optimizer_d2h_h2d | megatron_lm_no_save_optim | megatron_lm_optimizer_cpu_offload | megatron_lm_use_precision_aware_optimizer | megatron_lm_sequence_parallelism | megatron_lm_recompute_activations | megatron_lm_use_distributed_optimizer | megatron_lm_attention_backend | megatron_lm_attention_softmax_in_fp32 | megatron_lm_calculate_per_token_loss | megatron_lm_use_rotary_position_embeddings | parallelism_config_sp_seq_length_is_variable)
            mapfile -t COMPREPLY < <(compgen -W 'true false' -- "$cur")
            ;;
        deepspeed_multinode_launcher)
            mapfile -t COMPREPLY < <(compgen -W 'pdsh standard openmpi mvapich mpich nossh slurm' -- "$cur")
            ;;
        library_name)
            mapfile -t COMPREPLY < <(compgen -W 'timm transformers' -- "$cur")
            ;;
        dtypes)
            mapfile -t COMPREPLY < <(compgen -W 'float32 float16 int8 int4' -- "$cur")
            ;;
        fp8_backend)
            mapfile -t COMPREPLY < <(compgen -W 'ao te msamp' -- "$cur")
            ;;
        fp8_format)
            mapfile -t COMPREPLY < <(compgen -W 'HYBRID E4M3 E5M2' -- "$cur")
            ;;
        fp8_amax_compute_algo)
            mapfile -t COMPREPLY < <(compgen -W 'max most_recent' -- "$cur")
            ;;
        fp8_opt_level)
            mapfile -t COMPREPLY < <(compgen -W 'O1 O2' -- "$cur")
            ;;
        fsdp_version)
            mapfile -t COMPREPLY < <(compgen -W '1 2' -- "$cur")
            ;;
        fsdp_sharding_strategy | fsdp_reshard_after_forward)
            mapfile -t COMPREPLY < <(compgen -W 'FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD HYBRID_SHARD_ZERO2' -- "$cur")
            ;;
        fsdp_auto_wrap_policy)
            mapfile -t COMPREPLY < <(compgen -W 'TRANSFORMER_BASED_WRAP SIZE_BASED_WRAP NO_WRAP' -- "$cur")
            ;;
        fsdp_backward_prefetch)
            mapfile -t COMPREPLY < <(compgen -W 'BACKWARD_PRE BACKWARD_POST NO_PREFETCH' -- "$cur")
            ;;
        fsdp_state_dict_type)
            mapfile -t COMPREPLY < <(compgen -W 'FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT' -- "$cur")
            ;;
        starter)
            mapfile -t COMPREPLY < <(compgen -W 'auto ssh srun mpirun' -- "$cur")
            ;;
        mpi | label)
            mapfile -t COMPREPLY < <(compgen -W 'auto yes no' -- "$cur")
            ;;
        megatron_lm_recompute_granularity)
            mapfile -t COMPREPLY < <(compgen -W 'full selective' -- "$cur")
            ;;
        megatron_lm_recompute_method)
            mapfile -t COMPREPLY < <(compgen -W 'uniform block' -- "$cur")
            ;;
        parallelism_config_cp_backend)
            mapfile -t COMPREPLY < <(compgen -W 'torch' -- "$cur")
            ;;
        parallelism_config_cp_comm_strategy)
            mapfile -t COMPREPLY < <(compgen -W 'allgather alltoall' -- "$cur")
            ;;
        parallelism_config_sp_backend)
            mapfile -t COMPREPLY < <(compgen -W 'deepspeed' -- "$cur")
            ;;
        parallelism_config_sp_attn_implementation)
            mapfile -t COMPREPLY < <(compgen -W 'sdpa flash_attention_2 flash_attention_3' -- "$cur")
            ;;
        signal)
            mapfile -t COMPREPLY < <(compgen -W 'TERM INT HUP QUIT USR1 USR2 CONT TSTP KILL' -- "$cur")
            ;;
        spot_notices)
            mapfile -t COMPREPLY < <(compgen -W 'aws gcp azure' -- "$cur")
            ;;
        only_rank)
            mapfile -t COMPREPLY < <(compgen -W 'all' -- "$cur")
            ;;
        stdin)
            mapfile -t COMPREPLY < <(compgen -W '0 none' -- "$cur")
            ;;
        bind)
            mapfile -t COMPREPLY < <(compgen -W 'auto none core numa gpu' -- "$cur")
            ;;
        cpu_backend)
            mapfile -t COMPREPLY < <(compgen -W 'auto accel gloo' -- "$cur")
            ;;
        esac
    elif [[ $cur == -* ]]; then
        [[ $cur == --*-* ]] && options=${options//_/-}
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    elif [[ $command == launch && " ${COMP_WORDS[*]} " != *" "@(-m|--module)" "* ]]; then
        _accelerate_programs
    elif [[ $command == launch || $words == @files ]]; then
        _accelerate_files -f
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
}
complete -F _accelerate accelerate accelerate-launch accelerate-config accelerate-estimate-memory accelerate-merge-weights
