# SPDX-License-Identifier: Apache-2.0
# Completion of accelerate(1) for fish.  Generated from the option table by `make regen`; do not edit.

# A comma-separated list: offer the GPUs that are not in it yet.
function __accelerate_gpus --argument-names current program
    test -n "$program"; or return
    set -l used (string split , -- $current)[1..-2]
    set -l before (string replace -r '[^,]*$' '' -- $current)
    test -z "$before"; and printf 'all\tall GPUs\n'
    type -q $program; or return
    for id in ($program --emit=gpu-ids 2>/dev/null)
        contains -- $id $used; or printf '%s\tGPU\n' $before$id
    end
end

function __accelerate_configs --argument-names current
    set -l names "$current"*.yaml "$current"*.yml "$current"*.json
    test -n "$names"; and printf '%s\n' $names
    __fish_complete_directories "$current"
end

function __accelerate_value --argument-names key current program
    switch $key
        case config_file output_file
            __accelerate_configs "$current"
        case compute_environment
            printf '%s\n' LOCAL_MACHINE AMAZON_SAGEMAKER
        case distributed_type
            printf '%s\n' NO MULTI_CPU MULTI_XPU MULTI_HPU MULTI_GPU MULTI_NPU MULTI_MLU MULTI_SDAA MULTI_MUSA MULTI_NEURON XLA DEEPSPEED FSDP MEGATRON_LM DATA_PARALLEL MODEL_PARALLEL
        case machine_rank gradient_accumulation_steps gradient_clipping
            printf '%s\n' auto
        case output deepspeed_config_file deepspeed_hostfile mpirun_hostfile hostfile job_key_file sagemaker_inputs_file sagemaker_metrics_file command_file checkpoint_file failure_report resume
            echo @files
        case dynamo_backend
            printf '%s\n' no eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt aot_torchxla_trace_once torchxla_trace_once tvm hpu_backend neuron
        case dynamo_mode
            printf '%s\n' default reduce-overhead max-autotune
        case gpu_ids
            __accelerate_gpus "$current" "$program"
        case mixed_precision
            printf '%s\n' no fp16 bf16 fp8
        case offload_optimizer_device offload_param_device
            printf '%s\n' none cpu nvme
        case offload_optimizer_nvme_path offload_param_nvme_path log_dir
            __fish_complete_directories "$current"
        case zero3_init_flag zero3_save_16bit_model fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim fp8_use_mxfp8_block_scaling fsdp_offload_params fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing fsdp_activation_checkpointing_offload megatron_lm_use_custom_fsdp megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_attention_backend megatron_lm_attention_softmax_in_fp32 megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings parallelism_config_sp_seq_length_is_variable
            printf '%s\n' true false
        case deepspeed_multinode_launcher
            printf '%s\n' pdsh standard openmpi mvapich mpich nossh slurm
        case library_name
            printf '%s\n' timm transformers
        case dtypes
            printf '%s\n' float32 float16 int8 int4
        case fp8_backend
            printf '%s\n' ao te msamp
        case fp8_format
            printf '%s\n' HYBRID E4M3 E5M2
        case fp8_amax_compute_algo
            printf '%s\n' max most_recent
        case fp8_opt_level
            printf '%s\n' O1 O2
        case fsdp_version
            printf '%s\n' 1 2
        case fsdp_sharding_strategy fsdp_reshard_after_forward
            printf '%s\n' FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD HYBRID_SHARD_ZERO2
        case fsdp_auto_wrap_policy
            printf '%s\n' TRANSFORMER_BASED_WRAP SIZE_BASED_WRAP NO_WRAP
        case fsdp_backward_prefetch
            printf '%s\n' BACKWARD_PRE BACKWARD_POST NO_PREFETCH
        case fsdp_state_dict_type
            printf '%s\n' FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT
        case starter
            printf '%s\n' auto ssh srun mpirun
        case mpi label
            printf '%s\n' auto yes no
        case megatron_lm_recompute_granularity
            printf '%s\n' full selective
        case megatron_lm_recompute_method
            printf '%s\n' uniform block
        case parallelism_config_cp_backend
            printf '%s\n' torch
        case parallelism_config_cp_comm_strategy
            printf '%s\n' allgather alltoall
        case parallelism_config_sp_backend
            printf '%s\n' deepspeed
        case parallelism_config_sp_attn_implementation
            printf '%s\n' sdpa flash_attention_2 flash_attention_3
        case signal
            printf '%s\n' TERM INT HUP QUIT USR1 USR2 CONT TSTP KILL
        case spot_notices
            printf '%s\n' aws gcp azure
        case only_rank
            printf '%s\n' all
        case stdin
            printf '%s\n' 0 none
        case bind
            printf '%s\n' auto none core numa gpu
        case cpu_backend
            printf '%s\n' auto accel gloo
    end
end

function __accelerate_valued
    switch $argv[1]
        case checkpoint
            string split ' ' 'wait'
            return 0
        case completion
            string split ' ' ''
            return 0
        case config
            string split ' ' 'config_file compute_environment distributed_type num_machines machine_rank main_process_ip main_process_port dynamo_backend dynamo_mode gpu_ids num_processes mixed_precision deepspeed_config_file zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names rdzv_backend mpirun_hostfile bind-to fp8_backend fp8_margin fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim fp8_use_mxfp8_block_scaling fsdp_version fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing fsdp_activation_checkpointing_offload fsdp_ignored_modules hosts hostfile starter mpi interface host_timeout job_key_file megatron_lm_tp_degree megatron_lm_use_custom_fsdp megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation ec2_instance_type iam_role_name image_uri profile region base_job_name pytorch_version transformers_version py_version sagemaker_inputs_file sagemaker_metrics_file main_training_function tpu_name tpu_zone command_file commands tpu_vm tpu_env grace stall_timeout timeout time_limit checkpoint_file spot_notices label only_rank stdin bind cpu_backend total_batch_size failure_report resume memory_checkpoint_every'
            return 0
        case env
            string split ' ' 'config_file'
            return 0
        case estimate-memory
            string split ' ' 'num_processes mixed_precision zero_stage library_name dtypes context_length batch_size'
            return 0
        case inspect
            string split ' ' ''
            return 0
        case kill
            string split ' ' 'signal wait'
            return 0
        case launch
            string split ' ' 'config_file num_machines machine_rank main_process_ip main_process_port dynamo_backend dynamo_mode gpu_ids num_processes num_cpu_threads_per_process mixed_precision deepspeed_config_file zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names tee _t log_dir role rdzv_backend rdzv_conf max_restarts monitor_interval mpirun_hostfile fp8_backend fp8_margin fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim fsdp_version fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing fsdp_activation_checkpointing_offload hosts hostfile starter mpi interface host_timeout job_key_file megatron_lm_tp_degree megatron_lm_use_custom_fsdp megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation vm env main_training_function aws_access_key_id aws_secret_access_key grace stall_timeout timeout time_limit checkpoint_file spot_notices label only_rank stdin bind cpu_backend total_batch_size failure_report resume memory_checkpoint_every'
            return 0
        case merge-weights
            string split ' ' ''
            return 0
        case ps
            string split ' ' ''
            return 0
        case report
            string split ' ' 'output _o'
            return 0
        case stacks
            string split ' ' ''
            return 0
        case test
            string split ' ' 'config_file main_process_ip main_process_port num_processes hosts hostfile starter mpi interface host_timeout'
            return 0
        case to-fsdp2
            string split ' ' 'config_file output_file'
            return 0
        case top
            string split ' ' ''
            return 0
        case tpu-config
            string split ' ' 'config_file tpu_name tpu_zone command_file command accelerate_version'
            return 0
        case '*'
            return 1
    end
end

function __accelerate_flags
    switch $argv[1]
        case checkpoint
            printf '%s\n' \
                --wait\t'seconds to wait until it is done'
        case completion
            printf '%s\n'
        case config
            printf '%s\n' \
                --config_file\t'configuration file (instead of the default one)' \
                --compute_environment\t'where to run' \
                --distributed_type\t'kind of distributed training' \
                --num_machines\t'number of machines' \
                --machine_rank\t'rank of this machine, from 0' \
                --main_process_ip\t'name or address of the main machine' \
                --main_process_port\t'TCP port of rank 0 (0: any free port)' \
                --debug\t'check shapes before every collective' \
                --cpu\t'run on CPUs and ignore the default file' \
                --use_cpu\t'run on CPUs' \
                --multi_gpu\t'one process per GPU, on several GPUs' \
                --dynamo_backend\t'torch.compile backend, for Python programs' \
                --dynamo_mode\t'torch.compile mode, for Python programs' \
                --dynamo_use_fullgraph\t'torch.compile: require a single graph' \
                --dynamo_use_dynamic\t'torch.compile: allow dynamic shapes' \
                --dynamo_use_regional_compilation\t'torch.compile: compile repeated blocks once' \
                --gpu_ids\t'comma-separated GPU numbers, or \'all\'' \
                --num_processes\t'total number of processes, across all machines' \
                --mixed_precision\t'number format for computation' \
                --deepspeed_config_file\t'DeepSpeed\'s own JSON configuration' \
                --zero_stage\t'ZeRO stage' \
                --offload_optimizer_device\t'device that holds the optimizer state' \
                --offload_param_device\t'device that holds the parameters' \
                --offload_optimizer_nvme_path\t'NVMe directory for the optimizer state' \
                --offload_param_nvme_path\t'NVMe directory for parameters' \
                --gradient_accumulation_steps\t'batches to accumulate before each optimizer step' \
                --gradient_clipping\t'maximum gradient norm' \
                --zero3_init_flag\t'stage 3: construct models in pieces, on all devices' \
                --zero3_save_16bit_model\t'stage 3: save weights in 16 bits' \
                --deepspeed_hostfile\t'hosts and their GPU counts' \
                --deepspeed_exclusion_filter\t'hosts and GPUs to exclude' \
                --deepspeed_inclusion_filter\t'hosts and GPUs to include' \
                --deepspeed_multinode_launcher\t'how DeepSpeed starts the other machines' \
                --deepspeed_moe_layer_cls_names\t'comma-separated mixture-of-experts layer classes' \
                --same_network\t'all machines are on one local network' \
                --rdzv_backend\t'torchrun\'s rendezvous backend; has no effect here' \
                --mpirun_hostfile\t'start ranks with mpirun on the hosts in this file' \
                --bind-to\t'what mpirun binds ranks to' \
                --fp8_backend\t'FP8 library' \
                --fp8_use_autocast_during_eval\t'te: use FP8 in evaluation too' \
                --fp8_margin\t'te: margin of the scaling factor' \
                --fp8_interval\t'te: steps between scaling factor updates' \
                --fp8_format\t'te: number format' \
                --fp8_amax_history_len\t'te: length of the amax history, in steps' \
                --fp8_amax_compute_algo\t'te: how to compute amax from its history' \
                --fp8_override_linear_precision\t'te: fprop, dgrad, wgrad in higher precision' \
                --fp8_opt_level\t'msamp: optimization level' \
                --fp8_enable_fsdp_float8_all_gather\t'ao: gather FSDP2 parameters in FP8' \
                --fp8_pad_inner_dim\t'ao: pad matrices to multiples of 16' \
                --fp8_use_mxfp8_block_scaling\t'te: block scaling (MXFP8)' \
                --fsdp_version\t'FSDP version' \
                --fsdp_offload_params\t'keep parameters and gradients in host memory' \
                --fsdp_min_num_params\t'smallest module to wrap, in parameters' \
                --fsdp_sharding_strategy\t'FSDP 1: what to shard' \
                --fsdp_reshard_after_forward\t'FSDP 2: reshard parameters after the forward pass' \
                --fsdp_auto_wrap_policy\t'how to choose the modules to wrap' \
                --fsdp_transformer_layer_cls_to_wrap\t'comma-separated layer classes to wrap' \
                --fsdp_backward_prefetch\t'FSDP 1: when to prefetch in the backward pass' \
                --fsdp_state_dict_type\t'checkpoint format' \
                --fsdp_forward_prefetch\t'FSDP 1: prefetch in the forward pass' \
                --fsdp_use_orig_params\t'FSDP 1: frozen and trained parameters may share a unit' \
                --fsdp_cpu_ram_efficient_loading\t'load weights on the main process only' \
                --fsdp_sync_module_states\t'FSDP 1: broadcast the weights of rank 0' \
                --fsdp_activation_checkpointing\t'recompute activations instead of keeping them' \
                --fsdp_activation_checkpointing_offload\t'keep checkpointed activations in host memory' \
                --fsdp_ignored_modules\t'modules that FSDP ignores' \
                --hosts\t'start the job on these hosts: a,b:4,node[01-16]:8' \
                --hostfile\t'start the job on the hosts listed in this file' \
                --starter\t'what starts the agents on the hosts' \
                --mpi\t'whether the ranks are processes of MPI' \
                --interface\t'network interface of the first host for MASTER_ADDR' \
                --host_timeout\t'seconds without a sign of life that end the job' \
                --job_key_file\t'secret that the launchers of a job share' \
                --megatron_lm_tp_degree\t'tensor parallelism degree' \
                --megatron_lm_use_custom_fsdp\t'use Megatron\'s own FSDP' \
                --megatron_lm_no_load_optim\t'do not load the optimizer state' \
                --megatron_lm_eod_mask_loss\t'mask the loss of end-of-document tokens' \
                --megatron_lm_overlap_cpu_optimizer_d2h_h2d\t'overlap copies with the optimizer on the CPU' \
                --megatron_lm_no_save_optim\t'do not save the optimizer state' \
                --megatron_lm_optimizer_cpu_offload\t'run the optimizer on the CPU' \
                --megatron_lm_use_precision_aware_optimizer\t'optimizer state in several precisions' \
                --megatron_lm_decoder_last_pipeline_num_layers\t'layers in the last pipeline stage' \
                --megatron_lm_pp_degree\t'pipeline parallelism degree' \
                --megatron_lm_num_micro_batches\t'micro-batches per batch' \
                --megatron_lm_sequence_parallelism\t'sequence parallelism' \
                --megatron_lm_recompute_activations\t'recompute activations selectively' \
                --megatron_lm_use_distributed_optimizer\t'shard the optimizer state' \
                --megatron_lm_gradient_clipping\t'maximum gradient norm (0: no clipping)' \
                --megatron_lm_recompute_granularity\t'what to recompute' \
                --megatron_lm_recompute_method\t'how to choose layers to recompute' \
                --megatron_lm_recompute_num_layers\t'number of layers to recompute' \
                --megatron_lm_attention_backend\t'enable the attention backend' \
                --megatron_lm_expert_model_parallel_size\t'expert parallelism size' \
                --megatron_lm_context_parallel_size\t'context parallelism size' \
                --megatron_lm_attention_dropout\t'attention dropout' \
                --megatron_lm_hidden_dropout\t'hidden-layer dropout' \
                --megatron_lm_attention_softmax_in_fp32\t'attention softmax in float32' \
                --megatron_lm_expert_tensor_parallel_size\t'tensor parallelism size of experts' \
                --megatron_lm_calculate_per_token_loss\t'average the loss over tokens, not samples' \
                --megatron_lm_use_rotary_position_embeddings\t'rotary position embeddings' \
                --tpu\t'train on TPUs' \
                --enable_cpu_affinity\t'keep each process on the cores near its GPU' \
                --use_deepspeed\t'train with DeepSpeed' \
                --use_fsdp\t'train with fully sharded data parallelism' \
                --use_megatron_lm\t'train with Megatron-LM' \
                --use_parallelism_config\t'combine several kinds of parallelism' \
                --parallelism_config_dp_replicate_size\t'number of model replicas' \
                --parallelism_config_dp_shard_size\t'processes per sharded replica' \
                --parallelism_config_tp_size\t'tensor parallelism size' \
                --parallelism_config_cp_size\t'context parallelism size' \
                --parallelism_config_cp_backend\t'context parallelism backend' \
                --parallelism_config_cp_comm_strategy\t'how context parts are exchanged' \
                --parallelism_config_sp_size\t'sequence parallelism size' \
                --parallelism_config_sp_backend\t'sequence parallelism backend' \
                --parallelism_config_sp_seq_length\t'sequence length' \
                --parallelism_config_sp_seq_length_is_variable\t'sequence length varies' \
                --parallelism_config_sp_attn_implementation\t'attention implementation' \
                --ec2_instance_type\t'EC2 instance type' \
                --iam_role_name\t'IAM role of the job' \
                --image_uri\t'Docker image' \
                --profile\t'AWS profile' \
                --region\t'AWS region' \
                --base_job_name\t'prefix of job names' \
                --pytorch_version\t'PyTorch version' \
                --transformers_version\t'transformers version' \
                --py_version\t'Python version' \
                --sagemaker_inputs_file\t'TSV file of input channels' \
                --sagemaker_metrics_file\t'TSV file of metrics' \
                --tpu_use_cluster\t'the TPU is a pod' \
                --tpu_use_sudo\t'run the command on the pod with sudo' \
                --main_training_function\t'function that each TPU process runs' \
                --downcast_bf16\t'TPU: convert float and double to bfloat16' \
                --tpu_name\t'TPU name' \
                --tpu_zone\t'TPU zone' \
                --command_file\t'file of startup commands for the pod, one per line' \
                --commands\t'startup commands for the pod' \
                --tpu_vm\t'virtual machines of the pod' \
                --tpu_env\t'variables for the pod' \
                --json\t'print JSON' \
                --yes\t'ask nothing; take defaults' \
                --grace\t'seconds between SIGTERM and SIGKILL when ending ranks' \
                --stall_timeout\t'seconds without progress until ranks\' stacks are shown' \
                --timeout\t'seconds that ranks wait for others before they fail' \
                --time_limit\t'seconds after which ranks are asked to save and stop' \
                --checkpoint_file\t'file whose appearance asks ranks for a checkpoint' \
                --spot_notices\t'cloud whose notices ask ranks to save and stop' \
                --label\t'whether each line begins with its rank' \
                --only_rank\t'show the output of this rank only' \
                --stdin\t'rank that reads standard input' \
                --bind\t'which CPUs each rank may run on' \
                --cpu_backend\t'what PyTorch programs communicate with on CPUs' \
                --total_batch_size\t'samples per optimizer step, over all processes' \
                --share_parameters\t'one copy of the parameters for all processes of a host' \
                --no_progress\t'do not show the progress of long saves and loads' \
                --failure_report\t'write a JSON report of how the job ended' \
                --resume\t'continue from the newest complete checkpoint in this folder' \
                --memory_checkpoint_every\t'steps between checkpoints in memory, for restarts'
        case env
            printf '%s\n' \
                --config_file\t'configuration file (instead of the default one)' \
                --json\t'print JSON'
        case estimate-memory
            printf '%s\n' \
                --num_processes\t'total number of processes, across all machines' \
                --mixed_precision\t'number format for computation' \
                --zero_stage\t'ZeRO stage' \
                --library_name\t'library of the model, if the hub does not know it' \
                --dtypes\t'types to estimate for, all if not given' \
                --trust_remote_code\t'accept models with code of their own' \
                --context_length\t'also estimate inference with so many tokens' \
                --batch_size\t'sequences at a time, for --context_length' \
                --training\t'also estimate training with each optimizer' \
                --sharding\t'also estimate training by native programs, per ZeRO stage' \
                --float32_gradients\t'with --sharding, 16-bit parameters have float32 gradients' \
                --follow_links\t'accept shards that are symbolic links' \
                --json\t'print JSON' \
                --share_parameters\t'one copy of the parameters for all processes of a host'
        case inspect
            printf '%s\n' \
                --diff\t'compare two checkpoints' \
                --norms\t'also norm, minimum and maximum of each tensor' \
                --verify\t'compare all bytes with the checksums' \
                --follow_links\t'accept shards that are symbolic links' \
                --json\t'print JSON'
        case kill
            printf '%s\n' \
                --signal\t'the signal to send' \
                --wait\t'seconds to wait until it is done'
        case launch
            printf '%s\n' \
                --config_file\t'configuration file (instead of the default one)' \
                --quiet\t'print no notes and no failure report' \
                --module\t'PROGRAM is a Python module, as with python3 -m' \
                --no_python\t'execute PROGRAM directly, even if its name ends in .py' \
                --num_machines\t'number of machines' \
                --machine_rank\t'rank of this machine, from 0' \
                --main_process_ip\t'name or address of the main machine' \
                --main_process_port\t'TCP port of rank 0 (0: any free port)' \
                --debug\t'check shapes before every collective' \
                --cpu\t'run on CPUs and ignore the default file' \
                --multi_gpu\t'one process per GPU, on several GPUs' \
                --dynamo_backend\t'torch.compile backend, for Python programs' \
                --dynamo_mode\t'torch.compile mode, for Python programs' \
                --dynamo_use_fullgraph\t'torch.compile: require a single graph' \
                --dynamo_use_dynamic\t'torch.compile: allow dynamic shapes' \
                --dynamo_use_regional_compilation\t'torch.compile: compile repeated blocks once' \
                --gpu_ids\t'comma-separated GPU numbers, or \'all\'' \
                --share_gpus\t'allow more processes than GPUs' \
                --num_processes\t'total number of processes, across all machines' \
                --num_cpu_threads_per_process\t'OpenMP (and similar) threads per process' \
                --mixed_precision\t'number format for computation' \
                --deepspeed_config_file\t'DeepSpeed\'s own JSON configuration' \
                --zero_stage\t'ZeRO stage' \
                --offload_optimizer_device\t'device that holds the optimizer state' \
                --offload_param_device\t'device that holds the parameters' \
                --offload_optimizer_nvme_path\t'NVMe directory for the optimizer state' \
                --offload_param_nvme_path\t'NVMe directory for parameters' \
                --gradient_accumulation_steps\t'batches to accumulate before each optimizer step' \
                --gradient_clipping\t'maximum gradient norm' \
                --zero3_init_flag\t'stage 3: construct models in pieces, on all devices' \
                --zero3_save_16bit_model\t'stage 3: save weights in 16 bits' \
                --deepspeed_hostfile\t'hosts and their GPU counts' \
                --deepspeed_exclusion_filter\t'hosts and GPUs to exclude' \
                --deepspeed_inclusion_filter\t'hosts and GPUs to include' \
                --deepspeed_multinode_launcher\t'how DeepSpeed starts the other machines' \
                --deepspeed_moe_layer_cls_names\t'comma-separated mixture-of-experts layer classes' \
                --same_network\t'all machines are on one local network' \
                --tee\t'copy ranks\' output to files: 0 to 3, or RANK:N pairs' \
                --log_dir\t'directory for the ranks\' output' \
                --role\t'name for ROLE_NAME and line prefixes' \
                --rdzv_backend\t'torchrun\'s rendezvous backend; has no effect here' \
                --rdzv_conf\t'comma-separated KEY=VALUE rendezvous settings' \
                --max_restarts\t'maximum number of restarts' \
                --monitor_interval\t'seconds between checks; has no effect here' \
                --mpirun_hostfile\t'start ranks with mpirun on the hosts in this file' \
                --fp8_backend\t'FP8 library' \
                --fp8_use_autocast_during_eval\t'te: use FP8 in evaluation too' \
                --fp8_margin\t'te: margin of the scaling factor' \
                --fp8_interval\t'te: steps between scaling factor updates' \
                --fp8_format\t'te: number format' \
                --fp8_amax_history_len\t'te: length of the amax history, in steps' \
                --fp8_amax_compute_algo\t'te: how to compute amax from its history' \
                --fp8_override_linear_precision\t'te: fprop, dgrad, wgrad in higher precision' \
                --fp8_opt_level\t'msamp: optimization level' \
                --fp8_enable_fsdp_float8_all_gather\t'ao: gather FSDP2 parameters in FP8' \
                --fp8_pad_inner_dim\t'ao: pad matrices to multiples of 16' \
                --fsdp_version\t'FSDP version' \
                --fsdp_offload_params\t'keep parameters and gradients in host memory' \
                --fsdp_min_num_params\t'smallest module to wrap, in parameters' \
                --fsdp_sharding_strategy\t'FSDP 1: what to shard' \
                --fsdp_reshard_after_forward\t'FSDP 2: reshard parameters after the forward pass' \
                --fsdp_auto_wrap_policy\t'how to choose the modules to wrap' \
                --fsdp_transformer_layer_cls_to_wrap\t'comma-separated layer classes to wrap' \
                --fsdp_backward_prefetch\t'FSDP 1: when to prefetch in the backward pass' \
                --fsdp_state_dict_type\t'checkpoint format' \
                --fsdp_forward_prefetch\t'FSDP 1: prefetch in the forward pass' \
                --fsdp_use_orig_params\t'FSDP 1: frozen and trained parameters may share a unit' \
                --fsdp_cpu_ram_efficient_loading\t'load weights on the main process only' \
                --fsdp_sync_module_states\t'FSDP 1: broadcast the weights of rank 0' \
                --fsdp_activation_checkpointing\t'recompute activations instead of keeping them' \
                --fsdp_activation_checkpointing_offload\t'keep checkpointed activations in host memory' \
                --hosts\t'start the job on these hosts: a,b:4,node[01-16]:8' \
                --hostfile\t'start the job on the hosts listed in this file' \
                --starter\t'what starts the agents on the hosts' \
                --mpi\t'whether the ranks are processes of MPI' \
                --interface\t'network interface of the first host for MASTER_ADDR' \
                --host_timeout\t'seconds without a sign of life that end the job' \
                --job_key_file\t'secret that the launchers of a job share' \
                --megatron_lm_tp_degree\t'tensor parallelism degree' \
                --megatron_lm_use_custom_fsdp\t'use Megatron\'s own FSDP' \
                --megatron_lm_no_load_optim\t'do not load the optimizer state' \
                --megatron_lm_eod_mask_loss\t'mask the loss of end-of-document tokens' \
                --megatron_lm_overlap_cpu_optimizer_d2h_h2d\t'overlap copies with the optimizer on the CPU' \
                --megatron_lm_no_save_optim\t'do not save the optimizer state' \
                --megatron_lm_optimizer_cpu_offload\t'run the optimizer on the CPU' \
                --megatron_lm_use_precision_aware_optimizer\t'optimizer state in several precisions' \
                --megatron_lm_decoder_last_pipeline_num_layers\t'layers in the last pipeline stage' \
                --megatron_lm_pp_degree\t'pipeline parallelism degree' \
                --megatron_lm_num_micro_batches\t'micro-batches per batch' \
                --megatron_lm_sequence_parallelism\t'sequence parallelism' \
                --megatron_lm_recompute_activations\t'recompute activations selectively' \
                --megatron_lm_use_distributed_optimizer\t'shard the optimizer state' \
                --megatron_lm_gradient_clipping\t'maximum gradient norm (0: no clipping)' \
                --megatron_lm_recompute_granularity\t'what to recompute' \
                --megatron_lm_recompute_method\t'how to choose layers to recompute' \
                --megatron_lm_recompute_num_layers\t'number of layers to recompute' \
                --megatron_lm_attention_backend\t'enable the attention backend' \
                --megatron_lm_expert_model_parallel_size\t'expert parallelism size' \
                --megatron_lm_context_parallel_size\t'context parallelism size' \
                --megatron_lm_attention_dropout\t'attention dropout' \
                --megatron_lm_hidden_dropout\t'hidden-layer dropout' \
                --megatron_lm_attention_softmax_in_fp32\t'attention softmax in float32' \
                --megatron_lm_expert_tensor_parallel_size\t'tensor parallelism size of experts' \
                --megatron_lm_calculate_per_token_loss\t'average the loss over tokens, not samples' \
                --megatron_lm_use_rotary_position_embeddings\t'rotary position embeddings' \
                --tpu\t'train on TPUs' \
                --enable_cpu_affinity\t'keep each process on the cores near its GPU' \
                --use_deepspeed\t'train with DeepSpeed' \
                --use_fsdp\t'train with fully sharded data parallelism' \
                --use_megatron_lm\t'train with Megatron-LM' \
                --use_parallelism_config\t'combine several kinds of parallelism' \
                --parallelism_config_dp_replicate_size\t'number of model replicas' \
                --parallelism_config_dp_shard_size\t'processes per sharded replica' \
                --parallelism_config_tp_size\t'tensor parallelism size' \
                --parallelism_config_cp_size\t'context parallelism size' \
                --parallelism_config_cp_backend\t'context parallelism backend' \
                --parallelism_config_cp_comm_strategy\t'how context parts are exchanged' \
                --parallelism_config_sp_size\t'sequence parallelism size' \
                --parallelism_config_sp_backend\t'sequence parallelism backend' \
                --parallelism_config_sp_seq_length\t'sequence length' \
                --parallelism_config_sp_seq_length_is_variable\t'sequence length varies' \
                --parallelism_config_sp_attn_implementation\t'attention implementation' \
                --detach\t'leave a SageMaker job running' \
                --tpu_cluster\t'the TPU is a pod of several machines' \
                --no_tpu_cluster\t'the TPU is one machine' \
                --tpu_use_sudo\t'run the command on the pod with sudo' \
                --vm\t'virtual machine of the pod (repeatable)' \
                --env\t'NAME=VALUE for the pod (repeatable)' \
                --main_training_function\t'function that each TPU process runs' \
                --downcast_bf16\t'TPU: convert float and double to bfloat16' \
                --aws_access_key_id\t'AWS access key, for SageMaker' \
                --aws_secret_access_key\t'AWS secret key, for SageMaker' \
                --dry_run\t'print what would be started, but start nothing' \
                --explain\t'with --dry_run: show settings and their origins' \
                --json\t'print JSON' \
                --grace\t'seconds between SIGTERM and SIGKILL when ending ranks' \
                --stall_timeout\t'seconds without progress until ranks\' stacks are shown' \
                --timeout\t'seconds that ranks wait for others before they fail' \
                --time_limit\t'seconds after which ranks are asked to save and stop' \
                --checkpoint_file\t'file whose appearance asks ranks for a checkpoint' \
                --spot_notices\t'cloud whose notices ask ranks to save and stop' \
                --label\t'whether each line begins with its rank' \
                --only_rank\t'show the output of this rank only' \
                --stdin\t'rank that reads standard input' \
                --bind\t'which CPUs each rank may run on' \
                --report_bindings\t'print CPUs, NUMA node, device and threads of each rank' \
                --cpu_backend\t'what PyTorch programs communicate with on CPUs' \
                --total_batch_size\t'samples per optimizer step, over all processes' \
                --share_parameters\t'one copy of the parameters for all processes of a host' \
                --no_progress\t'do not show the progress of long saves and loads' \
                --failure_report\t'write a JSON report of how the job ended' \
                --resume\t'continue from the newest complete checkpoint in this folder' \
                --memory_checkpoint_every\t'steps between checkpoints in memory, for restarts'
        case merge-weights
            printf '%s\n' \
                --unsafe_serialization\t'refused: pickled files are not written' \
                --remove_checkpoint_dir\t'remove the checkpoint folder afterwards' \
                --follow_links\t'accept shards that are symbolic links'
        case ps
            printf '%s\n' \
                --json\t'print JSON'
        case report
            printf '%s\n' \
                --output\t'where to write the page'
        case stacks
            printf '%s\n' \
                --json\t'print JSON'
        case test
            printf '%s\n' \
                --config_file\t'configuration file (instead of the default one)' \
                --main_process_ip\t'name or address of the main machine' \
                --main_process_port\t'TCP port of rank 0 (0: any free port)' \
                --cpu\t'run on CPUs and ignore the default file' \
                --num_processes\t'total number of processes, across all machines' \
                --hosts\t'start the job on these hosts: a,b:4,node[01-16]:8' \
                --hostfile\t'start the job on the hosts listed in this file' \
                --starter\t'what starts the agents on the hosts' \
                --mpi\t'whether the ranks are processes of MPI' \
                --interface\t'network interface of the first host for MASTER_ADDR' \
                --host_timeout\t'seconds without a sign of life that end the job' \
                --json\t'print JSON'
        case to-fsdp2
            printf '%s\n' \
                --config_file\t'configuration file (instead of the default one)' \
                --overwrite\t'replace an existing file' \
                --output_file\t'where to write the converted file'
        case top
            printf '%s\n' \
                --once\t'print one look and exit' \
                --json\t'print JSON'
        case tpu-config
            printf '%s\n' \
                --config_file\t'configuration file (instead of the default one)' \
                --tpu_name\t'TPU name' \
                --tpu_zone\t'TPU zone' \
                --command_file\t'file of startup commands for the pod, one per line' \
                --command\t'command to run on the pod (repeatable)' \
                --use_alpha\t'run gcloud alpha instead of gcloud' \
                --install_accelerate\t'first install Hugging Face Accelerate on the pod' \
                --accelerate_version\t'version to install: latest, dev or a number' \
                --debug\t'print the gcloud command, but do not run it'
    end
    printf '%s\n' --help\t'print help' --help_all\t'print help with all options'
end

function __accelerate_free
    switch $argv[1]
        case completion
            string split ' ' 'bash zsh fish'
        case config
            string split ' ' 'default update show schema lint get set'
        case estimate-memory
            string split ' ' '@files'
        case inspect
            string split ' ' '@files'
        case merge-weights
            string split ' ' '@files'
        case report
            string split ' ' '@files'
    end
end

# What to complete: command, flags COMMAND, free COMMAND, after (the program), value KEY TEXT BEFORE PROGRAM
function __accelerate_state
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -l command (string replace -rf '^(.*/)?accelerate-' '' -- $program)
    if test -n "$command"
        set program (string replace -r -- "-$command\$" '' $program)
        set -e words[1]
    else if test (count $words) -lt 2 -o "$words[2]" = help
        echo command
        return
    else
        set command $words[2]
        set -e words[1..2]
    end
    set -l valued (__accelerate_valued $command)
    or return
    set -l key
    set -l free free
    for word in $words
        set -l name (string replace -a -- - _ $word | string replace -r '^__' '')
        if test -n "$key"
            set key
        else if string match -qv -- '-*' $word; and test $command = config -a $word != lint
            set free none # options of config may come before or after its word
            contains -- $word get set; and set free keys
        else if not string match -q -- '-*' $word
            switch $command
                case config
                    printf '%s\n' value config_file "$current" '' $program
                    return
                case launch
                    echo after
                    return
            end
        else if contains -- $name $valued
            set key $name
        end
    end
    if test -n "$key"
        printf '%s\n' value $key "$current" '' $program
    else if string match -q -- '--*=*' $current
        set -l parts (string split -m 1 = -- $current)
        set key (string replace -r '^--' '' -- $parts[1] | string replace -a -- - _)
        contains -- $key $valued; and printf '%s\n' value $key "$parts[2]" $parts[1]= $program
    else if string match -q -- '-*' $current
        printf '%s\n' flags $command "$current"
    else if test $command = launch; and string match -qr -- '^(-m|--module)$' $words
        echo after
    else
        printf '%s\n' $free $command "$current"
    end
end

function __accelerate_wants_files
    set -l state (__accelerate_state)
    switch "$state[1..2]"
        case after 'after *' 'free launch'
            return 0
        case 'free *'
            test "$(__accelerate_free $state[2])" = @files
        case 'value *'
            test "$(__accelerate_value $state[2..3] '')" = @files
        case '*'
            return 1
    end
end

function __accelerate_words
    set -l state (__accelerate_state)
    switch "$state[1]"
        case command
            printf '%s\n' --help\t'print help' --help-all\t'print help with all options' --version\t'print the version'
            printf '%s\n' checkpoint\t'ask a running job for a checkpoint'
            printf '%s\n' completion\t'print the completion script for a shell'
            printf '%s\n' config\t'answer questions and write the configuration file'
            printf '%s\n' env\t'show details of this installation and this machine'
            printf '%s\n' estimate-memory\t'estimate the memory that a model needs'
            printf '%s\n' inspect\t'show the tensors of a checkpoint, or compare two'
            printf '%s\n' kill\t'end a running job, or send it a signal'
            printf '%s\n' launch\t'start a program as several processes'
            printf '%s\n' merge-weights\t'join a sharded checkpoint into one safetensors file'
            printf '%s\n' ps\t'list the running jobs of this user on this machine'
            printf '%s\n' report\t'make a page of HTML of a run, or of several side by side'
            printf '%s\n' stacks\t'show where the ranks of a running job are'
            printf '%s\n' test\t'test libaccel on this machine, or check several hosts'
            printf '%s\n' to-fsdp2\t'convert a configuration file from FSDP 1 to FSDP 2'
            printf '%s\n' top\t'watch running jobs'
            printf '%s\n' tpu-config\t'run startup commands on all machines of a TPU pod'
        case value
            for word in (__accelerate_value $state[2..3] $state[5])
                test $word = @files; or printf '%s\n' $state[4]$word
            end
        case flags
            if string match -q -- '--*-*' $state[3]
                __accelerate_flags $state[2] | while read -d \t -l flag text
                    printf '%s\t%s\n' (string replace -a -- _ - $flag) $text
                end
            else
                __accelerate_flags $state[2]
            end
        case keys
            __accelerate_flags config | string replace -- -- ''
        case free
            if test $state[2] != launch
                string match -v @files (__accelerate_free $state[2])
            else if string match -qr '^[^/~]+$' -- $state[3]
                complete -C $state[3]
            end
    end
end

for name in accelerate accelerate-launch accelerate-config accelerate-estimate-memory accelerate-merge-weights
    complete -c $name -e
    complete -c $name -f -a '(__accelerate_words)'
    complete -c $name -n __accelerate_wants_files -F
end
