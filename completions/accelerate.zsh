#compdef accelerate accelerate-launch accelerate-config accelerate-estimate-memory accelerate-merge-weights
# SPDX-License-Identifier: Apache-2.0
# Completion of accelerate(1) for zsh.  Generated from the option table by `make regen`; do not edit.

# A comma-separated list: offer the GPUs that are not in it yet.
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
    machine_rank|gradient_accumulation_steps|gradient_clipping) compadd -- auto ;;
    output|deepspeed_config_file|deepspeed_hostfile|mpirun_hostfile|hostfile|job_key_file|sagemaker_inputs_file|sagemaker_metrics_file|command_file|checkpoint_file|failure_report|resume) _files ;;
    dynamo_backend) compadd -- no eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt aot_torchxla_trace_once torchxla_trace_once tvm hpu_backend neuron ;;
    dynamo_mode) compadd -- default reduce-overhead max-autotune ;;
    gpu_ids) _accelerate_gpus $1 ;;
    mixed_precision) compadd -- no fp16 bf16 fp8 ;;
    offload_optimizer_device|offload_param_device) compadd -- none cpu nvme ;;
    offload_optimizer_nvme_path|offload_param_nvme_path|log_dir) _files -/ ;;
    zero3_init_flag|zero3_save_16bit_model|fp8_enable_fsdp_float8_all_gather|fp8_pad_inner_dim|fp8_use_mxfp8_block_scaling|fsdp_offload_params|fsdp_forward_prefetch|fsdp_use_orig_params|fsdp_cpu_ram_efficient_loading|fsdp_sync_module_states|fsdp_activation_checkpointing|fsdp_activation_checkpointing_offload|megatron_lm_use_custom_fsdp|megatron_lm_no_load_optim|megatron_lm_eod_mask_loss|megatron_lm_overlap_cpu_optimizer_d2h_h2d|megatron_lm_no_save_optim|megatron_lm_optimizer_cpu_offload|megatron_lm_use_precision_aware_optimizer|megatron_lm_sequence_parallelism|megatron_lm_recompute_activations|megatron_lm_use_distributed_optimizer|megatron_lm_attention_backend|megatron_lm_attention_softmax_in_fp32|megatron_lm_calculate_per_token_loss|megatron_lm_use_rotary_position_embeddings|parallelism_config_sp_seq_length_is_variable) compadd -- true false ;;
    deepspeed_multinode_launcher) compadd -- pdsh standard openmpi mvapich mpich nossh slurm ;;
    library_name) compadd -- timm transformers ;;
    dtypes) compadd -- float32 float16 int8 int4 ;;
    fp8_backend) compadd -- ao te msamp ;;
    fp8_format) compadd -- HYBRID E4M3 E5M2 ;;
    fp8_amax_compute_algo) compadd -- max most_recent ;;
    fp8_opt_level) compadd -- O1 O2 ;;
    fsdp_version) compadd -- 1 2 ;;
    fsdp_sharding_strategy|fsdp_reshard_after_forward) compadd -- FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD HYBRID_SHARD_ZERO2 ;;
    fsdp_auto_wrap_policy) compadd -- TRANSFORMER_BASED_WRAP SIZE_BASED_WRAP NO_WRAP ;;
    fsdp_backward_prefetch) compadd -- BACKWARD_PRE BACKWARD_POST NO_PREFETCH ;;
    fsdp_state_dict_type) compadd -- FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT ;;
    starter) compadd -- auto ssh srun mpirun ;;
    mpi|label) compadd -- auto yes no ;;
    megatron_lm_recompute_granularity) compadd -- full selective ;;
    megatron_lm_recompute_method) compadd -- uniform block ;;
    parallelism_config_cp_backend) compadd -- torch ;;
    parallelism_config_cp_comm_strategy) compadd -- allgather alltoall ;;
    parallelism_config_sp_backend) compadd -- deepspeed ;;
    parallelism_config_sp_attn_implementation) compadd -- sdpa flash_attention_2 flash_attention_3 ;;
    signal) compadd -- TERM INT HUP QUIT USR1 USR2 CONT TSTP KILL ;;
    spot_notices) compadd -- aws gcp azure ;;
    only_rank) compadd -- all ;;
    stdin) compadd -- 0 none ;;
    bind) compadd -- auto none core numa gpu ;;
    cpu_backend) compadd -- auto accel gloo ;;
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
    elif (( CURRENT == 2 )) || [[ $words[2] == help ]]; then
        flags=(
            'checkpoint:ask a running job for a checkpoint'
            'completion:print the completion script for a shell'
            'config:answer questions and write the configuration file'
            'env:show details of this installation and this machine'
            'estimate-memory:estimate the memory that a model needs'
            'inspect:show the tensors of a checkpoint, or compare two'
            'kill:end a running job, or send it a signal'
            'launch:start a program as several processes'
            'merge-weights:join a sharded checkpoint into one safetensors file'
            'ps:list the running jobs of this user on this machine'
            'report:make a page of HTML of a run, or of several side by side'
            'stacks:show where the ranks of a running job are'
            'test:test libaccel on this machine, or check several hosts'
            'to-fsdp2:convert a configuration file from FSDP 1 to FSDP 2'
            'top:watch running jobs'
            'tpu-config:run startup commands on all machines of a TPU pod'
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
    checkpoint)
        flags=(
            '--wait:seconds to wait until it is done'
        )
        valued=(wait)
        free=()
        ;;
    completion)
        flags=(
        )
        valued=()
        free=(bash zsh fish)
        ;;
    config)
        flags=(
            '--config_file:configuration file (instead of the default one)'
            '--compute_environment:where to run'
            '--distributed_type:kind of distributed training'
            '--num_machines:number of machines'
            '--machine_rank:rank of this machine, from 0'
            '--main_process_ip:name or address of the main machine'
            '--main_process_port:TCP port of rank 0 (0: any free port)'
            '--debug:check shapes before every collective'
            '--cpu:run on CPUs and ignore the default file'
            '--use_cpu:run on CPUs'
            '--multi_gpu:one process per GPU, on several GPUs'
            '--dynamo_backend:torch.compile backend, for Python programs'
            '--dynamo_mode:torch.compile mode, for Python programs'
            '--dynamo_use_fullgraph:torch.compile: require a single graph'
            '--dynamo_use_dynamic:torch.compile: allow dynamic shapes'
            '--dynamo_use_regional_compilation:torch.compile: compile repeated blocks once'
            '--gpu_ids:comma-separated GPU numbers, or '\''all'\'''
            '--num_processes:total number of processes, across all machines'
            '--mixed_precision:number format for computation'
            '--deepspeed_config_file:DeepSpeed'\''s own JSON configuration'
            '--zero_stage:ZeRO stage'
            '--offload_optimizer_device:device that holds the optimizer state'
            '--offload_param_device:device that holds the parameters'
            '--offload_optimizer_nvme_path:NVMe directory for the optimizer state'
            '--offload_param_nvme_path:NVMe directory for parameters'
            '--gradient_accumulation_steps:batches to accumulate before each optimizer step'
            '--gradient_clipping:maximum gradient norm'
            '--zero3_init_flag:stage 3: construct models in pieces, on all devices'
            '--zero3_save_16bit_model:stage 3: save weights in 16 bits'
            '--deepspeed_hostfile:hosts and their GPU counts'
            '--deepspeed_exclusion_filter:hosts and GPUs to exclude'
            '--deepspeed_inclusion_filter:hosts and GPUs to include'
            '--deepspeed_multinode_launcher:how DeepSpeed starts the other machines'
            '--deepspeed_moe_layer_cls_names:comma-separated mixture-of-experts layer classes'
            '--same_network:all machines are on one local network'
            '--rdzv_backend:torchrun'\''s rendezvous backend; has no effect here'
            '--mpirun_hostfile:start ranks with mpirun on the hosts in this file'
            '--bind-to:what mpirun binds ranks to'
            '--fp8_backend:FP8 library'
            '--fp8_use_autocast_during_eval:te: use FP8 in evaluation too'
            '--fp8_margin:te: margin of the scaling factor'
            '--fp8_interval:te: steps between scaling factor updates'
            '--fp8_format:te: number format'
            '--fp8_amax_history_len:te: length of the amax history, in steps'
            '--fp8_amax_compute_algo:te: how to compute amax from its history'
            '--fp8_override_linear_precision:te: fprop, dgrad, wgrad in higher precision'
            '--fp8_opt_level:msamp: optimization level'
            '--fp8_enable_fsdp_float8_all_gather:ao: gather FSDP2 parameters in FP8'
            '--fp8_pad_inner_dim:ao: pad matrices to multiples of 16'
            '--fp8_use_mxfp8_block_scaling:te: block scaling (MXFP8)'
            '--fsdp_version:FSDP version'
            '--fsdp_offload_params:keep parameters and gradients in host memory'
            '--fsdp_min_num_params:smallest module to wrap, in parameters'
            '--fsdp_sharding_strategy:FSDP 1: what to shard'
            '--fsdp_reshard_after_forward:FSDP 2: reshard parameters after the forward pass'
            '--fsdp_auto_wrap_policy:how to choose the modules to wrap'
            '--fsdp_transformer_layer_cls_to_wrap:comma-separated layer classes to wrap'
            '--fsdp_backward_prefetch:FSDP 1: when to prefetch in the backward pass'
            '--fsdp_state_dict_type:checkpoint format'
            '--fsdp_forward_prefetch:FSDP 1: prefetch in the forward pass'
            '--fsdp_use_orig_params:FSDP 1: frozen and trained parameters may share a unit'
            '--fsdp_cpu_ram_efficient_loading:load weights on the main process only'
            '--fsdp_sync_module_states:FSDP 1: broadcast the weights of rank 0'
            '--fsdp_activation_checkpointing:recompute activations instead of keeping them'
            '--fsdp_activation_checkpointing_offload:keep checkpointed activations in host memory'
            '--fsdp_ignored_modules:modules that FSDP ignores'
            '--hosts:start the job on these hosts: a,b:4,node[01-16]:8'
            '--hostfile:start the job on the hosts listed in this file'
            '--starter:what starts the agents on the hosts'
            '--mpi:whether the ranks are processes of MPI'
            '--interface:network interface of the first host for MASTER_ADDR'
            '--host_timeout:seconds without a sign of life that end the job'
            '--job_key_file:secret that the launchers of a job share'
            '--megatron_lm_tp_degree:tensor parallelism degree'
            '--megatron_lm_use_custom_fsdp:use Megatron'\''s own FSDP'
            '--megatron_lm_no_load_optim:do not load the optimizer state'
            '--megatron_lm_eod_mask_loss:mask the loss of end-of-document tokens'
            '--megatron_lm_overlap_cpu_optimizer_d2h_h2d:overlap copies with the optimizer on the CPU'
            '--megatron_lm_no_save_optim:do not save the optimizer state'
            '--megatron_lm_optimizer_cpu_offload:run the optimizer on the CPU'
            '--megatron_lm_use_precision_aware_optimizer:optimizer state in several precisions'
            '--megatron_lm_decoder_last_pipeline_num_layers:layers in the last pipeline stage'
            '--megatron_lm_pp_degree:pipeline parallelism degree'
            '--megatron_lm_num_micro_batches:micro-batches per batch'
            '--megatron_lm_sequence_parallelism:sequence parallelism'
            '--megatron_lm_recompute_activations:recompute activations selectively'
            '--megatron_lm_use_distributed_optimizer:shard the optimizer state'
            '--megatron_lm_gradient_clipping:maximum gradient norm (0: no clipping)'
            '--megatron_lm_recompute_granularity:what to recompute'
            '--megatron_lm_recompute_method:how to choose layers to recompute'
            '--megatron_lm_recompute_num_layers:number of layers to recompute'
            '--megatron_lm_attention_backend:enable the attention backend'
            '--megatron_lm_expert_model_parallel_size:expert parallelism size'
            '--megatron_lm_context_parallel_size:context parallelism size'
            '--megatron_lm_attention_dropout:attention dropout'
            '--megatron_lm_hidden_dropout:hidden-layer dropout'
            '--megatron_lm_attention_softmax_in_fp32:attention softmax in float32'
            '--megatron_lm_expert_tensor_parallel_size:tensor parallelism size of experts'
            '--megatron_lm_calculate_per_token_loss:average the loss over tokens, not samples'
            '--megatron_lm_use_rotary_position_embeddings:rotary position embeddings'
            '--tpu:train on TPUs'
            '--enable_cpu_affinity:keep each process on the cores near its GPU'
            '--use_deepspeed:train with DeepSpeed'
            '--use_fsdp:train with fully sharded data parallelism'
            '--use_megatron_lm:train with Megatron-LM'
            '--use_parallelism_config:combine several kinds of parallelism'
            '--parallelism_config_dp_replicate_size:number of model replicas'
            '--parallelism_config_dp_shard_size:processes per sharded replica'
            '--parallelism_config_tp_size:tensor parallelism size'
            '--parallelism_config_cp_size:context parallelism size'
            '--parallelism_config_cp_backend:context parallelism backend'
            '--parallelism_config_cp_comm_strategy:how context parts are exchanged'
            '--parallelism_config_sp_size:sequence parallelism size'
            '--parallelism_config_sp_backend:sequence parallelism backend'
            '--parallelism_config_sp_seq_length:sequence length'
            '--parallelism_config_sp_seq_length_is_variable:sequence length varies'
            '--parallelism_config_sp_attn_implementation:attention implementation'
            '--ec2_instance_type:EC2 instance type'
            '--iam_role_name:IAM role of the job'
            '--image_uri:Docker image'
            '--profile:AWS profile'
            '--region:AWS region'
            '--base_job_name:prefix of job names'
            '--pytorch_version:PyTorch version'
            '--transformers_version:transformers version'
            '--py_version:Python version'
            '--sagemaker_inputs_file:TSV file of input channels'
            '--sagemaker_metrics_file:TSV file of metrics'
            '--tpu_use_cluster:the TPU is a pod'
            '--tpu_use_sudo:run the command on the pod with sudo'
            '--main_training_function:function that each TPU process runs'
            '--downcast_bf16:TPU: convert float and double to bfloat16'
            '--tpu_name:TPU name'
            '--tpu_zone:TPU zone'
            '--command_file:file of startup commands for the pod, one per line'
            '--commands:startup commands for the pod'
            '--tpu_vm:virtual machines of the pod'
            '--tpu_env:variables for the pod'
            '--json:print JSON'
            '--yes:ask nothing; take defaults'
            '--grace:seconds between SIGTERM and SIGKILL when ending ranks'
            '--stall_timeout:seconds without progress until ranks'\'' stacks are shown'
            '--timeout:seconds that ranks wait for others before they fail'
            '--time_limit:seconds after which ranks are asked to save and stop'
            '--checkpoint_file:file whose appearance asks ranks for a checkpoint'
            '--spot_notices:cloud whose notices ask ranks to save and stop'
            '--label:whether each line begins with its rank'
            '--only_rank:show the output of this rank only'
            '--stdin:rank that reads standard input'
            '--bind:which CPUs each rank may run on'
            '--cpu_backend:what PyTorch programs communicate with on CPUs'
            '--total_batch_size:samples per optimizer step, over all processes'
            '--share_parameters:one copy of the parameters for all processes of a host'
            '--no_progress:do not show the progress of long saves and loads'
            '--failure_report:write a JSON report of how the job ended'
            '--resume:continue from the newest complete checkpoint in this folder'
            '--memory_checkpoint_every:steps between checkpoints in memory, for restarts'
        )
        valued=(config_file compute_environment distributed_type num_machines machine_rank main_process_ip main_process_port dynamo_backend dynamo_mode gpu_ids num_processes mixed_precision deepspeed_config_file zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names rdzv_backend mpirun_hostfile bind-to fp8_backend fp8_margin fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim fp8_use_mxfp8_block_scaling fsdp_version fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing fsdp_activation_checkpointing_offload fsdp_ignored_modules hosts hostfile starter mpi interface host_timeout job_key_file megatron_lm_tp_degree megatron_lm_use_custom_fsdp megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation ec2_instance_type iam_role_name image_uri profile region base_job_name pytorch_version transformers_version py_version sagemaker_inputs_file sagemaker_metrics_file main_training_function tpu_name tpu_zone command_file commands tpu_vm tpu_env grace stall_timeout timeout time_limit checkpoint_file spot_notices label only_rank stdin bind cpu_backend total_batch_size failure_report resume memory_checkpoint_every)
        free=(default update show schema lint get set)
        ;;
    env)
        flags=(
            '--config_file:configuration file (instead of the default one)'
            '--json:print JSON'
        )
        valued=(config_file)
        free=()
        ;;
    estimate-memory)
        flags=(
            '--num_processes:total number of processes, across all machines'
            '--mixed_precision:number format for computation'
            '--zero_stage:ZeRO stage'
            '--library_name:library of the model, if the hub does not know it'
            '--dtypes:types to estimate for, all if not given'
            '--trust_remote_code:accept models with code of their own'
            '--context_length:also estimate inference with so many tokens'
            '--batch_size:sequences at a time, for --context_length'
            '--training:also estimate training with each optimizer'
            '--sharding:also estimate training by native programs, per ZeRO stage'
            '--float32_gradients:with --sharding, 16-bit parameters have float32 gradients'
            '--follow_links:accept shards that are symbolic links'
            '--json:print JSON'
            '--share_parameters:one copy of the parameters for all processes of a host'
        )
        valued=(num_processes mixed_precision zero_stage library_name dtypes context_length batch_size)
        free=(@files)
        ;;
    inspect)
        flags=(
            '--diff:compare two checkpoints'
            '--norms:also norm, minimum and maximum of each tensor'
            '--verify:compare all bytes with the checksums'
            '--follow_links:accept shards that are symbolic links'
            '--json:print JSON'
        )
        valued=()
        free=(@files)
        ;;
    kill)
        flags=(
            '--signal:the signal to send'
            '--wait:seconds to wait until it is done'
        )
        valued=(signal wait)
        free=()
        ;;
    launch)
        flags=(
            '--config_file:configuration file (instead of the default one)'
            '--quiet:print no notes and no failure report'
            '--module:PROGRAM is a Python module, as with python3 -m'
            '--no_python:execute PROGRAM directly, even if its name ends in .py'
            '--num_machines:number of machines'
            '--machine_rank:rank of this machine, from 0'
            '--main_process_ip:name or address of the main machine'
            '--main_process_port:TCP port of rank 0 (0: any free port)'
            '--debug:check shapes before every collective'
            '--cpu:run on CPUs and ignore the default file'
            '--multi_gpu:one process per GPU, on several GPUs'
            '--dynamo_backend:torch.compile backend, for Python programs'
            '--dynamo_mode:torch.compile mode, for Python programs'
            '--dynamo_use_fullgraph:torch.compile: require a single graph'
            '--dynamo_use_dynamic:torch.compile: allow dynamic shapes'
            '--dynamo_use_regional_compilation:torch.compile: compile repeated blocks once'
            '--gpu_ids:comma-separated GPU numbers, or '\''all'\'''
            '--share_gpus:allow more processes than GPUs'
            '--num_processes:total number of processes, across all machines'
            '--num_cpu_threads_per_process:OpenMP (and similar) threads per process'
            '--mixed_precision:number format for computation'
            '--deepspeed_config_file:DeepSpeed'\''s own JSON configuration'
            '--zero_stage:ZeRO stage'
            '--offload_optimizer_device:device that holds the optimizer state'
            '--offload_param_device:device that holds the parameters'
            '--offload_optimizer_nvme_path:NVMe directory for the optimizer state'
            '--offload_param_nvme_path:NVMe directory for parameters'
            '--gradient_accumulation_steps:batches to accumulate before each optimizer step'
            '--gradient_clipping:maximum gradient norm'
            '--zero3_init_flag:stage 3: construct models in pieces, on all devices'
            '--zero3_save_16bit_model:stage 3: save weights in 16 bits'
            '--deepspeed_hostfile:hosts and their GPU counts'
            '--deepspeed_exclusion_filter:hosts and GPUs to exclude'
            '--deepspeed_inclusion_filter:hosts and GPUs to include'
            '--deepspeed_multinode_launcher:how DeepSpeed starts the other machines'
            '--deepspeed_moe_layer_cls_names:comma-separated mixture-of-experts layer classes'
            '--same_network:all machines are on one local network'
            '--tee:copy ranks'\'' output to files: 0 to 3, or RANK:N pairs'
            '--log_dir:directory for the ranks'\'' output'
            '--role:name for ROLE_NAME and line prefixes'
            '--rdzv_backend:torchrun'\''s rendezvous backend; has no effect here'
            '--rdzv_conf:comma-separated KEY=VALUE rendezvous settings'
            '--max_restarts:maximum number of restarts'
            '--monitor_interval:seconds between checks; has no effect here'
            '--mpirun_hostfile:start ranks with mpirun on the hosts in this file'
            '--fp8_backend:FP8 library'
            '--fp8_use_autocast_during_eval:te: use FP8 in evaluation too'
            '--fp8_margin:te: margin of the scaling factor'
            '--fp8_interval:te: steps between scaling factor updates'
            '--fp8_format:te: number format'
            '--fp8_amax_history_len:te: length of the amax history, in steps'
            '--fp8_amax_compute_algo:te: how to compute amax from its history'
            '--fp8_override_linear_precision:te: fprop, dgrad, wgrad in higher precision'
            '--fp8_opt_level:msamp: optimization level'
            '--fp8_enable_fsdp_float8_all_gather:ao: gather FSDP2 parameters in FP8'
            '--fp8_pad_inner_dim:ao: pad matrices to multiples of 16'
            '--fsdp_version:FSDP version'
            '--fsdp_offload_params:keep parameters and gradients in host memory'
            '--fsdp_min_num_params:smallest module to wrap, in parameters'
            '--fsdp_sharding_strategy:FSDP 1: what to shard'
            '--fsdp_reshard_after_forward:FSDP 2: reshard parameters after the forward pass'
            '--fsdp_auto_wrap_policy:how to choose the modules to wrap'
            '--fsdp_transformer_layer_cls_to_wrap:comma-separated layer classes to wrap'
            '--fsdp_backward_prefetch:FSDP 1: when to prefetch in the backward pass'
            '--fsdp_state_dict_type:checkpoint format'
            '--fsdp_forward_prefetch:FSDP 1: prefetch in the forward pass'
            '--fsdp_use_orig_params:FSDP 1: frozen and trained parameters may share a unit'
            '--fsdp_cpu_ram_efficient_loading:load weights on the main process only'
            '--fsdp_sync_module_states:FSDP 1: broadcast the weights of rank 0'
            '--fsdp_activation_checkpointing:recompute activations instead of keeping them'
            '--fsdp_activation_checkpointing_offload:keep checkpointed activations in host memory'
            '--hosts:start the job on these hosts: a,b:4,node[01-16]:8'
            '--hostfile:start the job on the hosts listed in this file'
            '--starter:what starts the agents on the hosts'
            '--mpi:whether the ranks are processes of MPI'
            '--interface:network interface of the first host for MASTER_ADDR'
            '--host_timeout:seconds without a sign of life that end the job'
            '--job_key_file:secret that the launchers of a job share'
            '--megatron_lm_tp_degree:tensor parallelism degree'
            '--megatron_lm_use_custom_fsdp:use Megatron'\''s own FSDP'
            '--megatron_lm_no_load_optim:do not load the optimizer state'
            '--megatron_lm_eod_mask_loss:mask the loss of end-of-document tokens'
            '--megatron_lm_overlap_cpu_optimizer_d2h_h2d:overlap copies with the optimizer on the CPU'
            '--megatron_lm_no_save_optim:do not save the optimizer state'
            '--megatron_lm_optimizer_cpu_offload:run the optimizer on the CPU'
            '--megatron_lm_use_precision_aware_optimizer:optimizer state in several precisions'
            '--megatron_lm_decoder_last_pipeline_num_layers:layers in the last pipeline stage'
            '--megatron_lm_pp_degree:pipeline parallelism degree'
            '--megatron_lm_num_micro_batches:micro-batches per batch'
            '--megatron_lm_sequence_parallelism:sequence parallelism'
            '--megatron_lm_recompute_activations:recompute activations selectively'
            '--megatron_lm_use_distributed_optimizer:shard the optimizer state'
            '--megatron_lm_gradient_clipping:maximum gradient norm (0: no clipping)'
            '--megatron_lm_recompute_granularity:what to recompute'
            '--megatron_lm_recompute_method:how to choose layers to recompute'
            '--megatron_lm_recompute_num_layers:number of layers to recompute'
            '--megatron_lm_attention_backend:enable the attention backend'
            '--megatron_lm_expert_model_parallel_size:expert parallelism size'
            '--megatron_lm_context_parallel_size:context parallelism size'
            '--megatron_lm_attention_dropout:attention dropout'
            '--megatron_lm_hidden_dropout:hidden-layer dropout'
            '--megatron_lm_attention_softmax_in_fp32:attention softmax in float32'
            '--megatron_lm_expert_tensor_parallel_size:tensor parallelism size of experts'
            '--megatron_lm_calculate_per_token_loss:average the loss over tokens, not samples'
            '--megatron_lm_use_rotary_position_embeddings:rotary position embeddings'
            '--tpu:train on TPUs'
            '--enable_cpu_affinity:keep each process on the cores near its GPU'
            '--use_deepspeed:train with DeepSpeed'
            '--use_fsdp:train with fully sharded data parallelism'
            '--use_megatron_lm:train with Megatron-LM'
            '--use_parallelism_config:combine several kinds of parallelism'
            '--parallelism_config_dp_replicate_size:number of model replicas'
            '--parallelism_config_dp_shard_size:processes per sharded replica'
            '--parallelism_config_tp_size:tensor parallelism size'
            '--parallelism_config_cp_size:context parallelism size'
            '--parallelism_config_cp_backend:context parallelism backend'
            '--parallelism_config_cp_comm_strategy:how context parts are exchanged'
            '--parallelism_config_sp_size:sequence parallelism size'
            '--parallelism_config_sp_backend:sequence parallelism backend'
            '--parallelism_config_sp_seq_length:sequence length'
            '--parallelism_config_sp_seq_length_is_variable:sequence length varies'
            '--parallelism_config_sp_attn_implementation:attention implementation'
            '--detach:leave a SageMaker job running'
            '--tpu_cluster:the TPU is a pod of several machines'
            '--no_tpu_cluster:the TPU is one machine'
            '--tpu_use_sudo:run the command on the pod with sudo'
            '--vm:virtual machine of the pod (repeatable)'
            '--env:NAME=VALUE for the pod (repeatable)'
            '--main_training_function:function that each TPU process runs'
            '--downcast_bf16:TPU: convert float and double to bfloat16'
            '--aws_access_key_id:AWS access key, for SageMaker'
            '--aws_secret_access_key:AWS secret key, for SageMaker'
            '--dry_run:print what would be started, but start nothing'
            '--explain:with --dry_run: show settings and their origins'
            '--json:print JSON'
            '--grace:seconds between SIGTERM and SIGKILL when ending ranks'
            '--stall_timeout:seconds without progress until ranks'\'' stacks are shown'
            '--timeout:seconds that ranks wait for others before they fail'
            '--time_limit:seconds after which ranks are asked to save and stop'
            '--checkpoint_file:file whose appearance asks ranks for a checkpoint'
            '--spot_notices:cloud whose notices ask ranks to save and stop'
            '--label:whether each line begins with its rank'
            '--only_rank:show the output of this rank only'
            '--stdin:rank that reads standard input'
            '--bind:which CPUs each rank may run on'
            '--report_bindings:print CPUs, NUMA node, device and threads of each rank'
            '--cpu_backend:what PyTorch programs communicate with on CPUs'
            '--total_batch_size:samples per optimizer step, over all processes'
            '--share_parameters:one copy of the parameters for all processes of a host'
            '--no_progress:do not show the progress of long saves and loads'
            '--failure_report:write a JSON report of how the job ended'
            '--resume:continue from the newest complete checkpoint in this folder'
            '--memory_checkpoint_every:steps between checkpoints in memory, for restarts'
        )
        valued=(config_file num_machines machine_rank main_process_ip main_process_port dynamo_backend dynamo_mode gpu_ids num_processes num_cpu_threads_per_process mixed_precision deepspeed_config_file zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names tee _t log_dir role rdzv_backend rdzv_conf max_restarts monitor_interval mpirun_hostfile fp8_backend fp8_margin fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim fsdp_version fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing fsdp_activation_checkpointing_offload hosts hostfile starter mpi interface host_timeout job_key_file megatron_lm_tp_degree megatron_lm_use_custom_fsdp megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation vm env main_training_function aws_access_key_id aws_secret_access_key grace stall_timeout timeout time_limit checkpoint_file spot_notices label only_rank stdin bind cpu_backend total_batch_size failure_report resume memory_checkpoint_every)
        free=()
        ;;
    merge-weights)
        flags=(
            '--unsafe_serialization:refused: pickled files are not written'
            '--remove_checkpoint_dir:remove the checkpoint folder afterwards'
            '--follow_links:accept shards that are symbolic links'
        )
        valued=()
        free=(@files)
        ;;
    ps)
        flags=(
            '--json:print JSON'
        )
        valued=()
        free=()
        ;;
    report)
        flags=(
            '--output:where to write the page'
        )
        valued=(output _o)
        free=(@files)
        ;;
    stacks)
        flags=(
            '--json:print JSON'
        )
        valued=()
        free=()
        ;;
    test)
        flags=(
            '--config_file:configuration file (instead of the default one)'
            '--main_process_ip:name or address of the main machine'
            '--main_process_port:TCP port of rank 0 (0: any free port)'
            '--cpu:run on CPUs and ignore the default file'
            '--num_processes:total number of processes, across all machines'
            '--hosts:start the job on these hosts: a,b:4,node[01-16]:8'
            '--hostfile:start the job on the hosts listed in this file'
            '--starter:what starts the agents on the hosts'
            '--mpi:whether the ranks are processes of MPI'
            '--interface:network interface of the first host for MASTER_ADDR'
            '--host_timeout:seconds without a sign of life that end the job'
            '--json:print JSON'
        )
        valued=(config_file main_process_ip main_process_port num_processes hosts hostfile starter mpi interface host_timeout)
        free=()
        ;;
    to-fsdp2)
        flags=(
            '--config_file:configuration file (instead of the default one)'
            '--overwrite:replace an existing file'
            '--output_file:where to write the converted file'
        )
        valued=(config_file output_file)
        free=()
        ;;
    top)
        flags=(
            '--once:print one look and exit'
            '--json:print JSON'
        )
        valued=()
        free=()
        ;;
    tpu-config)
        flags=(
            '--config_file:configuration file (instead of the default one)'
            '--tpu_name:TPU name'
            '--tpu_zone:TPU zone'
            '--command_file:file of startup commands for the pod, one per line'
            '--command:command to run on the pod (repeatable)'
            '--use_alpha:run gcloud alpha instead of gcloud'
            '--install_accelerate:first install Hugging Face Accelerate on the pod'
            '--accelerate_version:version to install: latest, dev or a number'
            '--debug:print the gcloud command, but do not run it'
        )
        valued=(config_file tpu_name tpu_zone command_file command accelerate_version)
        free=()
        ;;
    *) return 1 ;;
    esac
    flags+=('--help:print help' '--help_all:print help with all options')
    # Everything after the program belongs to the program.
    for (( i = at; i < CURRENT; i++ )); do
        name=${${words[i]//-/_}#__}
        if [[ $words[i] != -* ]]; then
            # options of config may come before or after its word
            if [[ $command == config && $words[i] != lint ]]; then
                free=()
                [[ $words[i] == (get|set) ]] && free=(${${flags%%:*}#--})
                continue
            fi
            [[ $command == config ]] && { _accelerate_value $program config_file; return }
            [[ $command != launch ]] && continue
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
        [[ -n $PREFIX && $PREFIX != */* ]] && (( ! $words[(I)(-m|--module)] )) && _command_names -e && found=0
        return found
    elif [[ $free == @files ]]; then
        _files
    else
        compadd -- $free
    fi
}

# Found in fpath, this file is the function; it may also be sourced.
if [[ $funcstack[1] == _accelerate ]]; then
    _accelerate "$@"
else
    compdef _accelerate accelerate accelerate-launch accelerate-config accelerate-estimate-memory accelerate-merge-weights
fi
