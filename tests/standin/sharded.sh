#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sharding of models on GPUs, with engine nccl on the stand-ins: the losses and bits of training without sharding,
# checkpoints that are the same files and that any number of processes loads, with sharding or without, on GPUs or on the
# host, and less memory.  Of what only divided parameters need, layers.sh has more.
. "${srcdir:-.}/tests/testlib.sh"
subject='sharding on GPUs' gpus=4
. "$srcdir/tests/standin/module.sh"
# sharded RANKS LINES ARGUMENT...: so many `ok` lines from each rank
sharded () {
    count=$1 lines=$2
    shift 2
    ranks_pass "$count" "$lines" sharded "$@"
}
for ranks in $(fewer '1 3' '1 2 3 4'); do
    test_expect_success "$ranks ranks: the losses and bits of training without sharding" 'sharded $ranks 13 scenes'
done
seeds=3
if is_sanitized; then seeds=1; fi
if is_long; then seeds=20; fi
test_expect_success '2 ranks in any order of streams' '
    for seed in $(seq $seeds); do STANDIN_SEED=$seed sharded 2 13 scenes || return 1; done'
test_expect_success 'planted: streams that do not wait' '
    ! STANDIN_SKIP=cudaStreamWaitEvent sharded 2 13 scenes && grep "^standin: .*another stream .*, without an event" error'
test_expect_success 'what cannot be sharded, and that nothing has changed then; tied parameters' 'sharded 2 7 refused'
for ranks in 2 4; do
    test_expect_success "$ranks ranks: programs that follow addresses have what the launcher asks for; others, stage 1" '
        sharded $ranks 11 launched && grep "WARNING" error >warnings && cat warnings && [ "$(wc -l <warnings)" = 3 ] &&
        sed 1q warnings | grep "use_fsdp divides only the states of optimizers.* calls accel_model_set_sharding" &&
        sed 1d warnings | sed 1q | grep "use_fsdp divides only .* in fewer bits (comm_hook)" &&
        tail -n 1 warnings | grep "use_deepspeed divides only .* calls accel_model_set_sharding"'
done
test_expect_success '3 ranks: hybrid strategies, of which they have no pairs, become stage 1' '
    sharded 3 11 launched && grep "WARNING" error >warnings && cat warnings && [ "$(wc -l <warnings)" = 5 ] &&
    [ "$(grep -c "use_fsdp divides only .*: group_size does not divide" warnings)" = 2 ]'
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
test_expect_success '... or with divided gradients and parameters, by rank 0, or by each rank' '
    saved - parts 2 2 layers && same parts && saved - grads 2 2 gradients && same grads && saved - part-shares 2 2 layers shares &&
    cmp plain.masters/model.safetensors part-shares.masters/model.safetensors'
for from in plain whole shares parts part-shares; do
    for words in '' sharded layers host 'host sharded' 'host layers'; do
        test_expect_success "$from is loaded by $counts ranks and saved again: ${words:-not sharded}" '
            for ranks in $counts; do saved $from again $ranks $words && same again || return 1; done'
    done
done
test_expect_success 'training continues with the bits of training without sharding' '
    saved plain goal 2 2 &&
    for from in plain whole shares part-shares; do
        saved $from on 2 2 sharded && same on goal && saved $from on 2 2 layers && same on goal &&
            saved $from on 2 2 gradients && same on goal || return 1
    done'
test_expect_success '2 groups of 2 ranks save the same files, which other groups, strategies and counts load and save again' '
    saved - coarse 4 2 coarse && saved - groups 4 2 hybrid2 && same groups coarse && saved - groups3 4 2 hybrid && same groups3 coarse &&
    saved - group-shares 4 2 hybrid2 shares && cmp coarse.masters/model.safetensors group-shares.masters/model.safetensors &&
    for from in coarse groups group-shares; do
        for words in "1" "3 layers" "2 hybrid2" "4 hybrid2" "4 hybrid" "4 gradients" "4 host hybrid2"; do
            # shellcheck disable=SC2086
            saved $from again $words && same again coarse || return 1
        done
    done'
test_expect_success '... and train on with the bits of training without sharding' '
    saved coarse goal 4 2 coarse &&
    for from in coarse groups group-shares; do
        for words in hybrid2 hybrid "coarse gradients"; do
            # shellcheck disable=SC2086
            saved $from on 4 2 $words && same on goal || return 1
        done
    done'
test_done
