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
# Processes, and how many of them divide tensors.  A master that is 1e-8 away may be rounded to another bfloat16 weight;
# each such weight moves losses and norms by some 1e-6.
while read -r count tp; do
    for type in f32 bf16; do
        [ $type = f32 ] && bound=1e-6 || bound=1e-5
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
for count in 1 2 3 4; do
    test_expect_success "layers that $count processes divide have the bits of whole ones" '
        program=$builddir/tests/conformance/parallel_layers && ranks $count'
done
program=$builddir/tests/conformance/parallel
test_expect_success 'a run continues with another grid' '
    ranks 2 train 2 3 f32 - half >first && ranks 4 train 2 $steps f32 half - >second && cat first second >log &&
    near 1e-6 log.f32 log && ranks 4 train 4 $steps f32 half - >second && cat first second >log && near 1e-6 log.f32 log'
# Processes, how many of them divide tensors, and how the others divide what training keeps: stages are 2 to 4.  Divided
# gradients have their norms in another order, so only stage 1 has the bits of the same grid without sharding.
while read -r count tp sharding; do
    test_expect_success "$count processes, $tp of which divide tensors, sharding $sharding: they learn what one does" '
        for type in f32 bf16; do
            [ $type = f32 ] && bound=1e-6 || bound=1e-5
            ranks $count train $tp $steps $type - sharded.$type $sharding >log 2>err && cat err &&
            grep "^sharding: ${sharding%%[a-z ]*}$" err && near $bound log.$type log || return 1
            case $sharding in 2*) same grid$count.$tp.$type sharded.$type || return 1 ;; esac
        done'
    test_expect_success "sharding $sharding: one process loads what they have saved, and they what one has" '
        for type in f32 bf16; do
            ranks 1 train 1 $steps $type sharded.$type alone.$type >log && same sharded.$type alone.$type &&
            ranks $count train $tp $steps $type one.$type again.$type $sharding >log && same one.$type again.$type || return 1
        done'
done <<'END'
4 2 2
4 2 2s
4 2 3
4 2 3s
4 2 4
4 2 4s
4 2 4n
END
test_expect_success 'a sharded model, whole, that is no longer prepared' '
    ranks 4 train 1 $steps bf16 one.bf16 unwrapped 3u >log'
for sharding in 2 3 4; do
    test_expect_success "a model in parts that is no longer prepared is saved as a whole one is: sharding $sharding" '
        ranks 4 train 2 $steps bf16 one.bf16 unwrapped.cut ${sharding}u >log &&
        for kind in model masters; do
            cmp unwrapped.$kind/model.safetensors unwrapped.cut.$kind/model.safetensors || return 1
        done'
done
if is_long; then
    for sharding in 5 6 5s 6s; do
        test_expect_success "groups of a grid: 8 processes, 2 of which divide tensors, sharding $sharding" '
            ranks 8 train 2 $steps f32 - groups $sharding 2 >log 2>err && cat err && grep "^sharding: ${sharding%s}$" err &&
            near 1e-6 log.f32 log && ranks 1 train 1 $steps f32 groups alone >log && same groups alone'
    done
fi
cat >limited <<'END'
#!/bin/sh
if [ "$RANK" = "$odd" ]; then
    trap '' XFSZ && ulimit -f 0
fi
exec "$@"
END
chmod +x limited
# A column, or group, whose parameters have no room in a file: each has its file, and none shares.
while read -r odd tp sharding; do
    test_expect_success "rank $odd cannot share parameters, so none does: 4 processes, $tp of which divide tensors, sharding $sharding" '
        export odd && ACCELERATE_LOG_LEVEL=info timeout $patience "$accelerate" launch --cpu --num_processes 4 \
            ./limited "$program" train $tp $steps f32 - - $sharding >log 2>err && cat err && near 1e-6 log.f32 log &&
        grep "parameters are not shared: other processes cannot" err'
done <<'END'
1 2 2s
2 1 6s 2
END
for sharding in 2w 3sw 4w; do
    test_expect_success "a whole model in a grid is saved in shares, once: $sharding" '
        ACCELERATE_USE_CPU=true timeout $patience "$accelerate" launch --num_processes 4 --use_fsdp --fsdp_version 2 \
            --fsdp_state_dict_type SHARDED_STATE_DICT "$program" train 2 $steps f32 - shares $sharding >log && near 1e-6 log.f32 log &&
        (cd shares && echo optimizer/*) >files && cat files && grep "^optimizer/__0_0.distcp optimizer/__2_0.distcp$" files &&
        ranks 1 train 1 $steps f32 shares alone >log && ranks 1 train 1 $steps f32 alone alone.again >log && same alone alone.again'
done
test_expect_success 'a run continues without sharding, and with more of it' '
    ranks 4 train 2 3 f32 - half 4 >first && ranks 2 train 2 $steps f32 half - >second && cat first second >log &&
    near 1e-6 log.f32 log && ranks 4 train 1 $steps f32 half - 3 >second && cat first second >log && near 1e-6 log.f32 log'
cat >config.yaml <<'END'
distributed_type: FSDP
num_processes: 4
use_cpu: true
fsdp_config:
  fsdp_version: 2
parallelism_config:
  parallelism_config_tp_size: 2
END
for options in '--config_file config.yaml' '--num_processes 4 --use_fsdp --use_parallelism_config --fsdp_version 2 --fsdp_state_dict_type SHARDED_STATE_DICT --parallelism_config_tp_size 2'; do
    test_expect_success "a parallelism_config chooses, and FSDP: $options" '
        timeout $patience "$accelerate" launch $options "$program" train 0 $steps f32 - grid.config >log 2>err && cat err &&
        near 1e-6 log.f32 log && grep "^sharding: 4$" err &&
        ranks 1 train 1 $steps f32 grid.config alone >log && same grid.config alone'
done
# refuses TP WORDS VARIABLE...: no job of 2 processes with these, of a program with this tp_size
refuses () {
    tp=$1 words=$2
    shift 2
    test_exit 1 timeout $patience env ACCELERATE_USE_PARALLELISM_CONFIG=true "$@" \
        "$accelerate" launch --cpu --num_processes 2 "$program" train "$tp" 1 f32 - - >out 2>&1 &&
        grep -F "$words" out
}
test_expect_success 'bad input has a sentence' '
    ranks 2 refused && test_exit 1 ranks 2 train 3 1 f32 - - 2>err &&
    grep "accel_open: tp_size is 3, but does not divide the number of processes, 2" err &&
    grep "it gave up: accel_open: tp_size is 3" err && ! grep accel_close err &&
    refuses 0 "is not a number of processes from 1 to 1000000" PARALLELISM_CONFIG_TP_SIZE=x &&
    for tp in 0 2; do
        refuses $tp "PARALLELISM_CONFIG_CP_SIZE is 2, but libaccel divides only data and tensors" \
            PARALLELISM_CONFIG_CP_SIZE=2 || return 1
    done &&
    refuses 0 "the sizes of the parallelism_config and tp_size 1 make 4 processes, but the job has 2" \
        PARALLELISM_CONFIG_DP_SHARD_SIZE=4 &&
    refuses 2 "the sizes of the parallelism_config and tp_size 2 make 4 processes, but the job has 2" \
        PARALLELISM_CONFIG_TP_SIZE=1 PARALLELISM_CONFIG_DP_SHARD_SIZE=2'
test_expect_success 'groups that do not fit a grid have a sentence about its rows' '
    test_exit 1 ranks 4 train 2 1 f32 - - 6 4 2>err &&
    grep "group_size does not divide the number of rows of the grid" err'
test_expect_success 'there are no checkpoints in memory, and that is said' '
    timeout $patience "$accelerate" launch --cpu --num_processes 2 --max_restarts 1 --memory_checkpoint_every 1 \
        "$program" train 2 $steps f32 - - >log 2>err && near 1e-6 log.f32 log && cat err &&
    grep "no more checkpoints in memory: each process has only parts of tensors" err'
test_expect_success 'gradients that are not averaged yet are continued by the same grid only' '
    ranks 2 halfway 2 - halfway && ranks 2 halfway 2 halfway - >out && cat out && grep "^loaded$" out &&
    ranks 4 halfway 2 halfway - >out && cat out && grep "it can only be continued by the same number" out'
test_expect_success 'a process without memory for whole tensors ends a save, and not the job' 'ranks 2 starved 2 starved'
test_done
