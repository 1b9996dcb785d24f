#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate config: for every mode, Enter alone leads to the end, and to a file that launch takes.  And what flags imply
# is the same for `config`, `config default` and `launch`.
. "${srcdir:-.}/tests/testlib.sh"

echo 'pass' >program.py
mkdir bin
printf '#!/bin/sh\necho "mpirun (Open MPI) 4.1.4"\n' >bin/mpirun
printf '#!/bin/sh\nexit 0\n' >bin/deepspeed
cp bin/deepspeed bin/gcloud
chmod +x bin/*
PATH=$scratch/bin:$PATH

# taken: launch takes c.yaml, and lint has nothing to say
taken () {
    "$accelerate" launch --config_file c.yaml --dry_run program.py >plan && grep program.py plan >/dev/null &&
        "$accelerate" config lint c.yaml
}

# Answers before the first Enter (with / between), or flags; and a line of the file.  "<" in neither.
while IFS='|' read -r answers flags line; do
    test_expect_success "Enter alone after '$answers' $flags: $line" '
        rm -f c.yaml && { printf "%b" "$(printf %s "$answers" | sed "s,/,\\\\n,g")"; [ -z "$answers" ] || echo; yes "" | head -n 200; } >keys &&
        "$accelerate" config $flags --config_file c.yaml <keys >out 2>error && grep -x -e " *$line" c.yaml && taken'
done <<'EOT'
||distributed_type: 'NO'
/0/yes||use_cpu: true
/0//yes||dynamo_backend: INDUCTOR
/0///yes||distributed_type: DEEPSPEED
/1||distributed_type: MULTI_CPU
/2||distributed_type: MULTI_XPU
/3||distributed_type: MULTI_HPU
/4||distributed_type: MULTI_GPU
/5||distributed_type: MULTI_NPU
/6||distributed_type: MULTI_MLU
/7||distributed_type: MULTI_SDAA
/8||distributed_type: MULTI_MUSA
/9||distributed_type: MULTI_NEURON
/10||distributed_type: XLA
/1/2///node0||main_process_port: 29500
/4/2///node0||num_machines: 2
/1///yes||mpirun_hostfile: .*/hostfile
|--use_fsdp|fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
|--use_fsdp --fsdp_version 1|fsdp_version: 1
|--use_fsdp --fsdp_auto_wrap_policy SIZE_BASED_WRAP|fsdp_min_num_params: 100000000
|--use_fsdp --fsdp_auto_wrap_policy NO_WRAP|fsdp_auto_wrap_policy: NO_WRAP
|--use_fsdp --fsdp_version 1 --fsdp_cpu_ram_efficient_loading=no|fsdp_sync_module_states: true
|--use_parallelism_config|parallelism_config_tp_size: 1
|--parallelism_config_cp_size 2|parallelism_config_cp_comm_strategy: allgather
|--use_deepspeed|zero_stage: 2
|--zero_stage 0|zero_stage: 0
|--zero_stage 3|zero3_save_16bit_model: false
|--zero_stage 3 --offload_param_device nvme|offload_param_nvme_path: /nvme
|--use_deepspeed --deepspeed_config_file ds.json|deepspeed_config_file: ds.json
|--use_deepspeed --num_machines 2 --main_process_ip a|deepspeed_multinode_launcher: pdsh
|--use_deepspeed --num_machines 2 --main_process_ip a --deepspeed_multinode_launcher standard|num_processes: 2
|--use_megatron_lm|megatron_lm_pp_degree: 1
|--megatron_lm_tp_degree 2|megatron_lm_sequence_parallelism: true
|--megatron_lm_pp_degree 2|megatron_lm_num_micro_batches: 1
|--mixed_precision fp8|fp8_backend: AO
|--fp8_backend te|fp8_amax_history_len: 1024
|--fp8_backend msamp|fp8_opt_level: O2
|--tpu|main_training_function: main
|--tpu --tpu_use_cluster --tpu_name a --tpu_zone b|tpu_name: a
EOT
for mode in '--distributed_type NO' '--distributed_type DATA_PARALLEL'; do
    test_expect_success "Enter alone for SageMaker, $mode: nothing to find fault with" '
        rm -f c.yaml && yes "" | head -n 200 >keys && "$accelerate" config --compute_environment AMAZON_SAGEMAKER \
            $mode --config_file c.yaml <keys >out 2>error && "$accelerate" config lint c.yaml >said && test ! -s said &&
        grep "iam_role_name: accelerate_" c.yaml'
done

# What flags imply: the mode, processes and use_cpu of the file, with the questionnaire and without; and launch agrees.
while IFS='|' read -r flags type processes cpu; do
    test_expect_success "$flags: $type, $processes processes" '
        for form in "config --yes" "config default"; do
            rm -f c.yaml && CUDA_VISIBLE_DEVICES= "$accelerate" $form $flags --config_file c.yaml </dev/null &&
                grep -x "distributed_type: $type" c.yaml && grep -x "num_processes: $processes" c.yaml &&
                grep -x "use_cpu: $cpu" c.yaml && taken || return 1
        done'
done <<'EOT'
--num_processes 4|MULTI_CPU|4|true
--num_processes 1|'NO'|1|\(true\|false\)
--use_cpu|'NO'|1|true
--cpu|'NO'|1|true
--cpu --num_processes 3|MULTI_CPU|3|true
--multi_gpu|MULTI_GPU|2|false
--multi_gpu --num_processes 8|MULTI_GPU|8|false
--tpu|XLA|1|false
--use_fsdp|FSDP|1|false
--fsdp_version 1|FSDP|1|false
--zero_stage 3|DEEPSPEED|1|false
--zero_stage 3 --num_processes 4|DEEPSPEED|4|false
--megatron_lm_tp_degree 2|MEGATRON_LM|1|false
--parallelism_config_tp_size 2|FSDP|1|false
--mpirun_hostfile /h|MULTI_CPU|1|true
--num_machines 2 --main_process_ip a|MULTI_CPU|2|true
--main_process_port 29501|'NO'|1|\(true\|false\)
--tpu_name x|XLA|1|false
EOT
test_expect_success 'what is implied is only proposed to a person' '
    rm -f c.yaml && yes "" | head -n 99 | "$accelerate" config --fsdp_version 2 --num_processes 2 --config_file c.yaml >out 2>error &&
    grep "Which type of machine" out'
test_expect_success 'an old file gives way to a mode, not to a number' '
    printf "distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_version: 2}\n" >c.yaml &&
    "$accelerate" config --yes --num_processes 4 --config_file c.yaml && grep -x "distributed_type: FSDP" c.yaml &&
    "$accelerate" config --yes --zero_stage 2 --config_file c.yaml && grep -x "distributed_type: DEEPSPEED" c.yaml'

# --MODE=no: an old file, flags, and the type and processes of the new file.
while IFS='|' read -r old flags type processes; do
    test_expect_success "$old, $flags: $type, $processes processes" '
        printf "distributed_type: $old\nnum_processes: 3\n" >c.yaml && "$accelerate" config --yes $flags --config_file c.yaml &&
            grep -x "distributed_type: $type" c.yaml && grep -x "num_processes: $processes" c.yaml && taken'
done <<'EOT'
FSDP|--cpu=no|FSDP|3
FSDP|--tpu=no|FSDP|3
FSDP|--multi_gpu=no|FSDP|3
FSDP|--cpu=no --multi_gpu|MULTI_GPU|3
FSDP|--use_fsdp=no|MULTI_GPU|3
FSDP|--use_fsdp=no --use_deepspeed|DEEPSPEED|3
DEEPSPEED|--use_deepspeed=no|MULTI_GPU|3
MULTI_GPU|--cpu=no|MULTI_GPU|3
MULTI_GPU|--multi_gpu=no|'NO'|1
XLA|--tpu=no|'NO'|1
EOT
test_expect_success 'config show: --use_fsdp=no of an FSDP file' '
    printf "distributed_type: FSDP\nnum_processes: 3\n" >c.yaml && "$accelerate" config show --use_fsdp=no --config_file c.yaml >out &&
    ! grep fsdp_auto_wrap_policy out && "$accelerate" config show --cpu=no --config_file c.yaml >out && grep -e "^use_fsdp: true\|^fsdp_version" out'
test_expect_success 'lists of flags are written, whether they are asked about or not' '
    for form in "config --yes" "config default"; do
        rm -f c.yaml && "$accelerate" $form --tpu --tpu_env A=1 --tpu_env B=2 --config_file c.yaml && cat c.yaml &&
            grep -A 2 "^tpu_env:" c.yaml | tr -d "\n" | grep -e "tpu_env:- A=1- B=2" || return 1
    done'
test_expect_success 'a key of another environment in an old file is dropped' '
    printf "main_process_port: 1\nnum_processes: 3\ngrace: 5\n" >c.yaml &&
    "$accelerate" config --yes --compute_environment AMAZON_SAGEMAKER --config_file c.yaml &&
    ! grep main_process_port c.yaml && ! grep num_processes c.yaml && "$accelerate" config show --config_file c.yaml'
test_done
