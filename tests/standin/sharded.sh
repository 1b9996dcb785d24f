#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sharding of models on GPUs (ACCEL_SHARDING_OPTIMIZER), with engine nccl on the stand-ins: the losses and bits of
# training without sharding, checkpoints that are the same files and that any number of processes loads, with sharding or
# without, on GPUs or on the host, and less memory.
. "${srcdir:-.}/tests/testlib.sh"
subject='sharding on GPUs'
. "$srcdir/tests/standin/module.sh"
cp "$standin/.libs/accel_engine_nccl.so" engines
STANDIN_DEVICES=4
export STANDIN_DEVICES
port=$(free_port)
# sharded RANKS LINES ARGUMENT...: so many `ok` lines from each rank
sharded () {
    ranks=$1 lines=$2
    shift 2
    by_hand "$ranks" "$port" timeout $patience "$standin/sharded" "$@" >out 2>error && ! grep "^not ok" out &&
        test "$(grep -c ^ok out)" = $((lines * ranks)) || { cat out error; return 1; }
}
for ranks in 1 2 3 4; do
    test_expect_success "$ranks ranks: the losses and bits of training without sharding" 'sharded $ranks 13 scenes'
done
seeds=3
if is_long; then seeds=20; fi
test_expect_success '2 ranks in any order of streams' '
    for seed in $(seq $seeds); do STANDIN_SEED=$seed sharded 2 13 scenes || return 1; done'
test_expect_success 'planted: streams that do not wait' '
    ! STANDIN_SKIP=cudaStreamWaitEvent sharded 2 13 scenes && grep "^standin: .*another stream .*, without an event" error'
test_expect_success 'what cannot be sharded, and that nothing has changed then' 'sharded 2 7 refused'
test_expect_success 'what --use_fsdp asks for becomes stage 1, with a warning' '
    sharded 2 1 launched && grep "WARNING.*--use_fsdp divides only the states of optimizers" error'
test_expect_success 'GPUs that are too small for all states of a model have enough memory for a share' '
    STANDIN_BYTES=7500000 sharded 4 1 fits && STANDIN_BYTES=5000000 sharded 4 1 fits sharded'

# ---- checkpoints ----

# saved FROM TO RANKS WORD...
saved () {
    from=$1 to=$2 ranks=$3
    shift 3
    rm -rf "$to" "$to.masters"
    sharded "$ranks" 1 run "$from" "$to" "$@"
}
# same TO: it has the files of `plain`, with all steps
same () {
    for file in /model /optimizer .masters/model; do
        cmp "${2-plain}$file.safetensors" "$1$file.safetensors" || return 1
    done
}
test_expect_success 'a state is saved by rank 0, with the files of one without sharding' '
    saved - plain 2 2 && saved - whole 2 2 sharded && same whole'
test_expect_success '... and in the background' '
    saved - late 2 2 sharded async && for file in model optimizer; do cmp plain/$file.safetensors late/$file.safetensors || return 1; done'
test_expect_success '... or by each rank' '
    saved - shares 2 2 sharded shares && test -d shares/optimizer && cmp plain.masters/model.safetensors shares.masters/model.safetensors'
counts='1 3'
if is_long; then counts='1 2 3 4'; fi
for from in plain whole shares; do
    for words in '' sharded host 'host sharded'; do
        test_expect_success "$from is loaded by $counts ranks and saved again: ${words:-not sharded}" '
            for ranks in $counts; do saved $from again $ranks $words && same again || return 1; done'
    done
done
test_expect_success 'training continues with the bits of training without sharding' '
    saved plain goal 2 2 &&
    for from in plain whole shares; do saved $from on 2 2 sharded && same on goal || return 1; done'
test_done
