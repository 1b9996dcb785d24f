#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tensor parallelism: any grid has the losses, norms and files of one process.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/conformance/near.sh"
program=$builddir/tests/conformance/parallel
steps=6

# ranks COUNT ARGUMENT...: that many ranks, all of which must succeed
ranks () {
    processes=$1
    shift
    timeout $patience "$accelerate" launch --cpu --num_processes "$processes" "$program" "$@"
}
# same A B: two saved states have the same bits
same () {
    for file in /model.safetensors /optimizer.safetensors /optimizer.json /sampler.json .model/model.safetensors \
        .masters/model.safetensors; do
        cmp "$1$file" "$2$file" || return 1
    done
}

for type in f32 bf16; do
    test_expect_success "$type: one process" 'ranks 1 train 0 $steps $type - one.$type >log.$type && cat log.$type'
done
# Processes, and how many of them divide tensors; bfloat16 weights may be rounded the other way.
while read -r count tp; do
    for type in f32 bf16; do
        [ $type = f32 ] && bound=1e-6 || bound=5e-3
        test_expect_success "$type: $count processes, $tp of which divide tensors, learn what one does" '
            ranks $count train $tp $steps $type - grid$count.$tp.$type >log && near $bound log.$type log'
    done
    test_expect_success "$count processes, $tp of which divide tensors, load what one has saved, and save it again" '
        ranks $count train $tp $steps f32 one.f32 again$count.$tp >log && same one.f32 again$count.$tp &&
        ranks $count train $tp $steps bf16 one.bf16 again$count.$tp.bf16 >log && same one.bf16 again$count.$tp.bf16'
    test_expect_success "one process loads what $count with $tp have saved" '
        ranks 1 train 1 $steps bf16 grid$count.$tp.bf16 alone$count.$tp >log && same grid$count.$tp.bf16 alone$count.$tp'
    test_expect_success "parts that are joined and cut, and losses of logits in parts: $count processes, $tp" '
        ranks $count pairs $tp'
    test_expect_success "orders of samples, and schedules: $count processes, $tp" 'ranks $count orders $tp'
done <<'END'
2 2
4 4
4 2
END
test_expect_success 'a run continues with another grid' '
    ranks 2 train 2 3 f32 - half >first && ranks 4 train 2 $steps f32 half - >second && cat first second >log &&
    near 1e-6 log.f32 log && ranks 4 train 4 $steps f32 half - >second && cat first second >log && near 1e-6 log.f32 log'
cat >config.yaml <<'END'
distributed_type: FSDP
num_processes: 2
use_cpu: true
fsdp_config:
  fsdp_version: 2
parallelism_config:
  parallelism_config_tp_size: 2
END
for options in '--config_file config.yaml' '--num_processes 2 --use_fsdp --use_parallelism_config --fsdp_version 2 --fsdp_state_dict_type SHARDED_STATE_DICT --parallelism_config_tp_size 2'; do
    test_expect_success "a parallelism_config chooses: $options" '
        timeout $patience "$accelerate" launch $options "$program" train 0 $steps f32 - grid.config >log 2>err && near 1e-6 log.f32 log &&
        cmp grid2.2.f32/model.safetensors grid.config/model.safetensors &&
        grep "use_fsdp has no effect: tensors are divided already" err'
done
# refuses WORDS VARIABLE...: no job of 2 processes with these
refuses () {
    words=$1
    shift
    test_exit 1 timeout $patience env ACCELERATE_USE_PARALLELISM_CONFIG=true "$@" \
        "$accelerate" launch --cpu --num_processes 2 "$program" train 0 1 f32 - - >out 2>&1 &&
        grep -F "$words" out
}
test_expect_success 'bad input has a sentence' '
    ranks 2 refused && test_exit 1 ranks 2 train 3 1 f32 - - 2>err &&
    grep "accel_open: tp_size is 3, but does not divide the number of processes, 2" err &&
    grep "it gave up: accel_open: tp_size is 3" err && ! grep accel_close err &&
    refuses "is not a number of processes from 1 to 1000000" PARALLELISM_CONFIG_TP_SIZE=x &&
    refuses "PARALLELISM_CONFIG_CP_SIZE is 2, but libaccel divides only data and tensors" PARALLELISM_CONFIG_CP_SIZE=2 &&
    refuses "the sizes of the parallelism_config make 4 processes, but the job has 2" PARALLELISM_CONFIG_DP_SHARD_SIZE=4'
test_expect_success 'there are no checkpoints in memory, and that is said' '
    timeout $patience "$accelerate" launch --cpu --num_processes 2 --max_restarts 1 --memory_checkpoint_every 1 \
        "$program" train 2 $steps f32 - - >log 2>err && near 1e-6 log.f32 log && cat err &&
    grep "no more checkpoints in memory: each process has only parts of tensors" err'
test_expect_success 'gradients that are not averaged yet are continued by the same grid only' '
    ranks 2 halfway 2 - halfway && ranks 2 halfway 2 halfway - >out && cat out && grep "^loaded$" out &&
    ranks 4 halfway 2 halfway - >out && cat out && grep "it can only be continued by the same number" out'
test_done
