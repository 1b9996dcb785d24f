#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate config without a terminal: numbered questions at a pipe, a step back, answers as flags.
. "${srcdir:-.}/tests/testlib.sh"

# ask ANSWERS: lines to a fresh file c.yaml
ask () {
    rm -f c.yaml
    # shellcheck disable=SC2059 # a table of answers with \n
    printf "$1" | "$accelerate" config --config_file c.yaml >out 2>error || { cat out error; return 1; }
}

# has 'KEY: VALUE'...: lines of c.yaml, in any place
has () {
    for wanted in "$@"; do
        sed 's/^ *//' c.yaml | grep -Fx -e "$wanted" || { echo "no line '$wanted'"; cat c.yaml; return 1; }
    done
}

# scenario NAME ANSWERS LINE...
scenario () {
    name=$1 answers=$2
    shift 2
    lines=
    for line in "$@"; do
        lines="$lines '$(printf %s "$line" | sed "s/'/'\\\\''/g")'"
    done
    test_expect_success "$name" "ask '$answers' && has $lines"
}

# environment, machine; then as the questions come
scenario 'no distributed training' '\n\n\n\n\n\n\n\n' "distributed_type: 'NO'" 'num_processes: 1' 'gpu_ids: all' \
    'use_cpu: false' 'same_network: true'
scenario 'on the CPU only' '\n0\nyes\n\n\n\n' 'use_cpu: true' "distributed_type: 'NO'"
scenario 'CPUs of several machines, with mpirun' '\n1\n2\n\n1\nnode0\n29501\nno\nc10d\n\nyes\n/etc/hosts.mpi\n\n8\nbf16\n' \
    'distributed_type: MULTI_CPU' 'num_machines: 2' 'machine_rank: 1' 'main_process_ip: node0' \
    'main_process_port: 29501' 'same_network: false' 'rdzv_backend: c10d' 'mpirun_hostfile: /etc/hosts.mpi' \
    'use_cpu: true' 'num_processes: 8' 'mixed_precision: bf16'
scenario 'GPUs' '\nmulti-GPU\n\nyes\n\n\n\n\n4\n0,1,2,3\ny\nfp16\n' 'distributed_type: MULTI_GPU' 'debug: true' \
    'num_processes: 4' 'gpu_ids: 0,1,2,3' 'enable_cpu_affinity: true' 'mixed_precision: fp16'
scenario 'FSDP 1' '\n4\n\n\n\n\nyes\n1\n1\n\n1\n5000\n\n\n\n\nno\n\n\n2\n\n' 'distributed_type: FSDP' \
    'fsdp_version: 1' 'fsdp_reshard_after_forward: SHARD_GRAD_OP' 'fsdp_sharding_strategy: SHARD_GRAD_OP' \
    'fsdp_min_num_params: 5000' 'fsdp_cpu_ram_efficient_loading: false' 'fsdp_sync_module_states: true'
test_expect_success 'a menu of numbers has those numbers' '
    sed -n "/FSDP version/,/Number or word/p" out >menu && grep -x "   1  " menu && grep -x "   2  " menu &&
    ! grep -x "   0  " menu'
scenario 'FSDP 2 with several kinds of parallelism' \
    '\n4\n\n\n\n\nyes\n\n\n\n\nno\nBertLayer\n\n\n\nyes\n2\n2\n\n2\n1\n8\n\n' 'fsdp_version: 2' \
    'fsdp_transformer_layer_cls_to_wrap: BertLayer' 'parallelism_config_cp_comm_strategy: alltoall' \
    'parallelism_config_dp_shard_size: 2' 'fsdp_state_dict_type: SHARDED_STATE_DICT' 'num_processes: 8'
scenario 'DeepSpeed with its own file' '\n4\n\n\n\nyes\nyes\nds.json\n\n\n2\n' 'distributed_type: DEEPSPEED' \
    'deepspeed_config_file: ds.json' 'zero3_init_flag: false'
test_expect_success 'which says the precision' '! grep mixed_precision c.yaml'
scenario 'DeepSpeed ZeRO 3 with NVMe' '\n4\n\n\n\nyes\n\n3\nnvme\n2\n\n/fast\n2\nyes\n0.5\nyes\nyes\n\n2\n\n' \
    'zero_stage: 3' 'offload_optimizer_device: nvme' 'offload_param_device: nvme' 'offload_param_nvme_path: /nvme' \
    'offload_optimizer_nvme_path: /fast' 'gradient_accumulation_steps: 2' 'gradient_clipping: 0.5' \
    'zero3_save_16bit_model: true' 'zero3_init_flag: true'
scenario 'Megatron-LM' '\n4\n\n\n\n\n\nyes\n2\n\n2\n4\n\n\n\n4\n\n' 'distributed_type: MEGATRON_LM' \
    'megatron_lm_tp_degree: 2' 'megatron_lm_sequence_parallelism: true' 'megatron_lm_num_micro_batches: 4' \
    'megatron_lm_gradient_clipping: 1.0'
scenario 'a TPU pod with commands' '\n10\n\n8\n\nyes\npod\nzone\n\nyes\n\necho 0\nyes\n<\n  echo 1\nyes\necho x\n<\necho 2\nperhaps\n\nvm-0,vm-1\nA=1\n' \
    'distributed_type: XLA' 'tpu_name: pod' '- echo 1' '- echo 2' '- vm-1' '- A=1' "mixed_precision: 'no'"
test_expect_success 'without those that were taken back, and --yes keeps the others' '
    ! grep "echo [0x]" c.yaml && cp c.yaml before && "$accelerate" config --yes --config_file c.yaml && cmp before c.yaml'
scenario 'fp8 with TransformerEngine' '\n4\n\n\n\n\n\n\n2\n\n\nfp8\nte\n\n\n\n\n\nmost_recent\nyes\n\nyes\n\n' \
    'fp8_backend: TE' 'fp8_amax_compute_algo: most_recent' 'fp8_override_linear_precision:' '- true'
test_expect_success 'the three truth values are recalled one by one' '
    "$accelerate" config -y --mixed_precision fp8 --fp8_backend te --fp8_override_linear_precision True,False,True \
        --config_file f8.yaml && cp f8.yaml before && "$accelerate" config -y --config_file f8.yaml && cmp before f8.yaml &&
    sed -n "/override_linear/,/autocast/p" f8.yaml | tr -d "\n" | grep "true  - false  - true"'
scenario 'dynamo' '\n\n\nyes\neager\nyes\n2\n\nyes\n\n\n\n\n\n' 'dynamo_backend: EAGER' 'dynamo_mode: max-autotune' \
    'dynamo_use_dynamic: true' 'dynamo_use_fullgraph: false'
scenario 'a value without a default is asked for until it comes' '1\n\nwork\n\n\nmy-role\nyes\n\nuri\n\n\n\n\n\n\n' 'image_uri: uri'
test_expect_success '... and why is said' 'grep -F "an answer is required" out error'
scenario 'SageMaker' '1\n\nwork\n\n\nmy-role\n\n\n\n\n\nML.G4dn.XLARGE\n\n' 'compute_environment: AMAZON_SAGEMAKER' \
    'profile: work' 'region: us-east-1' 'iam_role_name: my-role' 'ec2_instance_type: ml.g4dn.xlarge' 'py_version: py38'
scenario 'SageMaker, parallel, keys' '1\n1\n\n\nother-role\ny\nRepo:Tag\n\n\nData parallelism\n\n2\ny\n3\n\n' \
    'iam_role_name: other-role' 'image_uri: Repo:Tag' 'distributed_type: DATA_PARALLEL' \
    'ec2_instance_type: ml.p4dn.24xlarge' 'debug: true' 'num_machines: 3'
test_expect_success 'with what is left to do' 'grep "set AWS_ACCESS_KEY_ID" out'

scenario 'a step back: the old answer is the proposal' '\n4\n3\n<\n<\n1\n<\n\n1\n\n\n\n2\n\n' \
    'distributed_type: MULTI_CPU' 'num_machines: 1'
test_expect_success 'which is shown' 'grep -F "[3]" out'
test_expect_success 'no step before the first' 'ask "<\n\n\n\n\n\n\n\n\n" && grep "first question" out'
test_expect_success 'one process on one machine is refused, and said' '
    ask "\n4\n\n\n\n\n\n\n1\n2\n\n\n\n" && grep "is not distributed training" out &&
    has "num_processes: 2"'
test_expect_success 'DeepSpeed on Neuron is refused' '
    ask "\n9\n\n\n\nyes\nno\n\n2\n\n\n" && grep "not supported on Neuron" out'
test_expect_success 'a rank beyond the machines is refused' '
    ask "\n1\n2\n\n2\n1\nnode0\n1\n\n\n\n\n2\n\n" && grep "from 0 to 1" out && has "machine_rank: 1"'

# After the number of machines: hosts that one launch starts, or none.
test_expect_success 'hosts settle where each machine is; processes need not be equal on all of them' '
    ask "\n1\n3\na,b:2\na,b:2,c:x\na:1,b:2,c:4\n\n\n\n\n" && grep "names 2 hosts, but there are 3 machines" out &&
    grep "is not a number of processes" out && ! grep "rank of this machine\|TCP port\|with mpirun" out &&
    grep -x "  hosts: a:1,b:2,c:4" c.yaml && has "num_machines: 3" "machine_rank: 0" "num_processes: 7" && grep "^mpirun_config:$" c.yaml &&
    ! grep main_process c.yaml && cp c.yaml hosts.yaml && "$accelerate" config lint hosts.yaml &&
    "$accelerate" launch --dry_run --config_file hosts.yaml true >plan && grep "ranks 3-6" plan'
test_expect_success 'the hosts of a file are proposed, and none takes them away' '
    cp hosts.yaml c.yaml && yes "" | head -n 8 | "$accelerate" config --config_file c.yaml >out &&
    grep -F "[a:1,b:2,c:4]" out && diff hosts.yaml c.yaml &&
    printf "\n\n\nnone\n2\nnode0\n\n\n\n\n\n6\n\n" | "$accelerate" config --config_file c.yaml >out && ! grep "hosts" c.yaml && has "machine_rank: 2" "num_processes: 6"'
test_expect_success 'hosts as flags' '
    "$accelerate" config -y --hosts a,b --distributed_type MULTI_CPU --num_processes 2 --config_file h.yaml &&
    grep "^  hosts: a,b" h.yaml && grep "num_machines: 2" h.yaml && "$accelerate" config update --config_file h.yaml &&
    grep "^  hosts: a,b" h.yaml && test_exit 2 "$accelerate" config -y --hosts a, --config_file h.yaml 2>error &&
    grep -e "--hosts" error'
test_expect_success 'DeepSpeed on hosts of ours is not started by its own launcher' '
    "$accelerate" config -y --hosts a,b --use_deepspeed --num_processes 2 --config_file h.yaml &&
    grep "deepspeed_multinode_launcher: standard" h.yaml'
test_expect_success 'flags say that a launcher is started on each machine: then the hosts of the file do not matter' '
    "$accelerate" launch --dry_run --config_file hosts.yaml --num_processes 6 --machine_rank 1 --main_process_ip a true \
        >plan && grep "MASTER_ADDR=a" plan && ! grep "ranks 3-6" plan &&
    "$accelerate" launch --dry_run --config_file hosts.yaml --num_machines 1 true >plan && ! grep "started by ssh" plan'
test_expect_success 'a key of ours in the wrong place' '
    printf "distributed_type: MULTI_CPU\nnum_processes: 2\nhosts: a,b\n" >w.yaml &&
    test_exit 1 "$accelerate" config lint w.yaml >said 2>&1 && grep "it belongs in mpirun_config" said'
test_expect_success 'flags answer, --yes takes the defaults' '
    rm c.yaml && "$accelerate" config --yes --distributed_type MULTI_CPU --num_processes 4 --config_file c.yaml </dev/null &&
    has "distributed_type: MULTI_CPU" "num_processes: 4" "use_cpu: true" "num_machines: 1"'
test_expect_success 'what a flag answers is not asked' '
    rm c.yaml && printf "\n<\n\n\n\n\n\n" | "$accelerate" config --distributed_type MULTI_CPU --num_processes 4 --mixed_precision=bf16 --debug \
        --config_file c.yaml >out && [ "$(grep -c "compute environment" out)" = 2 ] && ! grep "Which type\|mixed precision\|check distributed operations" out &&
    has "mixed_precision: bf16" "debug: true"'
test_expect_success 'a flag answers the question that leads to it' '
    "$accelerate" config -y --use_fsdp --fsdp_version 1 --fsdp_sharding_strategy NO_SHARD --num_processes 2 \
        --fsdp_transformer_layer_cls_to_wrap Block --dynamo_backend eager --config_file d.yaml && cp d.yaml c.yaml &&
    has "distributed_type: FSDP" "fsdp_reshard_after_forward: NO_SHARD" "fsdp_transformer_layer_cls_to_wrap: Block" \
        "dynamo_backend: EAGER"'
test_expect_success 'a strategy under the name of another key is proposed' '
    printf "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_version: 1\n  %s\n" \
        "fsdp_reshard_after_forward: SHARD_GRAD_OP" >c.yaml &&
    "$accelerate" config --yes --fsdp_transformer_layer_cls_to_wrap Block --config_file c.yaml &&
    has "fsdp_sharding_strategy: SHARD_GRAD_OP" "fsdp_reshard_after_forward: SHARD_GRAD_OP"'
test_expect_success 'the type of a file is an answer, too' '
    "$accelerate" config -y --distributed_type DEEPSPEED --zero_stage 3 --num_processes 2 --config_file e.yaml &&
    grep "zero_stage: 3" e.yaml && grep "distributed_type: DEEPSPEED" e.yaml'
test_expect_success 'a flag without a question is accepted if it agrees with what is written' '
    "$accelerate" config -y --distributed_type NO --num_machines 1 --machine_rank 0 --config_file e1.yaml &&
    grep "num_machines: 1" e1.yaml'
test_expect_success 'a flag whose name is part of the name of a flag in use is an error' '
    test_exit 2 "$accelerate" config -y --distributed_type MULTI_CPU --num_processes 2 --dynamo_backend eager \
        --region r --config_file f.yaml 2>error && cat error && grep -e "--region" error && ! test -e f.yaml'
test_expect_success 'a flag with the value no does not answer the question whether' '
    "$accelerate" config -y --distributed_type MULTI_CPU --num_processes 2 --dynamo_backend no --config_file e3.yaml &&
    ! grep dynamo e3.yaml'
test_expect_success 'numbers and words of menus' '
    ask "\n3\n\n\n\n\n\n\n\n\n\n\n\n" && has "distributed_type: $(sed -n "s/^ *3  multi-\(.*\)/MULTI_\1/p" out)" &&
    ask "this machine\nmulti-CPU\n\n\n\n\n\n\n" && has "distributed_type: MULTI_CPU"'
test_expect_success 'a last line without its end is an answer; blanks around one do not count' '
    ask "\n  1  \n 1\t\n\n\n\n\t2 \n  bf16" && has "num_processes: 2" "mixed_precision: bf16"'
test_expect_success 'the home folder of another user stays as it is' '
    ask "\n1\n\n\nyes\n~nobody/hosts\n\n\n\n" && has "mpirun_hostfile: ~nobody/hosts" &&
    ask "\n1\n\n\nyes\n~/hosts\n\n\n\n" && has "mpirun_hostfile: $HOME/hosts"'
test_expect_success 'a signal that is ignored stays ignored' '
    rm c.yaml && mkfifo keys && { (trap "" TERM && exec "$accelerate" config --config_file c.yaml <keys >out) & } &&
    asker=$! && exec 7>keys && printf "\n1\n" >&7 && wait_for grep -q "many machines" out && kill -TERM $asker &&
    printf "\n\n\n\n2\n\n" >&7 && exec 7>&- && wait $asker && has "num_processes: 2"'
test_expect_success '--KEY=no' '
    "$accelerate" config -y --distributed_type MULTI_CPU --num_machines 2 --main-process-ip a --main_process_port 1 \
        --same_network=no --config_file e2.yaml && grep "same_network: false" e2.yaml'
test_expect_success 'a question without a default: which flag is missing' '
    test_exit 2 "$accelerate" config -y --distributed_type MULTI_CPU --num_machines 2 --config_file f.yaml 2>error &&
    grep -e "pass --main_process_ip" error && ! test -e f.yaml'
test_expect_success 'a flag that no question is about is an error' '
    test_exit 2 "$accelerate" config -y --distributed_type NO --zero_stage 3 --config_file f.yaml 2>error &&
    grep -Fx "accelerate: --zero_stage has no effect without distributed_type: DEEPSPEED" error &&
    ! test -e f.yaml'
test_expect_success 'a flag with a wrong answer is an error' '
    test_exit 2 "$accelerate" config -y --distributed_type MULTI_CPU --num_machines 2 --machine_rank 2 \
        --main_process_ip a --main_process_port 1 --config_file f.yaml 2>error && grep -e "--machine_rank" error'
test_expect_success 'the old file is what --yes takes' '
    cp d.yaml before && "$accelerate" config --yes --config_file d.yaml && cmp before d.yaml'
test_expect_success 'settings without a question stay' '
    sed "s/^fsdp_config:$/grace: 5\n&\n  fsdp_ignored_modules: head/" before >d.yaml &&
    "$accelerate" config --yes --config_file d.yaml && cp d.yaml c.yaml && has "grace: 5" "fsdp_ignored_modules: head"'
test_expect_success 'but not where its section has gone' '
    "$accelerate" config --yes --distributed_type NO --config_file d.yaml && cp d.yaml c.yaml && has "grace: 5" &&
    ! grep fsdp_ignored d.yaml'
test_expect_success 'an old SageMaker file is proposed again' '
    ask "1\n\nwork\n\n\nmy-role\n\n\n\n\n\n\n\n" && cp c.yaml before &&
    sed "s/py_version: .*/py_version: py311/" before >c.yaml && cp c.yaml before &&
    "$accelerate" config --yes --config_file c.yaml && cmp before c.yaml'
test_expect_success 'but not where a flag says another environment' '
    "$accelerate" config --yes --distributed_type MULTI_CPU --config_file c.yaml && has "compute_environment: LOCAL_MACHINE" &&
    "$accelerate" config --yes --distributed_type DATA_PARALLEL --iam_role_name r --config_file c.yaml &&
    has "compute_environment: AMAZON_SAGEMAKER" "ec2_instance_type: ml.p3.16xlarge" "profile: default"'
test_expect_success 'the file for this machine takes flags, too' '
    rm c.yaml && "$accelerate" config default --distributed_type MULTI_CPU --num_processes 3 --config_file c.yaml &&
    has "distributed_type: MULTI_CPU" "num_processes: 3"'
test_expect_success 'launch takes what was written' '
    rm c.yaml && "$accelerate" config -y --distributed_type MULTI_CPU --num_processes 2 --config_file c.yaml &&
    "$accelerate" launch --config_file c.yaml --dry_run --explain true >got && grep "num_processes: 2  (c.yaml:" got'
test_expect_success 'a missing folder is refused before the questions' '
    test_exit 1 "$accelerate" config --config_file no/such/c.yaml </dev/null >out 2>error && test ! -s out && test ! -e no &&
    test "$(cat error)" = "accelerate: no/such: the folder does not exist; create it with mkdir -p"'
test_expect_success 'config default creates it and prints a note; the umask applies' '
    (umask 027 && "$accelerate" config default --config_file new/er/c.json) >out &&
    printf "created folder new/er\nsaved in new/er/c.json\n" | diff - out && test "$(stat -c %a new/er/c.json)" = 640 &&
    head -n 1 new/er/c.json | grep -x "{" && "$accelerate" config default --config_file new/er/d.json >out &&
    echo "saved in new/er/d.json" | diff - out'
test_expect_success 'in the background, where shells have SIGINT ignored, it stays ignored while it asks; SIGTERM counts' '
    rm -f c.yaml keys && mkfifo keys && { "$accelerate" config --config_file c.yaml <keys >out 2>&1 & } &&
    asker=$! && exec 7>keys && wait_for grep "environment" out && sed -n "s/^SigIgn:[[:space:]]*//p;s/^SigCgt:[[:space:]]*//p" \
        /proc/$asker/status >masks && kill $asker && test_exit 143 wait $asker && exec 7>&- &&
    { read -r ignored && read -r caught; } <masks && test $((0x$ignored & 2)) = 2 && test $((0x$caught & 2)) = 0'
test_done
