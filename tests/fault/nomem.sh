#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Memory that ends at every allocation of a command: it does its work all the same, or says that it was the memory, and
# blames nothing else.
. "${srcdir:-.}/tests/testlib.sh"

module=$builddir/tests/fault/.libs/nomem.so
if [ ! -f "$module" ]; then
    skip_rest 'this build has no shared libraries'
fi
if grep -q '^SAN_CFLAGS = .*[a-z]' "$builddir/Makefile"; then
    skip_rest 'a sanitizer has an allocator of its own'
fi

# Each third allocation is tried, a different first one in each line of the table: what all command lines share, such as
# reading options and files, is tried in full.  NOMEM_EVERY=1 tries all of everything.
every=${NOMEM_EVERY:-3} first=0

# without_memory STATUS ARGUMENTS...: of the command, whose standard input is the file `answers`
without_memory () {
    status=$1 && shift && rm -f log &&
        test_exit "$status" "$accelerate" "$@" <answers >reference 2>&1 &&
        test_exit "$status" "$accelerate" "$@" <answers >reference 2>&1 && # now it finds the files that it makes
        test_exit "$status" timeout $patience env LD_PRELOAD="$module" NOMEM_LOG="$PWD/log" \
            NOMEM_REFERENCE="$PWD/reference" NOMEM_EVERY=$every NOMEM_FIRST=$first "$accelerate" "$@" <answers >output 2>&1 &&
        tail -n 1 log | grep -x "[1-9][0-9]* cases, 0 bad"
}

mkdir bin && printf '#!/bin/sh\necho Open MPI\n' >bin/mpirun && chmod +x bin/mpirun
printf '#!/bin/sh\n' >bin/selftest && chmod +x bin/selftest # the command is tested here, not what it starts
PATH=$scratch/bin:$PATH ACCELERATE_SELFTEST=$scratch/bin/selftest
export ACCELERATE_SELFTEST
echo "print (1)" >train.py
printf '\nmulti-CPU\n1\nno\n\nyes\n\n\n4\nbf16\n' >answers
cat >fsdp.yaml <<'END'
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_backward_prefetch: BACKWARD_PRE
mixed_precision: "bf16"
num_processes: 2
tpu_env: []
END
cp fsdp.yaml update.yaml
echo '{"distributed_type": "MULTI_CPU", "num_processes": 2, "tpu_env": ["a", "b"], "debug": false}' >cpu.json
cp cpu.json update.json
echo '{"tpu_name": "n", "tpu_zone": "z", "commands": ["a"]}' >pod.json && printf 'a\n\nb\n' >commands.sh
printf 'num_proceses: 2\nfsdp_config:\n  x: 1\n' >bad.yaml
if command -v python3 >/dev/null; then
    python3 "$srcdir/tests/http/make_hub.py" hub "$srcdir/tests/golden/command/estimate.json" || exit 99
fi
while read -r status arguments; do
    case $arguments in *\ hub/*) test -d hub || continue ;; esac
    first=$((first + 1))
    # shellcheck disable=SC2086
    test_expect_success "accelerate $arguments" 'without_memory $status $arguments'
done <<'END'
0 launch --dry_run --config_file fsdp.yaml train.py a
0 launch --dry_run --json --config_file cpu.json true
0 launch --dry_run --explain --mixed_precision fp16 true
0 launch --dry_run --use_deepspeed --num_machines 2 --machine_rank 0 --num_processes 4 --main_process_ip h train.py
0 launch --dry_run --tpu --num_processes 4 train.py
0 launch --dry_run --mpirun_hostfile f --cpu --num_processes 2 train.py
2 launch --dry_run --multi_gpu --gpu_ids 0,0 --num_processes 2 true
2 launch --dry_run --mixed_precision fp61 true
1 launch --dry_run --config_file bad.yaml true
127 launch nothing
127 launch --no_python nothing
0 launch --quiet --cpu --num_processes 2 --log_dir logs --tee 3 --failure_report report.json true
0 config --config_file new.yaml
0 config --yes --config_file new.json
0 config default --config_file default.yaml
0 config show --config_file fsdp.yaml
1 config lint bad.yaml cpu.json
0 config update --config_file update.yaml
0 config update --config_file update.json
0 to-fsdp2 --config_file fsdp.yaml --output_file new2.yaml --overwrite
0 to-fsdp2 --config_file fsdp.yaml --output_file new2.json --overwrite
0 env --json --config_file fsdp.yaml
0 tpu-config --debug --command_file commands.sh --tpu_name n --tpu_zone z --install_accelerate
0 tpu-config --debug --command a b --config_file pod.json
0 test --cpu --num_processes 2
0 estimate-memory hub/quantized/nf4/resolve/main --context_length 10
0 estimate-memory hub/golden/bert/resolve/main --json --context_length 10 --training
0 estimate-memory hub/org/llama/resolve/main --training
0 estimate-memory hub/org/quantized/resolve/main/big-00001-of-00002.gguf
0 estimate-memory hub/pickled/shards/resolve/main
1 estimate-memory hub/quantized/unknown/resolve/main
1 estimate-memory hub/wrong/overlap.gguf
END
test_done
