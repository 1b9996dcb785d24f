#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Divided parameters and gradients of models on GPUs (ACCEL_SHARDING_FULL_SHARD, ACCEL_SHARDING_SHARD_GRAD_OP), with
# engine nccl on the stand-ins: the losses and bits of training without sharding, addresses that layers have, the memory
# that is saved, and that the next layer is gathered while one is computed.
. "${srcdir:-.}/tests/testlib.sh"
subject='divided parameters and gradients on GPUs' gpus=4
. "$srcdir/tests/standin/module.sh"
for count in $(fewer '1 3' '1 2 3 4'); do
    test_expect_success "$count ranks: the losses and bits of training without sharding" '
        ranks_pass $count 14 sharded scenes layers && ranks_pass $count 12 sharded scenes gradients'
    test_expect_success "$count ranks: what a program may do with layers, and what it has then" 'ranks_pass $count 78 layers uses'
done
for count in $(fewer 4 '2 4'); do
    test_expect_success "groups of 2 of $count ranks: the losses and bits of training without sharding" '
        ranks_pass $count 13 sharded scenes hybrid && ranks_pass $count 12 sharded scenes hybrid2'
done
test_expect_success '2 groups of 2 ranks: averages of groups are averaged, and passes add to them' 'ranks_pass 4 36 layers groups'
seeds=2
if is_sanitized; then seeds=1; fi
if is_long; then seeds=20; fi
test_expect_success '2 ranks, and groups, in any order of streams' '
    for seed in $(seq $seeds); do
        STANDIN_SEED=$seed ranks_pass 2 14 sharded scenes layers && STANDIN_SEED=$seed ranks_pass 2 78 layers uses &&
            STANDIN_SEED=$seed ranks_pass 4 36 layers groups || return 1
    done'
test_expect_success 'planted: streams that do not wait' '
    ! STANDIN_SKIP=cudaStreamWaitEvent ranks_pass 2 78 layers uses &&
    grep "^standin: .*another stream .*, without an event" error'
test_expect_success 'a rank without memory for any part of a model: no rank is left waiting' '
    for turn in $(seq 20); do
        ranks_pass 2 1 sharded fails prepare $turn || return 1
        if grep prepared out; then break; fi
    done &&
    test "$(grep -c prepared out)" = 2 && test "$turn" -gt 5'
cases='2 layers'
if is_long; then cases='2 layers,2 gradients,4 hybrid2,4 hybrid'; fi
test_expect_success '... or without any piece of host memory' '
    echo "$cases" | tr , "\n" >cases && while read -r count word; do
        for turn in $(seq 0 200); do
            ranks_pass $count 1 sharded fails host $turn $word || return 1
            if [ "$(grep -c prepared out)" = $count ]; then break; fi
        done </dev/null && [ "$turn" -gt 30 ] && [ "$turn" -lt 200 ] || return 1
    done <cases'
while read -r lines what; do
    test_expect_success "what fails, $what: parameters stay, and the program sees no gradients that are missing" '
        ranks_pass 2 $lines sharded fails $what'
done <<END
1 pass
2 summon
2 read
END
every=5
if is_long; then every=1; fi
for word in layers gradients; do
    test_expect_success "a load of a state that fails on one rank: all know, and the next one has all, $word" '
        for turn in $(seq 1 $every 200); do
            ranks_pass 2 1 sharded fails load $turn $word || return 1
            if grep "did not fail" out; then break; fi
        done && [ "$turn" -gt 20 ] && [ "$turn" -lt 200 ]'
done
test_expect_success 'groups: a pass without memory on one rank leaves no other rank waiting' '
    ranks_pass 4 1 sharded fails pass hybrid2 && ranks_pass 4 1 sharded fails pass hybrid'
for count in 2 4; do
    test_expect_success "$count ranks: layers are gathered while others are computed, as early as the formula says" '
        ranks_pass $count 8 layers times'
done
# Bytes, what has enough memory then, and what has not.
while read -r bytes enough less; do
    test_expect_success "GPUs with $bytes bytes have enough for what is divided: $enough, not $less" '
        STANDIN_BYTES=$bytes ranks_pass 4 1 layers fits $enough && ! STANDIN_BYTES=$bytes ranks_pass 4 1 layers fits $less'
done <<END
8500000 states whole
6200000 gradients states
4400000 parameters gradients
END
test_done
