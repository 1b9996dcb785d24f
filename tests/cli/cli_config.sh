#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate config: questions, the resulting file, and the old file if they are interrupted.
. "${srcdir:-.}/tests/testlib.sh"

q="'"
default=$HOME/.cache/huggingface/accelerate/default_config.yaml

test_expect_success 'answers make a file' '
    printf "\nmulti-CPU\n2\n\n1\nnode0\n29501\nno\n\nyes\n\n\n4\nbf16\n" | "$accelerate" config --config_file c.yaml >out &&
    grep "saved in c.yaml" out && cat >wanted <<-END && diff wanted c.yaml
	compute_environment: LOCAL_MACHINE
	debug: true
	distributed_type: MULTI_CPU
	downcast_bf16: false
	enable_cpu_affinity: false
	machine_rank: 1
	main_process_ip: node0
	main_process_port: 29501
	main_training_function: main
	mixed_precision: bf16
	num_machines: 2
	num_processes: 4
	rdzv_backend: static
	same_network: false
	tpu_env: []
	tpu_use_cluster: false
	tpu_use_sudo: false
	use_cpu: true
	END'
test_expect_success 'its mode is 644' '[ "$(stat -c %a c.yaml)" = 644 ]'
test_expect_success 'empty answers keep it as it is' '
    cp c.yaml before && yes "" | head -n 14 | "$accelerate" config --config_file c.yaml && diff before c.yaml'
test_expect_success 'what does not apply any more is forgotten' '
    printf "\nNO\n\n\n\n\n\n\n" | "$accelerate" config --config_file c.yaml &&
    grep "machine_rank: 0" c.yaml && grep "num_processes: 1" c.yaml && ! grep main_process c.yaml'
test_expect_success 'a wrong answer is said, and asked again' '
    printf "\nMULTI_CPUS\nMULTI_CPU\n1\nperhaps\n\n\n\nfour\n0\n4\n\n" | "$accelerate" config --config_file d.yaml >out &&
    grep "did you mean .MULTI_CPU" out && grep "expected yes or no, got .perhaps" out &&
    grep "is not an integer" out && grep "out of range" out && grep "num_processes: 4" d.yaml'
test_expect_success 'input that ends early leaves the old file' '
    cp d.yaml before && printf "\nNO\n" >answers &&
    test_exit 1 "$accelerate" config --config_file d.yaml <answers 2>error &&
    grep "nothing was written" error && cmp before d.yaml && [ "$(ls d.yaml*)" = d.yaml ]'
test_expect_success 'and makes none' '
    test_exit 1 "$accelerate" config --config_file e.yaml </dev/null 2>error && [ ! -e e.yaml ]'
test_expect_success 'a signal leaves the old file, and nothing beside it' '
    mkfifo questions && { "$accelerate" config --config_file d.yaml <questions >out & } && asker=$! &&
    exec 7>questions && printf "\nNO\n" >&7 &&
    wait_for grep -q "CPU only" out && kill -TERM $asker && exec 7>&- && test_exit 143 wait $asker &&
    cmp before d.yaml && [ "$(ls d.yaml*)" = d.yaml ]'
test_expect_success 'a byte order mark before YAML, as before JSON, and lines are counted as ever' '
    printf "\357\273\277debug: true\nnum_processes: 3\n" >mark.yaml &&
    printf "\357\273\277{\"debug\": true,\n\"num_processes\": 3}" >mark.json &&
    for file in mark.yaml mark.json; do
        "$accelerate" config show --config_file $file >out && grep -Fx "debug: true  ($file:1)" out &&
            grep -Fx "num_processes: 3  ($file:2)" out || return 1
    done &&
    "$accelerate" config update --config_file mark.yaml && grep -x "debug: true" mark.yaml &&
    printf "\357\273\277debug: true\n\357\377: 3\n" >mark.yaml && test_exit 1 "$accelerate" config lint mark.yaml >out &&
    grep "mark.yaml:2: not YAML" out &&
    printf "\357\273\277" >mark.yaml && test_exit 1 "$accelerate" config lint mark.yaml >out && grep "the file is empty" out'
test_expect_success 'a pipe is read to its end, however slow its writer' '
    mkfifo slow && { (exec >slow; echo "debug: true"; sleep 1; echo "num_processes: 3") & } &&
    timeout $patience "$accelerate" config show --config_file slow >out 2>error && wait &&
    grep -x "num_processes: 3  (slow:2)" out && grep -x "debug: true  (slow:1)" out &&
    { (sleep 1; printf "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n" >slow) & } &&
    timeout $patience "$accelerate" to-fsdp2 --config_file slow --output_file fast.yaml && wait && grep "fsdp_version: 2" fast.yaml'
test_expect_success 'and ^C ends the waiting' '
    mkfifo never &&
    test_exit 130 timeout -k $patience --preserve-status -s INT 1 "$accelerate" config show --config_file never'
test_expect_success 'control characters are shown escaped, and passed on unchanged' '
    printf "fsdp_config: {fsdp_transformer_layer_cls_to_wrap: \"A\\\\e[31m\\\\nB\\\\x9b\\\\u202e\"}\n%s\n" \
        "distributed_type: FSDP
num_processes: 2
main_training_function: \"h\\\\ti\"" >red.yaml && cat red.yaml &&
    shown="A\\x1b[31m\\nB\\xc2\\x9b\\xe2\\x80\\xae" &&
    for command in "config show" env "launch --dry_run --explain"; do
        "$accelerate" $command --config_file red.yaml $(case $command in launch*) echo true; esac) >out || return 1
        ! LC_ALL=C.UTF-8 grep "[[:cntrl:]]" out | grep -v "^	-" && grep -F "fsdp_transformer_layer_cls_to_wrap: $shown" out &&
            grep -F "main_training_function: h\\ti" out || return 1
    done &&
    grep -F "FSDP_TRANSFORMER_CLS_TO_WRAP=\$$q$shown$q" out &&
    "$accelerate" launch --num_processes 1 --config_file red.yaml env -0 >got &&
    printf "FSDP_TRANSFORMER_CLS_TO_WRAP=A\033[31m\nB\302\233\342\200\256\0" >wanted && grep -zF "$(printf "A\033[31m")" got &&
    [ "$(grep -zac "$(printf "B\302\233\342\200\256")" got)" -ge 1 ]'
test_expect_success 'so they are in questions' '
    yes "" | head -n 60 | "$accelerate" config --config_file red.yaml >out &&
    grep -F "A\\x1b[31m" out && ! grep "$(printf "\033")" out'
test_expect_success 'a file that is broken is not overwritten' '
    echo "debug: [" >broken.yaml && test_exit 1 "$accelerate" config --config_file broken.yaml </dev/null 2>error &&
    grep "broken.yaml:1: not YAML" error && test_exit 1 "$accelerate" config --yes --config_file broken.yaml &&
    echo "debug: [" | cmp - broken.yaml'
test_expect_success 'JSON by name' '
    yes "" | head -n 8 | "$accelerate" config --config_file c.json && head -n 1 c.json | grep -x "{" &&
    "$accelerate" env --config_file c.json >out && grep "num_processes: 1 (c.json:" out'
test_expect_success 'default writes without asking, at the default place' '
    "$accelerate" config default --mixed_precision bf16 </dev/null >out && grep -F "$default" out &&
    grep "mixed_precision: bf16" "$default" && grep "num_processes: 1" "$default"'
test_expect_success 'default leaves a file that exists' '
    cp "$default" before && "$accelerate" config default >out && grep "left unchanged" out && cmp before "$default"'
test_expect_success '--config_file counts on either side of the word default' '
    "$accelerate" config --config_file one.yaml default && "$accelerate" config default --config_file two.yaml &&
    cmp one.yaml two.yaml'
test_expect_success 'HF_HOME moves it' 'HF_HOME=$PWD/hf "$accelerate" config default && [ -f hf/accelerate/default_config.yaml ]'
test_expect_success 'XDG_CACHE_HOME too, with ~' '
    XDG_CACHE_HOME="~/xdg" "$accelerate" config default && [ -f "$HOME/xdg/huggingface/accelerate/default_config.yaml" ]'
test_expect_success 'another word is an error' 'test_exit 2 "$accelerate" config defualt 2>error && grep "unexpected argument" error'
test_expect_success 'a folder that cannot be made is an error' '
    test_exit 1 "$accelerate" config default --config_file c.yaml/x/y.yaml 2>error && grep "c.yaml" error'
test_expect_success 'lint: all that is wrong, with lines' '
    cat >l.yaml <<-END &&
	distributed_type: NO
	num_processes: 2x
	machin_rank: 0
	dynamo_backend: EAGER
	fsdp_config:
	  fsdp_offload_params: true
	  fsdp_bogus: 1
	tpu_name: x
	END
    test_exit 1 "$accelerate" config lint l.yaml >got && cat >wanted <<-END && diff wanted got
	l.yaml:2: num_processes: ${q}2x${q} is not an integer; expected 1 to 1000000
	l.yaml:3: unknown key ${q}machin_rank${q} (did you mean ${q}machine_rank${q}?)
	l.yaml:4: ${q}dynamo_backend${q} is an old name; write dynamo_config: dynamo_backend
	l.yaml:7: unknown key ${q}fsdp_bogus${q} in fsdp_config
	l.yaml:6: fsdp_offload_params has no effect without distributed_type: FSDP
	l.yaml:8: tpu_name has no effect without distributed_type: XLA
	END'
test_expect_success 'lint: contradictions; several files; a good one' '
    printf "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_sync_module_states: false\n" >m.yaml &&
    printf "num_processes: 2\n" >good.yaml &&
    test_exit 1 "$accelerate" config lint m.yaml good.yaml none.yaml >got && cat got &&
    grep "m.yaml: .*otherwise only rank 0 has the weights" got && grep -x "none.yaml: No such file or directory" got && test "$(wc -l <got)" = 2 &&
    "$accelerate" config lint good.yaml >got && test ! -s got'
# lint_says TEXT LINE...: lint says LINES about a file with TEXT, and nothing else
lint_says () {
    printf "%b" "$1" >said.yaml && shift && printf '%s\n' "$@" | sed "s/^/said.yaml/; /^said.yaml\$/d" >wanted &&
    { "$accelerate" config lint said.yaml >got || [ $? = 1 ]; } && diff wanted got
}
test_expect_success 'lint: keys in the wrong place' '
    lint_says "distributed_type: FSDP\nnum_processes: 2\nzero_stage: 2\nfsdp_config: {zero_stage: 2}\n" \
        ":3: unknown key ${q}zero_stage${q} at the top: it belongs in deepspeed_config (and has no effect without distributed_type: DEEPSPEED)" \
        ":4: unknown key ${q}zero_stage${q} in fsdp_config: it belongs in deepspeed_config (and has no effect without distributed_type: DEEPSPEED)" &&
    lint_says "distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {machine_rank: 0}\n" \
        ":3: unknown key ${q}machine_rank${q} in fsdp_config: it belongs at the top" &&
    lint_says "parallelism_config: {tp_size: 2}\n" \
        ":1: unknown key ${q}tp_size${q} in parallelism_config (did you mean ${q}parallelism_config_tp_size${q}?)"'
test_expect_success 'lint: one key under two names' '
    lint_says "mixed_precision: fp8\nfp8_config: {backend: TE, fp8_backend: AO}\n" \
        ":2: ${q}fp8_backend${q} is the same key as ${q}backend${q} on line 2" &&
    lint_says "mixed_precision: fp8\nfp8_config: {backend: TE, fp8_backend: TE}\n" ""'
test_expect_success 'lint: keys without effect beside others, and against others' '
    lint_says "distributed_type: FSDP\nnum_processes: 2\nmachine_rank: 1\nfsdp_config:\n  fsdp_version: 2\n  fsdp_backward_prefetch: BACKWARD_PRE\n" \
        ":3: machine_rank has no effect with one machine" \
        ":6: fsdp_backward_prefetch has no effect with fsdp_version: 2" &&
    lint_says "distributed_type: MULTI_GPU\nnum_processes: 2\nuse_cpu: true\n" \
        ":3: use_cpu contradicts distributed_type, which asks for GPUs" &&
    lint_says "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {zero_stage: 2, zero3_init_flag: true, offload_param_device: none}\n" \
        ":3: zero3_init_flag has no effect without zero_stage: 3" &&
    lint_says "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 2\n  train_batch_size: 8\n" \
        ":5: ${q}train_batch_size${q} has no effect here: write it in the file that deepspeed_config_file names" &&
    lint_says "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {deepspeed_config_file: x.json, zero_stage: 3}\n" \
        ":3: zero_stage contradicts deepspeed_config_file; set it only in DeepSpeed${q}s file" &&
    lint_says "dynamo_config: {dynamo_backend: no, dynamo_mode: max-autotune}\n" \
        ":1: dynamo_mode has no effect without a dynamo_backend"'
test_expect_success 'lint: DeepSpeed' '
    deepspeed="distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n" &&
    lint_says "$deepspeed  zero_stage: 3\n  zero3_init_flag: true\n  offload_param_device: cpu\n" "" &&
    lint_says "$deepspeed  zero_stage: 2\n  offload_param_device: cpu\n" \
        ":5: offload_param_device has no effect without zero_stage: 3" &&
    lint_says "$deepspeed  zero_stage: 3\n  offload_optimizer_device: NVME\n  offload_optimizer_nvme_path: /x\n" "" &&
    lint_says "$deepspeed  zero_stage: 3\n  offload_optimizer_device: cpu\n  offload_optimizer_nvme_path: /x\n" \
        ":6: offload_optimizer_nvme_path has no effect without offload_optimizer_device: nvme" &&
    said="contradicts deepspeed_config_file; set it only in DeepSpeed${q}s file" &&
    lint_says "$deepspeed  deepspeed_config_file: x.json\n  offload_optimizer_nvme_path: /x\n" \
        ":5: offload_optimizer_nvme_path $said" &&
    lint_says "$deepspeed  deepspeed_config_file: x.json\n  offload_optimizer_device: none\n" \
        ":5: offload_optimizer_device $said"'
test_expect_success 'lint: what is good is left alone' '
    lint_says "distributed_type: MULTI_CPU\nnum_processes: 2\nmain_training_function: main\ntpu_name: none\n" "" &&
    lint_says "distributed_type: MULTI_CPU\nnum_processes: 2\nmpirun_config: {mpirun_hostfile: hosts}\n" "" &&
    lint_says "distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_sharding_strategy: 2, fsdp_auto_wrap_policy: no_wrap}\n" ""'
test_expect_success 'lint: words that no library accepts' '
    lint_says "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_WRAP\n  fsdp_state_dict_type: SHARDED_DICT\n" \
        ":4: fsdp_auto_wrap_policy: ${q}TRANSFORMER_WRAP${q} is not one of TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP (did you mean ${q}TRANSFORMER_BASED_WRAP${q}?)" \
        ":5: fsdp_state_dict_type: ${q}SHARDED_DICT${q} is not one of FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT"'
test_expect_success 'lint: what launch refuses is a problem: jobs on SageMaker' '
    lint_says "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: DATA_PARALLEL\nnum_machines: 2\n" \
        ": missing key for SageMaker: ec2_instance_type" ": missing key for SageMaker: iam_role_name"'
test_expect_success 'show: values and where they come from' '
    printf "num_processes: 2\nfp8_config:\n  backend: TE\n" >s.yaml && "$accelerate" config show --config_file s.yaml >got &&
    grep -x "num_processes: 2  (s.yaml:1)" got && grep -x "fp8_backend: te  (s.yaml:3; no effect)" got &&
    grep -x "mixed_precision: no  (default)" got'
test_expect_success 'show: only settings that the mode uses; settings without effect are marked' '
    printf "distributed_type: FSDP\nnum_processes: 2\nmachine_rank: 1\nzero_stage: 2\n" | sed "/zero/d" >s.yaml &&
    printf "fsdp_config: {fsdp_version: 2}\nfp8_config: {backend: TE}\n" >>s.yaml &&
    "$accelerate" config show --config_file s.yaml >shown && sed "/^enable_cpu_affinity/q" shown >got &&
    grep -x "grace: 30  (default)" shown && cat >wanted <<-END && diff wanted got &&
	compute_environment: LOCAL_MACHINE  (default)
	distributed_type: FSDP  (s.yaml:1)
	num_machines: 1  (default)
	machine_rank: 1  (s.yaml:3; no effect)
	debug: false  (default)
	use_cpu: false  (default)
	dynamo_backend: no  (default)
	gpu_ids: all  (default)
	num_processes: 2  (s.yaml:2)
	mixed_precision: no  (default)
	fp8_backend: te  (s.yaml:5; no effect)
	fsdp_version: 2  (s.yaml:4)
	fsdp_offload_params: false  (default)
	fsdp_min_num_params: 100000000  (default)
	fsdp_reshard_after_forward: true  (default)
	fsdp_cpu_ram_efficient_loading: true  (default)
	fsdp_activation_checkpointing: false  (default)
	fsdp_activation_checkpointing_offload: false  (default)
	starter: auto  (default)
	mpi: auto  (default)
	host_timeout: 30  (default)
	enable_cpu_affinity: false  (default)
	END
    "$accelerate" launch --config_file s.yaml --dry_run --explain --max_restarts 1 true >got && sed "/^\$/q" got >said &&
    grep -x "max_restarts: 1  (flag)" said && ! grep "dry_run\|deepspeed\|megatron\|tpu" said'
test_expect_success 'show --json: bytes that are not UTF-8, and some that are' '
    printf "gra\303\274\377e" >name && "$accelerate" config show --json --main_process_ip "$(cat name)" >got &&
    python3 -c "import json; assert json.load(open(\"got\"))[\"main_process_ip\"][\"value\"] == \"gra\\u00fc?e\""'
test_expect_success 'show --json: the same, with types' '
    "$accelerate" config show --json --config_file s.yaml >got &&
    tr -d " \n" <got | grep -F "\"machine_rank\":{\"value\":1,\"origin\":\"s.yaml:3\",\"effect\":false}" &&
    tr -d " \n" <got | grep -F "\"debug\":{\"value\":false,\"origin\":\"default\",\"effect\":true}" &&
    test_exit 2 "$accelerate" config --json 2>error && grep -e "--json needs show" error'
test_expect_success 'update: old keys, defaults, the same meaning' '
    printf "distributed_type: %sNO%s\nfp16: true\ndynamo_backend: EAGER\nmain_process_ip: null\n" "$q" "$q" >u.yaml &&
    "$accelerate" config update --config_file u.yaml && grep "mixed_precision: fp16" u.yaml &&
    grep "  dynamo_backend: EAGER" u.yaml && grep "machine_rank: 0" u.yaml && ! grep "null\|^fp16" u.yaml &&
    cp u.yaml v.yaml && "$accelerate" config update --config_file v.yaml && diff u.yaml v.yaml &&
    printf "fp16: true\ndebug: true\nfp16: true\n" >w.yaml && "$accelerate" config update --config_file w.yaml &&
    ! grep fp16: w.yaml && grep "mixed_precision: fp16" w.yaml'
test_expect_success 'update: numbers stay numbers' '
    printf "deepspeed_config:\n  gradient_clipping: 1.0e-5\nmegatron_lm_config:\n  megatron_lm_hidden_dropout: 1e5\n" >n.yaml &&
    "$accelerate" config update --config_file n.yaml && cat n.yaml && grep "gradient_clipping: 1.0e-05" n.yaml &&
    grep "hidden_dropout: 1e5" n.yaml'
test_expect_success 'update: no file is an error' '
    test_exit 1 "$accelerate" config update --config_file none.yaml 2>error && grep "No such file" error && ! test -e none.yaml'
test_expect_success 'an old dynamo_backend: an error only if it takes effect; update mends it' '
    for type in DEEPSPEED NO; do
        printf "distributed_type: %s%s%s\nnum_processes: 1\ndynamo_config: {dynamo_backend: IPEX}\n" "$q" $type "$q" >$type.yaml || return 1
    done && echo pass >p.py &&
    "$accelerate" launch --config_file DEEPSPEED.yaml --dry_run p.py >got && grep "DEEPSPEED.yaml:3: dynamo_backend: .*IPEX.* has no effect here" got &&
    "$accelerate" launch --config_file NO.yaml --dynamo_backend no --dry_run p.py >got && grep "has no effect here" got &&
    test_exit 1 "$accelerate" launch --config_file NO.yaml --dry_run p.py 2>error &&
    grep "^accelerate: NO.yaml:3: dynamo_backend: PyTorch no longer has .IPEX.: .* with accelerate config update\$" error &&
    test_exit 1 "$accelerate" config show --config_file NO.yaml &&
    "$accelerate" config update --config_file NO.yaml && grep "  dynamo_backend: .NO." NO.yaml && "$accelerate" config lint NO.yaml &&
    sed -i s/IPEX/INDUKTOR/ DEEPSPEED.yaml && test_exit 1 "$accelerate" config update --config_file DEEPSPEED.yaml 2>error &&
    grep "did you mean .inductor." error'
keys () {
    printf "# mine\ndistributed_type: FSDP  # shards\nnum_processes: 4\nmixed_precision: %sno%s\t# keep\nfsdp_config:\n" "$q" "$q"
    printf "    # two\n    version: 2\nmain_process_ip: \"a#b\""
}
test_expect_success 'get: the value in effect; 1 without one, 2 for a key that does not exist' '
    keys >k.yaml && for key in num_processes num-processes fsdp_config.version fsdp_version debug main_process_ip; do
        "$accelerate" config get $key --config_file k.yaml || return 1
    done >got && printf "4\n4\n2\n2\nfalse\na#b\n" | diff - got &&
    test_exit 1 "$accelerate" config --config_file k.yaml get tpu_name >got 2>&1 && test ! -s got &&
    test_exit 2 "$accelerate" config get num_proceses 2>error && grep "did you mean ${q}num_processes${q}" error'
test_expect_success 'set: the line of the key, nothing else; new keys in their sections' '
    keys | sed "s/4/8/; s/.no./bf16/; s/a#b/h/; s/version: 2/version: 1/" >wanted && printf "\ndebug: true\n" >>wanted &&
    sed "s/\"h\"/h/; s/    version/    fsdp_offload_params: true\n&/" wanted >sorted && mv sorted wanted &&
    "$accelerate" config set --config_file k.yaml num_processes 8 mixed-precision BF16 main_process_ip h fsdp_version 1 \
        debug yes fsdp_offload_params on && diff wanted k.yaml && "$accelerate" config lint k.yaml &&
    "$accelerate" config set fp8_margin 2 --config_file k.yaml 2>error && tail -n 2 k.yaml >got &&
    printf "fp8_config:\n  fp8_margin: 2\n" | diff - got && grep "note: fp8_margin has no effect without" error'
test_expect_success 'set: what launch would refuse changes nothing' '
    cp k.yaml before && test_exit 2 "$accelerate" config set num_processes x --config_file k.yaml &&
    test_exit 2 "$accelerate" config set num_processes 2 gpu_ids 0,0 --config_file k.yaml 2>error && grep "listed twice" error &&
    test_exit 2 "$accelerate" config set num_processes --config_file k.yaml 2>error && grep "missing value" error &&
    test_exit 2 "$accelerate" config set commands ls --config_file k.yaml 2>error && grep "is a list" error && cmp before k.yaml &&
    test_exit 1 "$accelerate" config set debug no --config_file none.yaml 2>error && grep "does not exist" error && test ! -e none.yaml'
test_expect_success 'set: JSON, and YAML in braces, are written anew; braces with comments are left alone' '
    echo "{\"num_processes\": 3, \"distributed_type\": \"NO\"}" >k.json &&
    "$accelerate" config set debug yes fsdp_version 2 --config_file k.json 2>/dev/null && tr -d " \n" <k.json >got &&
    grep -x "{\"debug\":true,\"distributed_type\":\"NO\",\"fsdp_config\":{\"fsdp_version\":2},\"num_processes\":3}" got &&
    printf "fsdp_config: {fsdp_version: 2}\ndistributed_type: FSDP\nnum_processes: 2" >k.yaml && cp k.yaml c.yaml && echo " # two" >>c.yaml &&
    "$accelerate" config set fsdp_version 1 --config_file k.yaml && grep -x "  fsdp_version: 1" k.yaml && cp c.yaml before &&
    test_exit 1 "$accelerate" config set fsdp_version 1 --config_file c.yaml 2>error && grep "losing comments" error && cmp before c.yaml'
test_expect_success 'another word: the nearest' '
    test_exit 2 "$accelerate" config shwo 2>error && grep "did you mean ${q}show${q}" error'
test_done
