#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What options, configuration files and DeepSpeed's own file make of a native program that leaves sharding to them.
. "${srcdir:-.}/tests/testlib.sh"

CUDA_VISIBLE_DEVICES=
export CUDA_VISIBLE_DEVICES
asked=$builddir/tests/cli/asked

# launched OPTIONS ...: what rank 0 of two has got
launched () {
    # shellcheck disable=SC2086
    timeout "$patience" "$accelerate" launch --num_processes 2 --no_python "$@" $asked
}

cat >ds.json <<END
{
    "gradient_accumulation_steps": 4,
    "gradient_clipping": 0.5,
    "bf16": { "enabled": true },
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": { "device": "nvme", "nvme_path": "$PWD/states" },
        "offload_param": { "device": "cpu", "pin_memory": true }
    }
}
END
printf 'distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n' >ds.yaml
test_expect_success 'a folder of the DeepSpeed file that does not exist' '
    test_exit 1 launched --use_deepspeed --deepspeed_config_file ds.json 2>err && cat err && grep "states" err'
test_expect_success 'a DeepSpeed file: stage, offloading, passes, norm and precision' '
    mkdir states && launched --use_deepspeed --deepspeed_config_file ds.json >out 2>err && cat out err &&
    grep -x "FULL_SHARD, 4 passes, norm 0.5, bf16" out'
test_expect_success 'the same named by a configuration file' '
    launched --config_file ds.yaml >out 2>err && cat out err && grep -x "FULL_SHARD, 4 passes, norm 0.5, bf16" out'
test_expect_success 'a DeepSpeed file that leaves the stage to the option' '
    printf "{\"zero_optimization\": {\"stage\": \"auto\"}, \"gradient_clipping\": \"auto\"}" >auto.json &&
    launched --use_deepspeed --deepspeed_config_file auto.json --zero_stage 1 --gradient_clipping 2 >out 2>err &&
    cat out err && grep -x "OPTIMIZER, 1 passes, norm 2, no" out &&
    grep -x "accelerate: note: --gradient_clipping takes effect only where the file of --deepspeed_config_file leaves it open, as with .auto." err &&
    ! grep "contradicts\|the program sets it" err &&
    launched --use_deepspeed --deepspeed_config_file auto.json --zero_stage 1 --dry_run --explain >out 2>&1 &&
    grep -x "zero_stage: 1  (flag)" out'
test_expect_success 'a DeepSpeed file with a mistake: file, line and key' '
    printf "{\n  \"zero_optimization\": {\n    \"stage\": 5\n  }\n}\n" >bad.json &&
    test_exit 1 launched --use_deepspeed --deepspeed_config_file bad.json 2>err && cat err &&
    grep "bad.json:3: .*zero_optimization.stage is 5, but must be a stage from 0 to 3" err'
test_expect_success 'a configuration file that has its own stage beside a DeepSpeed file' '
    printf "  zero_stage: 1\nmixed_precision: bf16\n" | cat ds.yaml - >both.yaml &&
    test_exit 1 launched --config_file both.yaml 2>err && cat err &&
    grep "configuration file has zero_stage, mixed_precision beside deepspeed_config_file, which replaces them" err'
test_expect_success 'FSDP 2 with replicas of shards' '
    launched --num_processes 4 --use_fsdp --fsdp_version 2 --use_parallelism_config \
        --parallelism_config_dp_replicate_size 2 --parallelism_config_dp_shard_size 2 >out 2>err && cat out err &&
    grep -x "HYBRID_SHARD, 1 passes, norm inf, no" out'
test_expect_success 'activation checkpointing, which is the program'"'"'s to do' '
    launched --use_fsdp --fsdp_activation_checkpointing true >out 2>err && cat out err &&
    grep -x "FULL_SHARD, 1 passes, norm inf, no, segments" out'
test_expect_success 'one copy of the parameters, if the program follows addresses' '
    launched --use_fsdp --share_parameters >out 2>err && cat out err &&
    grep -x "FULL_SHARD, 1 passes, norm inf, no, moved" out && ! grep share_parameters err'
asked="$builddir/tests/cli/asked shared"
test_expect_success 'a program that shares parameters, which the option moves to a file' '
    launched --use_deepspeed --zero_stage 3 --offload_param_device nvme --offload_param_nvme_path . >out 2>err &&
    cat out err && grep "offload_param_device has no effect: the program has set share_parameters" err'
asked="$builddir/tests/cli/asked file"
test_expect_success 'a program that has parameters in a file, which the option would share' '
    launched --use_fsdp --share_parameters >out 2>err && cat out err && grep -x "FULL_SHARD, 1 passes, norm inf, no, moved" out &&
    grep "share_parameters has no effect: parameters are in a file" err'
asked="$builddir/tests/cli/asked silent"
test_expect_success 'a program that says nothing keeps its memory' '
    launched --use_fsdp --share_parameters >out 2>err && cat out err && grep -x "FULL_SHARD, 1 passes, norm inf, no" out &&
    grep "share_parameters has no effect: it changes addresses" err &&
    launched --use_deepspeed --zero_stage 3 --offload_param_device nvme --offload_param_nvme_path . >out 2>err &&
    cat out err && grep -x "FULL_SHARD, 1 passes, norm 1, no" out && grep "offload_param_device has no effect: it changes" err'
test_done
