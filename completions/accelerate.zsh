#compdef accelerate accelerate-launch accelerate-config
# SPDX-License-Identifier: Apache-2.0
# Completion of accelerate(1) for zsh.  Made from the option table by `make regen`; do not edit.

# A list with commas: the GPUs that are not in it yet.
_accelerate_gpus () {
    local -a ids used
    ids=(${(f)"$($1 --emit=gpu-ids 2>/dev/null)"})
    if [[ $PREFIX == *,* ]]; then
        used=(${(s:,:)PREFIX%,*})
        compset -P '*,'
    else
        ids+=(all)
    fi
    compadd -S '' -- ${ids:|used}
}

_accelerate_value () {
    case $2 in
    config_file|output_file) _path_files -g '*.(yaml|yml|json)(-.) *(-/)' ;;
    compute_environment) compadd -- LOCAL_MACHINE AMAZON_SAGEMAKER ;;
    distributed_type) compadd -- NO MULTI_CPU MULTI_XPU MULTI_HPU MULTI_GPU MULTI_NPU MULTI_MLU MULTI_SDAA MULTI_MUSA MULTI_NEURON XLA DEEPSPEED FSDP MEGATRON_LM DATA_PARALLEL MODEL_PARALLEL ;;
    dynamo_backend) compadd -- no eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt aot_torchxla_trace_once torchxla_trace_once tvm hpu_backend neuron ;;
    dynamo_mode) compadd -- default reduce-overhead max-autotune ;;
    gpu_ids) _accelerate_gpus $1 ;;
    mixed_precision) compadd -- no fp16 bf16 fp8 ;;
    deepspeed_config_file|deepspeed_hostfile|mpirun_hostfile|sagemaker_inputs_file|sagemaker_metrics_file|command_file|failure_report) _files ;;
    offload_optimizer_device|offload_param_device) compadd -- none cpu nvme ;;
    offload_optimizer_nvme_path|offload_param_nvme_path|log_dir) _files -/ ;;
    gradient_accumulation_steps|gradient_clipping) compadd -- auto ;;
    zero3_init_flag|zero3_save_16bit_model|fp8_enable_fsdp_float8_all_gather|fp8_pad_inner_dim|fp8_use_mxfp8_block_scaling|fsdp_offload_params|fsdp_forward_prefetch|fsdp_use_orig_params|fsdp_cpu_ram_efficient_loading|fsdp_sync_module_states|fsdp_activation_checkpointing|fsdp_activation_checkpointing_offload|megatron_lm_use_custom_fsdp|megatron_lm_no_load_optim|megatron_lm_eod_mask_loss|megatron_lm_overlap_cpu_optimizer_d2h_h2d|megatron_lm_no_save_optim|megatron_lm_optimizer_cpu_offload|megatron_lm_use_precision_aware_optimizer|megatron_lm_sequence_parallelism|megatron_lm_recompute_activations|megatron_lm_use_distributed_optimizer|megatron_lm_attention_softmax_in_fp32|megatron_lm_calculate_per_token_loss|megatron_lm_use_rotary_position_embeddings|parallelism_config_sp_seq_length_is_variable) compadd -- true false ;;
    deepspeed_multinode_launcher) compadd -- pdsh standard openmpi mvapich mpich nossh slurm ;;
    fp8_backend) compadd -- ao te msamp ;;
    fp8_format) compadd -- HYBRID E4M3 E5M2 ;;
    fp8_amax_compute_algo) compadd -- max most_recent ;;
    fp8_opt_level) compadd -- O1 O2 ;;
    fsdp_version) compadd -- 1 2 ;;
    fsdp_sharding_strategy|fsdp_reshard_after_forward) compadd -- FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD HYBRID_SHARD_ZERO2 ;;
    fsdp_auto_wrap_policy) compadd -- TRANSFORMER_BASED_WRAP SIZE_BASED_WRAP NO_WRAP ;;
    fsdp_backward_prefetch) compadd -- BACKWARD_PRE BACKWARD_POST NO_PREFETCH ;;
    fsdp_state_dict_type) compadd -- FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT ;;
    megatron_lm_recompute_granularity) compadd -- full selective ;;
    megatron_lm_recompute_method) compadd -- uniform block ;;
    megatron_lm_attention_backend) compadd -- flash fused unfused local auto ;;
    parallelism_config_cp_backend) compadd -- torch ;;
    parallelism_config_cp_comm_strategy) compadd -- allgather alltoall ;;
    parallelism_config_sp_backend) compadd -- deepspeed ;;
    parallelism_config_sp_attn_implementation) compadd -- sdpa flash_attention_2 flash_attention_3 ;;
    *) _message 'a value' ;;
    esac
}

_accelerate () {
    local program=${(Q)words[1]} command flag name i at=2
    local -a flags valued free hyphened
    program=${program/#\~\//$HOME/}
    if [[ ${program:t} == accelerate-* ]]; then
        command=${${program:t}#accelerate-}
        program=${program%-$command}
    elif (( CURRENT == 2 )); then
        flags=(
            'config:answer questions and write the configuration file'
            'env:show details of this installation and this machine'
            'launch:start a program as several processes'
            'test:test libaccel on this machine with your configuration'
            'to-fsdp2:convert a configuration file from FSDP 1 to FSDP 2'
            '--help:print help'
            '--help-all:print help with all options'
            '--version:print the version'
        )
        _describe command flags
        return
    else
        command=$words[2] at=3
    fi
    case $command in
    config)
        flags=(
            '--config_file:configuration file instead of the default one'
            '--compute_environment:where to run'
            '--distributed_type:what a job is spread over'
            '--num_machines:machines of the job'
            '--machine_rank:number of this machine, from 0'
            '--main_process_ip:name or address of the main machine'
            '--main_process_port:TCP port of rank 0; 0 picks a free one'
            '--debug:check shapes before every collective operation'
            '--cpu:run on CPUs, and ignore the default file'
            '--use_cpu:run on CPUs'
            '--multi_gpu:one process for each of several GPUs'
            '--dynamo_backend:backend of torch.compile, for Python programs'
            '--dynamo_mode:mode of torch.compile, for Python programs'
            '--dynamo_use_fullgraph:torch.compile must not break the graph'
            '--dynamo_use_dynamic:torch.compile allows for changing shapes'
            '--dynamo_use_regional_compilation:torch.compile compiles repeated blocks once'
            '--gpu_ids:GPUs to use, by number, with commas, or all'
            '--num_processes:processes of the job, on all machines together'
            '--mixed_precision:number format of the computation'
            '--deepspeed_config_file:configuration file of DeepSpeed itself'
            '--zero_stage:stage of ZeRO'
            '--offload_optimizer_device:where the optimizer'\''s state is kept'
            '--offload_param_device:where parameters are kept'
            '--offload_optimizer_nvme_path:folder for the optimizer'\''s state on nvme'
            '--offload_param_nvme_path:folder for parameters on nvme'
            '--gradient_accumulation_steps:batches whose gradients are added before a step'
            '--gradient_clipping:largest norm of the gradients'
            '--zero3_init_flag:make large models on all devices at once (stage 3)'
            '--zero3_save_16bit_model:save 16-bit weights (stage 3)'
            '--deepspeed_hostfile:hosts and their GPUs, for several machines'
            '--deepspeed_exclusion_filter:hosts and GPUs of the hostfile to leave out'
            '--deepspeed_inclusion_filter:hosts and GPUs of the hostfile to use'
            '--deepspeed_multinode_launcher:what starts DeepSpeed on the other machines'
            '--deepspeed_moe_layer_cls_names:classes of mixture-of-experts layers, with commas'
            '--same_network:all machines are on one local network'
            '--rdzv_backend:rendezvous backend of torchrun; ranks meet statically here'
            '--mpirun_hostfile:start the ranks with mpirun on the hosts in this file'
            '--bind-to:what mpirun binds ranks to'
            '--fp8_backend:library for 8-bit floats'
            '--fp8_use_autocast_during_eval:te: 8 bits in evaluation too'
            '--fp8_margin:te: margin of the scaling factor'
            '--fp8_interval:te: steps between two scaling factors'
            '--fp8_format:te: format of the numbers'
            '--fp8_amax_history_len:te: steps of history for scaling'
            '--fp8_amax_compute_algo:te: what of the history counts'
            '--fp8_override_linear_precision:te: fprop, dgrad, wgrad in higher precision'
            '--fp8_opt_level:msamp: how much is done in 8 bits'
            '--fp8_enable_fsdp_float8_all_gather:ao: gather parameters in 8 bits with FSDP2'
            '--fp8_pad_inner_dim:ao: pad matrices to multiples of 16'
            '--fp8_use_mxfp8_block_scaling:te: scaling by blocks'
            '--fsdp_version:version of FSDP'
            '--fsdp_offload_params:keep parameters and gradients in host memory'
            '--fsdp_min_num_params:parameters from which a module is wrapped by itself'
            '--fsdp_sharding_strategy:what version 1 spreads over the processes'
            '--fsdp_reshard_after_forward:spread parameters again after the forward pass'
            '--fsdp_auto_wrap_policy:how modules are chosen to be wrapped'
            '--fsdp_transformer_layer_cls_to_wrap:classes of layers to wrap, with commas'
            '--fsdp_backward_prefetch:when the next parameters are fetched in the backward pass'
            '--fsdp_state_dict_type:how checkpoints are written'
            '--fsdp_forward_prefetch:fetch the next parameters during the forward pass'
            '--fsdp_use_orig_params:let frozen and trained parameters share a unit'
            '--fsdp_cpu_ram_efficient_loading:only the main process reads the weights'
            '--fsdp_sync_module_states:send the weights of rank 0 to all'
            '--fsdp_activation_checkpointing:compute activations again instead of keeping them'
            '--fsdp_activation_checkpointing_offload:keep checkpointed activations in host memory'
            '--fsdp_ignored_modules:modules that FSDP leaves alone'
            '--megatron_lm_tp_degree:processes of tensor parallelism'
            '--megatron_lm_use_custom_fsdp:use Megatron'\''s own FSDP'
            '--megatron_lm_no_load_optim:do not read the optimizer'\''s state'
            '--megatron_lm_eod_mask_loss:no loss for end-of-document tokens'
            '--megatron_lm_overlap_cpu_optimizer_d2h_h2d:copy while the optimizer computes on the CPU'
            '--megatron_lm_no_save_optim:do not save the optimizer'\''s state'
            '--megatron_lm_optimizer_cpu_offload:run the optimizer on the CPU'
            '--megatron_lm_use_precision_aware_optimizer:optimizer with state in several precisions'
            '--megatron_lm_decoder_last_pipeline_num_layers:layers of the last pipeline stage'
            '--megatron_lm_pp_degree:stages of the pipeline'
            '--megatron_lm_num_micro_batches:parts of a batch in the pipeline'
            '--megatron_lm_sequence_parallelism:split sequences too'
            '--megatron_lm_recompute_activations:compute activations again, selectively'
            '--megatron_lm_use_distributed_optimizer:spread the optimizer'\''s state'
            '--megatron_lm_gradient_clipping:largest norm of the gradients'
            '--megatron_lm_recompute_granularity:what is computed again: full or selective'
            '--megatron_lm_recompute_method:how layers to compute again are chosen'
            '--megatron_lm_recompute_num_layers:layers to compute again'
            '--megatron_lm_attention_backend:backend of attention'
            '--megatron_lm_expert_model_parallel_size:processes of expert parallelism'
            '--megatron_lm_context_parallel_size:processes of context parallelism'
            '--megatron_lm_attention_dropout:dropout of attention'
            '--megatron_lm_hidden_dropout:dropout of hidden layers'
            '--megatron_lm_attention_softmax_in_fp32:softmax of attention in float32'
            '--megatron_lm_expert_tensor_parallel_size:processes of tensor parallelism in experts'
            '--megatron_lm_calculate_per_token_loss:divide the loss by tokens, not by samples'
            '--megatron_lm_use_rotary_position_embeddings:rotary position embeddings'
            '--tpu:train on TPUs'
            '--enable_cpu_affinity:keep each process on the cores near its GPU'
            '--use_deepspeed:train with DeepSpeed'
            '--use_fsdp:train with fully sharded data parallelism'
            '--use_megatron_lm:train with Megatron-LM'
            '--use_parallelism_config:combine several kinds of parallelism'
            '--parallelism_config_dp_replicate_size:copies of the model'
            '--parallelism_config_dp_shard_size:processes that share one copy'
            '--parallelism_config_tp_size:processes of tensor parallelism'
            '--parallelism_config_cp_size:processes of context parallelism'
            '--parallelism_config_cp_backend:backend of context parallelism'
            '--parallelism_config_cp_comm_strategy:how contexts are exchanged'
            '--parallelism_config_sp_size:processes of sequence parallelism'
            '--parallelism_config_sp_backend:backend of sequence parallelism'
            '--parallelism_config_sp_seq_length:length of the sequences'
            '--parallelism_config_sp_seq_length_is_variable:lengths of sequences differ'
            '--parallelism_config_sp_attn_implementation:implementation of attention'
            '--ec2_instance_type:machine type of SageMaker'
            '--iam_role_name:role that SageMaker works as'
            '--image_uri:image for SageMaker'
            '--profile:AWS profile'
            '--region:AWS region'
            '--base_job_name:beginning of job names on SageMaker'
            '--pytorch_version:version of PyTorch on SageMaker'
            '--transformers_version:version of transformers on SageMaker'
            '--py_version:version of Python on SageMaker'
            '--sagemaker_inputs_file:input channels for SageMaker'
            '--sagemaker_metrics_file:metrics for SageMaker'
            '--tpu_use_cluster:the TPU is a pod'
            '--tpu_use_sudo:run the command on the pod with sudo'
            '--main_training_function:function that each process of a TPU runs'
            '--downcast_bf16:on TPUs: both float and double become bfloat16'
            '--tpu_name:name of the TPU'
            '--tpu_zone:zone of the TPU'
            '--command_file:script to run on the TPU'\''s machines'
            '--commands:commands to run on the TPU'\''s machines'
            '--tpu_vm:virtual machines of the pod'
            '--tpu_env:variables for the pod'
            '--json:print as JSON'
            '--yes:ask nothing: defaults for what no flag answers'
            '--grace:seconds between asking ranks to end and killing them'
            '--failure_report:write how the job ended, as JSON'
        )
        valued=(config_file compute_environment distributed_type num_machines machine_rank main_process_ip main_process_port dynamo_backend dynamo_mode gpu_ids num_processes mixed_precision deepspeed_config_file zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names rdzv_backend mpirun_hostfile bind-to fp8_backend fp8_margin fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim fp8_use_mxfp8_block_scaling fsdp_version fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing fsdp_activation_checkpointing_offload fsdp_ignored_modules megatron_lm_tp_degree megatron_lm_use_custom_fsdp megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation ec2_instance_type iam_role_name image_uri profile region base_job_name pytorch_version transformers_version py_version sagemaker_inputs_file sagemaker_metrics_file main_training_function tpu_name tpu_zone command_file commands tpu_vm tpu_env grace failure_report)
        free=(default update show schema lint)
        ;;
    env)
        flags=(
            '--config_file:configuration file instead of the default one'
            '--json:print as JSON'
        )
        valued=(config_file)
        free=()
        ;;
    launch)
        flags=(
            '--config_file:configuration file instead of the default one'
            '--quiet:say nothing about defaults and failed ranks'
            '--module:the program is a Python module, as in python3 -m'
            '--no_python:execute the program directly, whatever its name'
            '--num_machines:machines of the job'
            '--machine_rank:number of this machine, from 0'
            '--main_process_ip:name or address of the main machine'
            '--main_process_port:TCP port of rank 0; 0 picks a free one'
            '--debug:check shapes before every collective operation'
            '--cpu:run on CPUs, and ignore the default file'
            '--multi_gpu:one process for each of several GPUs'
            '--dynamo_backend:backend of torch.compile, for Python programs'
            '--dynamo_mode:mode of torch.compile, for Python programs'
            '--dynamo_use_fullgraph:torch.compile must not break the graph'
            '--dynamo_use_dynamic:torch.compile allows for changing shapes'
            '--dynamo_use_regional_compilation:torch.compile compiles repeated blocks once'
            '--gpu_ids:GPUs to use, by number, with commas, or all'
            '--num_processes:processes of the job, on all machines together'
            '--num_cpu_threads_per_process:threads of OpenMP and the like in each process'
            '--mixed_precision:number format of the computation'
            '--deepspeed_config_file:configuration file of DeepSpeed itself'
            '--zero_stage:stage of ZeRO'
            '--offload_optimizer_device:where the optimizer'\''s state is kept'
            '--offload_param_device:where parameters are kept'
            '--offload_optimizer_nvme_path:folder for the optimizer'\''s state on nvme'
            '--offload_param_nvme_path:folder for parameters on nvme'
            '--gradient_accumulation_steps:batches whose gradients are added before a step'
            '--gradient_clipping:largest norm of the gradients'
            '--zero3_init_flag:make large models on all devices at once (stage 3)'
            '--zero3_save_16bit_model:save 16-bit weights (stage 3)'
            '--deepspeed_hostfile:hosts and their GPUs, for several machines'
            '--deepspeed_exclusion_filter:hosts and GPUs of the hostfile to leave out'
            '--deepspeed_inclusion_filter:hosts and GPUs of the hostfile to use'
            '--deepspeed_multinode_launcher:what starts DeepSpeed on the other machines'
            '--deepspeed_moe_layer_cls_names:classes of mixture-of-experts layers, with commas'
            '--same_network:all machines are on one local network'
            '--tee:ranks'\'' output that goes to files too: 0 to 3, or R:N pairs'
            '--log_dir:folder for files of the ranks'\'' output'
            '--role:name of the processes in ROLE_NAME and prefixes'
            '--rdzv_backend:rendezvous backend of torchrun; ranks meet statically here'
            '--rdzv_conf:settings of the rendezvous, KEY=VALUE with commas'
            '--max_restarts:restart all ranks so often after a failure'
            '--monitor_interval:seconds between two looks at the ranks'
            '--mpirun_hostfile:start the ranks with mpirun on the hosts in this file'
            '--fp8_backend:library for 8-bit floats'
            '--fp8_use_autocast_during_eval:te: 8 bits in evaluation too'
            '--fp8_margin:te: margin of the scaling factor'
            '--fp8_interval:te: steps between two scaling factors'
            '--fp8_format:te: format of the numbers'
            '--fp8_amax_history_len:te: steps of history for scaling'
            '--fp8_amax_compute_algo:te: what of the history counts'
            '--fp8_override_linear_precision:te: fprop, dgrad, wgrad in higher precision'
            '--fp8_opt_level:msamp: how much is done in 8 bits'
            '--fp8_enable_fsdp_float8_all_gather:ao: gather parameters in 8 bits with FSDP2'
            '--fp8_pad_inner_dim:ao: pad matrices to multiples of 16'
            '--fsdp_version:version of FSDP'
            '--fsdp_offload_params:keep parameters and gradients in host memory'
            '--fsdp_min_num_params:parameters from which a module is wrapped by itself'
            '--fsdp_sharding_strategy:what version 1 spreads over the processes'
            '--fsdp_reshard_after_forward:spread parameters again after the forward pass'
            '--fsdp_auto_wrap_policy:how modules are chosen to be wrapped'
            '--fsdp_transformer_layer_cls_to_wrap:classes of layers to wrap, with commas'
            '--fsdp_backward_prefetch:when the next parameters are fetched in the backward pass'
            '--fsdp_state_dict_type:how checkpoints are written'
            '--fsdp_forward_prefetch:fetch the next parameters during the forward pass'
            '--fsdp_use_orig_params:let frozen and trained parameters share a unit'
            '--fsdp_cpu_ram_efficient_loading:only the main process reads the weights'
            '--fsdp_sync_module_states:send the weights of rank 0 to all'
            '--fsdp_activation_checkpointing:compute activations again instead of keeping them'
            '--fsdp_activation_checkpointing_offload:keep checkpointed activations in host memory'
            '--megatron_lm_tp_degree:processes of tensor parallelism'
            '--megatron_lm_use_custom_fsdp:use Megatron'\''s own FSDP'
            '--megatron_lm_no_load_optim:do not read the optimizer'\''s state'
            '--megatron_lm_eod_mask_loss:no loss for end-of-document tokens'
            '--megatron_lm_overlap_cpu_optimizer_d2h_h2d:copy while the optimizer computes on the CPU'
            '--megatron_lm_no_save_optim:do not save the optimizer'\''s state'
            '--megatron_lm_optimizer_cpu_offload:run the optimizer on the CPU'
            '--megatron_lm_use_precision_aware_optimizer:optimizer with state in several precisions'
            '--megatron_lm_decoder_last_pipeline_num_layers:layers of the last pipeline stage'
            '--megatron_lm_pp_degree:stages of the pipeline'
            '--megatron_lm_num_micro_batches:parts of a batch in the pipeline'
            '--megatron_lm_sequence_parallelism:split sequences too'
            '--megatron_lm_recompute_activations:compute activations again, selectively'
            '--megatron_lm_use_distributed_optimizer:spread the optimizer'\''s state'
            '--megatron_lm_gradient_clipping:largest norm of the gradients'
            '--megatron_lm_recompute_granularity:what is computed again: full or selective'
            '--megatron_lm_recompute_method:how layers to compute again are chosen'
            '--megatron_lm_recompute_num_layers:layers to compute again'
            '--megatron_lm_attention_backend:backend of attention'
            '--megatron_lm_expert_model_parallel_size:processes of expert parallelism'
            '--megatron_lm_context_parallel_size:processes of context parallelism'
            '--megatron_lm_attention_dropout:dropout of attention'
            '--megatron_lm_hidden_dropout:dropout of hidden layers'
            '--megatron_lm_attention_softmax_in_fp32:softmax of attention in float32'
            '--megatron_lm_expert_tensor_parallel_size:processes of tensor parallelism in experts'
            '--megatron_lm_calculate_per_token_loss:divide the loss by tokens, not by samples'
            '--megatron_lm_use_rotary_position_embeddings:rotary position embeddings'
            '--tpu:train on TPUs'
            '--enable_cpu_affinity:keep each process on the cores near its GPU'
            '--use_deepspeed:train with DeepSpeed'
            '--use_fsdp:train with fully sharded data parallelism'
            '--use_megatron_lm:train with Megatron-LM'
            '--use_parallelism_config:combine several kinds of parallelism'
            '--parallelism_config_dp_replicate_size:copies of the model'
            '--parallelism_config_dp_shard_size:processes that share one copy'
            '--parallelism_config_tp_size:processes of tensor parallelism'
            '--parallelism_config_cp_size:processes of context parallelism'
            '--parallelism_config_cp_backend:backend of context parallelism'
            '--parallelism_config_cp_comm_strategy:how contexts are exchanged'
            '--parallelism_config_sp_size:processes of sequence parallelism'
            '--parallelism_config_sp_backend:backend of sequence parallelism'
            '--parallelism_config_sp_seq_length:length of the sequences'
            '--parallelism_config_sp_seq_length_is_variable:lengths of sequences differ'
            '--parallelism_config_sp_attn_implementation:implementation of attention'
            '--tpu_cluster:the TPU is a pod of several machines'
            '--no_tpu_cluster:the TPU is one machine'
            '--tpu_use_sudo:run the command on the pod with sudo'
            '--vm:a virtual machine of the pod; may be repeated'
            '--env:a variable for the pod, NAME=VALUE; may be repeated'
            '--main_training_function:function that each process of a TPU runs'
            '--downcast_bf16:on TPUs: both float and double become bfloat16'
            '--aws_access_key_id:AWS access key, for SageMaker'
            '--aws_secret_access_key:AWS secret key, for SageMaker'
            '--dry_run:print what would be started, and start nothing'
            '--explain:with --dry_run: each setting, and where it comes from'
            '--json:print as JSON'
            '--grace:seconds between asking ranks to end and killing them'
            '--failure_report:write how the job ended, as JSON'
        )
        valued=(config_file num_machines machine_rank main_process_ip main_process_port dynamo_backend dynamo_mode gpu_ids num_processes num_cpu_threads_per_process mixed_precision deepspeed_config_file zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names tee _t log_dir role rdzv_backend rdzv_conf max_restarts monitor_interval mpirun_hostfile fp8_backend fp8_margin fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim fsdp_version fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing fsdp_activation_checkpointing_offload megatron_lm_tp_degree megatron_lm_use_custom_fsdp megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation vm env main_training_function aws_access_key_id aws_secret_access_key grace failure_report)
        free=()
        ;;
    test)
        flags=(
            '--config_file:configuration file instead of the default one'
            '--cpu:run on CPUs, and ignore the default file'
            '--num_processes:processes of the job, on all machines together'
        )
        valued=(config_file num_processes)
        free=()
        ;;
    to-fsdp2)
        flags=(
            '--config_file:configuration file instead of the default one'
            '--overwrite:replace a file that exists'
            '--output_file:where to write the converted file'
        )
        valued=(config_file output_file)
        free=()
        ;;
    *) return 1 ;;
    esac
    flags+=('--help:print help' '--help_all:print help with all options')
    # After the program everything is the program's.
    for (( i = at; i < CURRENT; i++ )); do
        name=${${words[i]//-/_}#__}
        if [[ $words[i] != -* ]]; then
            # flags of config stand on either side of its word
            [[ $command == config && $words[i] != lint ]] && { free=(); continue }
            [[ $command == config ]] && { _accelerate_value $program config_file; return }
            [[ $command != launch ]] && { _files; return }
            shift $(( i - 1 )) words
            (( CURRENT -= i - 1 ))
            _normal
            return
        elif (( $valued[(Ie)$name] )); then
            (( ++i == CURRENT )) && { _accelerate_value $program $name; return }
        fi
    done
    if [[ $PREFIX == --*=* ]]; then
        name=${${${PREFIX%%=*}#--}//-/_}
        compset -P '*='
        (( $valued[(Ie)$name] )) && _accelerate_value $program $name
    elif [[ $PREFIX == -* ]]; then
        if [[ $PREFIX == --*-* ]]; then
            for flag in $flags; do
                hyphened+=(${${flag%%:*}//_/-}:${flag#*:})
            done
            flags=($hyphened)
        fi
        _describe -o option flags
    elif [[ $command == launch ]]; then
        local found=1
        _files && found=0
        [[ -n $PREFIX && $PREFIX != */* ]] && _command_names -e && found=0
        return found
    else
        compadd -- $free
    fi
}

_accelerate "$@"
