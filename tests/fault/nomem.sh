#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Memory that ends at every allocation of a command: it does its work all the same, or says that it was the memory, and
# blames nothing else.
. "${srcdir:-.}/tests/testlib.sh"

module=$builddir/tests/fault/.libs/nomem.so
if [ ! -f "$module" ]; then
    echo '1..0 # SKIP this build has no shared libraries'
    exit 0
fi
if grep -q '^SAN_CFLAGS = .*[a-z]' "$builddir/Makefile"; then
    echo '1..0 # SKIP a sanitizer has an allocator of its own'
    exit 0
fi

# without_memory ARGUMENTS...: of the command, whose standard input is the file `answers`
without_memory () {
    rm -f log
    "$accelerate" "$@" <answers >reference 2>&1
    "$accelerate" "$@" <answers >reference 2>&1 # now it finds the files that it makes
    timeout 120 env LD_PRELOAD="$module" NOMEM_LOG="$PWD/log" NOMEM_REFERENCE="$PWD/reference" \
        "$accelerate" "$@" <answers >output 2>&1
    cat log
    tail -n 1 log | grep -x "[1-9][0-9]* cases, 0 bad"
}

mkdir bin && printf '#!/bin/sh\necho Open MPI\n' >bin/mpirun && chmod +x bin/mpirun
PATH=$scratch/bin:$PATH
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
printf 'num_proceses: 2\nfsdp_config:\n  x: 1\n' >bad.yaml
while read -r arguments; do
    # shellcheck disable=SC2086
    test_expect_success "accelerate $arguments" 'without_memory $arguments'
done <<'END'
launch --dry_run --config_file fsdp.yaml train.py a
launch --dry_run --json --config_file cpu.json true
launch --dry_run --explain --mixed_precision fp16 true
launch --dry_run --use_deepspeed --num_machines 2 --machine_rank 0 --num_processes 4 --main_process_ip h train.py
launch --dry_run --mpirun_hostfile f --cpu --num_processes 2 train.py
launch --dry_run --tpu --num_processes 4 train.py
launch --dry_run --multi_gpu --gpu_ids 0,0 --num_processes 2 true
launch --dry_run --mixed_precision fp61 true
launch --dry_run --config_file bad.yaml true
launch nothing
launch --no_python nothing
launch --quiet --cpu --num_processes 2 --log_dir logs --tee 3 --failure_report report.json true
config --config_file new.yaml
config --yes --config_file new.json
config default --config_file default.yaml
config show --config_file fsdp.yaml
config lint bad.yaml cpu.json
config update --config_file update.yaml
config update --config_file update.json
to-fsdp2 --config_file fsdp.yaml --output_file new2.yaml --overwrite
to-fsdp2 --config_file fsdp.yaml --output_file new2.json --overwrite
env --json --config_file fsdp.yaml
test --dry_run --cpu --num_processes 1
END
test_done
