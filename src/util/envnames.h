/* SPDX-License-Identifier: Apache-2.0 */
/* The one contract between command and library, first half: names of environment variables.  (The other half is the job
 * segment, jobseg.h.)  Variables that are a setting's own spelling are in that setting's row of the option table. */
#ifndef UTIL_ENVNAMES_H
#define UTIL_ENVNAMES_H

/* torch's names, set for every rank of a job of several */
#define ENV_RANK "RANK"
#define ENV_LOCAL_RANK "LOCAL_RANK"
#define ENV_WORLD_SIZE "WORLD_SIZE"
#define ENV_LOCAL_WORLD_SIZE "LOCAL_WORLD_SIZE"
#define ENV_MASTER_ADDR "MASTER_ADDR"
#define ENV_MASTER_PORT "MASTER_PORT"
#define ENV_GROUP_RANK "GROUP_RANK"
#define ENV_GROUP_WORLD_SIZE "GROUP_WORLD_SIZE"
#define ENV_DEEPSPEED_FIELDS "ACCELERATE_CONFIG_DS_FIELDS"
#define ENV_PYTHONPATH "PYTHONPATH"
#define ENV_ROLE_NAME "ROLE_NAME"
#define ENV_ROLE_RANK "ROLE_RANK"
#define ENV_ROLE_WORLD_SIZE "ROLE_WORLD_SIZE"

/* of torch's own launcher, for programs that ask whether it started them */
#define ENV_RUN_ID "TORCHELASTIC_RUN_ID"
#define ENV_RESTART_COUNT "TORCHELASTIC_RESTART_COUNT"
#define ENV_MAX_RESTARTS "TORCHELASTIC_MAX_RESTARTS"
#define ENV_USE_AGENT_STORE "TORCHELASTIC_USE_AGENT_STORE"
#define ENV_ERROR_FILE "TORCHELASTIC_ERROR_FILE"
#define ENV_NCCL_P2P_DISABLE "NCCL_P2P_DISABLE"
#define ENV_NCCL_IB_DISABLE "NCCL_IB_DISABLE"
#define ENV_NCCL_ASYNC_ERROR_HANDLING "TORCH_NCCL_ASYNC_ERROR_HANDLING"

/* Accelerate's, read by libaccel */
#define ENV_USE_CPU "ACCELERATE_USE_CPU"
#define ENV_MIXED_PRECISION "ACCELERATE_MIXED_PRECISION"
#define ENV_GRADIENT_ACCUMULATION_STEPS "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"
#define ENV_TOTAL_BATCH_SIZE "ACCELERATE_TOTAL_BATCH_SIZE" /* in Accelerate's style, but ours */
#define ENV_SHARE_PARAMETERS "ACCELERATE_SHARE_PARAMETERS" /* ours, too */
#define ENV_GRADIENT_CLIPPING "ACCELERATE_GRADIENT_CLIPPING"
#define ENV_DEEPSPEED_CONFIG_FILE "ACCELERATE_DEEPSPEED_CONFIG_FILE"
#define ENV_USE_DEEPSPEED "ACCELERATE_USE_DEEPSPEED"
#define ENV_USE_FSDP "ACCELERATE_USE_FSDP"
#define ENV_FSDP_ACTIVATION_CHECKPOINTING "FSDP_ACTIVATION_CHECKPOINTING"
#define ENV_FSDP_BACKWARD_PREFETCH "FSDP_BACKWARD_PREFETCH"
#define ENV_FSDP_FORWARD_PREFETCH "FSDP_FORWARD_PREFETCH"
#define ENV_FSDP_OFFLOAD "FSDP_OFFLOAD_PARAMS"
#define ENV_FSDP_RESHARD "FSDP_RESHARD_AFTER_FORWARD"
#define ENV_FSDP_STATE_DICT "FSDP_STATE_DICT_TYPE" /* torch's names, or their numbers */
#define ENV_FSDP_STRATEGY "FSDP_SHARDING_STRATEGY" /* torch's names, or their numbers */
#define ENV_FSDP_VERSION "FSDP_VERSION"
#define ENV_OFFLOAD_OPTIMIZER "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"
#define ENV_OFFLOAD_OPTIMIZER_PATH "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH"
#define ENV_OFFLOAD_PARAM "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"
#define ENV_OFFLOAD_PARAM_PATH "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH"
#define ENV_USE_PARALLELISM "ACCELERATE_USE_PARALLELISM_CONFIG"
#define ENV_PARALLELISM_CP_SIZE "PARALLELISM_CONFIG_CP_SIZE"
#define ENV_PARALLELISM_DP_REPLICATE_SIZE "PARALLELISM_CONFIG_DP_REPLICATE_SIZE"
#define ENV_PARALLELISM_DP_SHARD_SIZE "PARALLELISM_CONFIG_DP_SHARD_SIZE"
#define ENV_PARALLELISM_SP_SIZE "PARALLELISM_CONFIG_SP_SIZE"
#define ENV_PARALLELISM_TP_SIZE "PARALLELISM_CONFIG_TP_SIZE"
#define ENV_ZERO_STAGE "ACCELERATE_DEEPSPEED_ZERO_STAGE"
#define ENV_LOG_LEVEL "ACCELERATE_LOG_LEVEL"
#define ENV_DEBUG_MODE "ACCELERATE_DEBUG_MODE"
#define ENV_OMP_NUM_THREADS "OMP_NUM_THREADS"
#define ENV_CUDA_VISIBLE_DEVICES "CUDA_VISIBLE_DEVICES"

/* ours */
#define ENV_JOB_SEGMENT "ACCEL_JOB_SEGMENT" /* path of the job segment, /proc/PID/fd/N of the launcher */
#define ENV_JOB_ID "ACCEL_JOB_ID"           /* marks every process of a job, whatever started it */
#define ENV_MEMORY "ACCEL_MEMORY"           /* path of the memory tier (memtier.h), in the same way */
#define ENV_MEMORY_EVERY "ACCELERATE_MEMORY_CHECKPOINT_EVERY" /* steps from one save there to the next */
#define ENV_STACK_SIGNAL "ACCEL_STACK_SIGNAL" /* with which Python's faulthandler is asked for a traceback */
#define ENV_STACK_FD "ACCEL_STACK_FD"       /* where it writes that */
#define ENV_ENGINE "ACCEL_ENGINE"           /* engine by name */
#define ENV_ENGINE_PATH "ACCEL_ENGINE_PATH" /* folders of engine modules, separated by colons */
#define ENV_TIMEOUT_MS "ACCEL_TIMEOUT_MS"   /* longest wait for a peer */
#define ENV_STALL_TIMEOUT_MS "ACCEL_STALL_TIMEOUT_MS" /* after which ranks without a launcher say who holds them up */
#define ENV_CHECK_GRADIENTS "ACCEL_CHECK_GRADIENTS" /* gradients that are infinite or NaN are errors */
#define ENV_NO_PROGRESS "ACCEL_NO_PROGRESS" /* no lines about saves and loads that take long */
#define ENV_RESUME_FROM "ACCEL_RESUME_FROM" /* the checkpoint to continue from */
#define ENV_INSTRUCTIONS "ACCEL_INSTRUCTIONS" /* newest instruction set of reductions, for tests */

#endif
